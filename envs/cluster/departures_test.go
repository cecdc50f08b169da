package cluster_test

import (
	"cmp"
	"math/rand/v2"
	"slices"
	"testing"
	"time"

	"github.com/kubernasium/kubernasium/envs/cluster"
)

// TestDepartures pops in the order that sorting gives, also between pushes; few times make many ties.
func TestDepartures(t *testing.T) {
	rng := rand.New(rand.NewPCG(1, 2))
	var h cluster.Departures
	var all []cluster.Departure
	pod := int32(0)
	for range 200 {
		for range rng.IntN(8) {
			d := cluster.Departure{At: time.Duration(rng.IntN(20)), Pod: pod, Node: int32(rng.IntN(5)), Devices: rng.Uint64()}
			pod++
			h.Push(d)
			all = append(all, d)
		}
		slices.SortFunc(all, func(a, b cluster.Departure) int { return cmp.Or(cmp.Compare(a.At, b.At), cmp.Compare(a.Pod, b.Pod)) })
		for range min(rng.IntN(8), len(all)) {
			if got := h.Pop(); got != all[0] {
				t.Fatalf("popped %+v, want %+v", got, all[0])
			}
			all = all[1:]
		}
		if len(h) != len(all) {
			t.Fatalf("%d departures are left, want %d", len(h), len(all))
		}
	}
}
