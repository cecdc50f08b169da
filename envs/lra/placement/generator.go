package placement

import (
	"context"
	"math/rand/v2"

	"github.com/kubernasium/kubernasium/envs/cluster"
	"github.com/kubernasium/kubernasium/envs/lra/world"
)

// source holds what all tasks of one Open share. It is read-only.
type source struct {
	*world.Source
	tree  world.Tree // its leaves are the nodes
	remap bool       // full:remap
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
	return &source{Source: src, tree: world.NewTree(o.Nodes), remap: o.Full == FullRemap}, nil
}

// newSubclusterSource is newSource for a tree with three children per node.
func newSubclusterSource(o Options) (*source, error) {
	src, err := newSource(o)
	if err != nil {
		return nil, err
	}
	src.tree, err = world.NewTreeOfThrees(o.Nodes)
	return src, err
}

// Begin implements [envs.Task].
func (t *Task) Begin(ctx context.Context, c cluster.Cluster, rng *rand.Rand) error {
	t.tree.Reset()
	t.reward = t.src.Options.NewReward()
	return t.ep.Begin(ctx, c, rng)
}
