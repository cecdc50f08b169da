package solve

import (
	"errors"
	"math"
)

// dual restores feasibility after bounds have changed, from a basis with the reduced costs of an optimum. The objective
// only falls; dual returns false as soon as it is at most cutoff, or if there is no feasible point. After maxDual
// steps, which only cycling takes, the error is errStalled.
func (s *LP) dual(cutoff float64) (ok bool, err error) {
	if err := s.factor(); err != nil {
		return false, err
	}
	for range maxDual {
		if s.Objective() <= cutoff {
			return false, nil
		}
		leave, low := s.leaving()
		if leave < 0 {
			return true, nil
		}
		enter := s.dualRatio(leave, low)
		if enter < 0 {
			return false, nil
		}
		s.transform(enter)
		out := s.basis[leave]
		bound := s.hi[out]
		if low {
			bound = s.lo[out]
		}
		step := (s.x[leave] - bound) / s.w[leave]
		for i := range s.m {
			s.x[i] -= step * s.w[i]
		}
		if err := s.pivot(enter, leave, s.at(enter)+step, !low); err != nil {
			return false, err
		}
	}
	return false, errStalled
}

// maxDual bounds the steps of the dual method for one change of bounds, at a hundred times the
// usual number.
const maxDual = 500

var errStalled = errors.New("solve: the dual simplex method cycles")

// leaving returns the row of the variable furthest outside its bounds, or -1; low means that it is below the lower one.
func (s *LP) leaving() (row int, low bool) {
	row, worst := -1, feasibility
	for i, j := range s.basis {
		if v := s.lo[j] - s.x[i]; v > worst {
			row, low, worst = i, true, v
		}
		if v := s.x[i] - s.hi[j]; v > worst {
			row, low, worst = i, false, v
		}
	}
	return row, low
}

// dualRatio returns the column that can enter for the variable of a row, with the least change
// of the duals, or -1.
func (s *LP) dualRatio(row int, low bool) int {
	r := s.inv[row*s.m : (row+1)*s.m]
	best, bestRatio, bestSize := -1, math.Inf(1), 0.0
	for j := range s.n {
		if s.basic[j] || s.lo[j] == s.hi[j] {
			continue
		}
		alpha, d := 0.0, s.c[j]
		for i, v := range s.column(j) {
			alpha += r[i] * v
			d -= s.pi[i] * v
		}
		rises := alpha < 0 // the row's variable, as this one moves off its bound
		if s.upper[j] {
			rises = !rises
		}
		size := math.Abs(alpha)
		if rises != low || size < 1e-7 {
			continue
		}
		if ratio := math.Abs(d) / size; ratio < bestRatio-1e-12 || ratio < bestRatio+1e-12 && size > bestSize {
			best, bestRatio, bestSize = j, ratio, size
		}
	}
	return best
}
