package vpa

import (
	"context"
	"time"

	"github.com/kubernasium/kubernasium/envs/vpa/rules"
)

// view returns the state of the task for rules. It is valid until the next call.
func (t *Task) view() *rules.View {
	t.shown = rules.View{
		Step: t.steps, Interval: t.Interval(), Instant: time.Duration(t.in.history+t.steps) * t.Interval(),
		Pods: t.dynamics.Pods, Seen: t.metrics.Seen, Admission: &t.admission,
		Past: t.in.past(), Coming: t.in.coming(), Shares: t.in.shares, Weights: t.ledger.Weights,
	}
	if s := t.dynamics.Node; s != nil {
		t.shown.Node, t.shown.Load = s.Drawn.Capacity, [2]float64{s.Load[0].Last(), s.Load[1].Last()}
	}
	if t.live != nil {
		t.shown.Running, t.shown.Instant = &t.live.running, t.live.at
	}
	return &t.shown
}

// ask updates the recommendations beside the agent's, from the last step or, with first, from the history.
func (t *Task) ask(ctx context.Context, first bool) {
	if t.feed != nil {
		t.feed.Observe(ctx, t.view(), first)
		t.feed.Recommend()
	}
	if t.base != nil {
		t.base.Ask(ctx, t.view(), first)
	}
}
