package planner

import "math"

// searchMoves are the increments that a move of [Allocator.Search] shifts, largest first.
var searchMoves = [...]uint16{8, 4, 2, 1}

// Search is Configure followed by a local search: it moves shares between pairs of tasks as long as that shortens the
// window's predicted durations. For a window of one superstep the result is exact.
//
// Only moves to a task that is the slowest of some superstep can shorten the window, so it tries only these. It takes
// the best move among those of the same number of increments.
func (a *Allocator) Search(start, window int, levels []uint16) float64 {
	return a.improve(start, window, levels, a.Configure(start, window, levels))
}

// improve is the search from Configure's configuration, whose durations add up to sum.
func (a *Allocator) improve(start, window int, levels []uint16, sum float64) float64 {
	if window == 1 {
		if exact := a.ExactMinMax(start, a.trial); exact < sum {
			sum = exact
			copy(levels, a.trial)
			a.spend(start, levels, sum)
		}
		return sum
	}
	return a.shift(start, window, levels[:a.n], sum)
}

// shift moves shares between pairs of tasks as long as that shortens the window, whose durations now add up to sum.
func (a *Allocator) shift(start, window int, levels []uint16, sum float64) float64 {
	s := &a.moves
	s.grow(window, a.n)
	for {
		s.begin(a.curves[start*a.n:(start+window)*a.n], levels)
		best := sum
		var from, to int
		var by uint16
		for _, move := range searchMoves {
			s.lower(levels, move)
			for t := range levels {
				if !s.slowest[t] {
					continue
				}
				s.raise(t, int(levels[t]+move))
				for f := range levels {
					if f == t || levels[f] < move {
						continue
					}
					if d := s.runtime(f, t); d < best {
						best, from, to, by = d, f, t, move
					}
				}
			}
			if by > 0 {
				break
			}
		}
		if by == 0 || best >= sum*(1-tieMargin) {
			return sum
		}
		sum = best
		levels[from], levels[to] = levels[from]-by, levels[to]+by
	}
}

// spend hands out the increments that levels leaves, each to the slowest task that it does not make slower than the
// superstep. The spare shares help if sizes exceed their forecast.
func (a *Allocator) spend(column int, levels []uint16, superstep float64) {
	left := a.m.Increments()
	for _, l := range levels[:a.n] {
		left -= int(l)
	}
	curves := a.curves[column*a.n : (column+1)*a.n]
	for ; left > 0; left-- {
		k, slowest := -1, math.Inf(-1)
		for i := range curves {
			now, next := curves[i].At(int(levels[i])), curves[i].At(int(levels[i])+1)
			if now > slowest && next <= superstep {
				k, slowest = i, now
			}
		}
		if k < 0 {
			return
		}
		levels[k]++
	}
}
