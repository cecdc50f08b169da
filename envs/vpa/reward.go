package vpa

import (
	"slices"

	"github.com/kubernasium/kubernasium/envs"
	"github.com/kubernasium/kubernasium/envs/cluster"
	"github.com/kubernasium/kubernasium/envs/vpa/prices"
)

// meanDemand returns the mean demand of all pods over the episode in cores, with memory at its
// price.
func (in *instance) meanDemand() float64 {
	var cpu, mem, shares float64
	for _, u := range in.coming() {
		cpu, mem = cpu+float64(u.MilliCPU), mem+float64(u.MemoryBytes)
	}
	for _, s := range in.shares {
		shares += s
	}
	return prices.Cores(cpu, mem) * shares / float64(len(in.coming()))
}

// Info implements [envs.InfoWriter].
func (t *Task) Info(_ *cluster.State, dst []float64) {
	l, hours := &t.ledger, t.Interval().Hours()
	a := &l.Sum
	request := prices.Cores(a.RequestCPU, a.RequestMem)
	slack := prices.Cores(a.SlackCPU, a.SlackMem)
	down := 0
	for i := range t.dynamics.Pods {
		if !t.dynamics.Pods[i].Serving(t.now()) {
			down++
		}
	}
	values := [...]float64{
		l.Weighted(&l.Total), percent(slack, request), percent(a.ThrottledCPU, a.DemandCPU),
		float64(a.OOMs), float64(a.Evictions), float64(a.Resizes), float64(a.Restarts), percent(a.DownCPU, a.DemandCPU),
		l.Action.Slack, l.Action.Overrun, l.Action.Change, l.Total.Slack, l.Total.Overrun, l.Total.Change,
		a.SlackCPU / 1000 * hours, a.SlackMem / gib * hours, a.OverCPU / 1000 * hours, a.OverMem / gib * hours,
		a.RequestCPU / 1000 * hours, a.RequestMem / gib * hours, a.Lost / 3600,
		number(t.flags.repaired), number(t.flags.capped), float64(down),
	}
	n := copy(dst, values[:])
	if s := t.dynamics.Node; s != nil {
		copy(dst[n:], []float64{l.Action.Harm, l.Total.Harm, float64(a.NodeEvictions),
			percent(s.Stats.ThrottledCPU+s.Stats.DownCPU, s.Stats.DemandCPU), 100 * s.Load[0].Last(), 100 * s.Load[1].Last()})
	}
}

func percent(part, whole float64) float64 {
	if whole == 0 {
		return 0
	}
	return 100 * part / whole
}

func number(b bool) float64 {
	if b {
		return 1
	}
	return 0
}

var infoColumns = []envs.Column{
	{Name: "cost", DType: "float64", Doc: "weighted costs since the reset, in hours of the workload's mean demand: minus the return"},
	{Name: "slack_pct", DType: "float64", Doc: "of what was requested since the reset, how much was not used, with memory at its price"},
	{Name: "throttled_pct", DType: "float64", Doc: "of the CPU demanded since the reset, how much was refused at the limit, or by a shared node"},
	{Name: "ooms", DType: "int64", Doc: "OOM kills since the reset"},
	{Name: "evictions", DType: "int64", Doc: "evictions since the reset"},
	{Name: "resizes", DType: "int64", Doc: "resizes in place since the reset"},
	{Name: "restarts", DType: "int64", Doc: "starts of containers since the reset: OOM kills, evictions, resizes that restart"},
	{Name: "down_pct", DType: "float64", Doc: "of the CPU demanded since the reset, how much came while the container was down"},
	{Name: "slack_cost", DType: "float64", Doc: "underrun term of the step, unweighted, in hours of the mean demand"},
	{Name: "overrun_cost", DType: "float64", Doc: "overrun term of the step, likewise"},
	{Name: "change_cost", DType: "float64", Doc: "change term of the step, likewise"},
	{Name: "slack_cost_total", DType: "float64", Doc: "sum of slack_cost since the reset"},
	{Name: "overrun_cost_total", DType: "float64", Doc: "sum of overrun_cost since the reset"},
	{Name: "change_cost_total", DType: "float64", Doc: "sum of change_cost since the reset"},
	{Name: "slack_core_h", DType: "float64", Doc: "integral of CPU requested and not used since the reset"},
	{Name: "slack_gib_h", DType: "float64", Doc: "integral of memory requested and not used since the reset"},
	{Name: "overrun_core_h", DType: "float64", Doc: "integral of CPU used above the request since the reset"},
	{Name: "overrun_gib_h", DType: "float64", Doc: "integral of memory used above the request since the reset"},
	{Name: "request_core_h", DType: "float64", Doc: "integral of CPU requested since the reset"},
	{Name: "request_gib_h", DType: "float64", Doc: "integral of memory requested since the reset"},
	{Name: "lost_core_h", DType: "float64", Doc: "work that OOM kills lost since the reset"},
	{Name: "repaired", DType: "bool", Doc: "bounds of the last action were out of order and moved to the target"},
	{Name: "capped", DType: "bool", Doc: "the last action's target lay outside policy or LimitRange"},
	{Name: "down", DType: "int64", Doc: "pods that do not serve at the end of the step"},
}

// sharedColumns are the columns of the environment with a shared node.
var sharedColumns = slices.Concat(infoColumns, []envs.Column{
	{Name: "harm_cost", DType: "float64", Doc: "term of the step for harm to neighbours, unweighted, in hours of the mean demand"},
	{Name: "harm_cost_total", DType: "float64", Doc: "sum of harm_cost since the reset"},
	{Name: "node_evictions", DType: "int64", Doc: "evictions by kubelet since the reset; ooms and evictions count them too"},
	{Name: "neighbours_unserved_pct", DType: "float64", Doc: "of the neighbours' CPU demand in the last step, how much was not served"},
	{Name: "node_cpu_pct", DType: "float64", Doc: "of the node's CPU, how much was used in the last step"},
	{Name: "node_memory_pct", DType: "float64", Doc: "of the node's memory, likewise"},
})
