package run

import (
	"testing"

	"github.com/google/go-cmp/cmp"

	"github.com/kubernasium/kubernasium/agents"
	"github.com/kubernasium/kubernasium/envs"
)

// TestPlacementsLeaveOut: of actions in three environments with two nodes, that which waits (2) and that
// which was masked out are no placements. The imbalance of an episode that has ended is its last one:
// (10 + 20 + 60) / 3.
func TestPlacementsLeaveOut(t *testing.T) {
	l := &actionLog{tag: placementsTag, nodes: 2, values: make([][]float64, 1), columns: 1}
	l.record([]float32{1, 2, 0}, &envs.Batch{
		Reward: make([]float64, 3), Invalid: []bool{false, false, true}, Terminated: []bool{false, false, true}, Truncated: make([]bool, 3),
		Info: []float64{10, 20, 30}, FinalInfo: []float64{0, 0, 60},
	})
	metrics := agents.Metrics{}
	got := l.take(metrics)[placementsTag]
	if diff := cmp.Diff([]float64{1}, got.Counts); diff != "" || got.Min != 1 || metrics[imbalanceTag] != 30 {
		t.Errorf("placements %+v, imbalance %v; want node 1 once, and 30", got, metrics[imbalanceTag])
	}
}
