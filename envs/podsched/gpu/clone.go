package gpu

import (
	"maps"
	"math/rand/v2"
	"slices"

	"github.com/kubernasium/kubernasium/envs"
	"github.com/kubernasium/kubernasium/envs/cluster"
)

var _ envs.Resampler = (*Task)(nil)

// Clone implements [envs.Cloner]. The copy computes its cache of placements again.
func (t *Task) Clone(*rand.Rand) envs.Task {
	c := *t
	c.in.Nodes, c.in.Arrivals = slices.Clone(t.in.Nodes), slices.Clone(t.in.Arrivals)
	c.in.Running = slices.Clone(t.in.Running)
	c.nodes = slices.Clone(t.nodes)
	c.inventory = t.inventory.Clone()
	c.table = t.table.Of(&c.inventory)
	if t.curve != nil {
		c.curve = t.curve.Clone()
	}
	c.watch = views{rows: slices.Clone(t.watch.rows), versions: slices.Clone(t.watch.versions), edges: slices.Clone(t.watch.edges)}
	c.queue, c.due, c.defers = slices.Clone(t.queue), slices.Clone(t.due), slices.Clone(t.defers)
	c.blocked, c.running = slices.Clone(t.blocked), slices.Clone(t.running)
	c.metas, c.podMetas = slices.Clone(t.metas), maps.Clone(t.podMetas)
	c.ops, c.estimator = nil, nil
	return &c
}

// Resample implements [envs.Resampler] for time-free dynamics: it draws future pods with replacement from those that
// have arrived, up to load_end. It cannot draw when running pods of timed dynamics end, since the cluster holds these
// times.
func (t *Task) Resample(_ *cluster.State, rng *rand.Rand) error {
	if err := t.CanContinue(); err != nil {
		return err
	}
	t.seed = rng.Uint64()
	t.in.Resample(t.next, t.src.Catalogue, int64(t.opts.LoadEnd*float64(t.inventory.Size.MilliGPU))-t.arrived, rng)
	t.defers = append(t.defers[:t.next], make([]uint8, len(t.in.Arrivals)-t.next)...)
	return nil
}
