package shadow

import (
	"math"
	"time"
)

// Metric describes a quantity of a [Report].
type Metric struct {
	Name    string `json:"name"`
	Unit    string `json:"unit"`
	Better  string `json:"better"` // lower or higher
	Meaning string `json:"meaning"`
}

// Means over time come first; pending_time is a mean over pods, and preemptions is a rate.
const (
	cpuAllocated = iota
	memoryAllocated
	gpuAllocated
	fragmentation
	imbalance
	nodesInUse
	pendingPods
	pendingTime
	preemptions
	numMetrics
)

const (
	lower  = "lower"
	higher = "higher"
)

var metrics = [numMetrics]Metric{
	cpuAllocated:    {"cpu_allocated", "%", higher, "CPU that running pods request, of what the nodes have"},
	memoryAllocated: {"memory_allocated", "%", higher, "memory that running pods request, of what the nodes have"},
	gpuAllocated:    {"gpu_allocated", "%", higher, "GPUs that running pods hold, of those that the nodes have"},
	fragmentation:   {"fragmentation", "%", lower, "GPUs that are free and that a typical pod cannot use, as FGD defines them, of those that the nodes have"},
	imbalance:       {"imbalance", "%", lower, "standard deviation over nodes of the requested part of their CPU, and the same of memory: the mean of both"},
	nodesInUse:      {"nodes_in_use", "nodes", lower, "nodes that run a pod of no DaemonSet"},
	pendingPods:     {"pending_pods", "pods", lower, "pods that wait for a node"},
	pendingTime:     {"pending_time", "s", lower, "time from a pod's creation, or the removal of its last gate, until it is bound, deleted or the recording ends"},
	preemptions:     {"preemptions", "pods/h", lower, "pods that were evicted to make room for a pod of higher priority"},
}

// meter measures a world by blocks of time.
type meter struct {
	from, block time.Duration
	paused      bool // the recording has a gap
	ratios      [numMetrics]ratio
	present     [numMetrics]float64
	dirty       bool // present is out of date
	displaced   int  // pods whose node was removed
	deferred    int  // resizes that had to wait for room
	violations  int  // evictions that violated a disruption budget
}

func newMeter(from, end, block time.Duration) *meter {
	m := &meter{from: from, block: block, dirty: true}
	blocks := max(1, int((end-from+block-1)/block))
	for i := range m.ratios {
		m.ratios[i] = ratio{make([]float64, blocks), make([]float64, blocks)}
	}
	return m
}

// elapse adds the time until t, during which the world does not change.
func (m *meter) elapse(w *world, t time.Duration) {
	begin := max(w.now, m.from)
	if m.paused || t <= begin {
		return
	}
	if m.dirty {
		w.measure(&m.present)
		m.dirty = false
	}
	for begin < t {
		b := int((begin - m.from) / m.block)
		until := min(t, m.from+time.Duration(b+1)*m.block)
		seconds := (until - begin).Seconds()
		for i := range pendingTime {
			m.ratios[i].num[b] += m.present[i] * seconds
			m.ratios[i].den[b] += seconds
		}
		m.ratios[preemptions].den[b] += seconds / 3600
		begin = until
	}
}

// preempted counts a pod that was evicted at time t.
func (m *meter) preempted(t time.Duration) {
	if t < m.from {
		return
	}
	r := &m.ratios[preemptions]
	r.num[min(int((t-m.from)/m.block), len(r.num)-1)]++
}

// waited adds a pod's pending time to the block in which it began. A pod that is pending again, after an eviction,
// counts once.
func (m *meter) waited(q *placement, until time.Duration) {
	since := q.since
	if since < m.from {
		return
	}
	r := &m.ratios[pendingTime]
	b := min(int((since-m.from)/m.block), len(r.num)-1)
	r.num[b] += (until - since).Seconds()
	if q.remaining == 0 {
		r.den[b]++
	}
}

// measure sets the present values of the metrics that are means over time.
func (w *world) measure(v *[numMetrics]float64) {
	*v = [numMetrics]float64{}
	s := &w.sums
	v[cpuAllocated], v[memoryAllocated], v[gpuAllocated] = percent(s.cpu, s.allCPU), percent(s.memory, s.allMemory), percent(s.gpu, s.allGPU)
	if w.history.fragments != nil && s.allGPU > 0 {
		v[fragmentation] = 100 * w.history.fragments.Amount(w.fragments.Wasted) / float64(s.allGPU)
	}
	v[imbalance], v[nodesInUse] = w.imbalance(), float64(s.inUse)
	v[pendingPods] = float64(len(w.queue))
}

func percent(part, all int64) float64 {
	if all == 0 {
		return 0
	}
	return 100 * float64(part) / float64(all)
}

// sums are totals over the present nodes: requests of pods, capacity of nodes, and nodes that run a pod of no
// DaemonSet.
type sums struct {
	cpu, memory, gpu, allCPU, allMemory, allGPU int64
	inUse                                       int
}

// share holds the requested share of a node, in percent.
type share struct{ cpu, memory float64 }

// tally adds a node to the sums, or subtracts it before it changes.
func (w *world) tally(n int32, sign int64) {
	node := &w.nodes[n]
	if node.info == nil {
		return
	}
	s := &w.sums
	s.cpu, s.memory, s.gpu = s.cpu+sign*node.used.MilliCPU, s.memory+sign*node.used.MemoryBytes, s.gpu+sign*node.gpu
	s.allCPU, s.allMemory = s.allCPU+sign*node.info.MilliCPU, s.allMemory+sign*node.info.MemoryBytes
	s.allGPU += sign * int64(node.info.GPUs) * int64(node.info.MilliGPU)
	if node.nonDaemon > 0 {
		s.inUse += int(sign)
	}
	w.share[n] = share{percent(node.used.MilliCPU, node.info.MilliCPU), percent(node.used.MemoryBytes, node.info.MemoryBytes)}
}

// imbalance returns the mean of the population standard deviations over the nodes of their shares of CPU and memory.
func (w *world) imbalance() float64 {
	if len(w.order) == 0 {
		return 0
	}
	number := float64(len(w.order))
	var sum, squares share
	for _, n := range w.order {
		sum.cpu, sum.memory = sum.cpu+w.share[n].cpu, sum.memory+w.share[n].memory
	}
	for _, n := range w.order {
		cpu, memory := w.share[n].cpu-sum.cpu/number, w.share[n].memory-sum.memory/number
		squares.cpu, squares.memory = squares.cpu+cpu*cpu, squares.memory+memory*memory
	}
	return (math.Sqrt(squares.cpu/number) + math.Sqrt(squares.memory/number)) / 2
}
