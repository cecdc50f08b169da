package vpa

import (
	"context"
	"fmt"
	"math"
	"math/rand/v2"
	"time"

	"github.com/kubernasium/kubernasium/envs"
	"github.com/kubernasium/kubernasium/envs/cluster"
	"github.com/kubernasium/kubernasium/envs/space"
	"github.com/kubernasium/kubernasium/envs/vpa/metrics"
	"github.com/kubernasium/kubernasium/envs/vpa/prices"
)

// Task is both environments of package vpa. It implements [envs.Task].
type Task struct {
	src   *source
	opts  *Options // of src
	live  *Live    // nil unless the pods run elsewhere
	steps int      // executed

	gen       generator
	in        instance // of the episode
	dynamics  dynamics
	metrics   metrics.Usage
	feed      *upstreamFeed // nil unless an option asks for upstream's recommender
	base      *base         // what actions correct; nil unless encoding is residual
	codec     codec
	admission admission
	updater   updater
	ledger    prices.Ledger

	plan   plan           // of a baseline, for the next action
	rec    Recommendation // in force: repaired and capped
	flags  flags          // of the last action
	record []record       // of each step, for plots
}

// plan is a baseline's choice for the next action: the recommendation of its first step, and a
// function that returns those of further steps.
type plan struct {
	given  Recommendation
	use    bool                                 // given is to be used
	follow func(context.Context) Recommendation // for the further steps that the action holds, of a recommender that decides at each; or nil
}

// Notes implements [envs.Noter]. It names the containers whose data misses samples.
func (t *Task) Notes() []string { return t.src.notes }

// flags report how the last action was changed.
type flags struct{ repaired, capped bool }

var (
	_ envs.Task       = (*Task)(nil)
	_ envs.InfoWriter = (*Task)(nil)
	_ envs.Limiter    = (*Task)(nil)
	_ envs.Renderer   = (*Task)(nil)
	_ envs.Charter    = (*Task)(nil)
	_ envs.Planner    = (*Task)(nil)
	_ envs.Cloner     = (*Task)(nil)
)

// checkEvery is the number of samples between looks at a context.
const checkEvery = 1 << 12

func seconds(s float64) time.Duration { return time.Duration(math.Round(s * float64(time.Second))) }

func newTask(src *source) *Task {
	o := &src.opts
	t := &Task{
		src: src, opts: o, gen: newGenerator(src), in: instance{history: src.history}, dynamics: newDynamics(o, src.interval), metrics: metrics.NewUsage(o.Interval),
		codec: newCodec(o), admission: admission{opts: o}, updater: newUpdater(src), ledger: prices.NewLedger(o.Weighting),
	}
	t.admission.low, t.admission.high = o.bounds()
	if o.asksUpstream(src.discrete) {
		t.feed = newFeed()
	}
	if src.law != nil {
		t.dynamics.shared = newSharedNode(src)
		t.updater.limits = true
	}
	if o.Encoding == EncodingResidual {
		t.base = &base{quantile: quantileRule{tunedShared}}
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
	if t.dynamics.shared != nil {
		n += obsShared
	}
	if t.base != nil {
		n += obsBase
	}
	obs = space.NewBox(-1, 1, n)
	if t.dynamics.shared != nil {
		return obs, space.NewBox(-1, 1, separateElements)
	}
	if t.src.discrete {
		return obs, space.Discrete{N: len(Factors) * len(Factors)}
	}
	return obs, space.NewBox(-1, 1, 2*elements)
}

// Recommend sets the recommendation of the next step, in place of its action's. Recommenders use it
// for amounts that no action expresses exactly.
func (t *Task) Recommend(r Recommendation) { t.plan.given, t.plan.use = r, true }

// TakePlan implements [envs.Planner].
func (t *Task) TakePlan() envs.Plan {
	if !t.plan.use {
		return nil
	}
	p := t.plan
	t.plan = plan{}
	return p
}

// LeavePlan implements [envs.Planner].
func (t *Task) LeavePlan(p envs.Plan) { t.plan = p.(plan) }

// Interval returns the duration of a step.
func (t *Task) Interval() time.Duration { return t.src.interval }

// Workload returns the type of the episode's workload, or the name of a workload from a file.
func (t *Task) Workload() string { return t.in.id }

// Seen returns the usage observed so far, beginning with the history: of each step the largest of all
// pods. The caller must not change it.
func (t *Task) Seen() []cluster.Resources { return t.metrics.Seen }

// History returns the number of samples in Seen before the first step.
func (t *Task) History() int { return t.in.history }

// Begin implements [envs.Task].
func (t *Task) Begin(ctx context.Context, c cluster.Cluster, rng *rand.Rand) error {
	t.gen.draw(ctx, &t.in, rng)
	if err := ctx.Err(); err != nil {
		return err
	}
	t.steps, t.plan, t.flags, t.record = 0, plan{}, flags{}, t.record[:0]
	greatest := t.in.greatestShare()
	t.metrics.Reset()
	for i, u := range t.in.past() {
		if i%checkEvery == 0 && ctx.Err() != nil {
			return ctx.Err()
		}
		t.metrics.Observe(metrics.Scale(u, greatest))
	}
	t.admission.begin(&t.in, t.metrics.Seen)
	t.rec = constant(t.admission.initial)
	t.ledger.Begin(t.in.meanDemand())
	first := start{
		node: amount(t.opts.NodeCPU, t.opts.NodeMemory), shares: t.in.shares, demand: t.in.demand[t.in.history-1],
		requests: t.admission.initial, limits: t.admission.limits, shared: &t.in.node,
	}
	if t.dynamics.shared != nil {
		first.node = t.in.node.Allocatable()
	}
	if err := t.dynamics.begin(ctx, c, &first); err != nil {
		return err
	}
	t.askUpstream(ctx, true)
	t.askBase(ctx, true)
	return ctx.Err()
}

// Apply implements [envs.Task]. For each step that the action holds, it decodes the recommendation,
// repairs and caps it, lets the updater act on it, and runs the pods.
func (t *Task) Apply(ctx context.Context, c cluster.Cluster, action []float32) (envs.Outcome, error) {
	if t.steps == t.opts.Steps {
		return envs.Outcome{}, fmt.Errorf("the episode has %d steps; option steps makes longer ones", t.opts.Steps)
	}
	t.ledger.Action = prices.Costs{}
	flags := flags{}
	for k := range min(t.opts.Hold, t.opts.Steps-t.steps) {
		t.decide(ctx, action, k)
		flags.repaired, flags.capped = flags.repaired || t.flags.repaired, flags.capped || t.flags.capped
		if err := t.act(ctx, c); err != nil {
			return envs.Outcome{}, err
		}
	}
	t.flags, t.plan.follow = flags, nil
	return envs.Outcome{Reward: -t.ledger.Weighted(&t.ledger.Action)}, nil
}

// act plays a step with the recommendation in force.
func (t *Task) act(ctx context.Context, c cluster.Cluster) error {
	d := &t.dynamics
	d.last = prices.Events{}
	if t.opts.Mode == ModeInitial && t.steps == 0 {
		admitted := t.admission.admit(t.rec)
		if err := d.admitAll(ctx, c, &admitted); err != nil {
			return err
		}
	}
	if err := d.retryResizes(ctx, c); err != nil {
		return err
	}
	if err := t.updater.update(ctx, c, d, &t.rec, &t.admission); err != nil {
		return err
	}
	most, err := t.run(ctx, c)
	if err != nil {
		return err
	}
	t.metrics.Observe(most)
	t.ledger.Note(&d.last, t.steps)
	t.ledger.Charge(&d.last, t.Interval(), len(d.pods))
	t.note()
	t.steps++
	t.askUpstream(ctx, false)
	t.askBase(ctx, false)
	return c.Advance(ctx, t.Interval())
}

// run lets the pods run for a step and returns the largest usage.
func (t *Task) run(ctx context.Context, c cluster.Cluster) (cluster.Resources, error) {
	demand := t.in.coming()[t.steps]
	if t.dynamics.shared == nil {
		return t.dynamics.run(ctx, c, demand)
	}
	if t.opts.Mode == ModeOff {
		return t.dynamics.runShared(ctx, c, t.steps, demand, nil)
	}
	admitted := t.admission.admit(t.rec)
	return t.dynamics.runShared(ctx, c, t.steps, demand, &admitted)
}

// decide sets the recommendation in force for the k-th step that the action holds.
func (t *Task) decide(ctx context.Context, action []float32, k int) {
	var r Recommendation
	switch {
	case k > 0 && t.plan.follow != nil:
		r = t.plan.follow(ctx)
	case t.plan.use:
		r, t.plan.use = t.plan.given, false
	case k > 0 && t.src.discrete: // its factors have been applied
		r = t.rec
		t.secure(&r)
	case t.src.discrete:
		r = decodeDiscrete(int(action[0]), t.rec.Target, t.admission.low, t.admission.high)
		t.secure(&r)
	case t.dynamics.shared != nil:
		r = t.codec.decodeSeparate(action, t.base)
		t.secure(&r)
	default:
		r = t.codec.decode(action, t.references())
		t.secure(&r)
	}
	t.flags.repaired = r.repair()
	t.flags.capped = t.admission.cap(&r)
	if t.dynamics.shared != nil { // the updater compares limits too
		r.Limits, r.SetLimits = t.admission.limitsFor(&r), true
	}
	t.rec = r
}

// references returns the amounts that elements of relative actions multiply: the peaks of the last
// hour, or the elements of upstream's recommendation, and no less than the policy's least amounts.
// They are 0 for encoding log, which reads none.
func (t *Task) references() (of references) {
	if t.opts.Encoding == EncodingLog {
		return of
	}
	low, hour := t.admission.low, &t.metrics.Hour
	for i := range of {
		cpu, mem := hour[0].Max(), hour[1].Max()
		if t.opts.Encoding == EncodingUpstream {
			u := &t.feed.latest
			v := [...]cluster.Resources{u.Lower, u.Target, u.Upper, u.Uncapped}[i]
			cpu, mem = float64(v.MilliCPU), float64(v.MemoryBytes)
		}
		of[i] = [2]float64{max(cpu, float64(low.MilliCPU)), max(mem, float64(low.MemoryBytes))}
	}
	return of
}

// secure raises the memory of an action's recommendation, if the option safety asks for it: all to
// upstream's recommendation, the lower bound also to the peak of the last day, and the target also
// to that peak and a margin. Limits are in proportion to the target.
func (t *Task) secure(r *Recommendation) {
	if t.opts.Safety != SafetyMemory {
		return
	}
	peak, up := t.metrics.Day[1].Max(), &t.feed.latest
	r.Lower.MemoryBytes = max(r.Lower.MemoryBytes, up.Lower.MemoryBytes, int64(peak))
	r.Target.MemoryBytes = max(r.Target.MemoryBytes, up.Target.MemoryBytes, int64(math.Ceil(margin*peak)))
	r.Upper.MemoryBytes = max(r.Upper.MemoryBytes, up.Upper.MemoryBytes)
}

// now returns the time at the end of the last step.
func (t *Task) now() time.Duration { return time.Duration(t.steps) * t.Interval() }

// instant returns the time of the last sample for upstream's recommender: since the first one began
// or, for a live task, since 1970.
func (t *Task) instant() time.Duration {
	if t.live != nil {
		return t.live.at
	}
	return time.Duration(t.in.history+t.steps) * t.Interval()
}
