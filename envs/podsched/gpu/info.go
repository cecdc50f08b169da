package gpu

import (
	"fmt"

	"github.com/kubernasium/kubernasium/envs"
	"github.com/kubernasium/kubernasium/envs/cluster"
	"github.com/kubernasium/kubernasium/envs/podsched/gpushare"
)

// reported are the arrived percents at which Info reports the allocation.
var reported = [...]int{70, 80, 90, 100, 110, 120, 130}

var infoColumns = append([]envs.Column{
	{Name: "alloc_pct", DType: "float64", Doc: "GPUs allocated, in percent of the cluster's"},
	{Name: "arrived_pct", DType: "float64", Doc: "GPUs requested by the pods so far, likewise"},
	{Name: "frag_pct", DType: "float64", Doc: "fragmentation F, likewise"},
	{Name: "cpu_pct", DType: "float64", Doc: "CPU allocated, in percent of the cluster's"},
	{Name: "memory_pct", DType: "float64", Doc: "memory allocated, likewise"},
	{Name: "placed", DType: "int64", Doc: "pods placed"},
	{Name: "failed", DType: "int64", Doc: "pods given up"},
	{Name: "waiting", DType: "int64", Doc: "pods put off or waiting"},
	{Name: "waiting_time_s", DType: "float64", Doc: "mean seconds from arrival to placement of the pods placed"},
	{Name: "completion_time_s", DType: "float64", Doc: "mean seconds from arrival to end of the pods placed"},
	{Name: "utilisation_pct", DType: "float64", Doc: "mean over time of the GPUs allocated; 0 in time-free dynamics"},
}, reportedColumns()...)

func reportedColumns() []envs.Column {
	var columns []envs.Column
	for _, x := range reported {
		columns = append(columns, envs.Column{
			Name: fmt.Sprintf("alloc_%d_pct", x), DType: "float64",
			Doc: fmt.Sprintf("mean of alloc_pct over the arrivals at %d %% arrived; before that, the present one", x),
		})
	}
	return columns
}

// Info implements [envs.InfoWriter].
func (t *Task) Info(s *cluster.State, dst []float64) {
	b := &t.inventory
	dst[0] = t.percent(float64(b.Used.MilliGPU))
	dst[1] = t.percent(float64(t.arrived))
	dst[2] = t.percent(b.Frag.Amount(b.Wasted))
	dst[3] = 100 * ratio(float64(b.Used.MilliCPU), float64(b.Size.MilliCPU))
	dst[4] = 100 * ratio(float64(b.Used.MemoryMiB), float64(b.Size.MemoryMiB))
	dst[5], dst[6], dst[7] = float64(t.placedPods), float64(t.failed), float64(len(t.queue))
	dst[8], dst[9] = ratio(t.waited, float64(t.placedPods)), ratio(t.completed, float64(t.placedPods))
	dst[10] = 100 * ratio(t.busy, s.Now.Seconds())
	for k, x := range reported {
		dst[11+k] = t.curve.Until(x, t.arrived, dst[0])
	}
}

func ratio(a, b float64) float64 {
	if b == 0 {
		return 0
	}
	return a / b
}

// Run reports the current episode, as [gpushare.Reproduce] reports a policy. The caller sets its name and random seed.
func (t *Task) Run() *gpushare.Run {
	run := t.curve.Run(&t.inventory)
	run.Pods, run.Failed = t.next, t.failed
	return run
}
