package world

import (
	"fmt"
	"math"
	"sync"

	"github.com/kubernasium/kubernasium/envs/lra"
)

// A ChildPolicy chooses a child of a vertex of the tree: given the observation and the mask of
// k8s/LRASubcluster-v0 it returns an action. It may keep neither.
type ChildPolicy func(obs []float32, mask []bool) (int, error)

// NewSubScheduler returns a sub-scheduler that places containers by a policy of
// k8s/LRASubcluster-v0 with 27 nodes: in [AppOrder] and in [RoundsOrder], of which it takes the
// better placement. It may be used by several goroutines, which take turns.
func NewSubScheduler(policy ChildPolicy) lra.SubScheduler { return &filler{policy: policy} }

// filler plays k8s/LRASubcluster-v0 without a cluster.
type filler struct {
	policy ChildPolicy

	mu   sync.Mutex
	of   *lra.Model // what task is by
	task *Task
	obs  []float32
	mask []bool
}

// Fill implements [SubScheduler] for nodes of one class.
func (f *filler) Fill(p *lra.Problem, x lra.Placement) error {
	if len(p.Class) != lra.SubclusterNodes {
		return fmt.Errorf("lra: %d nodes for a sub-scheduler that is trained on %d", len(p.Class), lra.SubclusterNodes)
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
	for _, order := range [][]int{lra.AppOrder(p.Batch), lra.RoundsOrder(p.Batch)} {
		if err := f.play(p.Batch, order); err != nil {
			return err
		}
		if f.task.value > best {
			best = f.task.value
			copy(x, f.task.x)
		}
	}
	return nil
}

// play places the batch in the order of applications given.
func (f *filler) play(batch lra.Counts, order []int) error {
	t := f.task
	t.restart()
	for _, a := range order {
		t.queue = append(t.queue, uint8(a))
	}
	t.left = batch
	t.next = -1
	t.advance()
	for t.next < len(t.queue) {
		t.Observe(nil, f.obs, f.mask)
		child, err := f.policy(f.obs, f.mask)
		if err != nil {
			return err
		}
		if child < 0 || child >= t.fan || !f.mask[child] {
			return fmt.Errorf("lra: a sub-scheduler chose child %d, which the mask %v does not permit", child, f.mask)
		}
		t.from += child * t.width()
		if t.level++; t.level < t.levels {
			continue
		}
		node, app := t.from, t.app()
		t.level, t.from = 0, 0
		t.set(node, t.src.kinds[0].plan.Next[t.x[node]][app])
		t.advance()
	}
	if t.rejected > 0 {
		return fmt.Errorf("lra: no node permits %d of %d containers", t.rejected, len(t.queue))
	}
	return nil
}

// prepare makes the task of nodes by m.
func (f *filler) prepare(m *lra.Model) {
	s := &source{opts: DefaultSubclusterOptions(), class: make([]int, lra.SubclusterNodes), slots: lra.SubclusterNodes * m.Class.Slots}
	s.kinds = []*nodeKind{{plan: m, forbidding: []*lra.Model{m}, score: m}}
	s.features()
	f.of, f.task = m, newTask(s, lra.FanOut, lra.SubclusterLevels)
	obs, _ := f.task.Spaces()
	f.obs, f.mask = make([]float32, obs.Size()), make([]bool, lra.FanOut)
}
