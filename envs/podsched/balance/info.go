package balance

import (
	"github.com/kubernasium/kubernasium/envs"
	"github.com/kubernasium/kubernasium/envs/cluster"
)

// stats are the diagnostics of an episode so far.
type stats struct {
	now                       measures // after the last decision
	decisions, placed, failed int
	cost, nodesInUse          float64 // sums over decisions
	deployments               int
	rackSkew                  float64 // sum over the deployments that ended
	phases                    int
	imbalanceEnd, sdPodsEnd   float64 // sums over the phases that ended
	open                      bool    // the current phase has seen a decision
}

// add records a decision.
func (a *stats) add(m *measures, cost float64, placed bool) {
	a.now, a.open = *m, true
	a.decisions++
	a.cost += cost
	a.nodesInUse += m.nodesInUse
	if placed {
		a.placed++
	} else {
		a.failed++
	}
}

func (a *stats) endDeployment(t *Task) {
	a.deployments++
	a.rackSkew += float64(t.rackSkew())
}

func (a *stats) endPhase(m *measures) {
	a.phases++
	a.imbalanceEnd += m.imbalance
	a.sdPodsEnd += m.sdPods
	a.open = false
}

var infoColumns = []envs.Column{
	{Name: "cost", DType: "float64", Doc: "cost of the objective after the bind, in percent, mean over decisions"},
	{Name: "imbalance_end", DType: "float64", Doc: "imbalance at the end of a phase, or now in the running one, in percent; mean over phases"},
	{Name: "sd_pods_end", DType: "float64", Doc: "standard deviation over nodes of the number of pods, likewise"},
	{Name: "rack_skew", DType: "float64", Doc: "replicas in the fullest rack less those in the emptiest, mean over deployments, each when it is complete or the cluster is emptied"},
	{Name: "nodes_in_use", DType: "float64", Doc: "nodes that run a pod, in percent of all, mean over decisions"},
	{Name: "placed", DType: "int64", Doc: "pods bound"},
	{Name: "failed", DType: "int64", Doc: "pods that were not: none of the nodes had room, or the action was masked out"},
	{Name: "imbalance", DType: "float64", Doc: "after the last decision: mean of sd_cpu and sd_memory, in percent"},
	{Name: "sd_pods", DType: "float64", Doc: "after the last decision: standard deviation over nodes of the number of pods"},
	{Name: "sd_cpu", DType: "float64", Doc: "after the last decision: of the share of CPU, in percent"},
	{Name: "sd_memory", DType: "float64", Doc: "after the last decision: of the share of memory, in percent"},
	{Name: "cpu_load", DType: "float64", Doc: "after the last decision: requested part of the cluster's CPU, 0 to 1"},
	{Name: "memory_load", DType: "float64", Doc: "after the last decision: requested part of its memory, 0 to 1"},
}

var metrics = []envs.Metric{
	{Column: "cost", Unit: "%", Lower: true}, {Column: "imbalance_end", Unit: "%", Lower: true}, {Column: "sd_pods_end", Unit: "pods", Lower: true},
	{Column: "rack_skew", Unit: "pods", Lower: true}, {Column: "nodes_in_use", Unit: "%", Lower: true},
	{Column: "placed", Unit: "pods"}, {Column: "failed", Unit: "pods", Lower: true},
}

// Info implements [envs.InfoWriter].
func (t *Task) Info(_ *cluster.State, dst []float64) {
	a := &t.stats
	phases, imbalance, sdPods := a.phases, a.imbalanceEnd, a.sdPodsEnd
	if a.open {
		phases, imbalance, sdPods = phases+1, imbalance+a.now.imbalance, sdPods+a.now.sdPods
	}
	dst[0] = mean(a.cost, a.decisions)
	dst[1], dst[2] = mean(imbalance, phases), mean(sdPods, phases)
	dst[3] = mean(a.rackSkew, a.deployments)
	dst[4] = mean(a.nodesInUse, a.decisions)
	dst[5], dst[6] = float64(a.placed), float64(a.failed)
	dst[7], dst[8], dst[9], dst[10] = a.now.imbalance, a.now.sdPods, a.now.sdCPU, a.now.sdMemory
	dst[11], dst[12] = a.now.loadCPU, a.now.loadMemory
}

func mean(sum float64, n int) float64 { return sum / float64(max(n, 1)) }
