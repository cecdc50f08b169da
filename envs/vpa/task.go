package vpa

import (
	"context"
	"fmt"
	"math"
	"math/rand/v2"
	"time"

	"github.com/kubernasium/kubernasium/envs"
	"github.com/kubernasium/kubernasium/envs/cluster"
	"github.com/kubernasium/kubernasium/envs/pcg"
	"github.com/kubernasium/kubernasium/envs/space"
)

// Task is both environments of package vpa. It implements [envs.Task].
type Task struct {
	src    *source
	opts   *Options
	source *pcg.Source // of rng
	rng    *rand.Rand  // draws the workload

	step, startup, checkpoint, evictAfterOOM time.Duration
	scales                                   [2]scale          // of CPU and of memory
	low, high                                cluster.Resources // of requests
	weights                                  weights           // of the reward's terms

	demand                     []cluster.Resources // of the workload: history, then a sample for each step
	seen                       []cluster.Resources // usage as it was observed, the largest of all pods: history, then each step's
	id                         string              // type of the workload, or its name in a file
	startOfDay                 float64             // seconds since Monday 00:00 at the first sample of demand
	traceRequests, traceLimits cluster.Resources
	initial, limits            cluster.Resources // of a container at the start
	norm                       float64           // mean demand of all pods, in cores with memory at its price

	steps     int // executed
	pods      []pod
	rec       Recommendation        // in force: repaired and capped
	given     Recommendation        // set by Recommend
	use       bool                  // given is to be used
	follow    func() Recommendation // for the further steps that the action holds, of a recommender that decides at each; or nil
	last      interval              // the last step
	sum       interval              // all steps
	cost      costs                 // of the last action
	total     costs
	flags     flags
	hour, all [2]window // observed CPU and memory: of the last hour, of the last day
	lastKill  int       // step of the last OOM kill; -1 before it
	lastMove  int       // step of the last eviction or resize; -1 before it

	feed *upstreamFeed  // nil unless an option asks for upstream's recommender
	up   Recommendation // of feed, for the present moment
	live *Live          // nil unless the pods run elsewhere

	candidates []candidate
	budget     budget
	record     []record // of each step, for plots
	meta       [2]int32 // of the node and of the pods
	ops        []cluster.Op
}

// Notes implements [envs.Noter]: which containers of the data miss samples.
func (t *Task) Notes() []string { return t.src.notes }

// flags say what became of the last action.
type flags struct{ repaired, capped bool }

var (
	_ envs.Task       = (*Task)(nil)
	_ envs.InfoWriter = (*Task)(nil)
	_ envs.Limiter    = (*Task)(nil)
	_ envs.Renderer   = (*Task)(nil)
	_ envs.Charter    = (*Task)(nil)
	_ envs.Planned    = (*Task)(nil)
	_ envs.Cloner     = (*Task)(nil)
)

func seconds(s float64) time.Duration { return time.Duration(math.Round(s * float64(time.Second))) }

func newTask(src *source) *Task {
	o := &src.opts
	t := &Task{
		src: src, opts: o, step: src.interval, startup: seconds(o.Startup), checkpoint: seconds(o.Checkpoint),
		evictAfterOOM: seconds(o.EvictAfterOOM), pods: make([]pod, o.Pods), weights: weightings[o.Weighting],
		scales: [2]scale{newScale(o.MinCPU, o.MaxCPU), newScale(o.MinMemory*mib, o.MaxMemory*mib)},
	}
	t.source, t.rng = newGenerator()
	t.low, t.high = o.bounds()
	if o.asksUpstream(src.discrete) {
		t.feed = newFeed()
	}
	hour, day := max(1, int(3600/o.Interval)), max(1, int(24*3600/o.Interval))
	for r := range t.hour {
		t.hour[r], t.all[r] = newWindow(hour), newWindow(day)
	}
	return t
}

// MaxEpisodeSteps implements [envs.Limiter].
func (t *Task) MaxEpisodeSteps() int { return (t.opts.Steps + t.opts.Hold - 1) / t.opts.Hold }

// Spaces implements [envs.Task].
func (t *Task) Spaces() (obs, act space.Space) {
	n := obsSize
	if t.feed != nil {
		n += obsUpstream
	}
	obs = space.NewBox(-1, 1, n)
	if t.src.discrete {
		return obs, space.Discrete{N: len(Factors) * len(Factors)}
	}
	return obs, space.NewBox(-1, 1, 2*elements)
}

// Recommend sets the recommendation of the next step, in place of what its action stands for.
// It is for recommenders whose amounts no action gives exactly.
func (t *Task) Recommend(r Recommendation) { t.given, t.use = r, true }

// plan is what a baseline leaves for the next action: the recommendation of its first step, and
// those of the further ones.
type plan struct {
	given  Recommendation
	follow func() Recommendation
}

// TakePlan implements [envs.Planned].
func (t *Task) TakePlan() any {
	if !t.use {
		return nil
	}
	p := plan{t.given, t.follow}
	t.use, t.follow = false, nil
	return p
}

// SetPlan implements [envs.Planned].
func (t *Task) SetPlan(p any) { t.given, t.use, t.follow = p.(plan).given, true, p.(plan).follow }

// Interval returns the duration of a step.
func (t *Task) Interval() time.Duration { return t.step }

// Workload returns the type of the running episode's workload, or for one of a file its name.
func (t *Task) Workload() string { return t.id }

// Seen returns the usage observed so far, the largest of all pods in each step, from the
// history on. The caller must not change it.
func (t *Task) Seen() []cluster.Resources { return t.seen }

// History returns the number of samples in Seen before the first step.
func (t *Task) History() int { return t.src.history }

// Begin implements [envs.Task].
func (t *Task) Begin(ctx context.Context, c cluster.Cluster, rng *rand.Rand) error {
	t.src.draw(t, rng)
	t.steps, t.use, t.follow, t.lastKill, t.lastMove = 0, false, nil, -1, -1
	t.last, t.sum, t.cost, t.total, t.flags = interval{}, interval{}, costs{}, costs{}, flags{}
	t.record, t.seen = t.record[:0], t.seen[:0]
	greatest := t.drawShares()
	for r := range t.hour {
		t.hour[r].reset()
		t.all[r].reset()
	}
	for _, u := range t.demand[:t.src.history] {
		t.observed(scaled(u, greatest))
	}
	t.drawInitial()
	t.norm = t.meanDemand()
	if t.meta == [2]int32{} {
		t.meta = [2]int32{c.State().Intern(cluster.Meta{Name: "vpa-node"}), c.State().Intern(cluster.Meta{Name: "app"})}
	}
	t.ops = append(t.ops[:0], cluster.Op{Kind: cluster.AddNode, Meta: t.meta[0], Resources: amount(t.opts.NodeCPU, t.opts.NodeMemory)})
	if err := c.Apply(ctx, t.ops); err != nil {
		return err
	}
	err := t.createAll(ctx, c)
	t.askUpstream(true)
	return err
}

// Apply implements [envs.Task]: for each step that the action holds, the recommendation that it
// stands for is repaired and capped, the updater acts on it, and the pods run.
func (t *Task) Apply(ctx context.Context, c cluster.Cluster, action []float32) (envs.Outcome, error) {
	if t.steps == t.opts.Steps {
		return envs.Outcome{}, fmt.Errorf("the episode has %d steps; option steps makes longer ones", t.opts.Steps)
	}
	t.cost = costs{}
	flags := flags{}
	for k := range min(t.opts.Hold, t.opts.Steps-t.steps) {
		t.decide(action, k)
		flags.repaired, flags.capped = flags.repaired || t.flags.repaired, flags.capped || t.flags.capped
		if err := t.act(ctx, c); err != nil {
			return envs.Outcome{}, err
		}
	}
	t.flags, t.follow = flags, nil
	return envs.Outcome{Reward: -t.weighted(&t.cost)}, nil
}

// act is a step with the recommendation in force.
func (t *Task) act(ctx context.Context, c cluster.Cluster) error {
	t.last = interval{}
	if t.opts.Mode == ModeInitial && t.steps == 0 {
		if err := t.admitAll(ctx, c); err != nil {
			return err
		}
	}
	if err := t.update(ctx, c); err != nil {
		return err
	}
	if err := t.runPods(ctx, c); err != nil {
		return err
	}
	if t.last.ooms > 0 {
		t.lastKill = t.steps
	}
	if t.last.evictions+t.last.resizes > 0 {
		t.lastMove = t.steps
	}
	t.charge()
	t.note()
	t.steps++
	t.askUpstream(false)
	return c.Advance(ctx, t.step)
}

// decide sets the recommendation in force for the k-th step that the action holds.
func (t *Task) decide(action []float32, k int) {
	var r Recommendation
	switch {
	case k > 0 && t.follow != nil:
		r = t.follow()
	case t.use:
		r, t.use = t.given, false
	case k > 0 && t.src.discrete: // its factors have been applied
		r = t.rec
		t.secure(&r)
	case t.src.discrete:
		r = t.decodeDiscrete(int(action[0]))
		t.secure(&r)
	default:
		r = t.decode(action)
		t.secure(&r)
	}
	t.flags.repaired = r.repair()
	t.flags.capped = t.cap(&r)
	t.rec = r
}
