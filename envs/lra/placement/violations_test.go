package placement_test

import (
	"math/rand/v2"
	"slices"
	"testing"

	"github.com/google/go-cmp/cmp"
)

// TestViolationsAreAShareOfTheBatch: each restricted application has one node that is meant for it, and random
// permitted nodes are others nearly always, so that all permitted violations happen. 29 % of 100 containers are 29,
// although 0.29·100 is below that in binary; a batch of drawn size permits a share of its own containers.
func TestViolationsAreAShareOfTheBatch(t *testing.T) {
	for _, tc := range []struct {
		name  string
		share float64
		opts  map[string]any
		want  func(n int) int
	}{
		{"29 %", 0.29, map[string]any{"containers": 100}, func(int) int { return 29 }},
		{"a tenth of a drawn number", 0.1, map[string]any{"containers": 200, "min_containers": 20}, func(n int) int { return n / 10 }},
	} {
		tc.opts["restrict"], tc.opts["soft_violations"] = []string{"redis:0.01", "mms:0.01", "ckm:0.01"}, tc.share
		v := open(t, "k8s/LRAPlacement-v0", tc.opts)
		rng := rand.New(rand.NewPCG(1, 2))
		for seed := range uint64(5) {
			b := reset(t, v, seed)
			for first := true; first || !b.Done(0); first = false {
				node := rng.IntN(len(b.Mask))
				for !b.Mask[node] {
					node = rng.IntN(len(b.Mask))
				}
				b = step(t, v, float32(node))
			}
			n := int(b.FinalInfo[4] + b.FinalInfo[5]) // placed and rejected
			if got := int(b.FinalInfo[6]); got != tc.want(n) {
				t.Errorf("%s, seed %d: %d violations of %d containers, want %d", tc.name, seed, got, n, tc.want(n))
			}
		}
	}
}

// TestMaskAfterMaskedChoice: a third of the nodes is full and masked out. Whoever chooses it nevertheless may then
// choose among all of it, and the container stays pending.
func TestMaskAfterMaskedChoice(t *testing.T) {
	v := open(t, "k8s/LRASubcluster-v0", map[string]any{"nodes": 9, "containers": 72})
	b := reset(t, v, 1)
	for range 24 { // containers fill nodes 0 to 2
		step(t, v, 0)
		node := 0
		for node < 2 && !v.Last().Mask[node] {
			node++
		}
		b = step(t, v, float32(node))
	}
	if diff := cmp.Diff([]bool{false, true, true}, b.Mask); diff != "" {
		t.Fatalf("mask with a full third (-want +got):\n%s", diff)
	}
	if b = step(t, v, 0); !b.Invalid[0] || !slices.Equal(b.Mask, []bool{true, true, true}) {
		t.Errorf("in the full third: invalid %v, mask %v; want true, all", b.Invalid[0], b.Mask)
	}
	if b = step(t, v, 1); b.Info[4] != 24 || b.Info[5] != 1 {
		t.Errorf("%v placed and %v rejected, want 24 and 1", b.Info[4], b.Info[5])
	}
}
