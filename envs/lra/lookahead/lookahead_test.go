package lookahead_test

import (
	"math"
	"math/rand/v2"
	"slices"
	"testing"

	"github.com/kubernasium/kubernasium/envs/lra"
	"github.com/kubernasium/kubernasium/envs/lra/lookahead"
	"github.com/kubernasium/kubernasium/envs/lra/planner"
	"github.com/kubernasium/kubernasium/envs/lra/prices"
	"github.com/kubernasium/kubernasium/envs/lra/throughput"
)

// fixture is a cluster of nodes of the generated table.
type fixture struct {
	model *planner.Model
	index *prices.Index
	x     planner.Placement
	ahead *lookahead.Lookahead
}

const arrivals = 28 // rate

func newFixture(t *testing.T, counts ...lra.Counts) *fixture {
	t.Helper()
	m, err := planner.NewModel(throughput.GenerateTable(0), planner.StandardClass, planner.Objective{})
	if err != nil {
		t.Fatal(err)
	}
	c := prices.Of(prices.TunedGenerated)
	f := &fixture{model: m, index: prices.NewIndex(m, &c)}
	for _, n := range counts {
		s, err := lra.StateOf(n)
		if err != nil {
			t.Fatal(err)
		}
		f.x = append(f.x, s)
	}
	f.ahead = lookahead.New(m, f.index, arrivals, lra.MaxSlots*len(counts))
	return f
}

// four are nodes with much and little room; the first and the last are equal.
var four = []lra.Counts{{1, 2, 0, 1, 0, 0, 3}, {0, 0, 3, 0, 2, 2, 0}, {2, 1, 1, 0, 0, 1, 0}, {1, 2, 0, 1, 0, 0, 3}}

// container is one that runs until a time.
type container struct {
	node, app int
	until     float64
}

// play is a future with clocks: containers live and arrivals are apart for exponential times, and the worth is that of the
// index at the horizon.
func (f *fixture) play(app, node int, horizon float64, rng *rand.Rand) (earned float64) {
	x := slices.Clone(f.x)
	x[node] = x[node].Add(app)
	var running []container
	for i, s := range x {
		for a, k := range s.Counts() {
			for range k {
				running = append(running, container{i, a, rng.ExpFloat64()})
			}
		}
	}
	now, next := 0.0, rng.ExpFloat64()/arrivals
	for {
		end, gone := min(next, horizon), -1
		for k, c := range running {
			if c.until < end {
				end, gone = c.until, k
			}
		}
		for _, s := range x {
			earned += f.model.Value[s] * (end - now)
		}
		now = end
		switch {
		case gone >= 0:
			x[running[gone].node] = x[running[gone].node].Remove(running[gone].app)
			running = slices.Delete(running, gone, gone+1)
		case now < horizon:
			a, best, most := rng.IntN(lra.NumApps), -1, math.Inf(-1)
			for i, s := range x {
				if to := s.Add(a); to != lra.NoState && f.index.Worth[to]-f.index.Worth[s] > most {
					best, most = i, f.index.Worth[to]-f.index.Worth[s]
				}
			}
			if best >= 0 {
				x[best] = x[best].Add(a)
				running = append(running, container{best, a, now + rng.ExpFloat64()})
			}
			next = now + rng.ExpFloat64()/arrivals
		default:
			for _, s := range x {
				earned += f.index.Worth[s]
			}
			return earned
		}
	}
}

// TestPlay compares the values of nodes with means over futures that have clocks.
func TestPlay(t *testing.T) {
	f := newFixture(t, four...)
	const app, futures, horizon = 6, 20_000, 0.4
	nodes := []int32{0, 1, 2}
	got := f.ahead.Play(t.Context(), nil, f.x, app, nodes, futures, horizon, rand.New(rand.NewPCG(1, 2)))
	rng := rand.New(rand.NewPCG(3, 4))
	for k, node := range nodes {
		var sum, squares float64
		for range futures {
			x := f.play(app, int(node), horizon, rng)
			sum, squares = sum+x, squares+x*x
		}
		mean := sum / futures
		err := math.Sqrt((squares/futures - mean*mean) / futures)
		if math.Abs(got[k]-mean) > 6*err || err > 0.01*mean {
			t.Errorf("node %d is worth %v, want %v ± %v", node, got[k], mean, err)
		}
	}
	if math.Abs(got[0]-got[1]) < 0.01 || math.Abs(got[1]-got[2]) < 0.01 {
		t.Errorf("nodes are worth %v, too close for the test to show that it matters where the container goes", got)
	}
}

// TestFuturesAreEqual: the same node has the same value in each future, and another node has another value.
func TestFuturesAreEqual(t *testing.T) {
	f := newFixture(t, four...)
	rng := rand.New(rand.NewPCG(1, 2))
	for range 20 {
		got := f.ahead.Play(t.Context(), nil, f.x, 2, []int32{0, 1, 0}, 1, 0.3, rng)
		if got[0] != got[2] || math.Abs(got[0]-got[1]) < 1e-9 {
			t.Fatalf("nodes 0, 1 and 0 are worth %v, want two equal numbers", got)
		}
	}
}

// TestWorthAtTheEnd: without a horizon, the value is the worth of the nodes with the container. Play appends it.
func TestWorthAtTheEnd(t *testing.T) {
	f := newFixture(t, four...)
	got := f.ahead.Play(t.Context(), []float64{7}, f.x, 1, []int32{2}, 3, 1e-9, rand.New(rand.NewPCG(1, 2)))
	want := f.index.Worth[f.x[2].Add(1)]
	for _, i := range []int{0, 1, 3} {
		want += f.index.Worth[f.x[i]]
	}
	if len(got) != 2 || got[0] != 7 || math.Abs(got[1]-want) > 1e-7 {
		t.Errorf("%v, want 7 and %v", got, want)
	}
}

// TestFull: a full cluster rejects arrivals, and the future continues.
func TestFull(t *testing.T) {
	f := newFixture(t, lra.Counts{1, 1, 1, 1, 1, 1, 1})
	const app = 0
	got := f.ahead.Play(t.Context(), nil, f.x, app, []int32{0}, 20_000, 0.5, rand.New(rand.NewPCG(1, 2)))[0]
	rng, sum := rand.New(rand.NewPCG(3, 4)), 0.0
	for range 20_000 {
		sum += f.play(app, 0, 0.5, rng) / 20_000
	}
	if math.Abs(got-sum) > 0.01*sum {
		t.Errorf("a full node is worth %v, want %v", got, sum)
	}
}

// TestNodes: the best come first, by their index; no two are in the same state; others are drawn from the rest.
func TestNodes(t *testing.T) {
	f := newFixture(t, slices.Concat(four, []lra.Counts{{}, {0, 0, 0, 8}, {1}, {0, 1}})...)
	const app = 1
	rng := rand.New(rand.NewPCG(1, 2))
	all := slices.Clone(f.ahead.Nodes(f.x, app, 10, 0, rng))
	if want := []int32{0, 1, 2, 4, 6, 7}; !slices.Equal(slices.Sorted(slices.Values(all)), want) {
		t.Errorf("nodes %v, want %v in some order: neither 3, which equals 0, nor 5, which is full", all, want)
	}
	for k := range len(all) - 1 {
		if a, b := f.index.Of(f.x[all[k]])[app], f.index.Of(f.x[all[k+1]])[app]; a < b {
			t.Errorf("node %d has the index %v and comes before node %d with %v", all[k], a, all[k+1], b)
		}
	}
	seen := map[int32]bool{}
	for range 100 {
		some := f.ahead.Nodes(f.x, app, 2, 1, rng)
		if len(some) != 3 || some[0] != all[0] || some[1] != all[1] || !slices.Contains(all[2:], some[2]) {
			t.Fatalf("nodes %v, want %v and another", some, all[:2])
		}
		seen[some[2]] = true
	}
	if len(seen) != 4 {
		t.Errorf("the others are %v, want four", seen)
	}
}
