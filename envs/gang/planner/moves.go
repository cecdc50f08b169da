package planner

import (
	"math"

	"github.com/kubernasium/kubernasium/envs/gang/profile"
)

// moves evaluates moves of shares from one task to another within a window. A move changes the durations of two tasks,
// so the three slowest tasks of each superstep suffice to find the slowest after it.
type moves struct {
	n       int
	curves  []profile.Curve // of shape (superstep, task), as is lowered
	lowered []float64       // durations with fewer shares
	raised  []float64       // by superstep: duration of the task that gets shares
	top     [][topTasks]slow
	slowest []bool // by task: it is the slowest of a superstep
}

// topTasks is one more than the tasks that a move changes.
const topTasks = 3

// slow is a task and its duration.
type slow struct {
	task    int
	seconds float64
}

// grow makes room for a window of n tasks. Only a longer window than before allocates.
func (s *moves) grow(window, n int) {
	if s.n = n; len(s.top) < window {
		s.lowered, s.raised = make([]float64, window*n), make([]float64, window)
		s.top, s.slowest = make([][topTasks]slow, window), make([]bool, n)
	}
}

// begin sets the levels that moves start from.
func (s *moves) begin(curves []profile.Curve, levels []uint16) {
	s.curves = curves
	clear(s.slowest)
	window := len(curves) / s.n
	for j := range window {
		top := [topTasks]slow{{-1, math.Inf(-1)}, {-1, math.Inf(-1)}, {-1, math.Inf(-1)}}
		row := curves[j*s.n : (j+1)*s.n]
		for k := range row {
			d := row[k].At(int(levels[k]))
			switch {
			case d > top[0].seconds:
				top[0], top[1], top[2] = slow{k, d}, top[0], top[1]
			case d > top[1].seconds:
				top[1], top[2] = slow{k, d}, top[1]
			case d > top[2].seconds:
				top[2] = slow{k, d}
			}
		}
		for k := range row {
			s.slowest[k] = s.slowest[k] || row[k].At(int(levels[k])) == top[0].seconds
		}
		s.top[j] = top
	}
}

// lower computes the duration of each task without the shares of a move, and skips tasks that have too few.
func (s *moves) lower(levels []uint16, move uint16) {
	for i := range s.curves {
		if l := levels[i%s.n]; l >= move {
			s.lowered[i] = s.curves[i].At(int(l - move))
		}
	}
}

// raise computes the durations of a task at a level.
func (s *moves) raise(task, level int) {
	for j := range len(s.curves) / s.n {
		s.raised[j] = s.curves[j*s.n+task].At(level)
	}
}

// runtime returns the sum of the supersteps, in their order, if task from is lowered and task to raised.
func (s *moves) runtime(from, to int) float64 {
	var sum float64
	i := from
	for j := range len(s.curves) / s.n {
		top, k := &s.top[j], 0
		for k < topTasks-1 && (top[k].task == from || top[k].task == to) {
			k++
		}
		sum += max(top[k].seconds, s.lowered[i], s.raised[j])
		i += s.n
	}
	return sum
}
