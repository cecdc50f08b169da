package subscheduler

import (
	"fmt"
	"math"
	"sync"

	"github.com/kubernasium/kubernasium/envs/lra/planner"
	"github.com/kubernasium/kubernasium/envs/lra/subcluster"
	"github.com/kubernasium/kubernasium/envs/lra/world"
)

// filler places the containers of a sub-cluster of 27 nodes with a policy of k8s/LRASubcluster-v0, without a cluster.
// It tries [planner.AppOrder] and [planner.RoundsOrder] and keeps the better placement. It is safe for concurrent use;
// goroutines take turns.
type filler struct {
	// policy chooses a child of a vertex of the tree, given observation and mask, and must not retain them. At the first
	// vertex of a filling an episode begins.
	policy func(obs []float32, mask []bool, first bool) (int, error)

	mu   sync.Mutex
	of   *planner.Model // model of ep
	ep   *world.Episode
	tree world.Tree
	obs  []float32
	mask []bool
}

// Fill implements [subcluster.Scheduler] for nodes of one class.
func (f *filler) Fill(p *planner.Problem, x planner.Placement) error {
	if len(p.Class) != subcluster.Nodes {
		return fmt.Errorf("lra: %d nodes for a sub-scheduler that is trained on %d", len(p.Class), subcluster.Nodes)
	}
	for _, c := range p.Class {
		if c != p.Class[0] {
			return fmt.Errorf("lra: nodes of several classes for a sub-scheduler that knows one")
		}
	}
	if err := p.Check(); err != nil {
		return err
	}
	f.mu.Lock()
	defer f.mu.Unlock()
	if m := p.Model(0); f.of != m {
		if err := f.prepare(m); err != nil {
			return err
		}
	}
	best := math.Inf(-1)
	for _, order := range [][]int{planner.AppOrder(p.Batch), planner.RoundsOrder(p.Batch)} {
		if err := f.play(order); err != nil {
			return err
		}
		if f.ep.Value > best {
			best = f.ep.Value
			copy(x, f.ep.Placement())
		}
	}
	return nil
}

// play places the batch in the given order of applications.
func (f *filler) play(order []int) error {
	f.tree.Reset()
	f.ep.Load(order)
	for first := true; f.ep.App() != world.NoApp; first = false {
		f.ep.Observe(&f.tree, f.ep.Rows(), f.obs, f.mask)
		child, err := f.policy(f.obs, f.mask, first)
		if err != nil {
			return err
		}
		if child < 0 || child >= len(f.mask) || !f.mask[child] {
			return fmt.Errorf("lra: a sub-scheduler chose child %d, which the mask %v does not permit", child, f.mask)
		}
		if node, ok := f.tree.Descend(child); ok {
			f.ep.Put(node)
		}
	}
	if f.ep.Rejected > 0 {
		return fmt.Errorf("lra: no node permits %d of %d containers", f.ep.Rejected, len(order))
	}
	return nil
}

// prepare makes the episode for the nodes of m.
func (f *filler) prepare(m *planner.Model) error {
	var err error
	if f.tree, err = world.NewTreeOfThrees(subcluster.Nodes); err != nil {
		return err
	}
	src := world.NewKindSource(m, subcluster.Nodes)
	f.of, f.ep = m, world.NewEpisode(src)
	obs, _ := f.tree.Spaces(src.Bound, world.NodeFeatures)
	f.obs, f.mask = make([]float32, obs.Size()), make([]bool, f.tree.Fan())
	return nil
}
