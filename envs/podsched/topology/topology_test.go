package topology_test

import (
	"testing"

	"github.com/kubernasium/kubernasium/envs/podsched/topology"
)

// The 1,213 nodes of the GPU trace in racks of four fill 304 racks, of which the last holds one
// (the figures of the earlier project's script).
func TestRacksOfTheTrace(t *testing.T) {
	const n, perRack = 1213, 4
	if got := topology.NumRacks(n, perRack); got != 304 {
		t.Errorf("NumRacks = %d, want 304", got)
	}
	inRack := make([]int, 304)
	servers := map[string]bool{}
	for i := range n {
		inRack[topology.Rack(i, perRack)]++
		servers[topology.ServerName(i, perRack)] = true
	}
	if inRack[302] != 4 || inRack[303] != 1 {
		t.Errorf("the last racks hold %d and %d, want 4 and 1", inRack[302], inRack[303])
	}
	if len(servers) != n {
		t.Errorf("%d different servers, want %d", len(servers), n)
	}
	if got := topology.ServerName(13, perRack); got != "rack-3-srv-1" {
		t.Errorf("ServerName(13) = %q, want rack-3-srv-1", got)
	}
}
