package pods

import (
	"context"
	"slices"

	"github.com/kubernasium/kubernasium/envs/cluster"
	"github.com/kubernasium/kubernasium/envs/vpa/metrics"
	"github.com/kubernasium/kubernasium/envs/vpa/neighbours"
	"github.com/kubernasium/kubernasium/envs/vpa/prices"
)

// Controller simulates the controller, the scheduler and kubelet for the pods of one controller on the only node of a
// cluster.
type Controller struct {
	timing         Timing
	resizeRestarts bool // a resize in place restarts the container
	Pods           []Pod
	Last           prices.Events // of the last step; the caller resets them before the next
	meta           [3]int32      // of the node, of the pods and of their neighbours
	Node           *SharedNode   // nil if the pods have the node to themselves
	ops            []cluster.Op
}

// NewController returns a simulation of n pods.
func NewController(o *Options, n int, t Timing) Controller {
	return Controller{timing: t, resizeRestarts: o.ResizePolicy == ResizeRestartContainer, Pods: make([]Pod, n)}
}

// Clone returns a deep copy. A shared node's copy still reads the original's [SharedNode.Drawn].
func (d *Controller) Clone() Controller {
	c := *d
	c.Pods, c.ops = slices.Clone(d.Pods), nil
	if d.Node != nil {
		c.Node = d.Node.clone()
	}
	return c
}

// Start describes the pods and their node at the start of an episode.
type Start struct {
	Node             cluster.Resources // allocatable
	Shares           []float64         // of the demand, for each pod
	Demand           cluster.Resources // before the first step
	Requests, Limits cluster.Resources
	Shared           *neighbours.Node // read if the pods share their node
}

// Begin adds the node and the pods to the cluster. The pods have been serving before: their usage is the demand before
// the first step, within their limits.
func (d *Controller) Begin(ctx context.Context, c cluster.Cluster, s *Start) error {
	d.Last = prices.Events{}
	for i := range d.Pods {
		d.Pods[i] = Pod{Share: s.Shares[i]}
	}
	if d.meta == [3]int32{} {
		names := c.State()
		d.meta = [3]int32{names.Intern(cluster.Meta{Name: "vpa-node"}), names.Intern(cluster.Meta{Name: "app"}), names.Intern(cluster.Meta{Name: "neighbour"})}
	}
	d.ops = append(d.ops[:0], cluster.Op{Kind: cluster.AddNode, Meta: d.meta[0], Resources: s.Node})
	if err := c.Apply(ctx, d.ops); err != nil {
		return err
	}
	if d.Node != nil {
		if err := d.beginNeighbours(ctx, c, s.Shared); err != nil {
			return err
		}
	}
	for i := range d.Pods {
		p := &d.Pods[i]
		if err := d.create(ctx, c, p, s.Requests, s.Limits); err != nil {
			return err
		}
		p.Ready, p.started, p.Began = 0, 0, p.Scheduled
		if !p.Scheduled {
			continue
		}
		p.Used = metrics.Scale(s.Demand, p.Share)
		if l := p.Limits.MilliCPU; l > 0 {
			p.Used.MilliCPU = min(p.Used.MilliCPU, l)
		}
		if l := p.Limits.MemoryBytes; l > 0 {
			p.Used.MemoryBytes = min(p.Used.MemoryBytes, l)
		}
		d.ops = append(d.ops[:0], cluster.Op{Kind: cluster.SetUsage, Pod: p.Index, Resources: p.Used})
		if err := c.Apply(ctx, d.ops); err != nil {
			return err
		}
	}
	return nil
}

// AdmitAll creates every pod again with the admitted requests, for mode Initial, which applies the
// first recommendation to pods at their creation. It costs nothing.
func (d *Controller) AdmitAll(ctx context.Context, c cluster.Cluster, admitted *Recommendation) error {
	for i := range d.Pods {
		p := &d.Pods[i]
		d.ops = append(d.ops[:0], cluster.Op{Kind: cluster.Delete, Pod: p.Index})
		if err := c.Apply(ctx, d.ops); err != nil {
			return err
		}
		if err := d.create(ctx, c, p, admitted.Target, admitted.Limits); err != nil {
			return err
		}
		p.Ready, p.started, p.Began = 0, 0, p.Scheduled
	}
	return nil
}

// Run schedules pending pods, runs every pod for a step of the demand, and returns the largest
// usage.
func (d *Controller) Run(ctx context.Context, c cluster.Cluster, demand cluster.Resources) (most cluster.Resources, err error) {
	now := c.State().Now
	for i := range d.Pods {
		if !d.Pods[i].Scheduled {
			if err := d.schedule(ctx, c, &d.Pods[i]); err != nil {
				return most, err
			}
		}
	}
	d.ops = d.ops[:0]
	for i := range d.Pods {
		p := &d.Pods[i]
		p.run(&d.timing, now, metrics.Scale(demand, p.Share), &d.Last)
		most.MilliCPU = max(most.MilliCPU, p.Used.MilliCPU)
		most.MemoryBytes = max(most.MemoryBytes, p.Used.MemoryBytes)
		if p.Scheduled {
			d.ops = append(d.ops, cluster.Op{Kind: cluster.SetUsage, Pod: p.Index, Resources: p.Used})
		}
	}
	return most, c.Apply(ctx, d.ops)
}

// Update lets the updater act on the pods.
func (d *Controller) Update(ctx context.Context, c cluster.Cluster, u *Updater, admitted *Recommendation) error {
	now := c.State().Now
	return u.Update(d.Pods, len(d.Pods), admitted, now, func(i int, evict bool) error {
		p := &d.Pods[i]
		if evict {
			return d.evict(ctx, c, p, admitted)
		}
		p.Since = now
		return d.resize(ctx, c, p)
	})
}

// resize gives a pod the resources of the recommendation, or records why kubelet cannot.
func (d *Controller) resize(ctx context.Context, c cluster.Cluster, p *Pod) error {
	s := c.State()
	n, free := &s.Nodes[0], s.Free(0)
	want, limits := p.Want.Target, p.Want.Limits
	switch {
	case want.MilliCPU > n.Allocatable.MilliCPU || want.MemoryBytes > n.Allocatable.MemoryBytes:
		p.Resize, p.Infeasible = ResizeInfeasible, want
		return nil
	case want.MilliCPU > free.MilliCPU+p.Requests.MilliCPU || want.MemoryBytes > free.MemoryBytes+p.Requests.MemoryBytes:
		p.Resize = ResizeDeferred
		return nil
	case limits.MemoryBytes > 0 && limits.MemoryBytes < p.Used.MemoryBytes && !d.resizeRestarts:
		p.Resize = ResizeInProgress // kubelet does not lower a limit below the memory in use
		return nil
	}
	p.Resize, p.Requests, p.Limits = ResizeNone, want, limits
	d.Last.Resizes++
	if d.resizeRestarts {
		p.restart(&d.timing, s.Now, &d.Last)
	}
	d.ops = append(d.ops[:0], cluster.Op{Kind: cluster.Resize, Pod: p.Index, Resources: want, Limits: limits})
	return c.Apply(ctx, d.ops)
}

// RetryResizes retries the resizes that are deferred or in progress.
func (d *Controller) RetryResizes(ctx context.Context, c cluster.Cluster) error {
	for i := range d.Pods {
		p := &d.Pods[i]
		if p.Resize == ResizeDeferred || p.Resize == ResizeInProgress {
			if err := d.resize(ctx, c, p); err != nil {
				return err
			}
		}
	}
	return nil
}

// evict deletes a pod; its controller creates another one with the admitted requests.
func (d *Controller) evict(ctx context.Context, c cluster.Cluster, p *Pod, admitted *Recommendation) error {
	d.Last.Evictions++
	d.Last.Restarts++
	d.ops = append(d.ops[:0], cluster.Op{Kind: cluster.Evict, Pod: p.Index}, cluster.Op{Kind: cluster.Delete, Pod: p.Index})
	if err := c.Apply(ctx, d.ops); err != nil {
		return err
	}
	return d.create(ctx, c, p, admitted.Target, admitted.Limits)
}

// create creates a new pod in place of p.
func (d *Controller) create(ctx context.Context, c cluster.Cluster, p *Pod, requests, limits cluster.Resources) error {
	now := c.State().Now
	*p = Pod{Index: int32(len(c.State().Pods)), Share: p.Share, neighbour: p.neighbour, Requests: requests, Limits: limits, Created: now}
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
func (d *Controller) schedule(ctx context.Context, c cluster.Cluster, p *Pod) error {
	if p.Scheduled || !c.State().Fits(p.Index, 0) || d.Node.repels(p, c.State().Now) {
		return nil
	}
	p.Scheduled = true
	p.Ready = c.State().Now + d.timing.Startup
	p.started = p.Ready
	d.ops = append(d.ops[:0], cluster.Op{Kind: cluster.Bind, Pod: p.Index})
	return c.Apply(ctx, d.ops)
}
