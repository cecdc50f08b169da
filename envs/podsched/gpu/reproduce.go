package gpu

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

// Reproduce plays a policy on the reference's workload of a random seed, as the published
// tables were made: pods arrive one after the other, and each is placed at once or never.
func Reproduce(nodes []Node, pods []Pod, policy string, seed int64, ratio float64) (*Run, error) {
	w := ReferenceWorkload(nodes, pods, seed, ratio)
	if capacity(nodes) == 0 {
		return nil, fmt.Errorf("gpu: none of the %d nodes has a GPU", len(nodes))
	}
	s, err := newReplay(w, policy)
	if err != nil {
		return nil, err
	}
	top := 100
	if ratio > 0 {
		top = int(math.Round(100 * ratio))
	}
	cur := newCurve(top, s.board.size.milliGPU)
	failed := 0
	for range w.Arrivals {
		if node, _ := s.next(); node < 0 {
			failed++
		}
		cur.add(s.arrived, &s.board)
	}
	run := cur.run(&s.board)
	run.Policy, run.Seed, run.Pods, run.Failed = policy, seed, len(w.Arrivals), failed
	return run, nil
}

// replay plays a workload on arrays alone.
type replay struct {
	board   board
	placer  placer
	classes []class // by arrival
	pod     int
	arrived int64 // thousandths of a GPU
}

func newReplay(w *Workload, policy string) (*replay, error) {
	cat, err := newCatalogue(w.Nodes, w.Arrivals)
	if err != nil {
		return nil, err
	}
	s := &replay{}
	f := newFragmenter(TypicalPods(w.Types), len(w.Types), &cat.models)
	s.board.reset(w.Nodes, cat, f)
	p, err := policyByName(policy)
	if err != nil {
		return nil, err
	}
	s.placer = p.new(&s.board, newReserve(w.Types, &cat.models), w.rng.Intn)
	for i := range w.Arrivals {
		s.classes = append(s.classes, cat.classes[cat.of[w.Arrivals[i].Shape]])
	}
	return s, nil
}

// next places the next pod and returns where, or -1 if it failed.
func (s *replay) next() (node int32, devices uint64) {
	c := &s.classes[s.pod]
	s.pod++
	s.arrived += c.TotalMilliGPU()
	if node, devices = s.placer.choose(c); node >= 0 {
		s.board.place(c, node, devices)
	}
	return node, devices
}
