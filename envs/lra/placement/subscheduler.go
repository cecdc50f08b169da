package placement

import (
	"fmt"
	"math"
	"sync"

	"github.com/kubernasium/kubernasium/envs/lra/planner"
	"github.com/kubernasium/kubernasium/envs/lra/subcluster"
	"github.com/kubernasium/kubernasium/envs/lra/world"
)

// A ChildPolicy chooses a child of a vertex of the tree: given the observation and the mask of
// k8s/LRASubcluster-v0 it returns an action. It may keep neither.
type ChildPolicy func(obs []float32, mask []bool) (int, error)

// NewSubScheduler returns a sub-scheduler that places containers by a policy of
// k8s/LRASubcluster-v0 with 27 nodes: in [planner.AppOrder] and in [planner.RoundsOrder], of which it takes the
// better placement. It may be used by several goroutines, which take turns.
func NewSubScheduler(policy ChildPolicy) subcluster.Scheduler { return &filler{policy: policy} }

// filler plays k8s/LRASubcluster-v0 without a cluster.
type filler struct {
	policy ChildPolicy

	mu   sync.Mutex
	of   *planner.Model // what task is by
	task *Task
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
		f.prepare(m)
	}
	best := math.Inf(-1)
	for _, order := range [][]int{planner.AppOrder(p.Batch), planner.RoundsOrder(p.Batch)} {
		if err := f.play(order); err != nil {
			return err
		}
		if f.task.ep.Value > best {
			best = f.task.ep.Value
			copy(x, f.task.ep.Placement())
		}
	}
	return nil
}

// play places the batch in the order of applications given.
func (f *filler) play(order []int) error {
	t := f.task
	t.level, t.from = 0, 0
	t.ep.Load(order)
	for t.ep.App() != world.NoApp {
		t.Observe(nil, f.obs, f.mask)
		child, err := f.policy(f.obs, f.mask)
		if err != nil {
			return err
		}
		if child < 0 || child >= t.src.fan || !f.mask[child] {
			return fmt.Errorf("lra: a sub-scheduler chose child %d, which the mask %v does not permit", child, f.mask)
		}
		if t.descend(child) {
			node := t.from
			t.level, t.from = 0, 0
			t.ep.Put(node)
		}
	}
	if t.ep.Rejected > 0 {
		return fmt.Errorf("lra: no node permits %d of %d containers", t.ep.Rejected, len(order))
	}
	return nil
}

// prepare makes the task of nodes by m.
func (f *filler) prepare(m *planner.Model) {
	src := &source{Source: world.NewKindSource(m, subcluster.Nodes), fan: subcluster.FanOut, levels: subcluster.Levels}
	f.of, f.task = m, newTask(src)
	obs, _ := f.task.Spaces()
	f.obs, f.mask = make([]float32, obs.Size()), make([]bool, subcluster.FanOut)
}
