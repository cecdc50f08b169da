package planner_test

import (
	"math"
	"slices"
	"testing"

	"github.com/kubernasium/kubernasium/envs/lra"
	"github.com/kubernasium/kubernasium/envs/lra/planner"
	"github.com/kubernasium/kubernasium/envs/lra/throughput"
)

// TestRoundingPrices: a node in the state that BestFill takes at the prices loses nothing, as its value and
// the linear bound of the rest add up to the linear bound of all. At the duals themselves BestFill takes states of
// which the linear program has a part of a node, which lose.
func TestRoundingPrices(t *testing.T) {
	lost := 0
	for seed := range uint64(8) {
		p, err := planner.NewProblem(throughput.GenerateTable(0), 40, planner.DrawBatches(300, 1, seed)[0])
		if err != nil {
			t.Fatal(err)
		}
		all, err := p.Bound(t.Context())
		if err != nil {
			t.Fatal(err)
		}
		pi, err := p.RoundingPrices(t.Context())
		if err != nil {
			t.Fatal(err)
		}
		if loss := all.Value - with(t, p, p.Models[0].BestFill(p.Batch, &pi, 0)); math.Abs(loss) > 1e-6 {
			t.Errorf("seed %d: the node loses %v of the bound, want 0", seed, loss)
		}
		if all.Value-with(t, p, p.Models[0].BestFill(p.Batch, &all.Apps, 0)) > 1e-6 {
			lost++
		}
	}
	if lost == 0 {
		t.Error("no node loses anything at the duals: the test shows nothing")
	}
}

// with returns the value of a node in state s and the linear bound of the others with the rest.
func with(t *testing.T, p *planner.Problem, s lra.State) float64 {
	t.Helper()
	rest := *p
	rest.Class = slices.Clone(p.Class[1:])
	for a, k := range s.Counts() {
		rest.Batch[a] -= k
	}
	b, err := rest.Bound(t.Context())
	if err != nil {
		t.Fatal(err)
	}
	return p.Models[0].Value[s] + b.Value
}
