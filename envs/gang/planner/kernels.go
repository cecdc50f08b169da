package planner

import (
	"math"
	"slices"
	"sync"

	"github.com/kubernasium/kubernasium/envs/gang/profile"
)

// lockstep is the number of steps whose rows are computed together: the lanes of a vector.
const lockstep = 8

// Layout of the state that the kernels share, in numbers. Each window has an area. It begins with the levels of the
// lanes, a byte for each task. Then come the columns: for each task the durations at its level and at the next one; the
// slowest duration, its task, and its gain.
const (
	cellSize   = 2 * lockstep
	slowestAt  = lanes * cellSize
	columnSize = slowestAt + 3*lockstep
	columnsAt  = lockstep
)

// A batch computes the rows of eight steps together. It performs the operations of [Allocator.Configure] in their
// order, so that the bits are equal.
type batch struct {
	m        *profile.Model
	columns  *profile.Columns
	discount []float64
	*buffers
}

// buffers is the memory of a batch. There is one for each goroutine that computes rows, for any number of instances.
type buffers struct {
	table []float64 // durations of the windows' columns, of shape (column, task, lane, level)
	state []float64
}

var freeBuffers = sync.Pool{New: func() any { return new(buffers) }}

// mostTable bounds the table of buffers in numbers. 20 windows and 71 levels take 92,160.
const mostTable = 1 << 18

// newBatch returns nil if there are no kernels, or none for such a model. Otherwise the caller must call free.
func newBatch(m *profile.Model, windows int, discount []float64) *batch {
	if !hasKernels || windows == 0 || m.NumTasks() != lanes || m.Increments() > math.MaxUint8 {
		return nil
	}
	columns := m.Columns()
	if columns == nil {
		return nil
	}
	table := windows * lanes * lockstep * columns.Stride
	if table > mostTable {
		return nil
	}
	b := &batch{m: m, columns: columns, discount: discount, buffers: freeBuffers.Get().(*buffers)}
	b.table = slices.Grow(b.table[:0], table)[:table]
	b.state = slices.Grow(b.state[:0], area(windows+1))[:area(windows+1)]
	return b
}

// free returns the memory to the pool. The batch must not be used afterwards.
func (b *batch) free() { freeBuffers.Put(b.buffers) }

// load tabulates the durations of a lane for the sizes of several columns, of shape (column, task).
func (b *batch) load(lane int, sizes []float64) {
	n := b.columns.Stride
	for i, size := range sizes {
		coef, u := b.columns.Of(b.m, i%lanes, size)
		at := (i*lockstep + lane) * n
		tabulate(b.table[at:at+n], coef, u)
	}
}

// area returns the offset of a window's area.
func area(window int) int { return (window-1)*columnsAt + window*(window-1)/2*columnSize }

// configure configures windows from … to in all lanes.
func (b *batch) configure(from, to int) {
	n, last, increments := b.columns.Stride, b.m.Levels()-1, b.m.Increments()
	for window := from; window <= to; window++ {
		state := b.state[area(window):area(window+1)]
		clear(state[:columnsAt])
		for j := range window {
			column := state[columnsAt+j*columnSize:][:columnSize]
			for i := range lanes * lockstep { // of a task and a lane
				at := (i/lockstep)*cellSize + i%lockstep
				d := b.table[(j*lanes*lockstep+i)*n:]
				column[at], column[at+lockstep] = d[0], d[1]
			}
		}
	}
	state := b.state[area(from):area(to+1)]
	if from == 1 {
		configureFirst(state, b.discount, b.table, n, last, to, increments)
	} else {
		configureLanes(state, b.discount, b.table, n, last, to, increments)
	}
}

// levels writes the levels that configure has found for a window in a lane.
func (b *batch) levels(lane, window int, levels []uint16) {
	bits := math.Float64bits(b.state[area(window)+lane])
	for k := range levels {
		levels[k] = uint16(bits >> (8 * k) & math.MaxUint8)
	}
}

// superstep returns the duration of column h under the levels that configure has found for a window in a lane.
func (b *batch) superstep(lane, window, h int, levels []uint16) float64 {
	if h < window {
		return b.state[area(window)+columnsAt+h*columnSize+slowestAt+lane]
	}
	n := b.columns.Stride
	last := b.m.Levels() - 1
	row := b.table[h*lanes*lockstep*n:][:lanes*lockstep*n]
	slowest := row[lane*n+min(int(levels[0]), last)]
	for k := 1; k < lanes; k++ {
		slowest = max(slowest, row[(k*lockstep+lane)*n+min(int(levels[k]), last)])
	}
	return slowest
}
