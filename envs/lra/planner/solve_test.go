package planner_test

import (
	"context"
	"errors"
	"math"
	"slices"
	"testing"

	"github.com/kubernasium/kubernasium/envs/lra"
	"github.com/kubernasium/kubernasium/envs/lra/lratest"
	"github.com/kubernasium/kubernasium/envs/lra/planner"
	"github.com/kubernasium/kubernasium/envs/lra/throughput"
)

// bruteForce returns the highest value of placing batch on the nodes from i on, by trying every
// state of every node.
func bruteForce(p *planner.Problem, i int, left lra.Counts) float64 {
	if i == len(p.Class) {
		if left.Total() == 0 {
			return 0
		}
		return math.Inf(-1)
	}
	best, m := math.Inf(-1), p.Models[p.Class[i]]
states:
	for s := range lra.State(lra.NumStates) {
		rest := left
		for a, k := range s.Counts() {
			if rest[a] -= k; rest[a] < 0 {
				continue states
			}
		}
		if m.Permits(s) {
			best = max(best, m.Value[s]+bruteForce(p, i+1, rest))
		}
	}
	return best
}

// TestSolveMixedNodes compares the optimum with brute force where nodes differ: in slots, speed,
// spread and what they forbid, for each objective.
func TestSolveMixedNodes(t *testing.T) {
	table := throughput.GenerateTable(4)
	for _, o := range []planner.Objective{
		{}, {Kind: planner.ObjectiveSLO, Threshold: 0.9}, {Kind: planner.ObjectiveVacant, NodeCost: 0.7},
	} {
		p := &planner.Problem{Class: []int{0, 1, 2}, Batch: lra.Counts{1, 2, 0, 1, 0, 1, 1}}
		for _, c := range []planner.Class{
			{Slots: 8, Speed: 1}, {Slots: 3, Speed: 1.5, Spread: 1}, {Slots: 4, Speed: 0.8, Forbidden: [lra.NumApps]bool{1: true}},
		} {
			m, err := planner.NewModel(table, c, o)
			if err != nil {
				t.Fatal(err)
			}
			p.Models = append(p.Models, m)
		}
		want := bruteForce(p, 0, p.Batch)
		s, err := p.Solve(t.Context(), planner.SolveOptions{Gap: 1e-9})
		if err != nil {
			t.Fatal(err)
		}
		if math.Abs(s.Value-want) > 1e-7 || s.Placement.Batch() != p.Batch {
			t.Errorf("objective %q: %v with %v, brute force finds %v", o.Kind, s.Value, s.Placement.Batch(), want)
		}
		bound, err := p.Bound(t.Context())
		if err != nil {
			t.Fatal(err)
		}
		if bound.Value < want-1e-7 {
			t.Errorf("objective %q: the bound %v is below the optimum %v", o.Kind, bound.Value, want)
		}
	}
}

// TestInfeasible: three of an application that a spread of 1 keeps on two nodes.
func TestInfeasible(t *testing.T) {
	m, err := planner.NewModel(throughput.GenerateTable(0), planner.Class{Slots: 8, Speed: 1, Spread: 1}, planner.Objective{})
	if err != nil {
		t.Fatal(err)
	}
	p := &planner.Problem{Models: []*planner.Model{m}, Class: []int{0, 0}, Batch: lra.Counts{3}}
	if _, err := p.Solve(t.Context(), planner.SolveOptions{}); err == nil {
		t.Error("Solve: no error")
	}
	if _, err := p.Bound(t.Context()); err == nil {
		t.Error("Bound: no error")
	}
}

// TestLocalSearch: no step is left, containers stay, and the value is that of the facts: 99.8,
// 99.5 and 98.6 % of the optimum on eight batches of 200, 300 and 400.
func TestLocalSearch(t *testing.T) {
	table := lratest.Table(t, "p20")
	for containers, want := range map[int]float64{200: .998, 300: .995, 400: .986} {
		value, bound := 0.0, 0.0
		for _, batch := range lratest.Batches(t, containers)[:8] {
			p, err := planner.NewProblem(table, 81, batch)
			if err != nil {
				t.Fatal(err)
			}
			x, err := p.Place(planner.AppOrder(batch), p.Greedy)
			if err != nil {
				t.Fatal(err)
			}
			p.LocalSearch(t.Context(), x)
			if x.Batch() != batch || p.LocalSearch(t.Context(), x) != 0 {
				t.Errorf("containers %v of %v, or a step was left", x.Batch(), batch)
			}
			b, err := p.Bound(t.Context())
			if err != nil {
				t.Fatal(err)
			}
			value, bound = value+p.Value(x), bound+b.Value
		}
		if got := value / bound; math.Abs(got-want) > 0.003 {
			t.Errorf("%d containers: %.4f of the bound, want %v", containers, got, want)
		}
	}
}

// TestGeneratedTable: the law keeps to the published ranges of each application's throughput,
// within its residual, and its mean; ranges of the facts on the complete profile.
func TestGeneratedTable(t *testing.T) {
	published := [lra.NumApps]struct{ mean, min, max float64 }{
		{.5025, .1562, 1}, {1.3468, .4767, 2.4967}, {.6736, .3956, 1}, {.6337, .4657, 1}, {.6463, .4506, 1}, {.7448, .3575, 1.0548}, {1.2280, .5307, 1.7333},
	}
	table := throughput.GenerateTable(0)
	for a, want := range published {
		sum, n := 0.0, 0
		for s := range lra.State(lra.NumStates) {
			if s.Counts()[a] == 0 {
				continue
			}
			v := table.RPS[s][a]
			sum, n = sum+v, n+1
			if v < want.min || v > want.max+0.2 {
				t.Errorf("%s achieves %v in %v, published are %v to %v", lra.Apps[a], v, s.Counts(), want.min, want.max)
				break
			}
		}
		if mean := sum / float64(n); math.Abs(mean-want.mean) > 0.02 {
			t.Errorf("%s achieves %.4f on average, published is %v", lra.Apps[a], mean, want.mean)
		}
	}
}

// A dense batch takes many branches; none is expanded once the context has ended.
func TestSolveStopsWithItsContext(t *testing.T) {
	p, err := planner.NewProblem(throughput.GenerateTable(0), 81, lra.Counts{90, 81, 88, 79, 85, 91, 86})
	if err != nil {
		t.Fatal(err)
	}
	ended, cancel := context.WithCancel(t.Context())
	cancel()
	if s, err := p.Solve(ended, planner.SolveOptions{}); !errors.Is(err, context.Canceled) {
		t.Errorf("Solve after the end of its context: %v, %v, want context.Canceled", s, err)
	}
}

func TestRoundsOrder(t *testing.T) {
	if got, want := planner.RoundsOrder(lra.Counts{2, 0, 3, 1}), []int{0, 2, 3, 0, 2, 2}; !slices.Equal(got, want) {
		t.Errorf("RoundsOrder = %v, want %v", got, want)
	}
}
