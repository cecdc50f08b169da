package balance

import (
	"math"
	"slices"
	"time"

	"github.com/kubernasium/kubernasium/envs/cluster"
	"github.com/kubernasium/kubernasium/envs/podsched/deployments"
)

// horizons are the times from now that forecasts are for, in mean lifetimes.
var horizons = [...]float64{0, 0.1, 0.25, 0.5, 1}

const numHorizons = len(horizons)

// forecasts are what hints of lifetimes tell about the shares of nodes at the horizons.
type forecasts struct {
	ahead       [numHorizons]time.Duration
	factor, log float64 // the greatest error of a hint, and its logarithm

	running []hinted
	at      time.Duration // clock of the forecasts

	cpu, memory [numHorizons][]float64 // by node, the shares that the running pods are expected to take
	runs        [numHorizons]float64   // probability that the current pod still runs, if it is bound now
	cost        [numHorizons][]float64 // in percent, by the node that the current pod may be bound to
}

// hinted is a pod that was bound.
type hinted struct {
	pod    int32
	hint   time.Duration     // 0: it is not known to end
	begun  time.Duration     // on the cluster's clock; negative for what ran before the episode
	amount cluster.Resources // that the objective compares
}

// never is no time of a clock.
const never = time.Duration(math.MinInt64)

func newForecasts(o *Options, mean time.Duration) *forecasts {
	f := &forecasts{factor: o.HintError, log: math.Log(o.HintError)}
	f.clear()
	for k, h := range horizons {
		f.ahead[k] = time.Duration(h * float64(mean))
		f.cpu[k], f.memory[k], f.cost[k] = make([]float64, o.Nodes), make([]float64, o.Nodes), make([]float64, o.Nodes)
	}
	return f
}

// clear forgets all pods.
func (f *forecasts) clear() { f.running, f.at = f.running[:0], never }

// copyFrom makes f equal to g, a forecast of the same options.
func (f *forecasts) copyFrom(g *forecasts) {
	f.running = append(f.running[:0], g.running...)
	f.at, f.runs = g.at, g.runs
	for k := range horizons {
		copy(f.cpu[k], g.cpu[k])
		copy(f.memory[k], g.memory[k])
		copy(f.cost[k], g.cost[k])
	}
}

// lasts returns the probability that a pod runs for x or longer. The logarithm of its true time is
// uniform within that of the factor of the hint's.
func (f *forecasts) lasts(hint, x time.Duration) float64 {
	ratio := float64(x) / float64(hint)
	switch {
	case ratio*f.factor < 1:
		return 1
	case ratio >= f.factor:
		return 0
	}
	return (f.log - math.Log(ratio)) / (2 * f.log)
}

// remains returns the probability that a pod of that age runs for d more. A pod older than
// hint/factor can no longer be one of the shortest, so that its age corrects the hint upwards.
func (f *forecasts) remains(hint, age, d time.Duration) float64 {
	if hint == 0 || d == 0 {
		return 1
	}
	reached := f.lasts(hint, max(age, 0))
	if reached == 0 { // by rounding alone: it runs
		return 0
	}
	return f.lasts(hint, max(age, 0)+d) / reached
}

// note notes that pod p was bound. The forecasts count it from the next update on, or at once if
// they are of the present time.
func (f *forecasts) note(t *Task, s *cluster.State, p *deployments.Pod, pod int32, begun time.Duration) {
	h := hinted{pod: pod, hint: p.Hint, begun: begun, amount: t.compared(p)}
	f.running = append(f.running, h)
	if f.at == s.Now {
		f.count(t, s, &h)
	}
}

// compared returns what the objective compares of a pod, with what scores count beyond its requests.
func (t *Task) compared(p *deployments.Pod) cluster.Resources {
	if t.opts.Measure == MeasureUsage {
		return plus(p.Usage, p.Extra)
	}
	return plus(p.Requests, p.Extra)
}

// count adds a running pod to the forecasts of its node.
func (f *forecasts) count(t *Task, s *cluster.State, h *hinted) {
	node := s.Pods[h.pod].Node
	cpu, memory := float64(h.amount.MilliCPU)*t.invCPU[node], float64(h.amount.MemoryBytes)*t.invMemory[node]
	for k, d := range f.ahead {
		part := f.remains(h.hint, s.Now-h.begun, d)
		f.cpu[k][node] += part * cpu
		f.memory[k][node] += part * memory
	}
}

// update forecasts for the current pod. While the clock stands still no pod ends.
func (f *forecasts) update(t *Task, s *cluster.State) {
	if f.at != s.Now {
		f.at = s.Now
		f.running = slices.DeleteFunc(f.running, func(h hinted) bool { return s.Pods[h.pod].Phase != cluster.Running })
		for k := range f.ahead {
			clear(f.cpu[k])
			clear(f.memory[k])
		}
		for i := range f.running {
			f.count(t, s, &f.running[i])
		}
	}
	added := t.compared(t.spec)
	for k, d := range f.ahead {
		f.runs[k] = f.remains(t.spec.Hint, 0, d)
		milliCPU, bytes := f.runs[k]*float64(added.MilliCPU), f.runs[k]*float64(added.MemoryBytes)
		cpu, memory := newMoments(f.cpu[k]), newMoments(f.memory[k])
		for i := range f.cost[k] {
			f.cost[k][i] = percent / 2 * (cpu.sdWith(f.cpu[k][i], milliCPU*t.invCPU[i]) + memory.sdWith(f.memory[k][i], bytes*t.invMemory[i]))
		}
	}
}

// observe writes the features that hints add, behind the others of each node and of the pod. The excess of
// a node is the cost of binding the pod to it above that of the cheapest node that the mask permits. All
// excesses are over the largest, so that their weighted sums order nodes as weighted sums of the costs do.
func (f *forecasts) observe(nodes, pod []float32, mask []bool, ended bool) {
	pod, width := pod[podFeatures:], len(nodes)/len(mask)
	if ended {
		clear(pod)
		for i := range mask {
			clear(nodes[i*width+nodeFeatures : (i+1)*width])
		}
		return
	}
	var lowest [numHorizons]float64
	largest := 0.0
	for k, cost := range f.cost {
		low, high := math.Inf(1), math.Inf(-1)
		for i, ok := range mask {
			if ok {
				low, high = min(low, cost[i]), max(high, cost[i])
			}
		}
		lowest[k], largest = low, max(largest, high-low)
	}
	for k, p := range f.runs[1:] {
		pod[k] = share(p)
	}
	pod[numHorizons-1] = share(largest / maxExcess)
	unit := 0.0
	if largest > rounding {
		unit = 1 / largest
	}
	for i := range mask {
		row := nodes[i*width+nodeFeatures : (i+1)*width]
		for k := range horizons {
			if k > 0 {
				row[2*k-2], row[2*k-1] = share(f.cpu[k][i]), share(f.memory[k][i])
			}
			row[2*(numHorizons-1)+k] = share((f.cost[k][i] - lowest[k]) * unit)
		}
	}
}

// maxExcess is the excess, in percent, from which the feature largest_excess is 1.
const maxExcess = 10
