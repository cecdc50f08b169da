package subcluster_test

import (
	"errors"
	"math"
	"strings"
	"testing"

	"github.com/kubernasium/kubernasium/envs"
	"github.com/kubernasium/kubernasium/envs/lra"
	"github.com/kubernasium/kubernasium/envs/lra/planner"
	"github.com/kubernasium/kubernasium/envs/lra/subcluster"
	"github.com/kubernasium/kubernasium/envs/lra/throughput"
)

// TestCompareRoundRobin: round-robin compared with itself differs in nothing, and a container alone on a
// node achieves 1, which is the bound of up to 27 containers of applications that contend.
func TestCompareRoundRobin(t *testing.T) {
	sub, err := subcluster.Open("round_robin")
	if err != nil {
		t.Fatal(err)
	}
	contend, err := lra.NewTable(func(s lra.State, _ int) float64 { return 1 - 0.1*float64(s.Total()-1) })
	if err != nil {
		t.Fatal(err)
	}
	all, err := subcluster.Compare(t.Context(), contend, sub, 1, 1)
	if err != nil || len(all) != 216 {
		t.Fatalf("%d numbers of containers, %v; want 216", len(all), err)
	}
	for _, q := range all {
		if math.Abs(q.Learned-q.RoundRobin) > 1e-12 || q.Bound < q.GreedyBoth-1e-9 || q.GreedyBoth < q.Greedy {
			t.Errorf("%+v: want round-robin twice, and greedy at most both orders at most the bound", q)
		}
		// n containers on 27 nodes: each of n mod 27 nodes has one more than the others.
		low, more := q.Containers/27, q.Containers%27
		value := func(k int) float64 { return float64(k) * (1 - 0.1*float64(k-1)) }
		want := (float64(more)*value(low+1) + float64(27-more)*value(low)) / float64(q.Containers)
		if math.Abs(q.RoundRobin-want) > 1e-9 {
			t.Errorf("round-robin with %d containers reaches %v, want %v", q.Containers, q.RoundRobin, want)
		}
	}
}

// TestEqualSplit by hand: two Redis and three MMS on two sub-clusters. Redis go to the first, then to the
// second, which has fewer; MMS to the first of two equal ones, to the second, and to the first again.
func TestEqualSplit(t *testing.T) {
	parts, err := subcluster.EqualSplit(lra.Counts{2, 3}, 2, 4)
	if err != nil || parts[0] != (lra.Counts{1, 2}) || parts[1] != (lra.Counts{1, 1}) {
		t.Errorf("parts %v, %v; want {1, 2} and {1, 1}", parts, err)
	}
	if _, err := subcluster.EqualSplit(lra.Counts{5, 4}, 2, 4); err == nil {
		t.Error("nine containers in eight slots are accepted")
	}
}

// TestFillParts fills each part on nodes of its own.
func TestFillParts(t *testing.T) {
	p, err := planner.NewProblem(throughput.GenerateTable(0), 54, lra.Counts{2, 3})
	if err != nil {
		t.Fatal(err)
	}
	sub, err := subcluster.Open("greedy")
	if err != nil {
		t.Fatal(err)
	}
	x, err := subcluster.FillParts(p, []lra.Counts{{1, 2}, {1, 1}}, sub)
	if err != nil || x[:27].Batch() != (lra.Counts{1, 2}) || x[27:].Batch() != (lra.Counts{1, 1}) {
		t.Errorf("%v and %v, %v; want the parts", x[:27].Batch(), x[27:].Batch(), err)
	}
	if _, err := subcluster.FillParts(p, []lra.Counts{{1}}, sub); err == nil {
		t.Error("one part for two sub-clusters is accepted")
	}
}

func TestOpenRefuses(t *testing.T) {
	if _, err := subcluster.Open("best"); !errors.Is(err, envs.ErrInvalidOption) || !strings.Contains(err.Error(), `subscheduler is "best", want one of [greedy greedy_local_search least_loaded milp round_robin]`) {
		t.Errorf("%v, want an invalid option with the names", err)
	}
	if _, err := subcluster.Open("nowhere.npz"); err == nil || errors.Is(err, envs.ErrInvalidOption) {
		t.Errorf("%v, want the error of the file", err)
	}
}
