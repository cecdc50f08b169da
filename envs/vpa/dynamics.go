package vpa

import (
	"context"
	"fmt"

	"github.com/kubernasium/kubernasium/envs"
	"github.com/kubernasium/kubernasium/envs/cluster"
	"github.com/kubernasium/kubernasium/envs/vpa/pods"
	"github.com/kubernasium/kubernasium/envs/vpa/prices"
)

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

// act runs a step with the recommendation in force.
func (t *Task) act(ctx context.Context, c cluster.Cluster) error {
	d, admitted := &t.dynamics, t.admission.Admit(t.rec)
	d.Last = prices.Events{}
	if t.opts.Mode == pods.ModeInitial && t.steps == 0 {
		if err := d.AdmitAll(ctx, c, &admitted); err != nil {
			return err
		}
	}
	if err := d.RetryResizes(ctx, c); err != nil {
		return err
	}
	if err := d.Update(ctx, c, &t.updater, &admitted); err != nil {
		return err
	}
	most, err := t.run(ctx, c, &admitted)
	if err != nil {
		return err
	}
	t.metrics.Observe(most)
	t.ledger.Note(&d.Last, t.steps)
	t.ledger.Charge(&d.Last, t.Interval(), len(d.Pods))
	t.note()
	t.steps++
	t.ask(ctx, false)
	return c.Advance(ctx, t.Interval())
}

// run lets the pods run for a step and returns the largest usage.
func (t *Task) run(ctx context.Context, c cluster.Cluster, admitted *pods.Recommendation) (cluster.Resources, error) {
	demand := t.in.coming()[t.steps]
	if t.dynamics.Node == nil {
		return t.dynamics.Run(ctx, c, demand)
	}
	if t.opts.Mode == pods.ModeOff {
		admitted = nil // new pods have the requests of their predecessors
	}
	return t.dynamics.RunShared(ctx, c, t.steps, demand, admitted)
}

// decide sets the recommendation in force for the k-th step of the action.
func (t *Task) decide(ctx context.Context, action []float32, k int) {
	var r pods.Recommendation
	switch {
	case k > 0 && t.plan.follow != nil:
		r = t.plan.follow(ctx)
	case t.plan.use:
		r, t.plan.use = t.plan.given, false
	case k > 0 && t.src.discrete: // factors apply only once
		r = t.rec
		t.secure(&r)
	default:
		r = t.decode(action, k)
	}
	t.flags.repaired = r.Repair()
	t.flags.capped = t.admission.Cap(&r)
	if t.dynamics.Node != nil { // the updater compares limits too
		r.Limits, r.SetLimits = t.admission.LimitsFor(&r), true
	}
	t.rec = r
}
