package gpushare

import (
	"math"
	"math/rand/v2"
	"testing"
)

// drawnCluster returns an inventory of drawn nodes, some with few pods, and drawn classes.
func drawnCluster(t testing.TB, rng *rand.Rand) (*Inventory, *Reserve, *Catalogue, []int32) {
	t.Helper()
	models := []string{"G2", "T4", "P100"}
	var nodes []Node
	for range 12 {
		n := Node{MilliCPU: 16000 * int64(1+rng.IntN(6)), MemoryMiB: 65536 * int64(1+rng.IntN(4)), GPUs: rng.IntN(9), MaxPods: 3 + rng.IntN(60)}
		if n.GPUs > 0 {
			n.Model = models[rng.IntN(len(models))]
		}
		nodes = append(nodes, n)
	}
	var shapes []Pod
	for range 14 {
		s := Shape{MilliCPU: 1000 * int64(rng.IntN(16)), MemoryMiB: 2048 * int64(rng.IntN(16))}
		switch rng.IntN(4) {
		case 0:
		case 1:
			s.GPUs, s.MilliGPU = 1<<rng.IntN(3), WholeGPU
		default:
			s.GPUs, s.MilliGPU = 1, int32(50*(1+rng.IntN(20)))
		}
		if s.GPUs > 0 && rng.IntN(3) == 0 {
			s.Models = []string{"T4", "P100", "G2|P100"}[rng.IntN(3)]
		}
		shapes = append(shapes, Pod{Shape: s})
	}
	cat, err := NewCatalogue(nodes, shapes)
	if err != nil {
		t.Fatal(err)
	}
	var arrivals []int32
	var pods []Pod
	for range 160 {
		p := shapes[rng.IntN(len(shapes))]
		pods, arrivals = append(pods, p), append(arrivals, cat.Of[p.Shape])
	}
	b := &Inventory{}
	b.Reset(nodes, cat, NewFragmenter(TypicalPods(Kinds(pods)), len(pods), &cat.Models))
	return b, NewReserve(Kinds(pods), &cat.Models), cat, arrivals
}

// TestLookaheadIsWeightedFGD: from any state, into any future, a look-ahead ends where the policy
// WeightedFGD ends. It leaves the inventory as it was.
func TestLookaheadIsWeightedFGD(t *testing.T) {
	for seed := range uint64(40) {
		w := DefaultWeights
		if seed%4 == 3 {
			w = Weights{Pressure: 7, BestFit: 0.4}
		}
		b, r, cat, arrivals := drawnCluster(t, rand.New(rand.NewPCG(seed, 1)))
		look, err := NewLookahead(b, r, w, cat)
		if err != nil {
			t.Fatal(err)
		}
		weighted := newWeighing(b, r, w)
		for at, id := range arrivals {
			c := &cat.Classes[id]
			node, devices := weighted.Choose(c)
			if node < 0 {
				continue
			}
			if at%20 == 0 {
				look.begin()
				if first := look.candidates(nil, c, 3)[0]; first.node != node || first.devices != devices {
					t.Fatalf("seed %d, pod %d: first candidate is node %d with devices %b, WeightedFGD takes %d with %b", seed, at, first.node, first.devices, node, devices)
				}
				copied := b.Clone()
				player := newWeighing(&copied, r, w)
				copied.Place(c, node, devices)
				for _, id := range arrivals[at+1:] {
					if n, d := player.Choose(&cat.Classes[id]); n >= 0 {
						copied.Place(&cat.Classes[id], n, d)
					}
				}
				before := b.Used
				for range 2 { // the second time from the table
					if got := look.play(c, node, arrivals[at+1:], nil); got != copied.Used.MilliGPU || b.Used != before {
						t.Fatalf("seed %d, pod %d: the look-ahead allocates %d thousandths, WeightedFGD %d", seed, at, got, copied.Used.MilliGPU)
					}
				}
			}
			b.Place(c, node, devices)
		}
	}
}

// TestGainBound: gains 1, 2 and 3 have mean 2 and the standard error of the mean 1/√3.
func TestGainBound(t *testing.T) {
	var g, one gain
	for _, x := range []float64{1, 2, 3} {
		g.add(x)
	}
	for z, want := range map[float64]float64{0: 2, 1: 2 - 1/math.Sqrt(3), 2: 2 - 2/math.Sqrt(3)} {
		if got := g.bound(3, z); math.Abs(got-want) > 1e-12 {
			t.Errorf("bound of %v standard errors is %v, want %v", z, got, want)
		}
	}
	one.add(5)
	if got := one.bound(1, 1); !math.IsInf(got, -1) {
		t.Errorf("bound of a single gain is %v, want −∞: nothing is known of its error", got)
	}
}

// TestLookaheadRefuses nodes with more devices than its table holds.
func TestLookaheadRefuses(t *testing.T) {
	nodes := []Node{{MilliCPU: 1000, MemoryMiB: 1000, GPUs: 9, Model: "G2"}}
	cat, err := NewCatalogue(nodes, nil)
	if err != nil {
		t.Fatal(err)
	}
	var b Inventory
	b.Reset(nodes, cat, NewFragmenter(nil, 0, &cat.Models))
	if _, err := NewLookahead(&b, NewReserve(nil, &cat.Models), DefaultWeights, cat); err == nil {
		t.Error("a node with 9 devices is no error")
	}
}
