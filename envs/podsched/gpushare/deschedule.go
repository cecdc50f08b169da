package gpushare

import (
	"cmp"
	"context"
	"fmt"
	"math"
	"slices"
	"strings"
)

// Policies of [Simulation.Deschedule].
const (
	CosSim       = "cosSim"
	FragOnePod   = "fragOnePod"
	FragMultiPod = "fragMultiPod"
)

// DeschedulePolicies returns the names of the policies.
func DeschedulePolicies() []string { return []string{CosSim, FragOnePod, FragMultiPod} }

// CosSim considers nodes with little CPU left but much of a device.
const (
	cosSimMilliCPU = 2000
	cosSimMilliGPU = 500
)

// DescheduleOptions are the options of [Simulation.Deschedule].
type DescheduleOptions struct {
	Policy string
	Ratio  float64 // maximum part of the placed pods to evict, in [0, 1]; rounded up to whole pods

	// Evicted is called when the pods are evicted and not yet placed again; it may be nil.
	Evicted func() error
}

// Descheduling is the effect of evicting pods and placing them again.
type Descheduling struct {
	Policy  string  `json:"policy"`
	Ratio   float64 `json:"ratio"`
	Moves   []Move  `json:"moves"`   // of evicted pods, in the order of their eviction
	Before  Usage   `json:"before"`  // before the evictions
	Evicted Usage   `json:"evicted"` // after the evictions
	After   Usage   `json:"after"`   // when each evicted pod is placed again or has failed

	Retried int   `json:"retried"` // pods that had failed before and were now placed
	End     Usage `json:"end"`     // with those pods
}

// Move is an evicted pod.
type Move struct {
	Pod  string `json:"pod"`
	From string `json:"from"`
	To   string `json:"to"` // "" if it no longer fits any node
}

// Deschedule evicts placed pods by a policy, places them again in the order of their eviction, with the plugins or the
// [Decider] of s, and then retries the pods that had failed before.
//
//   - cosSim evicts one pod from each node with less than 2 cores and a device of more than 500
//     thousandths free, nodes with the most free GPU first: the pod whose requests, as a vector of
//     CPU and GPU, make the largest angle with what the node would have free without it.
//   - fragOnePod evicts one pod from each node, the most fragmented node first: the pod whose
//     eviction lowers the node's fragmentation F by the most whole thousandths of a GPU; none if
//     each would raise it.
//   - fragMultiPod does so again and again with the node that is the most fragmented by then, until
//     it finds no such pod on any.
//
// Ties go to the first node and the first pod. Deschedule panics if pods are still waiting. After an error of ctx or of
// a [Decider], pods are left waiting.
//
// Source: the deschedule policies of the artifact of Weng et al., "Beware of Fragmentation", USENIX ATC 2023. Unlike
// there, fragMultiPod sees the evictions that it has made on a node, and failed pods are retried.
func (s *Simulation) Deschedule(ctx context.Context, o DescheduleOptions) (*Descheduling, error) {
	if len(s.queue) > 0 {
		panic("gpu: Deschedule while pods are waiting")
	}
	pick, ok := map[string]func(most int) []int{CosSim: s.cosSim, FragOnePod: s.fragOnePod, FragMultiPod: s.fragMultiPod}[o.Policy]
	if !ok {
		return nil, fmt.Errorf("gpu: deschedule policy %q, want one of %s", o.Policy, strings.Join(DeschedulePolicies(), ", "))
	}
	if !(o.Ratio >= 0 && o.Ratio <= 1) {
		return nil, fmt.Errorf("gpu: deschedule ratio %v, want 0 to 1", o.Ratio)
	}
	var failed []int
	for i, p := range s.phase {
		if p == Failed {
			failed = append(failed, i)
		}
	}
	d := &Descheduling{Policy: o.Policy, Ratio: o.Ratio, Moves: []Move{}, Before: s.Usage()}
	from := slices.Clone(s.on)
	evicted := pick(int(math.Ceil(o.Ratio * float64(len(s.placed)))))
	s.queue, d.Evicted = slices.Clone(evicted), s.Usage()
	if o.Evicted != nil {
		if err := o.Evicted(); err != nil {
			return nil, err
		}
	}
	for range evicted {
		if err := s.Step(ctx); err != nil {
			return nil, err
		}
	}
	for _, i := range evicted {
		m := Move{Pod: s.pods[i].Name, From: s.nodes[from[i]].Name}
		if s.on[i] >= 0 {
			m.To = s.nodes[s.on[i]].Name
		}
		d.Moves = append(d.Moves, m)
	}
	d.After = s.Usage()
	for _, i := range failed {
		ok, err := s.decide(ctx, i)
		if err != nil {
			return nil, err
		}
		if ok {
			d.Retried++
		}
	}
	d.End = s.Usage()
	s.moved = d
	return d, nil
}

// podsOn returns the pods on each node, in order.
func (s *Simulation) podsOn() [][]int {
	on := make([][]int, len(s.nodes))
	for i, n := range s.on {
		if n >= 0 {
			on[n] = append(on[n], i)
		}
	}
	return on
}

// cosSim evicts by angles; see Deschedule.
func (s *Simulation) cosSim(most int) (evicted []int) {
	on := s.podsOn()
	for _, n := range s.nodesBy(func(n *NodeState) int64 { return n.GPU }) {
		node := &s.inventory.Nodes[n]
		if len(evicted) >= most {
			break
		}
		if node.CPU >= cosSimMilliCPU || node.Devices == 0 || s.inventory.SortedOf(n)[0] <= cosSimMilliGPU {
			continue
		}
		victim, least := -1, 1.0
		for _, i := range on[n] {
			c := s.classes[i]
			cpu, gpu := float64(c.MilliCPU), float64(c.TotalMilliGPU())
			if v := cosine(float64(node.CPU)+cpu, float64(node.GPU)+gpu, cpu, gpu); v >= 0 && v < least {
				victim, least = i, v
			}
		}
		if victim >= 0 {
			s.evict(victim)
			evicted = append(evicted, victim)
		}
	}
	return evicted
}

// cosine returns the cosine of the angle between two vectors; -1 if one is 0.
func cosine(x1, y1, x2, y2 float64) float64 {
	n := math.Sqrt(float64(x1*x1)+float64(y1*y1)) * math.Sqrt(float64(x2*x2)+float64(y2*y2))
	if n == 0 {
		return -1
	}
	return (float64(x1*x2) + float64(y1*y2)) / n
}

// nodesBy returns the nodes in descending order of a value; equal ones keep their order.
func (s *Simulation) nodesBy(value func(n *NodeState) int64) []int32 {
	order := make([]int32, len(s.nodes))
	for i := range order {
		order[i] = int32(i)
	}
	nodes := s.inventory.Nodes
	slices.SortStableFunc(order, func(a, b int32) int { return cmp.Compare(value(&nodes[b]), value(&nodes[a])) })
	return order
}

// fragOnePod evicts one pod of each node; see Deschedule.
func (s *Simulation) fragOnePod(most int) (evicted []int) {
	on := s.podsOn()
	for _, n := range s.nodesBy(func(n *NodeState) int64 { return n.Frag }) {
		if len(evicted) >= most {
			break
		}
		if victim := s.fragVictim(n, on[n]); victim >= 0 {
			s.evict(victim)
			evicted = append(evicted, victim)
		}
	}
	return evicted
}

// fragMultiPod evicts from the most fragmented node; see Deschedule.
func (s *Simulation) fragMultiPod(most int) (evicted []int) {
	on := s.podsOn()
	left := s.nodesBy(func(n *NodeState) int64 { return n.Frag })
	for len(evicted) < most && len(left) > 0 {
		n := left[0]
		left = left[1:]
		victim := s.fragVictim(n, on[n])
		if victim < 0 {
			continue // no gain remains on that node
		}
		s.evict(victim)
		evicted = append(evicted, victim)
		on[n] = slices.DeleteFunc(on[n], func(i int) bool { return i == victim })
		frag := s.inventory.Nodes[n].Frag
		k := slices.IndexFunc(left, func(o int32) bool {
			other := s.inventory.Nodes[o].Frag
			return other < frag || other == frag && o > n
		})
		if k < 0 {
			k = len(left)
		}
		left = slices.Insert(left, k, n)
	}
	return evicted
}

// fragVictim returns the pod of a node whose eviction removes the most fragmentation, in whole thousandths of a GPU, or
// -1.
func (s *Simulation) fragVictim(n int32, pods []int) int {
	victim, best := -1, int64(0)
	node := &s.inventory.Nodes[n]
	for _, i := range pods {
		if less := int64(s.inventory.Frag.Amount(node.Frag - s.inventory.without(s.classes[i], n, s.devices[i]))); less > best {
			victim, best = i, less
		}
	}
	return victim
}
