package planner

import (
	"context"
	"fmt"
	"math"
	"math/bits"

	"github.com/kubernasium/kubernasium/envs/gang/profile"
)

// Allocator divides shares among tasks for the predicted sizes of one step. It owns all the memory that it needs, so
// its methods allocate nothing. Each goroutine needs one of its own.
type Allocator struct {
	m        *profile.Model
	n        int             // tasks
	discount []float64       // by superstep of a window
	curves   []profile.Curve // of shape (column, task), as are start and start1
	start    []float64       // durations at level 0
	start1   []float64       // durations at level 1

	// State of one Configure, by superstep j of its window: durations of all tasks at the current level, as keys, and
	// one level above, of shape (j, stride); the slowest task, its key, and the discounted gain of giving it an
	// increment.
	stride     int // tasks rounded up to whole lanes; the key of no task is 0
	now        []uint64
	next       []float64
	bottleneck []int
	slowest    []uint64
	gain       []float64
	sum        []float64 // of gains by task, valid for the tasks in bottleneck

	trial []uint16 // scratch of Search, as is moves
	moves moves
}

// lanes is the number of keys that argmax compares at once.
const lanes = 8

// NewAllocator makes an allocator for at most columns predicted supersteps.
func NewAllocator(m *profile.Model, columns int) *Allocator {
	n := m.NumTasks()
	stride := (n + lanes - 1) / lanes * lanes
	a := &Allocator{
		m: m, n: n, stride: stride,
		discount:   make([]float64, columns),
		curves:     make([]profile.Curve, 0, columns*n),
		start:      make([]float64, columns*n),
		start1:     make([]float64, columns*n),
		now:        make([]uint64, columns*stride),
		next:       make([]float64, columns*stride),
		bottleneck: make([]int, columns),
		slowest:    make([]uint64, columns),
		gain:       make([]float64, columns),
		sum:        make([]float64, n),
		trial:      make([]uint16, n),
	}
	for j := range a.discount {
		a.discount[j] = math.Pow(m.Config().Discount, float64(j))
	}
	return a
}

// SetModel sets the model that Load uses from now on; it must have as many tasks.
func (a *Allocator) SetModel(m *profile.Model) { a.m = m }

// Load sets the predicted workload sizes, row-major of shape (column, task). It panics if the sizes do not fill whole
// columns, or fill more than the allocator was made for.
func (a *Allocator) Load(sizes []float64) { a.load(context.Background(), sizes) }

// load is Load until ctx ends.
func (a *Allocator) load(ctx context.Context, sizes []float64) {
	if len(sizes)%a.n != 0 || len(sizes) > len(a.start) {
		panic(fmt.Sprintf("gang: %d sizes for %d tasks and at most %d columns", len(sizes), a.n, len(a.discount)))
	}
	a.curves = a.curves[:len(sizes)]
	for i, size := range sizes {
		if i%checkEvery == checkEvery-1 && ctx.Err() != nil {
			return
		}
		a.curves[i] = a.m.Curve(i%a.n, size)
		a.start[i], a.start1[i] = a.curves[i].At(0), a.curves[i].At(1)
	}
}

// Configure writes to levels the configuration for the window of supersteps start … start+window-1 of the loaded
// columns, and returns the sum of their predicted durations.
//
// It hands out the increments of the budget one by one. For each increment it considers the slowest task of every
// superstep of the window, and what one increment more would save there, discounted by the distance of the superstep.
// The task with the largest sum of savings gets the increment; of equal ones, the task that is the slowest first. A
// saving may be negative if the profile is not monotone.
//
// Source: E. Wang, "Resource Configuration Decisions for Bulk Synchronous Parallel Jobs", Vanderbilt University 2021,
// the resource configuration algorithm.
func (a *Allocator) Configure(start, window int, levels []uint16) float64 {
	n := a.n
	for j := range window {
		for k := range n {
			i := (start+j)*n + k
			a.now[j*a.stride+k], a.next[j*a.stride+k] = key(a.start[i]), a.start1[i]
		}
		a.rescan(j)
	}
	curves := a.curves[start*n : (start+window)*n]
	levels = levels[:n]
	clear(levels)
	for range a.m.Increments() {
		k := a.choose(window)
		levels[k]++
		level := int(levels[k]) + 1
		i, c := k, k
		for j := range window {
			d := key(a.next[i])
			a.now[i], a.next[i] = d, curves[c].At(level)
			if b := a.bottleneck[j]; b == k || d >= a.slowest[j] {
				a.rescan(j)
			}
			i, c = i+a.stride, c+n
		}
	}
	var sum float64
	for _, d := range a.slowest[:window] {
		sum += unkey(d)
	}
	return sum
}

// key maps a duration to an integer > 0 of the same order. Go compiles a search for the largest integer, unlike one for
// the largest float, to code without branches; half of the branches would be mispredicted here.
func key(d float64) uint64 {
	b := math.Float64bits(d)
	return b ^ (uint64(int64(b)>>63) | 1<<63)
}

// unkey is the inverse of key.
func unkey(k uint64) float64 {
	return math.Float64frombits(k ^ (uint64(^int64(k)>>63) | 1<<63))
}

// rescan finds the slowest task of superstep j and its gain.
func (a *Allocator) rescan(j int) {
	row := a.now[j*a.stride : (j+1)*a.stride]
	k, d := argmax((*[lanes]uint64)(row))
	for i := lanes; i < len(row); i += lanes {
		if l, v := argmax((*[lanes]uint64)(row[i:])); v > d {
			k, d = i+l, v
		}
	}
	a.bottleneck[j], a.slowest[j] = k, d
	a.gain[j] = a.discount[j] * (unkey(d) - a.next[j*a.stride+k])
}

// argmax returns the index of the largest value, the first of equal ones, and the value. It is a tree of comparisons in
// which every if becomes a conditional move.
func argmax(v *[lanes]uint64) (int, uint64) {
	a, i := v[0], 0
	if v[1] > a {
		i = 1
	}
	a = max(a, v[1])
	b, j := v[2], 2
	if v[3] > b {
		j = 3
	}
	b = max(b, v[3])
	c, k := v[4], 4
	if v[5] > c {
		k = 5
	}
	c = max(c, v[5])
	d, l := v[6], 6
	if v[7] > d {
		l = 7
	}
	d = max(d, v[7])
	if b > a {
		i = j
	}
	a = max(a, b)
	if d > c {
		k = l
	}
	c = max(c, d)
	if c > a {
		i = k
	}
	return i, max(a, c)
}

// choose returns the task with the largest summed gain over the window.
func (a *Allocator) choose(window int) int {
	switch window {
	case 1:
		return a.bottleneck[0]
	case 2: // the larger gain decides, whether the tasks are the same or not
		k, l := a.bottleneck[0], a.bottleneck[1]
		if key(a.gain[1]) > key(a.gain[0]) {
			k = l
		}
		return k
	}
	slowest, gain, sum := a.bottleneck[:window], a.gain[:window], a.sum
	for _, k := range slowest {
		sum[k] = 0
	}
	for j, k := range slowest {
		sum[k] += gain[j]
	}
	best := slowest[0]
	most := key(sum[best])
	for _, k := range slowest[1:] {
		v := key(sum[k])
		_, less := bits.Sub64(most, v, 0)
		best ^= (best ^ k) & -int(less) // best = k if most < v, without a branch
		most = max(most, v)
	}
	return best
}

// Runtime returns the sum of the predicted durations of the supersteps start …
// start+window-1 if levels is in force.
func (a *Allocator) Runtime(levels []uint16, start, window int) float64 {
	var sum float64
	for j := start; j < start+window; j++ {
		sum += a.Superstep(levels, j)
	}
	return sum
}

// Superstep returns the predicted duration of one loaded column if levels is in force.
func (a *Allocator) Superstep(levels []uint16, column int) float64 {
	curves := a.curves[column*a.n : (column+1)*a.n]
	slowest := curves[0].At(int(levels[0]))
	for k := 1; k < len(curves); k++ {
		slowest = max(slowest, curves[k].At(int(levels[k])))
	}
	return slowest
}

// ExactMinMax writes to levels a configuration that makes the given loaded column as short
// as any within the budget can, and returns its duration. Increments that cannot shorten
// it are left unspent.
//
// The slowest task always moves to the lowest level at which it is faster than now. No configuration shorter than the
// current one keeps any task below its current level, so the first such move that the budget forbids proves the
// optimum, monotone profile or not.
func (a *Allocator) ExactMinMax(column int, levels []uint16) float64 {
	curves := a.curves[column*a.n : (column+1)*a.n]
	now := a.next[:a.n]
	copy(now, a.start[column*a.n:])
	clear(levels[:a.n])
	left := a.m.Increments()
	for {
		k := 0
		for i, d := range now {
			if d > now[k] {
				k = i
			}
		}
		level := int(levels[k]) + 1
		limit := min(int(levels[k])+left, a.m.Levels()-1)
		for level <= limit && curves[k].At(level) >= now[k] {
			level++
		}
		if level > limit {
			return now[k]
		}
		left -= level - int(levels[k])
		levels[k], now[k] = uint16(level), curves[k].At(level)
	}
}
