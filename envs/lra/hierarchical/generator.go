package hierarchical

import (
	"context"
	"fmt"
	"math/rand/v2"

	"github.com/kubernasium/kubernasium/envs"
	"github.com/kubernasium/kubernasium/envs/cluster"
	"github.com/kubernasium/kubernasium/envs/lra"
	"github.com/kubernasium/kubernasium/envs/lra/subcluster"
	"github.com/kubernasium/kubernasium/envs/lra/world"
)

// source holds what all tasks of one Open share. It is read-only.
type source struct {
	*world.Source
	sub         subcluster.Scheduler
	subclusters int
	tree        world.Tree // its leaves are the sub-clusters
}

// newSource checks the options and reads the files that they name.
func newSource(o Options) (*source, error) {
	if o.Nodes < 2*subcluster.Nodes || o.Nodes%subcluster.Nodes != 0 {
		return nil, fmt.Errorf("%w: nodes is %d, want a multiple of %d, the nodes of a sub-cluster, and at least two of them", envs.ErrInvalidOption, o.Nodes, subcluster.Nodes)
	}
	src := &source{subclusters: o.Nodes / subcluster.Nodes}
	src.tree = world.NewTree(src.subclusters)
	var err error
	if o.Tree {
		if src.tree, err = world.NewTreeOfThrees(src.subclusters); err != nil {
			return nil, err
		}
	}
	if src.sub, err = subcluster.Open(o.SubScheduler); err != nil {
		return nil, err
	}
	src.Source, err = world.NewSource(o.common())
	return src, err
}

// Begin implements [envs.Task].
func (t *Task) Begin(ctx context.Context, c cluster.Cluster, rng *rand.Rand) error {
	t.src.Reseed(t.own, rng)
	t.queue = t.src.DrawBatch(t.rng, t.queue[:0])
	t.next, t.left, t.earned = 0, lra.Counts{}, 0
	t.tree.Reset()
	for _, a := range t.queue {
		t.left[a]++
	}
	t.left[t.queue[0]]--
	clear(t.parts)
	clear(t.totals)
	clear(t.x)
	clear(t.values)
	clear(t.bound)
	t.tally = world.Tally{Vacant: len(t.x)}
	if t.meta == nil {
		meta := world.Intern(ctx, c, len(t.x))
		if err := ctx.Err(); err != nil {
			return err
		}
		t.meta = meta
	}
	t.ops = t.ops[:0]
	for i := range t.x {
		t.ops = append(t.ops, world.AddNode(t.meta[i], lra.MaxSlots))
	}
	for i, a := range t.queue {
		t.ops = append(t.ops, world.AddPod(i, t.meta[len(t.x)+int(a)], 0))
	}
	return c.Apply(ctx, t.ops)
}
