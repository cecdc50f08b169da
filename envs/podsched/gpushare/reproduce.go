package gpushare

import (
	"fmt"
	"math"
)

// Run is the outcome of a policy on a workload.
type Run struct {
	Policy    string    `json:"policy"`
	Seed      int64     `json:"seed"`
	Alloc     []float64 `json:"alloc"` // [x]: allocated GPUs at x % arrived, in percent of the cluster's
	Frag      []float64 `json:"frag"`  // [x]: fragmentation F at x % arrived, likewise
	MilliGPU  int64     `json:"milli_gpu"`
	MilliCPU  int64     `json:"milli_cpu"`
	MemoryMiB int64     `json:"memory_mib"`
	Pods      int       `json:"pods"`
	Failed    int       `json:"failed"`
}

// Reproduce runs a policy on the reference's workload of a random seed, as for the published tables: pods arrive one
// after the other, and each is placed at once or never.
func Reproduce(nodes []Node, pods []Pod, policy string, seed int64, ratio float64) (*Run, error) {
	w := ReferenceWorkload(nodes, pods, seed, ratio)
	if capacity(nodes) == 0 {
		return nil, fmt.Errorf("gpu: none of the %d nodes has a GPU", len(nodes))
	}
	s, err := NewReplay(w, policy)
	if err != nil {
		return nil, err
	}
	top := 100
	if ratio > 0 {
		top = int(math.Round(100 * ratio))
	}
	cur := NewCurve(top, s.inventory.Size.MilliGPU)
	failed := 0
	for range w.Arrivals {
		if node, _ := s.Next(); node < 0 {
			failed++
		}
		cur.Add(s.arrived, &s.inventory)
	}
	run := cur.Run(&s.inventory)
	run.Policy, run.Seed, run.Pods, run.Failed = policy, seed, len(w.Arrivals), failed
	return run, nil
}

// Replay runs a workload on arrays, without a cluster.
type Replay struct {
	inventory Inventory
	placer    Placer
	Classes   []Class // by arrival
	pod       int
	arrived   int64 // thousandths of a GPU
}

// NewReplay returns the replay of w by the policy called policy.
func NewReplay(w *Workload, policy string) (*Replay, error) {
	cat, err := NewCatalogue(w.Nodes, w.Arrivals)
	if err != nil {
		return nil, err
	}
	s := &Replay{}
	f := NewFragmenter(TypicalPods(Kinds(w.Types)), len(w.Types), &cat.Models)
	s.inventory.Reset(w.Nodes, cat, f)
	p, err := PolicyByName(policy)
	if err != nil {
		return nil, err
	}
	s.placer = p.New(&s.inventory, NewReserve(Kinds(w.Types), &cat.Models), w.rng.Intn)
	for i := range w.Arrivals {
		s.Classes = append(s.Classes, cat.Classes[cat.Of[w.Arrivals[i].Shape]])
	}
	return s, nil
}

// Next places the next pod and returns its node, or -1 if it failed.
func (s *Replay) Next() (node int32, devices uint64) {
	c := &s.Classes[s.pod]
	s.pod++
	s.arrived += c.TotalMilliGPU()
	if node, devices = s.placer.Choose(c); node >= 0 {
		s.inventory.Place(c, node, devices)
	}
	return node, devices
}
