package planner

import (
	"context"
	"fmt"
	"sync"
	"sync/atomic"

	"github.com/kubernasium/kubernasium/envs/gang/profile"
)

// checkEvery is the number of sizes between checks of the context.
const checkEvery = 1 << 16

// Trace holds the workload of a job over time. It must not be changed once it is in use.
type Trace struct {
	Steps   int       // supersteps
	Columns int       // predicted supersteps at each step, ≥ 1
	Tasks   int       // tasks
	Planned []float64 // predicted sizes, row-major of shape (Steps, Columns, Tasks): column h of step t predicts step t+h
	True    []float64 // true sizes, row-major of shape (Steps, Tasks)

	// The history before the first step, for learned forecasts; planners do not use it.
	Past [][]float64 // by task: up to PastSteps sizes before the first step, the latest last; may be nil
	Day  []int       // by task: steps of a day, 0 if unknown; nil if Past is
}

// PastSteps is the length of the history before a trace: eight days of a step every ten minutes.
const PastSteps = 8 * 144

func (tr *Trace) validate(ctx context.Context, m *profile.Model) error {
	switch {
	case tr.Steps < 1 || tr.Columns < 1:
		return fmt.Errorf("gang: trace of %d steps and %d columns, want at least 1 of each", tr.Steps, tr.Columns)
	case tr.Tasks != m.NumTasks():
		return fmt.Errorf("gang: trace of %d tasks, want the profile's %d", tr.Tasks, m.NumTasks())
	case len(tr.Planned) != tr.Steps*tr.Columns*tr.Tasks:
		return fmt.Errorf("gang: trace with %d planned sizes, want %d·%d·%d", len(tr.Planned), tr.Steps, tr.Columns, tr.Tasks)
	case len(tr.True) != tr.Steps*tr.Tasks:
		return fmt.Errorf("gang: trace with %d true sizes, want %d·%d", len(tr.True), tr.Steps, tr.Tasks)
	}
	for _, sizes := range [][]float64{tr.Planned, tr.True} {
		for i, v := range sizes {
			if i%checkEvery == 0 && ctx.Err() != nil {
				return ctx.Err()
			}
			if v-v != 0 { // NaN or infinite
				return fmt.Errorf("gang: trace with size %v at index %d, want finite sizes", v, i)
			}
		}
	}
	return nil
}

// Instance is a workload and the model that predicts and executes it, with a table of the configurations for windows 1
// … Windows at every step. It computes the rows of the table on first use. An Instance is safe for concurrent use; all
// environments and planners that play it share it.
type Instance struct {
	model   *profile.Model // predicts
	truth   *profile.Model // executes
	trace   *Trace
	windows int
	columns int

	ready     []atomic.Bool // by step: its rows of levels and predicted are final
	levels    []uint16      // of shape (step, window-1, task)
	predicted []float64     // of shape (step, window-1, column)

	mu        sync.Mutex // guards allocator and rows that are not ready
	allocator *Allocator
	phase     int // steps whose number plus phase have the same quotient by lockstep are computed together

	cache atomic.Pointer[configCache] // for planners; nil caches none

	scaled      []float32     // of the shape of predicted; nil keeps none
	scaledReady []atomic.Bool // by step: its values are final
	scaling     sync.Mutex    // guards those that are not
}

// NewInstance makes an instance whose table covers windows 1 … windows and holds, for each configuration, the predicted
// durations of the next columns supersteps. Both are at most the trace's Columns. NewInstance returns the error of ctx
// once that has ended.
func NewInstance(ctx context.Context, m *profile.Model, tr *Trace, windows, columns int) (*Instance, error) {
	if err := tr.validate(ctx, m); err != nil {
		return nil, err
	}
	if windows < 0 || windows > tr.Columns {
		return nil, fmt.Errorf("gang: table of %d windows, want 0 to the trace's %d columns", windows, tr.Columns)
	}
	if columns < 1 || columns > tr.Columns {
		return nil, fmt.Errorf("gang: table of %d columns, want 1 to the trace's %d", columns, tr.Columns)
	}
	return &Instance{
		model:     m,
		truth:     m,
		trace:     tr,
		windows:   windows,
		columns:   columns,
		ready:     make([]atomic.Bool, tr.Steps),
		levels:    make([]uint16, tr.Steps*windows*tr.Tasks),
		predicted: make([]float64, tr.Steps*windows*columns),
		allocator: NewAllocator(m, max(windows, columns)),
		phase:     int(made.Add(1) % lockstep),
	}, nil
}

// made counts instances, so that environments that step together compute rows in different steps.
var made atomic.Uint32

// ExecuteBy sets the model of true durations, if it differs from the planners'. Call it before the first use of the
// instance, with a model of the same tasks, shares and increments.
func (in *Instance) ExecuteBy(truth *profile.Model) { in.truth = truth }

// InstanceBytes estimates the memory of an instance with its trace.
func InstanceBytes(steps, columns, tasks, windows, predicted int) int64 {
	const number, level, ready = 8, 2, 4
	perStep := columns*tasks*number + tasks*number + windows*(tasks*level+predicted*number) + ready
	return int64(steps)*int64(perStep) + PastSteps*int64(tasks)*number
}

// Model returns the model that planners predict durations with.
func (in *Instance) Model() *profile.Model { return in.model }

// Trace returns the instance's trace, which must not be changed.
func (in *Instance) Trace() *Trace { return in.trace }

// Windows returns the largest window of the table.
func (in *Instance) Windows() int { return in.windows }

// Columns returns the number of supersteps that the table predicts.
func (in *Instance) Columns() int { return in.columns }

// Prepare computes the rows of steps first … first+steps-1 ahead of their use, until ctx ends.
func (in *Instance) Prepare(ctx context.Context, first, steps int) error {
	for t := first; t < first+steps; t++ {
		in.row(ctx, t)
	}
	return ctx.Err()
}

// Config returns the levels that Allocator.Configure gives at step t for a window that begins there, with 1 ≤ window ≤
// Windows. The slice belongs to the instance.
func (in *Instance) Config(t, window int) []uint16 {
	in.row(context.Background(), t)
	n := in.trace.Tasks
	i := (t*in.windows + window - 1) * n
	return in.levels[i : i+n : i+n]
}

// Predicted returns the predicted durations in seconds of supersteps t … t+Columns-1 under
// Config(t, window). The slice belongs to the instance.
func (in *Instance) Predicted(t, window int) []float64 {
	in.row(context.Background(), t)
	i := (t*in.windows + window - 1) * in.columns
	return in.predicted[i : i+in.columns : i+in.columns]
}

// KeepScaled makes Scaled keep what it computes, for instances that many environments play. Call it before the first use
// of the instance.
func (in *Instance) KeepScaled() {
	in.scaled, in.scaledReady = make([]float32, len(in.predicted)), make([]atomic.Bool, in.trace.Steps)
}

// ScaledBytes estimates the memory that KeepScaled takes.
func ScaledBytes(steps, windows, predicted int) int64 {
	const number, ready = 4, 4
	return int64(steps) * int64(windows*predicted*number+ready)
}

// Scaled writes to dst, row-major of shape (Windows, Columns), what Scale makes of Predicted(t, 1) … Predicted(t, Windows).
// On an instance that keeps these, all calls have the same low and high.
func (in *Instance) Scaled(dst []float32, t int, low, high float64) {
	if in.windows == 0 {
		return
	}
	in.row(context.Background(), t)
	n := in.windows * in.columns
	from, to := t*n, (t+1)*n
	if in.scaled == nil {
		Scale(dst, in.predicted[from:to], low, high)
		return
	}
	if !in.scaledReady[t].Load() {
		in.scaling.Lock()
		if !in.scaledReady[t].Load() {
			Scale(in.scaled[from:to], in.predicted[from:to], low, high)
			in.scaledReady[t].Store(true)
		}
		in.scaling.Unlock()
	}
	copy(dst, in.scaled[from:to])
}

// Scale maps durations of low … high to [0, 1], and clips others. dst has room for all.
func Scale(dst []float32, durations []float64, low, high float64) {
	span := high - low
	for i, d := range durations {
		dst[i] = float32(min(max((d-low)/span, 0), 1))
	}
}

// row makes the table's rows of step t final, unless ctx ends.
func (in *Instance) row(ctx context.Context, t int) {
	if in.ready[t].Load() {
		return
	}
	in.mu.Lock()
	defer in.mu.Unlock()
	if in.ready[t].Load() || in.rows(ctx, t) {
		return
	}
	a, n := in.allocator, in.trace.Tasks
	a.Load(in.Planned(t)[:max(in.windows, in.columns)*n])
	for w := range in.windows {
		if ctx.Err() != nil {
			return
		}
		row := t*in.windows + w
		levels := in.levels[row*n : (row+1)*n]
		a.Configure(0, w+1, levels)
		for h := range in.columns {
			in.predicted[row*in.columns+h] = a.Superstep(levels, h)
		}
	}
	in.ready[t].Store(true)
}

// rows makes the rows of all steps final that are computed together with step t, unless ctx ends. It reports false if
// there are no kernels for that. The caller holds mu.
func (in *Instance) rows(ctx context.Context, t int) bool {
	b := newBatch(in.model, in.windows, in.allocator.discount)
	if b == nil {
		return false
	}
	defer b.free()
	var steps [lockstep]int
	count, n := 0, in.trace.Tasks
	for s := t; s < in.trace.Steps && (count == 0 || (s+in.phase)%lockstep > 0); s++ {
		if !in.ready[s].Load() {
			steps[count] = s
			b.load(count, in.Planned(s)[:in.windows*n])
			count++
		}
	}
	for lane := count; lane < lockstep; lane++ { // the results of the other lanes are unused
		b.load(lane, in.Planned(t)[:in.windows*n])
	}
	for from := 1; from <= in.windows; {
		if ctx.Err() != nil {
			return true
		}
		to := from
		if from == 1 && in.windows >= 3 {
			to = 3 // together
		}
		b.configure(from, to)
		from = to + 1
	}
	for lane, s := range steps[:count] {
		for window := 1; window <= in.windows; window++ {
			row := s*in.windows + window - 1
			levels, predicted := in.levels[row*n:(row+1)*n], in.predicted[row*in.columns:(row+1)*in.columns]
			b.levels(lane, window, levels)
			for h := range min(in.windows, in.columns) {
				predicted[h] = b.superstep(lane, window, h, levels)
			}
		}
		in.predictBeyond(s)
		in.ready[s].Store(true)
	}
	return true
}

// predictBeyond predicts the columns of step t beyond every window.
func (in *Instance) predictBeyond(t int) {
	n, planned := in.trace.Tasks, in.Planned(t)
	for h := in.windows; h < in.columns; h++ {
		for k := range n {
			curve := in.model.Curve(k, planned[h*n+k])
			for row := t * in.windows; row < (t+1)*in.windows; row++ {
				d, slowest := curve.At(int(in.levels[row*n+k])), &in.predicted[row*in.columns+h]
				if k == 0 {
					*slowest = d
				} else {
					*slowest = max(*slowest, d)
				}
			}
		}
	}
}

// Planned returns the predicted sizes at step t, of shape (trace Columns, task).
func (in *Instance) Planned(t int) []float64 {
	n := in.trace.Columns * in.trace.Tasks
	return in.trace.Planned[t*n : (t+1)*n : (t+1)*n]
}

// True returns the true sizes of step t, one for each task.
func (in *Instance) True(t int) []float64 {
	n := in.trace.Tasks
	return in.trace.True[t*n : (t+1)*n : (t+1)*n]
}

// Predict writes to dst the predicted durations in seconds of supersteps t … t+len(dst)-1
// if levels stays in force; len(dst) is at most the trace's Columns.
func (in *Instance) Predict(t int, levels []uint16, dst []float64) {
	in.model.Supersteps(dst, in.Planned(t), levels)
}

// Execute returns the true duration in seconds of step t under levels and its slowest
// task.
func (in *Instance) Execute(t int, levels []uint16) (duration float64, bottleneck int) {
	return in.truth.Superstep(in.True(t), levels)
}
