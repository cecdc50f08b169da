// Package pods represents the tasks of a gang-scheduled job as pods on one node of a cluster.
package pods

import (
	"cmp"
	"context"
	"fmt"
	"slices"
	"time"

	"github.com/kubernasium/kubernasium/envs/cluster"
	"github.com/kubernasium/kubernasium/envs/gang/profile"
)

// Set holds the pods of a job, one of each task.
type Set struct {
	model *profile.Model
	meta  []int32 // of the node and of each task
	pods  []int32 // indices of the current pods, one of each task
	ops   []cluster.Op
}

// New returns the set of a job with the tasks and shares of a model. It has no pods before Create.
func New(m *profile.Model) *Set { return &Set{model: m, pods: make([]int32, m.NumTasks())} }

// Clone returns a copy, for a copy of the cluster.
func (s *Set) Clone() *Set {
	c := *s
	c.pods, c.ops = slices.Clone(s.pods), nil
	return &c
}

// Create adds the node, whose cores are the budget, and a running pod for each task, to an empty cluster.
func (s *Set) Create(ctx context.Context, c cluster.Cluster, levels []uint16) error {
	s.addNode(c)
	for k, l := range levels {
		s.addPod(k, l, int32(k))
	}
	return c.Apply(ctx, s.ops)
}

// addNode appends the op that creates the node.
func (s *Set) addNode(c cluster.Cluster) {
	if s.meta == nil {
		s.meta = append(s.meta, c.State().Intern(cluster.Meta{Name: "gang-node"}))
		for _, task := range s.model.Profile().Tasks {
			s.meta = append(s.meta, c.State().Intern(cluster.Meta{Name: task}))
		}
	}
	s.ops = append(s.ops[:0], cluster.Op{
		Kind: cluster.AddNode, Meta: s.meta[0], Resources: cluster.Resources{MilliCPU: int64(s.model.Config().TotalMilliCPU)},
	})
}

// addPod appends the ops that create task k with the shares of level as pod number pod.
func (s *Set) addPod(k int, level uint16, pod int32) {
	s.pods[k] = pod
	s.ops = append(s.ops,
		cluster.Op{Kind: cluster.AddPod, Pod: pod, Meta: s.meta[k+1], Resources: s.requests(level)},
		cluster.Op{Kind: cluster.Bind, Pod: pod, Node: 0})
}

func (s *Set) requests(level uint16) cluster.Resources {
	return cluster.Resources{MilliCPU: int64(s.model.MilliCPU(int(level)))}
}

// Resize resizes pods in place from levels to next. Shrinking comes before growth, so that the node's cores always
// suffice.
func (s *Set) Resize(ctx context.Context, c cluster.Cluster, levels, next []uint16) error {
	s.ops = s.ops[:0]
	for _, grow := range []bool{false, true} {
		for k, l := range next {
			if l != levels[k] && l > levels[k] == grow {
				s.ops = append(s.ops, cluster.Op{Kind: cluster.Resize, Pod: s.pods[k], Resources: s.requests(l)})
			}
		}
	}
	return c.Apply(ctx, s.ops)
}

// Recreate deletes the pods of all tasks, or of those whose level changes, and then creates them again.
func (s *Set) Recreate(ctx context.Context, c cluster.Cluster, levels, next []uint16, all bool) error {
	s.ops = s.ops[:0]
	for k, l := range next {
		if all || l != levels[k] {
			s.ops = append(s.ops, cluster.Op{Kind: cluster.Delete, Pod: s.pods[k]})
		}
	}
	if len(s.ops) == 0 {
		return nil
	}
	pod := int32(len(c.State().Pods))
	for k, l := range next {
		if all || l != levels[k] {
			s.addPod(k, l, pod)
			pod++
		}
	}
	return c.Apply(ctx, s.ops)
}

// Created returns when the pod of each task was created.
func (s *Set) Created(state *cluster.State) []time.Duration {
	created := make([]time.Duration, len(s.pods))
	for k, p := range s.pods {
		created[k] = state.Pods[p].Created
	}
	return created
}

// Restore resets c and restores its state at the time now: pods with these levels and these creation times. It does not
// re-create pods that were deleted before, so the others have other indices. Restore returns an error if the cluster
// rejects an op, for example because pods exceed the node's cores.
func (s *Set) Restore(ctx context.Context, c cluster.Cluster, levels []uint16, created []time.Duration, now time.Duration) error {
	if len(levels) != len(s.pods) || len(created) != len(s.pods) {
		return fmt.Errorf("gang: %d levels and %d times for %d tasks", len(levels), len(created), len(s.pods))
	}
	if err := c.Reset(ctx); err != nil {
		return err
	}
	order := make([]int, len(created))
	for k := range order {
		order[k] = k
	}
	slices.SortStableFunc(order, func(a, b int) int { return cmp.Compare(created[a], created[b]) })
	s.addNode(c)
	at := time.Duration(0)
	for i, k := range order {
		if created[k] != at {
			if err := s.applyAndAdvance(ctx, c, created[k]-at); err != nil {
				return err
			}
			at = created[k]
		}
		s.addPod(k, levels[k], int32(i))
	}
	return s.applyAndAdvance(ctx, c, now-at)
}

// applyAndAdvance applies the pending ops and advances c by d.
func (s *Set) applyAndAdvance(ctx context.Context, c cluster.Cluster, d time.Duration) error {
	if err := c.Apply(ctx, s.ops); err != nil {
		return err
	}
	s.ops = s.ops[:0]
	return c.Advance(ctx, d)
}
