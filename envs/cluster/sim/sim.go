// Package sim is the cluster in memory: a [cluster.State] and a heap of pending completions. It
// adds nothing to the State's rules and little to their cost.
package sim

import (
	"context"
	"time"

	"github.com/kubernasium/kubernasium/envs/cluster"
)

var _ cluster.Cluster = (*Cluster)(nil)

// Cluster is a cluster in memory. It never blocks and so ignores contexts. Once
// its slices have grown, Reset, Apply of legal ops and Advance allocate nothing. New makes
// one; the zero Cluster is not usable.
type Cluster struct {
	state *cluster.State

	// events holds a completion for each bound pod that has a duration. The event of a stopped pod stays until its
	// time. A pod is bound at most once, so its phase shows that the event is void.
	events cluster.Departures
}

// New returns an empty cluster at time zero.
func New() *Cluster { return &Cluster{state: cluster.NewState()} }

// Of returns a cluster in the state s, which it copies.
func Of(s *cluster.State) *Cluster {
	c := &Cluster{state: s.Clone()}
	for i := range c.state.Pods {
		if at, ok := c.state.Pods[i].EndsAt(); ok && c.state.Pods[i].Phase == cluster.Running {
			c.events.Push(cluster.Departure{At: at, Pod: int32(i)})
		}
	}
	return c
}

// Reset implements [cluster.Cluster]. It returns no error.
func (c *Cluster) Reset(context.Context) error {
	c.state.Reset()
	c.events = c.events[:0]
	return nil
}

// checkEvery is the number of ops between checks of the context.
const checkEvery = 1 << 12

// Apply implements [cluster.Cluster]. Its error is an [*cluster.OpError], or that of ctx, which it checks before the
// first op and after every checkEvery ops.
func (c *Cluster) Apply(ctx context.Context, ops []cluster.Op) error {
	for i := range ops {
		if i%checkEvery == 0 && ctx.Err() != nil {
			return ctx.Err()
		}
		op := &ops[i]
		if err := c.state.Apply(op); err != nil {
			return &cluster.OpError{Index: i, Op: *op, Err: err}
		}
		if op.Kind == cluster.Bind {
			if at, ok := c.state.Pods[op.Pod].EndsAt(); ok {
				c.events.Push(cluster.Departure{At: at, Pod: op.Pod})
			}
		}
	}
	return nil
}

// Advance implements [cluster.Cluster]. For a negative d, or one that leads past
// [cluster.MaxTime], it returns an error that wraps [cluster.ErrInvalid] and changes nothing; likewise when
// ctx has ended.
func (c *Cluster) Advance(ctx context.Context, d time.Duration) error {
	if err := ctx.Err(); err != nil {
		return err
	}
	s := c.state
	if err := s.CheckAdvance(d); err != nil {
		return err
	}
	until := s.Now + d
	for len(c.events) > 0 && c.events[0].At <= until {
		e := c.events.Pop()
		if s.Pods[e.Pod].Phase != cluster.Running {
			continue
		}
		s.Now = e.At
		if err := s.Complete(e.Pod); err != nil {
			return err
		}
	}
	s.Now = until
	return nil
}

// State implements [cluster.Cluster]. It is the same pointer for the life of the Cluster.
func (c *Cluster) State() *cluster.State { return c.state }

// Close implements [cluster.Cluster]. It does nothing.
func (c *Cluster) Close() error { return nil }

// Clone returns a deep copy of c: no later change of either shows in the other.
func (c *Cluster) Clone() *Cluster {
	dst := &Cluster{state: new(cluster.State)}
	c.CloneInto(dst)
	return dst
}

// CloneInto makes dst, which comes from New or Clone, a deep copy of c, reusing the memory
// that dst has. Several goroutines may clone one Cluster at a time.
func (c *Cluster) CloneInto(dst *Cluster) {
	if c == dst {
		return
	}
	c.state.CloneInto(dst.state)
	dst.events = append(dst.events[:0], c.events...)
}
