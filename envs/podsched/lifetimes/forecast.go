// Package lifetimes forecasts the shares of nodes in use, from hints about the lifetimes of pods.
package lifetimes

import (
	"math"
	"slices"
	"time"

	"github.com/kubernasium/kubernasium/envs/cluster"
	"github.com/kubernasium/kubernasium/envs/podsched/imbalance"
)

// Horizons are the times from now of the forecasts, in mean lifetimes. The first is now.
var Horizons = [...]float64{0, 0.1, 0.25, 0.5, 1}

// NumHorizons is the number of [Horizons].
const NumHorizons = len(Horizons)

// Forecast predicts the shares of nodes at the horizons. A hint is the true lifetime times a factor, whose logarithm is
// uniform between plus and minus that of the greatest error.
type Forecast struct {
	ahead       [NumHorizons]time.Duration
	factor, log float64 // the greatest error, and its logarithm
	running     []Pod
	at          time.Duration // clock of the forecast

	cpu, memory [NumHorizons][]float64 // by node, the expected shares of the running pods
	runs        [NumHorizons]float64   // probability that the current pod still runs if it is bound now
	cost        [NumHorizons][]float64 // in percent, by node for the current pod
}

// Pod is a pod that was bound.
type Pod struct {
	Index, Node int32         // index in the cluster
	Hint        time.Duration // of its lifetime; 0 if the pod is not known to end
	Begun       time.Duration // on the cluster's clock; negative for pods from before the episode
	CPU, Memory float64       // its share of the node
}

// never is before every time of a clock.
const never = time.Duration(math.MinInt64)

// New returns the forecast for an empty cluster whose pods have the given mean lifetime. factor is the greatest error
// of hints, at least 1.
func New(nodes int, mean time.Duration, factor float64) *Forecast {
	f := &Forecast{factor: factor, log: math.Log(factor), at: never}
	for k, h := range Horizons {
		f.ahead[k] = time.Duration(h * float64(mean))
		f.cpu[k], f.memory[k], f.cost[k] = make([]float64, nodes), make([]float64, nodes), make([]float64, nodes)
	}
	return f
}

// Clear forgets all pods.
func (f *Forecast) Clear() { f.running, f.at = f.running[:0], never }

// CopyFrom makes f equal to g, which must have as many nodes and the same error of hints.
func (f *Forecast) CopyFrom(g *Forecast) {
	f.running = append(f.running[:0], g.running...)
	f.at, f.runs = g.at, g.runs
	for k := range Horizons {
		copy(f.cpu[k], g.cpu[k])
		copy(f.memory[k], g.memory[k])
		copy(f.cost[k], g.cost[k])
	}
}

// lasts returns the probability that a pod runs for x or longer.
func (f *Forecast) lasts(hint, x time.Duration) float64 {
	ratio := float64(x) / float64(hint)
	switch {
	case ratio*f.factor < 1:
		return 1
	case ratio >= f.factor:
		return 0
	}
	return (f.log - math.Log(ratio)) / (2 * f.log)
}

// remains returns the probability that a pod of a given age runs for d more. A pod older than hint/factor cannot be one
// of the shortest, so its age corrects the hint upwards.
func (f *Forecast) remains(hint, age, d time.Duration) float64 {
	if hint == 0 || d == 0 {
		return 1
	}
	reached := f.lasts(hint, max(age, 0))
	if reached == 0 { // only by rounding, since the pod runs
		return 0
	}
	return f.lasts(hint, max(age, 0)+d) / reached
}

// Add adds a pod that was bound.
func (f *Forecast) Add(s *cluster.State, p Pod) {
	f.running = append(f.running, p)
	if f.at == s.Now {
		f.count(s.Now, &p)
	}
}

// count adds a running pod to the forecast of its node.
func (f *Forecast) count(now time.Duration, p *Pod) {
	for k, d := range f.ahead {
		part := f.remains(p.Hint, now-p.Begun, d)
		f.cpu[k][p.Node] += float64(part * p.CPU)
		f.memory[k][p.Node] += float64(part * p.Memory)
	}
}

// Update forecasts for the current pod, which adds to cpu and memory. It ignores and overwrites their shares. While the
// clock stands still, no pod ends.
func (f *Forecast) Update(s *cluster.State, hint time.Duration, cpu, memory imbalance.Resource) {
	if f.at != s.Now {
		f.at = s.Now
		f.running = slices.DeleteFunc(f.running, func(p Pod) bool { return s.Pods[p.Index].Phase != cluster.Running })
		for k := range f.ahead {
			clear(f.cpu[k])
			clear(f.memory[k])
		}
		for i := range f.running {
			f.count(s.Now, &f.running[i])
		}
	}
	addedCPU, addedMemory := cpu.Added, memory.Added
	for k, d := range f.ahead {
		f.runs[k] = f.remains(hint, 0, d)
		cpu.Shares, cpu.Added = f.cpu[k], f.runs[k]*addedCPU
		memory.Shares, memory.Added = f.memory[k], f.runs[k]*addedMemory
		imbalance.Costs(f.cost[k], cpu, memory)
	}
}
