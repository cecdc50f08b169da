package rules

import (
	"context"
	"math"
	"time"

	"github.com/kubernasium/kubernasium/envs"
	"github.com/kubernasium/kubernasium/envs/cluster"
	"github.com/kubernasium/kubernasium/envs/vpa/metrics"
	"github.com/kubernasium/kubernasium/envs/vpa/pods"
	"github.com/kubernasium/kubernasium/envs/vpa/workload"
)

// NodeAware are the parameters of the baseline node_aware: requests follow the usage while the node has CPU and memory
// to spare, and pods that look faulty are evicted before they reach their limits.
type NodeAware struct {
	CPU          float64 `opt:"cpu" valid:"0,1" doc:"quantile of CPU in its window" range:"0.3,1"`
	CPUWindow    float64 `opt:"cpu_window_h" valid:"0.01,1e4" doc:"hours of the window of CPU" range:"0.05,1,log"`
	BusyCPU      float64 `opt:"busy_cpu" valid:"0,10" doc:"CPU used of the node's from which requests have the margin" range:"0.5,1"`
	CPUMargin    float64 `opt:"cpu_margin" valid:"0.01,100" doc:"factor of the CPU request while the node is busy" range:"1,1.5"`
	BusyMemory   float64 `opt:"busy_memory" valid:"0,10" doc:"memory used of the node's, if the pod rose to the day's peak, from which it requests that peak" range:"0.5,1"`
	MemoryMargin float64 `opt:"memory_margin" valid:"0.01,100" doc:"factor of the larger of the memory in use and its mean of the last hour, which is requested otherwise" range:"0.9,1.3"`
	Period       float64 `opt:"period_min" valid:"0.01,1e6" doc:"minutes between recommendations" range:"2,60,log"`
	Band         float64 `opt:"band" valid:"0,100" doc:"fraction by which requests may differ from the target until they are changed" range:"0,0.5"`
	Review       float64 `opt:"review_h" valid:"0.01,1e4" doc:"hours between reviews of the day's peaks, which limits and faults go by" range:"1,24,log"`
	CPUFactor    float64 `opt:"cpu_factor" valid:"1,1000" doc:"CPU limit over the peak" range:"1,3"`
	MemoryFactor float64 `opt:"memory_factor" valid:"1,1000" doc:"memory limit over the peak" range:"1,2"`
	Leak         float64 `opt:"leak" valid:"1,1000" doc:"memory over the peak from which a pod that also uses 4 % more than in the last hour's mean is faulty" range:"1,1.5"`
	Spin         float64 `opt:"spin" valid:"1,1000" doc:"CPU over the peak from which, three times in a row, a pod is faulty" range:"1,2"`
	Bump         float64 `opt:"bump" valid:"1,100" doc:"least memory for a day after a kill, over the memory in use then" range:"1,2"`
}

// DefaultNodeAware was chosen on training episodes. Actions of encoding node_aware correct it; other values would make
// another environment.
var DefaultNodeAware = NodeAware{CPU: 0.75, CPUWindow: 0.05, BusyCPU: 0.85, CPUMargin: 1.1, BusyMemory: 0.93, MemoryMargin: 1,
	Period: 5, Band: 0.3, Review: 8, CPUFactor: 1.2, MemoryFactor: 1.5, Leak: 1.05, Spin: 1.14, Bump: 1.2}

const (
	leakRise  = 1.04 // memory of a leaking pod over its mean of the last hour
	spinTimes = 3    // recommendations in a row at which a spinning pod uses too much CPU
)

// NodeAwareRule recommends by the parameters of a NodeAware.
type NodeAwareRule struct {
	NodeAware
	kills   QuantileRule      // floor of memory after kills
	peak    cluster.Resources // of the day, when it was reviewed last
	spun    int               // recommendations in a row with too much CPU
	evicted int               // step of the last eviction
	again   bool              // the last recommendation evicts, and the limit that it removed is due again
}

// Copy implements [Base].
func (n *NodeAwareRule) Copy() Base {
	c := *n
	c.kills = n.kills.Clone()
	return &c
}

func nodeAwareBaseline(follow Follow) envs.Baseline {
	doc := "Requests follow the usage while the node has room, and keep to the day's peak otherwise; pods that look faulty are evicted."
	return envs.Parametric(envs.Baseline{Name: "node_aware", Doc: doc}, DefaultNodeAware, func(p NodeAware) func(envs.Task) (envs.Policy, error) {
		return follow(func() Rule { return (&NodeAwareRule{NodeAware: p}).Recommend })
	})
}

// Recommend returns a recommendation at an episode's first decision, then in each period, after each kill, and in the
// step after an eviction.
func (n *NodeAwareRule) Recommend(ctx context.Context, v *View, first bool) (pods.Recommendation, bool) {
	if first {
		*n = NodeAwareRule{NodeAware: n.NodeAware, evicted: -v.stepsIn(time.Hour)}
		n.kills.Bump = n.Bump
	}
	killed := n.kills.noteKills(v, first)
	due := first || killed || v.Step%v.stepsIn(pods.Duration(60*n.Period)) == 0
	if !due && !n.again {
		return pods.Recommendation{}, false
	}
	day, hour := v.tail(24*time.Hour), v.tail(time.Hour)
	peak, mean, used := workload.Max(day), metrics.Mean(hour), v.Seen[len(v.Seen)-1]
	if first || killed || v.Step%v.stepsIn(pods.Duration(3600*n.Review)) == 0 {
		n.peak = peak
	}
	faulty := due && n.faulty(used, mean)
	if faulty && v.Step-n.evicted < v.stepsIn(time.Hour) { // it does the same after its eviction: this is no fault
		n.peak, faulty = peak, false
	}

	cpu := metrics.CPUQuantile(ctx, v.tail(pods.Duration(n.CPUWindow*3600)), n.CPU, &n.kills.scratch)
	if v.Load[0] >= n.BusyCPU {
		cpu *= n.CPUMargin
	}
	memory := float64(peak.MemoryBytes)
	if v.Load[1]+float64(peak.MemoryBytes-used.MemoryBytes)/float64(max(v.Node.MemoryBytes, 1)) < n.BusyMemory {
		memory = n.MemoryMargin * max(float64(used.MemoryBytes), mean[1])
	}
	r := banded(math.Ceil(cpu), math.Ceil(max(memory, n.kills.floor)), n.Band)
	r.Limits = cluster.Resources{
		MilliCPU:    limitOf(LimitPeak, n.CPUFactor, float64(r.Target.MilliCPU), float64(n.peak.MilliCPU)),
		MemoryBytes: limitOf(LimitPeak, n.MemoryFactor, float64(r.Target.MemoryBytes), max(float64(n.peak.MemoryBytes), n.kills.floor)),
	}
	if n.again = faulty; faulty { // the updater has to evict a pod to remove a limit
		n.evicted, r.Limits.MilliCPU = v.Step, 0
	}
	return r, true
}

// faulty reports whether a pod leaks memory or burns CPU.
func (n *NodeAwareRule) faulty(used cluster.Resources, mean [2]float64) bool {
	if float64(used.MilliCPU) > n.Spin*float64(n.peak.MilliCPU) {
		n.spun++
	} else {
		n.spun = 0
	}
	leaks := float64(used.MemoryBytes) > n.Leak*float64(n.peak.MemoryBytes) && float64(used.MemoryBytes) > leakRise*mean[1]
	if leaks || n.spun >= spinTimes {
		n.spun = 0
		return true
	}
	return false
}
