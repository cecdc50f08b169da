package pods

import (
	"context"
	"slices"
	"time"

	"github.com/kubernasium/kubernasium/envs/cluster"
	"github.com/kubernasium/kubernasium/envs/vpa/metrics"
	"github.com/kubernasium/kubernasium/envs/vpa/neighbours"
	"github.com/kubernasium/kubernasium/envs/vpa/node"
	"github.com/kubernasium/kubernasium/envs/vpa/prices"
)

// pressureLasts is the time that kubelet reports memory pressure after its last sign, its
// eviction-pressure-transition-period. In this time the scheduler binds no BestEffort pods to the node.
const pressureLasts = 5 * time.Minute

// SharedNode is the node that the controller's pods share with neighbours. The first elements of its
// slices are the controller's pods, and the others the neighbours.
type SharedNode struct {
	Drawn    *neighbours.Node // of the episode
	Own      int              // the controller's pods
	Pods     []Pod            // the neighbours
	harmed   []bool           // neighbours that are down because the controller's pods exceeded their requests
	Pressure time.Duration    // end of the memory pressure that kubelet reports

	demand               []cluster.Resources
	actual, hypothetical division
	Stats                prices.Events     // of the neighbours in the last step
	Load                 [2]metrics.Window // used CPU and memory over the node's, in the last hour
}

// division holds the node's decisions on the pods' claims in a step.
type division struct {
	claims   []node.Pod
	outcomes []outcome
	grants   []float64
	scratch  []float64
}

// outcome is the outcome of a step for a pod.
type outcome uint8

const (
	runs    outcome = iota
	killed          // by the kernel, because the node was out of memory
	evicted         // by kubelet, because the node was short of memory
)

// NewSharedNode returns the node of own pods of a controller and other pods, for steps of interval seconds.
func NewSharedNode(own, others int, interval float64) *SharedNode {
	n := own + others
	s := &SharedNode{Own: own, Pods: make([]Pod, n-own), harmed: make([]bool, n-own), demand: make([]cluster.Resources, n)}
	for _, d := range []*division{&s.actual, &s.hypothetical} {
		*d = division{claims: make([]node.Pod, n), outcomes: make([]outcome, n), grants: make([]float64, n), scratch: make([]float64, 3*n+6)}
	}
	hour := max(1, int(3600/interval))
	s.Load = [2]metrics.Window{metrics.NewWindow(hour), metrics.NewWindow(hour)}
	return s
}

func (s *SharedNode) clone() *SharedNode {
	c := *s
	c.Pods, c.harmed, c.demand = slices.Clone(s.Pods), slices.Clone(s.harmed), slices.Clone(s.demand)
	c.actual, c.hypothetical = s.actual.clone(), s.hypothetical.clone()
	c.Load = [2]metrics.Window{s.Load[0].Clone(), s.Load[1].Clone()}
	return &c
}

func (d *division) clone() division {
	return division{slices.Clone(d.claims), slices.Clone(d.outcomes), slices.Clone(d.grants), slices.Clone(d.scratch)}
}

// beginNeighbours adds the neighbours, which are running, to the cluster.
func (d *Controller) beginNeighbours(ctx context.Context, c cluster.Cluster, n *neighbours.Node) error {
	s := d.Node
	s.Drawn, s.Pressure, s.Stats = n, 0, prices.Events{}
	clear(s.harmed)
	s.Load[0].Reset()
	s.Load[1].Reset()
	for k := range s.Pods {
		p, nb := &s.Pods[k], &n.Neighbours[k]
		*p = Pod{Share: 1, neighbour: true}
		if err := d.create(ctx, c, p, nb.Requests, nb.Limits); err != nil {
			return err
		}
		p.Ready, p.started, p.Began = 0, 0, p.Scheduled
	}
	return nil
}

// pod returns the i-th pod of the node.
func (d *Controller) pod(i int) *Pod {
	if i < len(d.Pods) {
		return &d.Pods[i]
	}
	return &d.Node.Pods[i-len(d.Pods)]
}

// RunShared schedules pending pods, runs every pod of the shared node for a step, and returns the largest usage of the
// controller's pods, whose workload has the given demand. New pods of the controller get the admitted requests and
// limits; with nil they get those of their predecessors.
func (d *Controller) RunShared(ctx context.Context, c cluster.Cluster, step int, demand cluster.Resources, admitted *Recommendation) (most cluster.Resources, err error) {
	s, now := d.Node, c.State().Now
	if err := d.scheduleShared(ctx, c, admitted); err != nil {
		return most, err
	}
	d.claim(now, step, demand)
	excess := s.setHypothetical()
	s.actual.divide(s.Drawn.Capacity, d.timing.Step)
	if excess {
		s.hypothetical.divide(s.Drawn.Capacity, d.timing.Step)
	}
	s.Stats = prices.Events{}
	for i := range s.actual.claims {
		if err := d.runOne(ctx, c, now, i, excess, admitted); err != nil {
			return most, err
		}
	}
	d.ops = d.ops[:0]
	used := cluster.Resources{}
	for i := range s.actual.claims {
		p := d.pod(i)
		if i < s.Own {
			most.MilliCPU, most.MemoryBytes = max(most.MilliCPU, p.Used.MilliCPU), max(most.MemoryBytes, p.Used.MemoryBytes)
		}
		used.MilliCPU, used.MemoryBytes = used.MilliCPU+p.Used.MilliCPU, used.MemoryBytes+p.Used.MemoryBytes
		if p.Scheduled {
			d.ops = append(d.ops, cluster.Op{Kind: cluster.SetUsage, Pod: p.Index, Resources: p.Used})
		}
	}
	s.Load[0].Push(float64(used.MilliCPU) / float64(s.Drawn.Capacity.MilliCPU))
	s.Load[1].Push(float64(used.MemoryBytes) / float64(s.Drawn.Capacity.MemoryBytes))
	return most, c.Apply(ctx, d.ops)
}

// scheduleShared binds pending pods. It re-creates a pending pod of the controller if another recommendation is in
// force, since that disturbs no running container.
func (d *Controller) scheduleShared(ctx context.Context, c cluster.Cluster, admitted *Recommendation) error {
	s := d.Node
	for i := range s.actual.claims {
		p := d.pod(i)
		if p.Scheduled {
			continue
		}
		if i < s.Own && admitted != nil && (p.Requests != admitted.Target || p.Limits != admitted.Limits) {
			d.ops = append(d.ops[:0], cluster.Op{Kind: cluster.Delete, Pod: p.Index})
			if err := c.Apply(ctx, d.ops); err != nil {
				return err
			}
			if err := d.create(ctx, c, p, admitted.Target, admitted.Limits); err != nil {
				return err
			}
			continue
		}
		if err := d.schedule(ctx, c, p); err != nil {
			return err
		}
	}
	return nil
}

// claim sets every pod's demand on the node in a step. A container that its own limit kills frees its memory and claims
// nothing.
func (d *Controller) claim(now time.Duration, step int, demand cluster.Resources) {
	s := d.Node
	for i := range s.actual.claims {
		p := d.pod(i)
		p.claim = claim{shared: true}
		if i < s.Own {
			s.demand[i] = metrics.Scale(demand, p.Share)
			d.fail(i, step)
		} else {
			s.demand[i] = s.Drawn.Neighbours[i-s.Own].Demand[s.Drawn.History+step]
		}
		one := node.Pod{Class: node.Class(p.Requests, p.Limits), Requests: p.Requests}
		if p.upTime(now, now+d.timing.Step) > 0 {
			one.CPU = float64(s.demand[i].MilliCPU) + p.claim.spin
			if l := p.Limits.MilliCPU; l > 0 {
				one.CPU = min(one.CPU, float64(l))
			}
			if mem := s.demand[i].MemoryBytes + p.claim.leak; p.Limits.MemoryBytes == 0 || mem <= p.Limits.MemoryBytes {
				one.Memory = float64(mem)
			}
		}
		s.actual.claims[i] = one
	}
}

// fail adds the active faults of the i-th pod to its claim. A restart of the container ends a fault that began before.
func (d *Controller) fail(i, step int) {
	p := &d.Pods[i]
	for _, f := range d.Node.Drawn.Faults {
		if f.Pod == i && f.From <= step && step < f.To && p.started <= time.Duration(f.From)*d.timing.Step {
			p.claim.spin += f.Spin
			p.claim.leak += int64(f.Leak * float64(step-f.From+1))
		}
	}
}

// repels reports whether memory pressure keeps the scheduler from binding p, a BestEffort pod, to the node.
func (s *SharedNode) repels(p *Pod, now time.Duration) bool {
	return s != nil && now < s.Pressure && node.Class(p.Requests, p.Limits) == node.BestEffort
}

// divide decides which pods lose their memory and how the others share the CPU.
func (v *division) divide(capacity cluster.Resources, step time.Duration) {
	clear(v.outcomes)
	total := 0.0
	for i := range v.claims {
		total += v.claims[i].Memory
	}
	lose := func(i int, to outcome) bool {
		if i < 0 {
			return false
		}
		v.outcomes[i] = to
		total -= v.claims[i].Memory
		v.claims[i].Memory = 0
		return true
	}
	for total > float64(capacity.MemoryBytes) && lose(node.OOMVictim(v.claims, capacity.MemoryBytes), killed) {
	}
	threshold := float64(capacity.MemoryBytes - node.EvictionThreshold)
	for range max(1, int(step.Minutes()*node.EvictionsInMinute)) {
		if total <= threshold || !lose(node.EvictionVictim(v.claims), evicted) {
			break
		}
	}
	for i, o := range v.outcomes {
		if o == evicted {
			v.claims[i].CPU = 0
		}
	}
	node.Share(v.claims, float64(capacity.MilliCPU), v.grants, v.scratch)
}

// setHypothetical sets the claims that pods would have if the controller's pods kept to their requests, and reports
// whether these pods exceed their requests.
func (s *SharedNode) setHypothetical() (excess bool) {
	copy(s.hypothetical.claims, s.actual.claims)
	for i := range s.Own {
		p := &s.hypothetical.claims[i]
		cpu, mem := min(p.CPU, float64(p.Requests.MilliCPU)), min(p.Memory, float64(p.Requests.MemoryBytes))
		excess = excess || cpu != p.CPU || mem != p.Memory
		p.CPU, p.Memory = cpu, mem
	}
	return excess
}

// runOne runs the i-th pod of the node for a step with the amounts that the node grants.
func (d *Controller) runOne(ctx context.Context, c cluster.Cluster, now time.Duration, i int, excess bool, admitted *Recommendation) error {
	s, p := d.Node, d.pod(i)
	stats, one := &d.Last, prices.Events{}
	if i >= s.Own {
		stats = &one
	}
	o, memory := s.actual.outcomes[i], s.demand[i].MemoryBytes+p.claim.leak
	p.claim.cpu, p.claim.kill = s.actual.grants[i], o == killed
	if o == evicted {
		s.Pressure = now + pressureLasts
		if err := d.evictByNode(ctx, c, p, i < s.Own, admitted, stats); err != nil {
			return err
		}
	}
	p.run(&d.timing, now, s.demand[i], stats)
	if o == evicted { // metrics still show the pod's earlier usage
		p.OOM, p.Sampled = true, true
		p.Used = cluster.Resources{MilliCPU: s.demand[i].MilliCPU, MemoryBytes: memory}
	}
	if i >= s.Own {
		s.charge(i, excess, stats, d.timing.Step, &d.Last)
		s.Stats.Add(stats)
		if p.Serving(now + d.timing.Step) {
			s.harmed[i-s.Own] = false
		}
	}
	return nil
}

// evictByNode carries out an eviction by kubelet, which leaves the pod no time to save its work. The pod's controller
// creates another pod, which serves from the next step at the earliest.
func (d *Controller) evictByNode(ctx context.Context, c cluster.Cluster, p *Pod, own bool, admitted *Recommendation, stats *prices.Events) error {
	stats.NodeEvictions++
	stats.OOMs++
	stats.Evictions++
	stats.Restarts++
	stats.Lost += p.work
	d.ops = append(d.ops[:0], cluster.Op{Kind: cluster.Evict, Pod: p.Index}, cluster.Op{Kind: cluster.Delete, Pod: p.Index})
	if err := c.Apply(ctx, d.ops); err != nil {
		return err
	}
	requests, limits := p.Requests, p.Limits
	if own && admitted != nil {
		requests, limits = admitted.Target, admitted.Limits
	}
	claim := p.claim
	if err := d.create(ctx, c, p, requests, limits); err != nil {
		return err
	}
	p.claim = claim
	p.Ready = max(p.Ready, c.State().Now+d.timing.Step)
	p.started = p.Ready
	return nil
}

// charge adds to to.Harm the damage to the i-th pod, a neighbour, because the controller's pods exceed their requests:
// the difference to its state if they kept to them, and the time until it serves again.
func (s *SharedNode) charge(i int, excess bool, stats *prices.Events, step time.Duration, to *prices.Events) {
	mean, hours := s.Drawn.Neighbours[i-s.Own].Mean, step.Hours()
	if excess {
		was, would := s.actual.outcomes[i], s.hypothetical.outcomes[i]
		switch {
		case was == runs && would == runs:
			to.Harm += prices.Unmet * max(s.hypothetical.grants[i]-s.actual.grants[i], 0) / 1000 * hours
		case was != runs && would == runs:
			s.harmed[i-s.Own] = true
			to.Harm += prices.OOMHours*mean + prices.Unmet*stats.Lost/3600
			if was == evicted {
				to.Harm += prices.EvictHours * mean
			}
		}
	}
	if s.harmed[i-s.Own] {
		to.Harm += prices.Unmet * stats.DownCPU / 1000 * hours
	}
}
