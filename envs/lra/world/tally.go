package world

import "github.com/kubernasium/kubernasium/envs/lra"

// tally is what is counted of a cluster.
type tally struct {
	value      float64 // objective by the score table
	throughput float64
	dues       float64 // of the states
	satisfied  int     // containers with at least slo_threshold
	used       int     // slots
	vacant     int     // nodes
	placed     int
	rejected   int
	violations int
}

// move counts that a node of kind k went from one state to another.
func (t *tally) move(k *nodeKind, from, to lra.State) {
	t.value += k.score.Value[to] - k.score.Value[from]
	t.throughput += k.throughput[to] - k.throughput[from]
	t.dues += k.dues[to] - k.dues[from]
	t.satisfied += k.satisfied[to] - k.satisfied[from]
	t.used += to.Total() - from.Total()
	if from == 0 {
		t.vacant--
	}
	if to == 0 {
		t.vacant++
	}
}

// info writes the columns of infoColumns.
func (t *tally) info(src *source, dst []float64) {
	n := float64(max(1, t.placed+t.rejected))
	dst[0], dst[1] = t.throughput/n, t.value/n
	if src.opts.Objective == lra.ObjectiveVacant {
		dst[1] += src.opts.Beta
	}
	dst[2] = float64(t.satisfied) / float64(max(1, t.used))
	dst[3] = float64(t.vacant) / float64(src.opts.Nodes)
	dst[4], dst[5], dst[6] = float64(t.placed), float64(t.rejected), float64(t.violations)
}
