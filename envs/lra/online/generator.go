package online

import (
	"context"
	"math/rand/v2"

	"github.com/kubernasium/kubernasium/envs"
	"github.com/kubernasium/kubernasium/envs/cluster"
	"github.com/kubernasium/kubernasium/envs/lra/planner"
	"github.com/kubernasium/kubernasium/envs/lra/prices"
	"github.com/kubernasium/kubernasium/envs/lra/world"
)

// source holds what all tasks of one Open share. It is read-only.
type source struct {
	*world.Source
	constants prices.Constants
	index     *prices.Index
}

// newSource checks the options and reads the files that they name.
func newSource(o Options) (*source, error) {
	if err := envs.CheckOptions(&o); err != nil {
		return nil, err
	}
	src, err := world.NewSource(o.common())
	if err != nil {
		return nil, err
	}
	return &source{Source: src, constants: o.Constants, index: prices.NewIndex(src.Kinds[0].Plan, &o.Constants)}, nil
}

// model returns the model of a node.
func (s *source) model() *planner.Model { return s.Kinds[0].Plan }

// Begin implements [envs.Task].
func (t *Task) Begin(ctx context.Context, c cluster.Cluster, rng *rand.Rand) error {
	t.reward = t.src.Options.NewReward()
	return t.ep.Begin(ctx, c, rng)
}
