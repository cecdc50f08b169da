package vpa

import (
	"context"
	"math/rand/v2"
	"slices"
	"time"

	"github.com/kubernasium/kubernasium/envs"
	"github.com/kubernasium/kubernasium/envs/cluster"
	"github.com/kubernasium/kubernasium/envs/space"
	"github.com/kubernasium/kubernasium/envs/vpa/actions"
	"github.com/kubernasium/kubernasium/envs/vpa/corrections"
	"github.com/kubernasium/kubernasium/envs/vpa/metrics"
	"github.com/kubernasium/kubernasium/envs/vpa/pods"
	"github.com/kubernasium/kubernasium/envs/vpa/prices"
	"github.com/kubernasium/kubernasium/envs/vpa/rules"
	"github.com/kubernasium/kubernasium/envs/vpa/workload"
)

// Task is both environments of package vpa. It implements [envs.Task].
type Task struct {
	src   *source
	opts  *Options // of src
	live  *Live    // of a live task; otherwise nil
	steps int      // executed steps

	gen       generator
	in        instance // of the episode
	dynamics  pods.Controller
	metrics   metrics.Usage
	feed      *rules.Feed       // nil unless an option requires upstream's recommender
	base      *corrections.Base // nil unless actions of the encoding correct a recommendation
	scales    actions.Scales
	admission pods.Admission
	updater   pods.Updater
	ledger    prices.Ledger

	shown  rules.View          // by view
	plan   plan                // of a baseline, for the next action
	rec    pods.Recommendation // in force: repaired and capped
	flags  flags               // of the last action
	record []record            // of each step, for plots
}

// plan is a baseline's choice for the next action: the recommendation of its first step, and a function that returns
// those of further steps.
type plan struct {
	given  pods.Recommendation
	use    bool                                      // use given
	follow func(context.Context) pods.Recommendation // decides at each further step of the action; may be nil
}

// Notes implements [envs.Noter]. It names the containers with missing samples.
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

// checkEvery is the number of samples between checks of the context.
const checkEvery = 1 << 12

func newTask(src *source) *Task {
	o := &src.opts
	t := &Task{
		src: src, opts: o, gen: newGenerator(src), in: instance{history: src.history}, dynamics: pods.NewController(&o.Options, o.Pods, pods.Timing{Step: src.interval, Startup: pods.Duration(o.Startup), Checkpoint: pods.Duration(o.Checkpoint)}), metrics: metrics.NewUsage(o.Interval),
		scales: actions.NewScales(&o.Options), admission: pods.NewAdmission(&o.Options), updater: pods.NewUpdater(&o.Options, src.requirements), ledger: prices.NewLedger(o.Weighting),
	}
	if o.asksUpstream(src.discrete) {
		t.feed = rules.NewFeed()
	}
	if src.law != nil {
		t.dynamics.Node = pods.NewSharedNode(o.Pods, src.law.Number, o.Interval)
		t.updater.Limits = true
	}
	t.base = corrections.New(o.Encoding)
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
	if t.dynamics.Node != nil {
		n += obsShared
	}
	if t.base != nil {
		n += t.base.Size()
		return space.NewBox(-1, 1, n), space.NewBox(-1, 1, t.base.ActionSize())
	}
	obs = space.NewBox(-1, 1, n)
	if t.dynamics.Node != nil {
		return obs, space.NewBox(-1, 1, actions.SeparateSize)
	}
	if t.src.discrete {
		return obs, space.Discrete{N: len(actions.Factors) * len(actions.Factors)}
	}
	return obs, space.NewBox(-1, 1, actions.Size)
}

// Recommend sets the recommendation of the next step, in place of its action. Recommenders use it for amounts that no
// action expresses exactly.
func (t *Task) Recommend(r pods.Recommendation) { t.plan.given, t.plan.use = r, true }

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

// Seen returns the observed usage, beginning with the history: of each step the largest of all pods. The caller must
// not change it.
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
	greatest := slices.Max(t.in.shares)
	t.metrics.Reset()
	for i, u := range t.in.past() {
		if i%checkEvery == 0 && ctx.Err() != nil {
			return ctx.Err()
		}
		t.metrics.Observe(metrics.Scale(u, greatest))
	}
	t.admission.Begin(t.in.requests, t.in.limits, workload.Max(t.metrics.Seen), t.in.factors)
	t.rec = pods.Constant(t.admission.Initial)
	t.ledger.Begin(t.in.meanDemand())
	first := pods.Start{
		Node: pods.Amount(t.opts.NodeCPU, t.opts.NodeMemory), Shares: t.in.shares, Demand: t.in.demand[t.in.history-1],
		Requests: t.admission.Initial, Limits: t.admission.Limits, Shared: &t.in.node,
	}
	if t.dynamics.Node != nil {
		first.Node = t.in.node.Allocatable()
	}
	if err := t.dynamics.Begin(ctx, c, &first); err != nil {
		return err
	}
	t.ask(ctx, true)
	return ctx.Err()
}

// now returns the time at the end of the last step.
func (t *Task) now() time.Duration { return time.Duration(t.steps) * t.Interval() }
