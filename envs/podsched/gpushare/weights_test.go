package gpushare

import (
	"math"
	"math/rand/v2"
	"testing"
)

// TestWeightedFGDByScores: whatever the weights, WeightedFGD takes the first node of the highest sum of the scores that
// FGD, BestFit and KubeResources give by themselves, less the weighed pressure of its model.
func TestWeightedFGDByScores(t *testing.T) {
	weights := []Weights{{}, {Pressure: 120}, {BestFit: 0.1}, {KubeResources: 0.3}, {Pressure: 10, BestFit: 0.02, KubeResources: 0.1}}
	choices := make([][]int32, len(weights))
	for seed := range uint64(10) {
		rng := rand.New(rand.NewPCG(seed, 5))
		b, r, cat, arrivals := drawnCluster(t, rng)
		score := map[string]*scored{}
		for _, name := range []string{"FGD", "BestFit", "KubeResources"} {
			p, err := PolicyByName(name)
			if err != nil {
				t.Fatal(err)
			}
			score[name] = newScored(b, p.score)
		}
		placers := make([]Placer, len(weights))
		for i, w := range weights {
			placers[i] = NewWeightedFGD(b, r, w)
		}
		pressure := make([]float64, len(b.FreeOf))
		for at, class := range arrivals {
			c := &cat.Classes[class]
			fgds, fits, kubes := score["FGD"].row(c), score["BestFit"].row(c), score["KubeResources"].row(c)
			r.Pressure(b, c, pressure)
			var takes int32
			var devices uint64
			for i, w := range weights {
				want, best := int32(-1), math.Inf(-1)
				for n := range fgds {
					if fgds[n].score == noFit {
						continue
					}
					v := float64(fgds[n].score) + w.BestFit*float64(fits[n].score)
					if m := b.Nodes[n].Model; m >= 0 {
						v -= w.Pressure * pressure[m]
					}
					v += w.KubeResources * float64(kubes[n].score)
					if v > best+1e-12 {
						want, best = int32(n), v
					}
				}
				node, d := placers[i].Choose(c)
				if node != want {
					t.Fatalf("seed %d, pod %d: %+v takes node %d, want %d", seed, at, w, node, want)
				}
				choices[i] = append(choices[i], node)
				if i == int(seed)%len(weights) {
					takes, devices = node, d
				}
			}
			if takes >= 0 {
				b.Place(c, takes, devices)
			}
		}
	}
	for i := range weights[1:] {
		different := 0
		for k := range choices[0] {
			if choices[i+1][k] != choices[0][k] {
				different++
			}
		}
		if different == 0 {
			t.Errorf("%+v never decides differently from FGD", weights[i+1])
		}
	}
}

// TestLookaheadRefusesKubeResources: a look-ahead would play another policy than WeightedFGD with that weight.
func TestLookaheadRefusesKubeResources(t *testing.T) {
	b, r, cat, _ := drawnCluster(t, rand.New(rand.NewPCG(1, 1)))
	if _, err := NewLookahead(b, r, Weights{KubeResources: 0.1}, cat); err == nil {
		t.Error("NewLookahead with a weight of KubeResources: no error")
	}
}
