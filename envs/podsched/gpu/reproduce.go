package gpu

import (
	"fmt"
	"math"
	"slices"

	"github.com/kubernasium/kubernasium/envs/podsched/kubescore"
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
	s, err := newSimulation(w, policy)
	if err != nil {
		return nil, err
	}
	top := 100
	if ratio > 0 {
		top = int(math.Round(100 * ratio))
	}
	cur := newCurve(top, s.board.size.milliGPU)
	run := &Run{Policy: policy, Seed: seed, Pods: len(w.Arrivals)}
	for range w.Arrivals {
		if node, _ := s.next(); node < 0 {
			run.Failed++
		}
		cur.add(s.arrived, &s.board)
	}
	run.measure(cur, &s.board)
	return run, nil
}

func (r *Run) measure(c *curve, b *board) {
	r.Alloc, r.Frag = c.alloc(), c.frag()
	r.MilliGPU, r.MilliCPU, r.MemoryMiB = b.used.milliGPU, b.used.milliCPU, b.used.memoryMiB
}

// Run returns what has happened in the present episode, as [Reproduce] reports it of a policy.
// Its name and its random seed are for the caller to set.
func (t *Task) Run() *Run {
	run := &Run{Pods: t.next, Failed: t.failed}
	run.measure(t.curve, &t.board)
	return run
}

// simulation plays a workload on arrays alone.
type simulation struct {
	board   board
	placer  placer
	classes []class // by arrival
	pod     int
	arrived int64 // thousandths of a GPU
}

func newSimulation(w *Workload, policy string) (*simulation, error) {
	cat, err := newCatalogue(w.Nodes, w.Arrivals)
	if err != nil {
		return nil, err
	}
	s := &simulation{}
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
func (s *simulation) next() (node int32, devices uint64) {
	c := &s.classes[s.pod]
	s.pod++
	s.arrived += c.TotalMilliGPU()
	if node, devices = s.placer.choose(c); node >= 0 {
		s.board.place(c, node, devices)
	}
	return node, devices
}

// catalogue numbers the models of nodes and the shapes of pods.
type catalogue struct {
	models   modelTable
	classes  []class
	of       map[Shape]int32
	counters int // of topology spread
}

func newCatalogue(nodes []Node, pods []Pod) (*catalogue, error) {
	cat := &catalogue{of: map[Shape]int32{}}
	for i := range nodes {
		if err := cat.models.add(nodes[i].Model); err != nil {
			return nil, err
		}
	}
	for i := range pods {
		s := pods[i].Shape
		if _, ok := cat.of[s]; !ok {
			id := int32(len(cat.classes))
			cat.of[s] = id
			cat.classes = append(cat.classes, newClass(s, id, &cat.models))
			// A trace does not say whose a pod is: pods of equal shape pass for replicas.
			cat.classes[id].counted = []int32{id}
			cat.classes[id].prefers = &preferences{spread: []spreadConstraint{{counter: id, maxSkew: kubescore.DefaultHostnameMaxSkew}}}
		}
	}
	cat.counters = len(cat.classes)
	return cat, nil
}

// curve averages the allocation and the fragmentation over the arrivals of each percent.
type curve struct {
	size float64 // thousandths of a GPU of the cluster
	bins []bin   // by percent arrived
}

type bin struct {
	n           int
	alloc, frag float64 // sums
}

func newCurve(top int, milliGPU int64) *curve {
	return &curve{size: float64(milliGPU), bins: make([]bin, top+1)}
}

// add notes the state after the arrival of so many thousandths of a GPU in all. What is beyond
// the last percent is left out.
func (c *curve) add(arrived int64, b *board) {
	x := int(math.RoundToEven(float64(arrived) / c.size * 100))
	if x >= len(c.bins) {
		return
	}
	p := &c.bins[x]
	p.n++
	p.alloc += hundredths(float64(b.used.milliGPU) / c.size * 100)
	p.frag += hundredths(b.frag.amount(b.wasted) / c.size * 100)
}

// at returns the means at x percent. Where no arrival falls into the percent, its neighbours
// count; ok is false if there is none either.
func (c *curve) at(x int) (alloc, frag float64, ok bool) {
	sum := c.bins[x]
	if sum.n == 0 {
		for _, y := range []int{x - 1, x + 1} {
			if y >= 0 && y < len(c.bins) {
				sum.n += c.bins[y].n
				sum.alloc += c.bins[y].alloc
				sum.frag += c.bins[y].frag
			}
		}
	}
	if sum.n == 0 {
		return 0, 0, false
	}
	return hundredths(sum.alloc / float64(sum.n)), hundredths(sum.frag / float64(sum.n)), true
}

func (c *curve) alloc() []float64 { return c.points(func(a, _ float64) float64 { return a }) }
func (c *curve) frag() []float64  { return c.points(func(_, f float64) float64 { return f }) }

// points returns a value of each percent; where there is none, that of the percent before.
func (c *curve) points(value func(alloc, frag float64) float64) []float64 {
	points := make([]float64, 0, len(c.bins))
	last := 0.0
	for x := range c.bins {
		if a, f, ok := c.at(x); ok {
			last = value(a, f)
		}
		points = append(points, last)
	}
	return slices.Clip(points)
}

// hundredths rounds to two decimals.
func hundredths(x float64) float64 { return math.RoundToEven(x*100) / 100 }

// reset forgets all arrivals, for a cluster of so many thousandths of a GPU.
func (c *curve) reset(milliGPU int64) {
	clear(c.bins)
	c.size = float64(milliGPU)
}

// until returns the allocation at x percent, or at the last arrival before it; present, where so
// little has arrived.
func (c *curve) until(x int, arrived int64, present float64) float64 {
	if float64(arrived)/c.size*100 < float64(x)-0.5 || x >= len(c.bins) {
		return present
	}
	for ; x >= 0; x-- {
		if alloc, _, ok := c.at(x); ok {
			return alloc
		}
	}
	return present
}
