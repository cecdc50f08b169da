package world

import (
	"github.com/kubernasium/kubernasium/envs"
	"github.com/kubernasium/kubernasium/envs/lra"
	"github.com/kubernasium/kubernasium/envs/lra/planner"
)

// infoColumns are the diagnostics of every environment of this family.
var infoColumns = []envs.Column{
	{Name: "throughput", DType: "float64", Doc: "average throughput of a container so far, as a multiple of that alone on a node; over time with online arrivals"},
	{Name: "objective", DType: "float64", Doc: "the objective for each container so far"},
	{Name: "slo_share", DType: "float64", Doc: "share of the running containers with at least slo_threshold"},
	{Name: "vacant_share", DType: "float64", Doc: "share of the nodes without a container"},
	{Name: "placed", DType: "int64", Doc: "containers that were placed"},
	{Name: "rejected", DType: "int64", Doc: "containers that no node permitted, or whose choice did not"},
	{Name: "violations", DType: "int64", Doc: "containers on nodes that are not meant for them"},
}

// metrics are the columns that describe the outcome of an episode.
var metrics = []envs.Metric{{Column: "throughput"}, {Column: "objective"}, {Column: "slo_share"}}

// Info writes infoColumns.
func (e *Episode) Info(dst []float64) {
	e.Tally.Info(e.src, dst)
	if e.Online() {
		dst[0], dst[1] = e.times.of(e.src)
	}
}

// Tally sums and counts over the nodes of a cluster.
type Tally struct {
	Value      float64 // objective by the score table
	Throughput float64
	dues       float64 // of the states
	Satisfied  int     // containers with at least slo_threshold
	Used       int     // slots
	Vacant     int     // nodes
	Placed     int
	Rejected   int
	Violations int
}

// Move counts the move of a node of kind k from one state to another.
func (t *Tally) Move(k *Kind, from, to lra.State) {
	t.Value += k.Score.Value[to] - k.Score.Value[from]
	t.Throughput += k.Throughput[to] - k.Throughput[from]
	t.dues += k.dues[to] - k.dues[from]
	t.Satisfied += k.satisfied[to] - k.satisfied[from]
	t.Used += to.Total() - from.Total()
	if from == 0 {
		t.Vacant--
	}
	if to == 0 {
		t.Vacant++
	}
}

// Info writes infoColumns.
func (t *Tally) Info(src *Source, dst []float64) {
	n := float64(max(1, t.Placed+t.Rejected))
	dst[0], dst[1] = t.Throughput/n, t.Value/n
	if src.Options.Objective == planner.ObjectiveVacant {
		dst[1] += src.Options.Beta
	}
	dst[2] = float64(t.Satisfied) / float64(max(1, t.Used))
	dst[3] = float64(t.Vacant) / float64(src.Options.Nodes)
	dst[4], dst[5], dst[6] = float64(t.Placed), float64(t.Rejected), float64(t.Violations)
}
