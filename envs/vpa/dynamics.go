package vpa

import (
	"context"
	"slices"
	"time"

	"github.com/kubernasium/kubernasium/envs/cluster"
	"github.com/kubernasium/kubernasium/envs/vpa/metrics"
	"github.com/kubernasium/kubernasium/envs/vpa/neighbours"
	"github.com/kubernasium/kubernasium/envs/vpa/prices"
)

// dynamics simulates the controller, the scheduler and kubelet for the pods of one controller on
// the one node of a cluster.
type dynamics struct {
	timing         timing
	resizeRestarts bool // a resize in place restarts the container
	pods           []pod
	last           prices.Events // the last step
	meta           [3]int32      // of the node, of the pods and of their neighbours
	shared         *sharedNode   // nil if the pods have the node to themselves
	ops            []cluster.Op
}

func newDynamics(o *Options, step time.Duration) dynamics {
	return dynamics{
		timing:         timing{step: step, startup: seconds(o.Startup), checkpoint: seconds(o.Checkpoint)},
		resizeRestarts: o.ResizePolicy == ResizeRestartContainer,
		pods:           make([]pod, o.Pods),
	}
}

func (d *dynamics) clone() dynamics {
	c := *d
	c.pods, c.ops = slices.Clone(d.pods), nil
	if d.shared != nil {
		c.shared = d.shared.clone()
	}
	return c
}

// start describes the pods and their node at the start of an episode.
type start struct {
	node             cluster.Resources // allocatable
	shares           []float64         // of the demand, for each pod
	demand           cluster.Resources // before the first step
	requests, limits cluster.Resources
	shared           *neighbours.Node // read if the pods share their node
}

// begin adds the node and the pods to the cluster. The pods have been serving: their usage is the
// demand before the first step, as far as limits permit.
func (d *dynamics) begin(ctx context.Context, c cluster.Cluster, s *start) error {
	d.last = prices.Events{}
	for i := range d.pods {
		d.pods[i] = pod{share: s.shares[i]}
	}
	if d.meta == [3]int32{} {
		names := c.State()
		d.meta = [3]int32{names.Intern(cluster.Meta{Name: "vpa-node"}), names.Intern(cluster.Meta{Name: "app"}), names.Intern(cluster.Meta{Name: "neighbour"})}
	}
	d.ops = append(d.ops[:0], cluster.Op{Kind: cluster.AddNode, Meta: d.meta[0], Resources: s.node})
	if err := c.Apply(ctx, d.ops); err != nil {
		return err
	}
	if d.shared != nil {
		if err := d.beginNeighbours(ctx, c, s.shared); err != nil {
			return err
		}
	}
	for i := range d.pods {
		p := &d.pods[i]
		if err := d.create(ctx, c, p, s.requests, s.limits); err != nil {
			return err
		}
		p.ready, p.started, p.began = 0, 0, p.scheduled
		if !p.scheduled {
			continue
		}
		p.used = metrics.Scale(s.demand, p.share)
		if l := p.limits.MilliCPU; l > 0 {
			p.used.MilliCPU = min(p.used.MilliCPU, l)
		}
		if l := p.limits.MemoryBytes; l > 0 {
			p.used.MemoryBytes = min(p.used.MemoryBytes, l)
		}
		d.ops = append(d.ops[:0], cluster.Op{Kind: cluster.SetUsage, Pod: p.index, Resources: p.used})
		if err := c.Apply(ctx, d.ops); err != nil {
			return err
		}
	}
	return nil
}

// admitAll creates every pod again with the admitted requests, for mode Initial, which applies the
// first recommendation to pods at their creation. It costs nothing.
func (d *dynamics) admitAll(ctx context.Context, c cluster.Cluster, admitted *Recommendation) error {
	for i := range d.pods {
		p := &d.pods[i]
		d.ops = append(d.ops[:0], cluster.Op{Kind: cluster.Delete, Pod: p.index})
		if err := c.Apply(ctx, d.ops); err != nil {
			return err
		}
		if err := d.create(ctx, c, p, admitted.Target, admitted.Limits); err != nil {
			return err
		}
		p.ready, p.started, p.began = 0, 0, p.scheduled
	}
	return nil
}

// run schedules pending pods, runs every pod for a step of the demand, and returns the largest
// usage.
func (d *dynamics) run(ctx context.Context, c cluster.Cluster, demand cluster.Resources) (most cluster.Resources, err error) {
	now := c.State().Now
	for i := range d.pods {
		if !d.pods[i].scheduled {
			if err := d.schedule(ctx, c, &d.pods[i]); err != nil {
				return most, err
			}
		}
	}
	d.ops = d.ops[:0]
	for i := range d.pods {
		p := &d.pods[i]
		p.run(&d.timing, now, metrics.Scale(demand, p.share), &d.last)
		most.MilliCPU = max(most.MilliCPU, p.used.MilliCPU)
		most.MemoryBytes = max(most.MemoryBytes, p.used.MemoryBytes)
		if p.scheduled {
			d.ops = append(d.ops, cluster.Op{Kind: cluster.SetUsage, Pod: p.index, Resources: p.used})
		}
	}
	return most, c.Apply(ctx, d.ops)
}

// resize gives a pod the resources of the recommendation, or records why kubelet cannot.
func (d *dynamics) resize(ctx context.Context, c cluster.Cluster, p *pod) error {
	s := c.State()
	n, free := &s.Nodes[0], s.Free(0)
	want, limits := p.want.Target, p.want.Limits
	switch {
	case want.MilliCPU > n.Allocatable.MilliCPU || want.MemoryBytes > n.Allocatable.MemoryBytes:
		p.resize, p.infeasible = resizeInfeasible, want
		return nil
	case want.MilliCPU > free.MilliCPU+p.requests.MilliCPU || want.MemoryBytes > free.MemoryBytes+p.requests.MemoryBytes:
		p.resize = resizeDeferred
		return nil
	case limits.MemoryBytes > 0 && limits.MemoryBytes < p.used.MemoryBytes && !d.resizeRestarts:
		p.resize = resizeInProgress // kubelet does not lower a limit below the memory in use
		return nil
	}
	p.resize, p.requests, p.limits = resizeNone, want, limits
	d.last.Resizes++
	if d.resizeRestarts {
		p.restart(&d.timing, s.Now, &d.last)
	}
	d.ops = append(d.ops[:0], cluster.Op{Kind: cluster.Resize, Pod: p.index, Resources: want, Limits: limits})
	return c.Apply(ctx, d.ops)
}

// retryResizes retries the resizes that are deferred or in progress.
func (d *dynamics) retryResizes(ctx context.Context, c cluster.Cluster) error {
	for i := range d.pods {
		p := &d.pods[i]
		if p.resize == resizeDeferred || p.resize == resizeInProgress {
			if err := d.resize(ctx, c, p); err != nil {
				return err
			}
		}
	}
	return nil
}

// evict deletes a pod; its controller creates another with the admitted requests.
func (d *dynamics) evict(ctx context.Context, c cluster.Cluster, p *pod, admitted *Recommendation) error {
	d.last.Evictions++
	d.last.Restarts++
	d.ops = append(d.ops[:0], cluster.Op{Kind: cluster.Evict, Pod: p.index}, cluster.Op{Kind: cluster.Delete, Pod: p.index})
	if err := c.Apply(ctx, d.ops); err != nil {
		return err
	}
	return d.create(ctx, c, p, admitted.Target, admitted.Limits)
}

// create makes a new pod in the place of p.
func (d *dynamics) create(ctx context.Context, c cluster.Cluster, p *pod, requests, limits cluster.Resources) error {
	now := c.State().Now
	*p = pod{index: int32(len(c.State().Pods)), share: p.share, neighbour: p.neighbour, requests: requests, limits: limits, created: now}
	meta := d.meta[1]
	if p.neighbour {
		meta = d.meta[2]
	}
	d.ops = append(d.ops[:0], cluster.Op{Kind: cluster.AddPod, Meta: meta, Resources: requests, Limits: limits})
	if err := c.Apply(ctx, d.ops); err != nil {
		return err
	}
	return d.schedule(ctx, c, p)
}

// schedule binds a pending pod if the node has room.
func (d *dynamics) schedule(ctx context.Context, c cluster.Cluster, p *pod) error {
	if p.scheduled || !c.State().Fits(p.index, 0) || d.shared.repels(p, c.State().Now) {
		return nil
	}
	p.scheduled = true
	p.ready = c.State().Now + d.timing.startup
	p.started = p.ready
	d.ops = append(d.ops[:0], cluster.Op{Kind: cluster.Bind, Pod: p.index})
	return c.Apply(ctx, d.ops)
}
