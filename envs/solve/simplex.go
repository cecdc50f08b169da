package solve

import (
	"context"
	"errors"
	"math"
)

// Tolerances of the simplex method, for numbers of about 1 to 1000.
const (
	feasibility = 1e-7 // of a basic variable's bounds
	optimality  = 1e-9 // of a reduced cost
	pivotSize   = 1e-9 // least pivot
	refactor    = 24   // pivots after which the inverse is computed again
	stalled     = 200  // pivots without progress after which Bland's rule takes over
)

var (
	// ErrInfeasible is returned by [LP.Solve] if no x satisfies the program.
	ErrInfeasible = errors.New("solve: no point satisfies the program")
	// ErrUnbounded is returned by [LP.Solve] if the objective has no maximum.
	ErrUnbounded = errors.New("solve: the objective is unbounded")

	errSingular = errors.New("solve: the basis is singular")
)

// An LP maximises c·x subject to A·x = b and x ≥ 0, for few rows and many columns, by the revised
// simplex method with a dense inverse of the basis. [LP.Maximize] also requires whole x.
//
// Package lp of gonum gives no duals and cannot start from a basis; branch and bound needs both.
type LP struct {
	m, n   int       // rows; columns, including the m artificial ones of phase 1 at the end
	a      []float64 // column by column
	b, c   []float64
	lo, hi []float64 // branches bound columns further than x ≥ 0

	basis []int32   // column of each row
	basic []bool    // of each column
	upper []bool    // of each column: it is not basic and stands at hi
	inv   []float64 // inverse of the basis, row by row
	x     []float64 // values of the basic variables
	pi    []float64 // duals
	w     []float64 // scratch: the entering column in terms of the basis
	since int       // pivots since inv was computed
	mat   []float64 // scratch of factor

}

// NewLP returns the program with right-hand sides b ≥ 0, objective c and the columns of A one after the other in a. It
// keeps the slices.
func NewLP(b, c, a []float64) *LP {
	m, n := len(b), len(c)+len(b)
	s := &LP{
		m: m, n: n, b: b, a: a, c: c,
		lo: make([]float64, n), hi: make([]float64, n), basis: make([]int32, m), basic: make([]bool, n), upper: make([]bool, n),
		inv: make([]float64, m*m), x: make([]float64, m), pi: make([]float64, m), w: make([]float64, m), mat: make([]float64, m*m),
	}
	for j := range s.hi {
		s.hi[j] = math.Inf(1)
	}
	for i := range m {
		column := make([]float64, m)
		column[i] = 1
		s.a, s.c = append(s.a, column...), append(s.c, 0)
		s.basis[i] = int32(n - m + i)
		s.basic[n-m+i] = true
	}
	return s
}

// Solve finds an optimum in two phases. Call it once, before the methods that report the optimum. It returns the error
// of ctx once that has ended.
func (s *LP) Solve(ctx context.Context) error {
	cost := s.c
	s.c = make([]float64, s.n)
	for j := s.n - s.m; j < s.n; j++ {
		s.c[j] = -1
	}
	err := s.primal(ctx)
	s.c = cost
	if err != nil {
		return err
	}
	for i, j := range s.basis {
		if int(j) >= s.n-s.m && s.x[i] > feasibility {
			return ErrInfeasible
		}
	}
	for j := s.n - s.m; j < s.n; j++ {
		s.hi[j] = 0
	}
	return s.primal(ctx)
}

// column returns column j.
func (s *LP) column(j int) []float64 { return s.a[j*s.m : (j+1)*s.m] }

// at returns the value of a variable that is not basic.
func (s *LP) at(j int) float64 {
	if s.upper[j] {
		return s.hi[j]
	}
	return s.lo[j]
}

// factor computes the inverse of the basis by Gauss-Jordan elimination, and then values and
// duals.
func (s *LP) factor() error {
	m := s.m
	for k, j := range s.basis {
		for i, v := range s.column(int(j)) {
			s.mat[i*m+k] = v
		}
	}
	clear(s.inv)
	for i := range m {
		s.inv[i*m+i] = 1
	}
	for k := range m {
		p := k
		for i := k + 1; i < m; i++ {
			if math.Abs(s.mat[i*m+k]) > math.Abs(s.mat[p*m+k]) {
				p = i
			}
		}
		if math.Abs(s.mat[p*m+k]) < pivotSize {
			return errSingular
		}
		for i := range m {
			s.mat[k*m+i], s.mat[p*m+i] = s.mat[p*m+i], s.mat[k*m+i]
			s.inv[k*m+i], s.inv[p*m+i] = s.inv[p*m+i], s.inv[k*m+i]
		}
		f := 1 / s.mat[k*m+k]
		for i := range m {
			s.mat[k*m+i] *= f
			s.inv[k*m+i] *= f
		}
		for i := range m {
			if f := s.mat[i*m+k]; i != k && f != 0 {
				for l := range m {
					s.mat[i*m+l] -= f * s.mat[k*m+l]
					s.inv[i*m+l] -= f * s.inv[k*m+l]
				}
			}
		}
	}
	s.since = 0
	s.price()
	s.values()
	return nil
}

// price computes the duals.
func (s *LP) price() {
	clear(s.pi)
	for i, j := range s.basis {
		if c := s.c[j]; c != 0 {
			for k := range s.m {
				s.pi[k] += c * s.inv[i*s.m+k]
			}
		}
	}
}

// values computes the values of the basic variables.
func (s *LP) values() {
	rhs := s.w
	copy(rhs, s.b)
	for j := range s.n {
		if s.basic[j] {
			continue
		}
		if v := s.at(j); v != 0 {
			for i, e := range s.column(j) {
				rhs[i] -= e * v
			}
		}
	}
	for i := range s.m {
		v := 0.0
		for k, e := range s.inv[i*s.m : (i+1)*s.m] {
			v += e * rhs[k]
		}
		s.x[i] = v
	}
}

// reduced returns the reduced cost of column j.
func (s *LP) reduced(j int) float64 {
	d := s.c[j]
	for i, v := range s.column(j) {
		d -= s.pi[i] * v
	}
	return d
}

// Duals returns, for each row, the growth of the optimum per unit of its right-hand side. The next
// solution overwrites the slice.
func (s *LP) Duals() []float64 { return s.pi }

// Basic returns the column and the value of the basic variable of each row; the column of an artificial one
// is -1.
func (s *LP) Basic(row int) (column int, value float64) {
	if j := int(s.basis[row]); j < s.n-s.m {
		return j, s.x[row]
	}
	return -1, s.x[row]
}

// Sensitivity returns how much each dual grows if the value of a row's basic variable rises by 1, as long as the basis
// stays optimal. The next solution overwrites the slice.
func (s *LP) Sensitivity(row int) []float64 { return s.inv[row*s.m : (row+1)*s.m] }

// Objective returns c·x.
func (s *LP) Objective() float64 {
	z := 0.0
	for i, j := range s.basis {
		z += s.c[j] * s.x[i]
	}
	for j := range s.n {
		if !s.basic[j] {
			z += s.c[j] * s.at(j)
		}
	}
	return z
}

// primal iterates from a feasible basis to an optimal one.
func (s *LP) primal(ctx context.Context) error {
	if err := s.factor(); err != nil {
		return err
	}
	still := 0
	for {
		if err := ctx.Err(); err != nil {
			return err
		}
		enter, down := s.entering(still > stalled)
		if enter < 0 {
			return nil
		}
		step, leave, toUpper := s.ratio(enter, down)
		if math.IsInf(step, 1) {
			return ErrUnbounded
		}
		if step > feasibility {
			still = 0
		} else {
			still++
		}
		sign := 1.0
		if down {
			sign = -1
		}
		for i := range s.m {
			s.x[i] -= sign * step * s.w[i]
		}
		if leave < 0 { // from one of its bounds to the other
			s.upper[enter] = !s.upper[enter]
			continue
		}
		if err := s.pivot(enter, leave, s.at(enter)+sign*step, toUpper); err != nil {
			return err
		}
	}
}

// entering returns the column with the largest reduced cost among those that improve the objective, or by Bland's rule
// the first; down means that it decreases.
func (s *LP) entering(bland bool) (column int, down bool) {
	column, best := -1, optimality
	for j := range s.n {
		if s.basic[j] || s.lo[j] == s.hi[j] {
			continue
		}
		d := s.reduced(j)
		if s.upper[j] {
			d = -d
		}
		if d > best {
			column, down, best = j, s.upper[j], d
			if bland {
				break
			}
		}
	}
	return column, down
}

// ratio returns how far the entering column can move, and the row of the variable that stops it, which then stands at
// its upper bound if toUpper; the row is -1 if the column's own other bound stops it.
func (s *LP) ratio(enter int, down bool) (step float64, leave int, toUpper bool) {
	s.transform(enter)
	step, leave = s.hi[enter]-s.lo[enter], -1
	for i, w := range s.w {
		if down {
			w = -w
		}
		j, t := s.basis[i], math.Inf(1)
		switch {
		case w > pivotSize:
			t = (s.x[i] - s.lo[j]) / w
		case w < -pivotSize:
			t = (s.x[i] - s.hi[j]) / w
		}
		if t = max(t, 0); t < step || t == step && leave >= 0 && j < s.basis[leave] {
			step, leave, toUpper = t, i, w < 0
		}
	}
	return step, leave, toUpper
}

// transform sets w to column j in terms of the basis.
func (s *LP) transform(j int) {
	column := s.column(j)
	for i := range s.m {
		v := 0.0
		for k, e := range s.inv[i*s.m : (i+1)*s.m] {
			v += e * column[k]
		}
		s.w[i] = v
	}
}

// pivot puts column enter, with its w set and its new value, into the basis in place of row leave.
func (s *LP) pivot(enter, leave int, value float64, toUpper bool) error {
	out := s.basis[leave]
	s.basic[out], s.upper[out] = false, toUpper
	s.basic[enter], s.upper[enter] = true, false
	s.basis[leave] = int32(enter)
	s.x[leave] = value
	if s.since++; s.since >= refactor {
		return s.factor()
	}
	m := s.m
	row := s.inv[leave*m : (leave+1)*m]
	f := 1 / s.w[leave]
	for k := range row {
		row[k] *= f
	}
	for i := range m {
		if e := s.w[i]; i != leave && e != 0 {
			for k := range m {
				s.inv[i*m+k] -= e * row[k]
			}
		}
	}
	s.price()
	return nil
}
