package placement

import (
	"context"
	"math/rand/v2"

	"github.com/kubernasium/kubernasium/envs/cluster"
	"github.com/kubernasium/kubernasium/envs/lra/subcluster"
	"github.com/kubernasium/kubernasium/envs/lra/world"
)

// source holds what all tasks of one Open share. It is read-only.
type source struct {
	*world.Source
	fan, levels int  // children of a vertex of the tree; choices from its root to a node
	remap       bool // full:remap
}

// newSource reads the files that the options of k8s/LRAPlacement-v0 name; all nodes are children of
// the root.
func newSource(o Options) (*source, error) {
	if err := o.check(); err != nil {
		return nil, err
	}
	src, err := world.NewSource(o.Options)
	if err != nil {
		return nil, err
	}
	return &source{Source: src, fan: o.Nodes, levels: 1, remap: o.Full == FullRemap}, nil
}

// newSubclusterSource is newSource for a tree of threes.
func newSubclusterSource(o Options) (*source, error) {
	levels, err := world.TreeLevels(o.Nodes)
	if err != nil {
		return nil, err
	}
	src, err := newSource(o)
	if err != nil {
		return nil, err
	}
	src.fan, src.levels = subcluster.FanOut, levels
	return src, nil
}

// Begin implements [envs.Task].
func (t *Task) Begin(ctx context.Context, c cluster.Cluster, rng *rand.Rand) error {
	t.level, t.from, t.reward = 0, 0, t.src.Options.NewReward()
	return t.ep.Begin(ctx, c, rng)
}
