package gang

import (
	"math"
	"math/rand/v2"
	"slices"
	"unsafe"

	"github.com/kubernasium/kubernasium/envs"
	"github.com/kubernasium/kubernasium/envs/gang/planner"
	"github.com/kubernasium/kubernasium/envs/gang/pods"
	"github.com/kubernasium/kubernasium/envs/gang/rules"
	"github.com/kubernasium/kubernasium/envs/space"
)

// Task is the environment of package gang. It implements [envs.Task].
type Task struct {
	src  *source
	opts *Options
	in   *planner.Instance
	rng  *rand.Rand

	step    int       // executed supersteps
	first   int       // step of the trace at which the episode began
	levels  []uint16  // in force
	next    []uint16  // to change to
	planned bool      // next was set by Plan
	since   int       // steps since the last plan; math.MaxInt before the first
	keep    []float64 // scratch: predicted durations of the configuration in force

	window, bottleneck, checkpoints int // of the last step; so far
	duration, penalty, total        float64
	changed                         int       // tasks whose shares the last step changed
	durations                       []float64 // of each task in it

	expected float64 // set by ExpectPenalty; NaN if not

	pods *pods.Set
}

var (
	_ envs.Task           = (*Task)(nil)
	_ envs.InfoWriter     = (*Task)(nil)
	_ envs.Limiter        = (*Task)(nil)
	_ envs.Renderer       = (*Task)(nil)
	_ envs.Spanner        = (*Task)(nil)
	_ envs.Planner        = (*Task)(nil)
	_ envs.Cloner         = (*Task)(nil)
	_ envs.BaselineCacher = (*Task)(nil)
	_ envs.Resumer        = (*Task)(nil)
)

// Open checks the options, loads the files that they name, and returns a function that makes tasks, which share the
// files.
func Open(o Options) (func() *Task, error) {
	src, err := newSource(o)
	if err != nil {
		return nil, err
	}
	return func() *Task { return newTask(src) }, nil
}

func newTask(src *source) *Task {
	n := src.model.NumTasks()
	return &Task{
		src: src, opts: &src.opts, levels: make([]uint16, n), next: make([]uint16, n),
		keep: make([]float64, src.opts.Horizon), pods: pods.New(src.model), durations: make([]float64, n),
	}
}

// Instance returns the instance of the running episode.
func (t *Task) Instance() *planner.Instance { return t.in }

// Episode returns the part of the instance's trace that the episode plays.
func (t *Task) Episode() planner.Episode {
	return planner.Episode{First: t.first, Steps: t.opts.Steps, Penalty: t.plannedPenalty(), ChargeFirst: t.compatible()}
}

// ExpectPenalty sets the seconds, ≥ 0 and finite, that planners expect a re-planning to cost in the rest of the
// episode, in place of the options. The cost in the environment stays the same. ExpectPenalty is for episodes whose
// re-plannings are executed and measured elsewhere.
func (t *Task) ExpectPenalty(seconds float64) { t.expected = seconds }

// Step returns the next step of the trace.
func (t *Task) Step() int { return t.first + t.step }

// Levels returns the configuration in force, which the caller must not change.
func (t *Task) Levels() []uint16 { return t.levels }

// SincePlan returns the part of 20 supersteps that has passed since the last plan, at most 1.
func (t *Task) SincePlan() float32 { return float32(min(t.since, sinceScale)) / sinceScale }

// Last returns the outcome of the last superstep.
func (t *Task) Last() rules.Superstep {
	return rules.Superstep{Replanned: t.step > 0 && t.since == 0, Changed: t.changed, Penalty: t.penalty, Durations: t.durations}
}

// CacheBaselines implements [envs.BaselineCacher]: planners share the configurations of the instance.
func (t *Task) CacheBaselines() { t.in.CacheConfigs() }

// Notes implements [envs.Noter]. It names the places where rows of series are missing.
func (t *Task) Notes() []string { return t.src.notes }

// PenaltyModel returns the option of that name: the effect of a reconfiguration on the tasks.
func (t *Task) PenaltyModel() string { return t.opts.PenaltyModel }

// Plan sets the configuration to change to in the next step, regardless of the action. It is for planners whose
// configurations no action names.
func (t *Task) Plan(levels []uint16) {
	copy(t.next, levels)
	t.planned = true
}

// TakePlan implements [envs.Planner].
func (t *Task) TakePlan() envs.Plan {
	if !t.planned {
		return nil
	}
	t.planned = false
	return slices.Clone(t.next)
}

// LeavePlan implements [envs.Planner].
func (t *Task) LeavePlan(p envs.Plan) { t.Plan(p.([]uint16)) }

func (t *Task) compatible() bool { return t.opts.Dynamics == DynamicsCompatible }

// MaxEpisodeSteps implements [envs.Limiter].
func (t *Task) MaxEpisodeSteps() int { return t.opts.Steps }

// Spaces implements [envs.Task].
func (t *Task) Spaces() (obs, act space.Space) {
	act = space.Discrete{N: t.opts.Windows + 1}
	durations, tasks := t.sections()
	if !t.compatible() {
		return space.NewBox(0, 1, durations+2*tasks+1), act
	}
	// Unclipped, but bounded by the longest duration that the spline can give.
	span := t.opts.DurationHigh - t.opts.DurationLow
	low, high := -t.opts.DurationLow/span, (t.src.model.MaxDuration()-t.opts.DurationLow)/span
	return space.NewBox(float32(low), float32(math.Ceil(high)), t.opts.Windows+1, t.opts.Horizon), act
}

// splines estimates the bytes of the profile and its fitted surfaces.
const splines = 300 << 10

// StepNanos implements [envs.Coster]. If each episode draws a new instance, planning for it costs 17 times the steps,
// with vector code 6 times.
func (t *Task) StepNanos() int {
	if t.src.fixed != nil || len(t.src.pool) > 0 {
		return 1000
	}
	return 20_000
}

// Bytes implements [envs.Sized]: the instance, or all prepared ones, and with constant and per-task penalties the pods
// that each plan re-creates.
func (t *Task) Bytes() envs.Bytes {
	o, tasks := t.opts, t.src.model.NumTasks()
	instance := planner.InstanceBytes(o.Steps+1, o.columns(), tasks, o.Windows, o.Horizon)
	if o.profileErrors() {
		instance += splines + t.src.model.Bytes()
	}
	b := envs.Bytes{Shared: splines + t.src.model.Bytes() + int64(len(t.src.pool))*int64(unsafe.Sizeof(pooled{}))}
	b.Each += int64(o.Steps) * int64(tasks) * 64 // what one_time stores for each superstep
	if o.PenaltyModel != PenaltyResize {
		b.Each += int64(o.Steps) * int64(tasks) * envs.PodSize
	}
	switch {
	case t.src.fixed != nil:
		b.Shared += instance
	case len(t.src.pool) > 0:
		b.Shared += int64(len(t.src.pool)) * (instance + planner.ScaledBytes(o.Steps+1, o.Windows, o.Horizon))
	default:
		b.Each += instance
	}
	return b
}
