package placement_test

import (
	"math/rand/v2"
	"testing"
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
