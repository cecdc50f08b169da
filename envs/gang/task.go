package gang

import (
	"context"
	"fmt"
	"math"
	"math/rand/v2"
	"slices"
	"time"

	"github.com/kubernasium/kubernasium/envs"
	"github.com/kubernasium/kubernasium/envs/cluster"
	"github.com/kubernasium/kubernasium/envs/space"
)

// rewardSeconds is the number of seconds that a reward of -1 stands for in the sound dynamics.
const rewardSeconds = 100

// sinceScale is the number of steps since the last plan that is 1 in an observation.
const sinceScale = 20

// Task is the environment of package gang. It implements [envs.Task].
type Task struct {
	src  *source
	opts *Options
	in   *Instance
	rng  *rand.Rand

	step    int       // supersteps executed
	first   int       // step of the trace at which the episode began
	levels  []uint16  // in force
	next    []uint16  // to change to
	planned bool      // next was set by Plan
	since   int       // steps since the last plan; math.MaxInt before the first
	keep    []float64 // scratch: durations predicted for the configuration in force

	window, bottleneck, checkpoints int // of the last step; so far
	duration, penalty, total        float64
	changed                         int       // tasks whose shares the last step changed
	durations                       []float64 // of each task in it

	meta []int32 // of the node and of each task
	pods []int32 // of each task, as they are now
	ops  []cluster.Op
}

var (
	_ envs.Task       = (*Task)(nil)
	_ envs.InfoWriter = (*Task)(nil)
	_ envs.Limiter    = (*Task)(nil)
	_ envs.Renderer   = (*Task)(nil)
	_ envs.Planner    = (*Task)(nil)
	_ envs.Cloner     = (*Task)(nil)
)

func newTask(src *source) *Task {
	n := src.model.NumTasks()
	return &Task{
		src: src, opts: &src.opts, levels: make([]uint16, n), next: make([]uint16, n),
		keep: make([]float64, src.opts.Horizon), pods: make([]int32, n), durations: make([]float64, n),
	}
}

// Instance returns the instance of the running episode.
func (t *Task) Instance() *Instance { return t.in }

// Episode returns which part of its trace is played.
func (t *Task) Episode() Episode {
	return Episode{First: t.first, Steps: t.opts.Steps, Penalty: t.plannedPenalty(), ChargeFirst: t.compatible()}
}

// Step returns the step of the trace that is executed next.
func (t *Task) Step() int { return t.first + t.step }

// Levels returns the configuration in force, which the caller must not change.
func (t *Task) Levels() []uint16 { return t.levels }

// Superstep is how a superstep went.
type Superstep struct {
	Replanned bool      // the shares were planned anew before it
	Changed   int       // tasks whose shares that changed
	Penalty   float64   // seconds that it cost
	Durations []float64 // true seconds of each task; valid until the next step
}

// Last returns how the last superstep went.
func (t *Task) Last() Superstep {
	return Superstep{Replanned: t.step > 0 && t.since == 0, Changed: t.changed, Penalty: t.penalty, Durations: t.durations}
}

// Notes implements [envs.Noter]: where rows of series are missing.
func (t *Task) Notes() []string { return t.src.notes }

// PenaltyModel returns the option of that name: what a reconfiguration does to the tasks.
func (t *Task) PenaltyModel() string { return t.opts.PenaltyModel }

// Plan sets the configuration to change to in the next step, whatever its action. It is for
// planners whose configurations no action of the environment names.
func (t *Task) Plan(levels []uint16) {
	copy(t.next, levels)
	t.planned = true
}

// TakePlan implements [envs.Planner].
func (t *Task) TakePlan() (leave func()) {
	if !t.planned {
		return nil
	}
	t.planned = false
	levels := slices.Clone(t.next)
	return func() { t.Plan(levels) }
}

func (t *Task) compatible() bool { return t.opts.Dynamics == DynamicsCompatible }

// MaxEpisodeSteps implements [envs.Limiter].
func (t *Task) MaxEpisodeSteps() int { return t.opts.Steps }

// sections returns the sizes of the parts of an observation of the sound dynamics.
func (t *Task) sections() (durations, tasks int) {
	return (t.opts.Windows + 1) * t.opts.Horizon, t.src.model.NumTasks()
}

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

// Begin implements [envs.Task].
func (t *Task) Begin(ctx context.Context, c cluster.Cluster, rng *rand.Rand) error {
	var err error
	if t.in, err = t.src.draw(rng); err != nil {
		return err
	}
	t.rng = rng
	t.first = 0
	if t.compatible() {
		t.first = t.opts.First
	}
	t.step, t.since, t.planned = 0, math.MaxInt, false
	t.window, t.bottleneck, t.checkpoints = 0, 0, 0
	t.duration, t.penalty, t.total = 0, 0, 0
	clear(t.levels)
	return t.create(ctx, c)
}

// Apply implements [envs.Task]: action 0 keeps the configuration, action w changes to the one
// that the resource configuration algorithm gives for the next w supersteps; then the
// superstep is executed.
func (t *Task) Apply(ctx context.Context, c cluster.Cluster, action []float32) (envs.Outcome, error) {
	if t.step == t.opts.Steps {
		return envs.Outcome{}, fmt.Errorf("the instance ends after %d steps; option steps makes longer ones", t.opts.Steps)
	}
	now := t.Step()
	t.window, t.penalty, t.changed = int(action[0]), 0, 0
	if t.window > 0 && !t.planned {
		copy(t.next, t.in.Config(now, t.window))
	}
	t.since = min(t.since, math.MaxInt-1) + 1
	if t.window > 0 || t.planned {
		if err := t.reconfigure(ctx, c); err != nil {
			return envs.Outcome{}, err
		}
	}
	t.duration, t.bottleneck = t.execute(now)
	t.total += t.duration + t.penalty
	t.step++
	return envs.Outcome{Reward: t.reward()}, c.Advance(ctx, seconds(t.duration))
}

func (t *Task) reward() float64 {
	if t.compatible() {
		return (t.opts.DurationHigh - t.penalty - t.duration) / (t.opts.DurationHigh - t.opts.DurationLow)
	}
	return -(t.duration + t.penalty) / rewardSeconds
}

// execute returns the true duration of the superstep and its slowest task, and notes that of each.
func (t *Task) execute(now int) (duration float64, bottleneck int) {
	sizes := t.in.True(now)
	for k, l := range t.levels {
		d := t.src.model.DurationAt(k, sizes[k], int(l))
		if t.src.laws != nil {
			d *= math.Exp(t.residual(&t.src.laws[k]))
		}
		t.durations[k] = d
		if d > duration || k == 0 {
			duration, bottleneck = d, k
		}
	}
	return duration, bottleneck
}

// residual draws by how much the logarithm of a task's duration differs from its model's.
func (t *Task) residual(law *Law) float64 {
	residual := t.opts.Noise * min(max(law.RMS*t.rng.NormFloat64(), -law.Worst), law.Worst)
	if t.opts.StragglerProb > 0 && t.rng.Float64() < t.opts.StragglerProb {
		residual = law.Worst
	}
	return residual
}

// plannedPenalty returns what a planner expects a reconfiguration to cost.
func (t *Task) plannedPenalty() float64 {
	if t.opts.PenaltyModel == PenaltyResize {
		return t.opts.ResizeSeconds * float64(len(t.levels))
	}
	return t.opts.Penalty
}

// reconfigure changes to next, in the cluster too, and charges for it. The first
// configuration of an episode is free in the sound dynamics, as in the source's simulator,
// and charged in the compatible ones, as in its environment.
func (t *Task) reconfigure(ctx context.Context, c cluster.Cluster) error {
	changed := 0
	for k, l := range t.next {
		if l != t.levels[k] {
			changed++
		}
	}
	t.changed = changed
	if err := t.change(ctx, c, changed); err != nil {
		return err
	}
	t.levels, t.next = t.next, t.levels
	t.since, t.planned = 0, false
	if t.step == 0 && !t.compatible() {
		return nil
	}
	t.checkpoints++
	switch t.opts.PenaltyModel {
	case PenaltyConstant:
		t.penalty = t.opts.Penalty
	case PenaltyPerTask:
		t.penalty = t.opts.Penalty * float64(changed) / float64(len(t.levels))
	case PenaltyResize:
		t.penalty = t.opts.ResizeSeconds * float64(changed)
	}
	return c.Advance(ctx, seconds(t.penalty))
}

// Observe implements [envs.Task].
func (t *Task) Observe(_ *cluster.State, obs []float32, mask []bool) {
	for i := range mask {
		mask[i] = true
	}
	now := t.Step()
	if t.compatible() {
		c := t.opts.compatible()
		ObserveCompatible(&c, t.in, now, t.levels, obs)
		return
	}
	durations, tasks := t.sections()
	t.in.Predict(now, t.levels, t.keep)
	t.scale(obs[:t.opts.Horizon], t.keep)
	for w := 1; w <= t.opts.Windows; w++ {
		t.scale(obs[w*t.opts.Horizon:(w+1)*t.opts.Horizon], t.in.Predicted(now, w))
	}
	sizes, shares := obs[durations:durations+tasks], obs[durations+tasks:durations+2*tasks]
	planned := t.in.Planned(now)
	for k, l := range t.levels {
		sizes[k] = float32((planned[k] - t.opts.SizeLow) / (t.opts.SizeHigh - t.opts.SizeLow))
		shares[k] = float32(t.src.model.MilliCPU(int(l))) / float32(t.src.model.cfg.TotalMilliCPU)
	}
	obs[durations+2*tasks] = float32(min(t.since, sinceScale)) / sinceScale
}

// scale maps durations to [0, 1].
func (t *Task) scale(dst []float32, durations []float64) {
	low, span := t.opts.DurationLow, t.opts.DurationHigh-t.opts.DurationLow
	for i, d := range durations {
		dst[i] = float32(min(max((d-low)/span, 0), 1))
	}
}

// Info implements [envs.InfoWriter].
func (t *Task) Info(_ *cluster.State, dst []float64) {
	dst[0], dst[1], dst[2] = t.duration, t.penalty, t.total
	dst[3], dst[4], dst[5] = float64(t.checkpoints), float64(t.window), float64(t.bottleneck)
}

var infoColumns = []envs.Column{
	{Name: "duration_s", DType: "float64", Doc: "true duration of the superstep"},
	{Name: "penalty_s", DType: "float64", Doc: "cost of the reconfiguration before it"},
	{Name: "total_s", DType: "float64", Doc: "durations and penalties since the reset: the job's completion time"},
	{Name: "checkpoints", DType: "int64", Doc: "reconfigurations since the reset that were charged"},
	{Name: "window", DType: "int64", Doc: "window of the action"},
	{Name: "bottleneck", DType: "int64", Doc: "slowest task of the superstep"},
}

// create adds the node, whose cores are the budget, and a running pod for each task.
func (t *Task) create(ctx context.Context, c cluster.Cluster) error {
	m := t.src.model
	if t.meta == nil {
		t.meta = append(t.meta, c.State().Intern(cluster.Meta{Name: "gang-node"}))
		for _, task := range m.Profile().Tasks {
			t.meta = append(t.meta, c.State().Intern(cluster.Meta{Name: task}))
		}
	}
	t.ops = append(t.ops[:0], cluster.Op{
		Kind: cluster.AddNode, Meta: t.meta[0], Resources: cluster.Resources{MilliCPU: int64(m.cfg.TotalMilliCPU)},
	})
	for k, l := range t.levels {
		t.addPod(k, l, int32(k))
	}
	return c.Apply(ctx, t.ops)
}

// addPod appends the ops that create task k with the shares of level as pod number pod.
func (t *Task) addPod(k int, level uint16, pod int32) {
	t.pods[k] = pod
	t.ops = append(t.ops,
		cluster.Op{Kind: cluster.AddPod, Pod: pod, Meta: t.meta[k+1], Resources: t.requests(level)},
		cluster.Op{Kind: cluster.Bind, Pod: pod, Node: 0})
}

func (t *Task) requests(level uint16) cluster.Resources {
	return cluster.Resources{MilliCPU: int64(t.src.model.MilliCPU(int(level)))}
}

// change brings the cluster from levels to next: by resizing in place, or by deleting and
// creating pods anew. What shrinks or goes comes before what grows or comes, so that the
// node's cores always suffice.
func (t *Task) change(ctx context.Context, c cluster.Cluster, changed int) error {
	t.ops = t.ops[:0]
	if t.opts.PenaltyModel == PenaltyResize {
		for _, grow := range []bool{false, true} {
			for k, l := range t.next {
				if l != t.levels[k] && l > t.levels[k] == grow {
					t.ops = append(t.ops, cluster.Op{Kind: cluster.Resize, Pod: t.pods[k], Resources: t.requests(l)})
				}
			}
		}
		return c.Apply(ctx, t.ops)
	}
	all := t.opts.PenaltyModel == PenaltyConstant
	if changed == 0 && !all {
		return nil
	}
	for k, l := range t.next {
		if all || l != t.levels[k] {
			t.ops = append(t.ops, cluster.Op{Kind: cluster.Delete, Pod: t.pods[k]})
		}
	}
	pod := int32(len(c.State().Pods))
	for k, l := range t.next {
		if all || l != t.levels[k] {
			t.addPod(k, l, pod)
			pod++
		}
	}
	return c.Apply(ctx, t.ops)
}

func seconds(s float64) time.Duration { return time.Duration(s * float64(time.Second)) }
