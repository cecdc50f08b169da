package balance

import (
	"context"
	"errors"
	"fmt"
	"maps"
	"math"
	"slices"

	"github.com/kubernasium/kubernasium/envs"
	"github.com/kubernasium/kubernasium/envs/cluster"
	"github.com/kubernasium/kubernasium/envs/cluster/sim"
)

// maxPlacements is the maximum number of placements that Exact may have to try, which takes a second.
const maxPlacements = 500_000

// newExact returns a policy that plans the whole episode at its first call and then follows the plan. If other actions
// were taken, it replaces a planned node that does not fit by the first one that does.
func newExact(t *Task) (envs.Policy, error) {
	if t.original != nil {
		return nil, errors.New("balance: Exact needs the sound reward, which is at most 0")
	}
	n, decisions := t.opts.Nodes, t.mostDecisions()
	if decisions == 0 {
		return nil, errors.New("balance: Exact needs reset_pods or steps, which bound the number of decisions")
	}
	placements, paths := 0, 1
	for range decisions {
		if paths *= n; placements+paths > maxPlacements {
			return nil, fmt.Errorf("balance: %d nodes and %d decisions are too many for Exact, want %d placements at most", n, decisions, maxPlacements)
		}
		placements += paths
	}
	var plan []int
	mask := make([]bool, n)
	return func(ctx context.Context, s *cluster.State, first bool, action []float32) error {
		if first {
			var err error
			if plan, err = t.plan(ctx); err != nil {
				return err
			}
		}
		action[0] = 0
		if t.pod == noPod {
			return nil
		}
		s.FitMask(t.pod, mask)
		node := 0
		if k := t.stats.decisions; k < len(plan) {
			node = plan[k]
		}
		if !mask[node] { // the plan was not followed
			node = max(0, slices.Index(mask, true))
		}
		action[0] = float32(node)
		return nil
	}, nil
}

// mostDecisions bounds the decisions of an episode; 0 means no bound.
func (t *Task) mostDecisions() int {
	steps, pods := t.opts.Steps, 0
	for _, k := range t.opts.ResetPods {
		pods += k
	}
	if steps == 0 || pods > 0 && pods < steps {
		return pods
	}
	return steps
}

// search finds the plan of highest return, depth first. Rewards are at most 0, so it cuts a branch whose return so far
// is not above the best.
type search struct {
	steps      int // time limit; 0 is none
	levels     []level
	plan, best []int
	highest    float64
}

// level is a task and its cluster at one depth.
type level struct {
	t *Task
	c *sim.Cluster
}

// plan returns the actions of highest return for an episode that has just begun.
func (t *Task) plan(ctx context.Context) ([]int, error) {
	root := newTask(t.src)
	root.in = t.in // looking ahead in the workload changes nothing
	c := sim.New()
	if err := root.begin(ctx, c); err != nil {
		return nil, err
	}
	s := &search{steps: t.opts.Steps, levels: []level{{root, c}}, highest: math.Inf(-1)}
	err := s.expand(ctx, 0, 0)
	return s.best, err
}

// expand tries every action at the given depth, where the return so far is ret.
func (s *search) expand(ctx context.Context, depth int, ret float64) error {
	if depth+1 == len(s.levels) {
		t := newTask(s.levels[0].t.src)
		s.levels = append(s.levels, level{t, sim.New()})
	}
	from, to := s.levels[depth], s.levels[depth+1]
	state := from.c.State()
	for node := range from.t.opts.Nodes {
		if !state.Fits(from.t.pod, int32(node)) || from.t.redundant(state, node) {
			continue
		}
		from.t.copyInto(to.t)
		from.c.CloneInto(to.c)
		out, err := to.t.Apply(ctx, to.c, []float32{float32(node)})
		if err != nil {
			return err
		}
		total := ret + out.Reward
		if total <= s.highest {
			continue
		}
		s.plan = append(s.plan[:depth], node)
		if out.Terminated || depth+1 == s.steps {
			s.highest, s.best = total, append(s.best[:0], s.plan...)
			continue
		}
		if err := s.expand(ctx, depth+1, total); err != nil {
			return err
		}
	}
	return nil
}

// redundant reports whether a node of lower index is equivalent to this one, so that the search needs to try only one:
// both are empty, alike, and in one rack unless racks do not matter.
func (t *Task) redundant(s *cluster.State, node int) bool {
	n := &s.Nodes[node]
	if n.NumPods > 0 {
		return false
	}
	for i := range node {
		m := &s.Nodes[i]
		if m.NumPods == 0 && t.alike(i, node) &&
			(t.opts.Objective == ObjectiveBalance || t.rackOf[i] == t.rackOf[node]) {
			return true
		}
	}
	return false
}

// alike reports whether two nodes have the same size and, in a recording, take the same pods.
func (t *Task) alike(i, j int) bool {
	if t.in.Nodes[i] != t.in.Nodes[j] || t.src.Recorded == nil {
		return t.in.Nodes[i] == t.in.Nodes[j]
	}
	a, b := &t.src.Recorded.Nodes[i], &t.src.Recorded.Nodes[j]
	return a.Pods == b.Pods && a.GPUs == b.GPUs && a.MilliGPU == b.MilliGPU && slices.Equal(a.SetLabels, b.SetLabels)
}

// copyInto copies the state of t to dst, a task with the same options.
func (t *Task) copyInto(dst *Task) {
	dst.in, dst.spec, dst.cur, dst.pod, dst.first = t.in, t.spec, t.cur, t.pod, t.first
	dst.phase, dst.phasePods, dst.offered = t.phase, t.phasePods, t.offered
	dst.largest, dst.capacity, dst.stats = t.largest, t.capacity, t.stats
	copy(dst.onNode, t.onNode)
	copy(dst.onRack, t.onRack)
	copy(dst.extra, t.extra)
	if t.forecast != nil {
		dst.forecast.CopyFrom(t.forecast)
	}
	copy(dst.invCPU, t.invCPU)
	copy(dst.invMemory, t.invMemory)
	copy(dst.shown, t.shown)
	copy(dst.rows, t.rows)
	copy(dst.scratch.rackCPU, t.scratch.rackCPU)
	copy(dst.scratch.rackCapacity, t.scratch.rackCapacity)
	dst.podMeta = append(dst.podMeta[:0], t.podMeta...)
	dst.active = append(dst.active[:0], t.active...)
	dst.members = maps.Clone(t.members)
	for group, pods := range dst.members {
		dst.members[group] = slices.Clone(pods)
	}
}
