package prices_test

import (
	"math"
	"math/rand/v2"
	"testing"

	"github.com/kubernasium/kubernasium/envs/lra"
	"github.com/kubernasium/kubernasium/envs/lra/planner"
	"github.com/kubernasium/kubernasium/envs/lra/prices"
	"github.com/kubernasium/kubernasium/envs/lra/throughput"
)

// TestBestAhead compares the choice with one whose next containers are placed in a copy of the nodes.
func TestBestAhead(t *testing.T) {
	m, err := planner.NewModel(throughput.GenerateTable(0), planner.StandardClass, planner.Objective{})
	if err != nil {
		t.Fatal(err)
	}
	c := prices.Of(prices.TunedGenerated)
	index := prices.NewIndex(m, &c)
	rng := rand.New(rand.NewPCG(1, 2))
	differs := 0
	for range 300 {
		nodes, permits := make(planner.Placement, 5), make([]bool, 5)
		for i := range nodes {
			for range rng.IntN(lra.MaxSlots) {
				nodes[i] = nodes[i].Add(rng.IntN(lra.NumApps))
			}
			permits[i] = i < 4 // the last is barred, and still takes next containers
		}
		const next = 4.0
		app := rng.IntN(lra.NumApps)
		value := func(node int, next float64) float64 {
			sum := float64(index.Of(nodes[node])[app])
			then := append(planner.Placement{}, nodes...)
			then[node] = then[node].Add(app)
			for a := range lra.NumApps {
				sum += next / lra.NumApps * (largest(index, then, a) - largest(index, nodes, a))
			}
			return sum
		}
		got := index.BestAhead(nodes, permits, app, prices.Ahead{Next: next})
		for node := range 4 {
			if value(node, next) > value(got, next)+1e-6 {
				t.Fatalf("node %d of value %v, and %d has %v", got, value(got, next), node, value(node, next))
			}
		}
		if !permits[got] {
			t.Fatal("a node that is not permitted")
		}
		if alone := index.BestAhead(nodes, permits, app, prices.Ahead{}); value(alone, 0) < value(got, 0)-1e-6 {
			t.Fatalf("without next containers node %d of index %v, and %d has %v", alone, value(alone, 0), got, value(got, 0))
		} else if value(got, 0) < value(alone, 0)-1e-6 {
			differs++
		}
	}
	if differs < 10 {
		t.Errorf("next containers change %d choices of 300, too few for the test to show that they count", differs)
	}
}

// largest returns the largest index for a of the nodes.
func largest(index *prices.Index, nodes planner.Placement, a int) float64 {
	most := math.Inf(-1)
	for _, s := range nodes {
		most = max(most, float64(index.Of(s)[a]))
	}
	return most
}
