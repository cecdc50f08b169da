package scheduler

import (
	"math"
	"testing"

	"github.com/kubernasium/kubernasium/envs/cluster"
)

// TestImbalance: of two nodes of 4 CPU and 8 GiB, the first holds 1 CPU and 2 GiB. With 1 CPU and
// 4 GiB more on the second, CPU is at 25 % of each, and memory at 25 and 50 %: deviations of 0 and
// 12.5 %, whose mean is 6.25 %. On the first it is 50 and 0 %, and 75 and 0 %: 25 and 37.5 %.
func TestImbalance(t *testing.T) {
	const gi = 1 << 30
	node := cluster.Node{Allocatable: cluster.Resources{MilliCPU: 4000, MemoryBytes: 8 * gi}}
	nodes := []cluster.Node{node, node}
	nodes[0].Requested = cluster.Resources{MilliCPU: 1000, MemoryBytes: 2 * gi}
	more := cluster.Resources{MilliCPU: 1000, MemoryBytes: 4 * gi}
	for at, want := range map[int]float64{1: 6.25, 0: 31.25} {
		if got := imbalance(nodes, at, more); math.Abs(got-want) > 1e-9 {
			t.Errorf("on node %d: %v, want %v", at, got, want)
		}
	}
	if got := imbalance([]cluster.Node{{}, {}}, 0, more); got != 0 {
		t.Errorf("nodes of nothing: %v, want 0", got)
	}
}
