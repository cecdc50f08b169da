package vpa

import (
	"context"

	"github.com/kubernasium/kubernasium/envs/cluster"
)

// createAll creates the pods with their requests at the start. They have been serving: their
// usage is the last of the history, as far as limits permit.
func (t *Task) createAll(ctx context.Context, c cluster.Cluster) error {
	for i := range t.pods {
		p := &t.pods[i]
		if err := t.create(ctx, c, p, t.initial, t.limits); err != nil {
			return err
		}
		p.ready, p.started, p.began = 0, 0, p.scheduled
		if !p.scheduled {
			continue
		}
		p.used = scaled(t.demand[t.src.history-1], p.share)
		if l := p.limits.MilliCPU; l > 0 {
			p.used.MilliCPU = min(p.used.MilliCPU, l)
		}
		if l := p.limits.MemoryBytes; l > 0 {
			p.used.MemoryBytes = min(p.used.MemoryBytes, l)
		}
		t.ops = append(t.ops[:0], cluster.Op{Kind: cluster.SetUsage, Pod: p.index, Resources: p.used})
		if err := c.Apply(ctx, t.ops); err != nil {
			return err
		}
	}
	return nil
}

// admitAll re-creates every pod with the target, for mode Initial: the pods are created when
// the first recommendation is there. It costs nothing.
func (t *Task) admitAll(ctx context.Context, c cluster.Cluster) error {
	for i := range t.pods {
		p := &t.pods[i]
		t.ops = append(t.ops[:0], cluster.Op{Kind: cluster.Delete, Pod: p.index})
		if err := c.Apply(ctx, t.ops); err != nil {
			return err
		}
		if err := t.create(ctx, c, p, t.rec.Target, t.limitsFor(&t.rec)); err != nil {
			return err
		}
		p.ready, p.started, p.began = 0, 0, p.scheduled
	}
	return nil
}

// runPods runs every pod for a step, and records what they use.
func (t *Task) runPods(ctx context.Context, c cluster.Cluster) error {
	now := c.State().Now
	demand := t.demand[t.src.history+t.steps]
	var most cluster.Resources
	for i := range t.pods {
		if !t.pods[i].scheduled {
			if err := t.schedule(ctx, c, &t.pods[i]); err != nil {
				return err
			}
		}
	}
	t.ops = t.ops[:0]
	for i := range t.pods {
		p := &t.pods[i]
		p.run(t, now, scaled(demand, p.share), &t.last)
		most.MilliCPU = max(most.MilliCPU, p.used.MilliCPU)
		most.MemoryBytes = max(most.MemoryBytes, p.used.MemoryBytes)
		if p.scheduled {
			t.ops = append(t.ops, cluster.Op{Kind: cluster.SetUsage, Pod: p.index, Resources: p.used})
		}
	}
	t.observed(most)
	return c.Apply(ctx, t.ops)
}

// guaranteed reports whether a pod is of the QoS class Guaranteed.
func guaranteed(requests, limits cluster.Resources) bool {
	return requests == limits
}

// resize brings a pod to what it wants, or finds out what is in the way.
func (t *Task) resize(ctx context.Context, c cluster.Cluster, p *pod) error {
	s := c.State()
	n, free := &s.Nodes[0], s.Free(0)
	want, limits := p.want.Target, p.want.Limits
	switch {
	case want.MilliCPU > n.Allocatable.MilliCPU || want.MemoryBytes > n.Allocatable.MemoryBytes:
		p.resize, p.forgotten = resizeInfeasible, want
		return nil
	case want.MilliCPU > free.MilliCPU+p.requests.MilliCPU || want.MemoryBytes > free.MemoryBytes+p.requests.MemoryBytes:
		p.resize = resizeDeferred
		return nil
	case limits.MemoryBytes > 0 && limits.MemoryBytes < p.used.MemoryBytes && t.opts.ResizePolicy == ResizeNotRequired:
		p.resize = resizeInProgress // kubelet does not lower a limit below what is in use
		return nil
	}
	p.resize, p.requests, p.limits = resizeNone, want, limits
	t.last.resizes++
	if t.opts.ResizePolicy == ResizeRestartContainer {
		p.restart(t, s.Now, &t.last)
	}
	t.ops = append(t.ops[:0], cluster.Op{Kind: cluster.Resize, Pod: p.index, Resources: want, Limits: limits})
	return c.Apply(ctx, t.ops)
}

// retryResizes lets kubelet try again what it had deferred or has in progress.
func (t *Task) retryResizes(ctx context.Context, c cluster.Cluster) error {
	for i := range t.pods {
		p := &t.pods[i]
		if p.resize == resizeDeferred || p.resize == resizeInProgress {
			if err := t.resize(ctx, c, p); err != nil {
				return err
			}
		}
	}
	return nil
}

// evict deletes a pod, and its controller creates another, which admission gives the target.
func (t *Task) evict(ctx context.Context, c cluster.Cluster, p *pod) error {
	t.last.evictions++
	t.last.restarts++
	t.ops = append(t.ops[:0], cluster.Op{Kind: cluster.Evict, Pod: p.index}, cluster.Op{Kind: cluster.Delete, Pod: p.index})
	if err := c.Apply(ctx, t.ops); err != nil {
		return err
	}
	return t.create(ctx, c, p, t.rec.Target, t.limitsFor(&t.rec))
}

// create makes a new pod in the place of p.
func (t *Task) create(ctx context.Context, c cluster.Cluster, p *pod, requests, limits cluster.Resources) error {
	now := c.State().Now
	*p = pod{index: int32(len(c.State().Pods)), share: p.share, requests: requests, limits: limits, created: now}
	t.ops = append(t.ops[:0], cluster.Op{Kind: cluster.AddPod, Meta: t.meta[1], Resources: requests, Limits: limits})
	if err := c.Apply(ctx, t.ops); err != nil {
		return err
	}
	return t.schedule(ctx, c, p)
}

// schedule binds a pending pod if the node has room.
func (t *Task) schedule(ctx context.Context, c cluster.Cluster, p *pod) error {
	if p.scheduled || !c.State().Fits(p.index, 0) {
		return nil
	}
	p.scheduled = true
	p.ready = c.State().Now + t.startup
	p.started = p.ready
	t.ops = append(t.ops[:0], cluster.Op{Kind: cluster.Bind, Pod: p.index})
	return c.Apply(ctx, t.ops)
}
