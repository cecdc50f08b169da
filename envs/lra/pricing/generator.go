package pricing

import (
	"context"
	"math/rand/v2"

	"github.com/kubernasium/kubernasium/envs/cluster"
	"github.com/kubernasium/kubernasium/envs/lra"
	"github.com/kubernasium/kubernasium/envs/lra/planner"
	"github.com/kubernasium/kubernasium/envs/lra/prices"
	"github.com/kubernasium/kubernasium/envs/lra/world"
)

// source holds what all tasks of one Open share. It is read-only.
type source struct {
	*world.Source
	period, finish int
	scale          prices.Scale
	duals          bool // actions add to the duals of what is left
	shape          int  // features of an observation
}

// newSource checks the options and reads the files that they name.
func newSource(o Options) (*source, error) {
	if err := o.check(); err != nil {
		return nil, err
	}
	src, err := world.NewSource(o.common())
	if err != nil {
		return nil, err
	}
	p := &source{Source: src, period: o.Period, finish: o.Finish, scale: prices.Scale{Base: planner.MeanValues(src.Kinds[0].Plan), Unit: o.Scale}, shape: features}
	if o.Base == prices.Duals {
		p.duals, p.shape = true, features+lra.NumApps
	}
	if p.period == 0 {
		p.period = 1
		if o.Arrivals == world.ArrivalsOnline {
			p.period = onlinePeriod
		}
	}
	return p, nil
}

// Begin implements [envs.Task].
func (t *Task) Begin(ctx context.Context, c cluster.Cluster, rng *rand.Rand) error {
	if err := t.ep.Begin(ctx, c, rng); err != nil {
		return err
	}
	t.node, t.rest, t.reward, t.scale = 0, lra.Counts{}, t.src.Options.NewReward(), t.src.scale
	if t.ep.Online() {
		t.worth.Start(t.src.Kinds[0].Plan, prices.Interest)
		return nil
	}
	for pod, a := range t.ep.Queue() {
		if t.rest[a] == 0 {
			t.first[a] = pod
		}
		t.rest[a]++
	}
	return t.rebase(ctx)
}

// rebase sets the prices at an action of 0 for the next choice.
func (t *Task) rebase(ctx context.Context) error {
	if !t.src.duals {
		return nil
	}
	return t.scale.Rebase(ctx, t.left())
}
