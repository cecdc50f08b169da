package planner_test

import (
	"math/rand/v2"
	"testing"

	"github.com/kubernasium/kubernasium/envs/lra"
	"github.com/kubernasium/kubernasium/envs/lra/planner"
	"github.com/kubernasium/kubernasium/envs/lra/throughput"
)

func BenchmarkGreedy729Nodes3000Containers(b *testing.B) {
	p := problem(b, 729, 3000)
	order := planner.AppOrder(p.Batch)
	for b.Loop() {
		if _, err := p.Place(order, p.Greedy); err != nil {
			b.Fatal(err)
		}
	}
}

func BenchmarkBound81Nodes(b *testing.B) {
	p := problem(b, 81, 400)
	for b.Loop() {
		if _, err := p.Bound(b.Context()); err != nil {
			b.Fatal(err)
		}
	}
}

func BenchmarkSolve81Nodes(b *testing.B) {
	p := problem(b, 81, 200)
	for b.Loop() {
		if _, err := p.Solve(b.Context(), planner.SolveOptions{}); err != nil {
			b.Fatal(err)
		}
	}
}

// problem returns a drawn batch on nodes of the generated table.
func problem(tb testing.TB, nodes, containers int) *planner.Problem {
	tb.Helper()
	var batch lra.Counts
	rng := rand.New(rand.NewPCG(1, 2))
	for range containers {
		batch[rng.IntN(lra.NumApps)]++
	}
	p, err := planner.NewProblem(throughput.GenerateTable(0), nodes, batch)
	if err != nil {
		tb.Fatal(err)
	}
	return p
}
