package replay

import (
	"math"
	"math/rand/v2"
	"testing"

	"github.com/kubernasium/kubernasium/envs"
)

// transition is one step of one environment as it happened.
type transition struct {
	obs, final            float32 // the latter where truncated
	mask, finalMask       [2]bool
	action                float32
	reward                float64
	terminated, truncated bool
}

// TestAgainstBruteForce plays random steps, ends and masks in three environments and compares
// everything that can be sampled with returns computed from the whole history. Observations are
// distinct, so that each identifies its transition.
func TestAgainstBruteForce(t *testing.T) {
	const n, gamma = 3, 0.75
	for seed := range uint64(60) {
		rng := rand.New(rand.NewPCG(seed, 1))
		nSteps, masked := 1+rng.IntN(4), seed%2 == 1
		b := New(Config{Size: n * (3 + rng.IntN(20)), NumEnvs: n, ObsSize: 1, MaskSize: 2, NSteps: nSteps, Gamma: gamma})
		history := make([][]transition, n)
		serial := float32(0)
		fresh := func() float32 { serial++; return serial }
		randomMask := func() [2]bool { return [2]bool{true, !masked || rng.IntN(2) == 0} }
		var obs [n]float32
		var mask [n][2]bool
		for i := range n {
			obs[i], mask[i] = fresh(), [2]bool{true, !masked}
		}
		for range 30 {
			var o, actions, nextObs, finals []float32
			var m, nextMask, finalMasks []bool
			next := &envs.Batch{}
			for i := range n {
				x := transition{obs[i], fresh(), mask[i], randomMask(), float32(rng.IntN(2)), rng.Float64(), rng.IntN(6) == 0, rng.IntN(6) == 0}
				history[i] = append(history[i], x)
				o, m, actions = append(o, x.obs), append(m, x.mask[:]...), append(actions, x.action)
				obs[i], mask[i] = fresh(), randomMask()
				nextObs, nextMask, finals = append(nextObs, obs[i]), append(nextMask, mask[i][:]...), append(finals, x.final)
				finalMasks = append(finalMasks, x.finalMask[:]...)
				next.Reward = append(next.Reward, x.reward)
				next.Terminated, next.Truncated = append(next.Terminated, x.terminated), append(next.Truncated, x.truncated)
			}
			next.Obs, next.Mask, next.FinalObs, next.FinalMask = nextObs, nextMask, finals, finalMasks
			b.Add(o, m, actions, next)
		}
		checkAll(t, b, history, obs, mask, nSteps, gamma)
	}
}

func checkAll(t *testing.T, b *Buffer, history [][]transition, open [3]float32, openMask [3][2]bool, nSteps int, gamma float64) {
	t.Helper()
	seen := map[float32]bool{}
	out, rng := b.NewBatch(400), rand.New(rand.NewPCG(5, 6))
	b.Sample(rng, 1, out)
	for row, obs := range out.Obs {
		seen[obs] = true
		env, k := find(history, obs)
		if env < 0 {
			t.Fatalf("observation %v was sampled", obs)
		}
		h := history[env]
		sum, discount, at, atMask := 0.0, 1.0, float32(0), [2]bool{}
		for j := 0; ; j++ {
			if k+j == len(h) {
				at, atMask = open[env], openMask[env]
				break
			}
			x := h[k+j]
			cut := x.truncated && !x.terminated
			if j == nSteps {
				at, atMask = x.obs, x.mask
				break
			}
			sum += discount * x.reward
			discount *= gamma
			if x.terminated {
				discount = 0
				break
			}
			if cut {
				at, atMask = x.final, x.finalMask
				break
			}
		}
		if math.Abs(float64(out.Return[row])-sum) > 1e-6 || math.Abs(float64(out.Discount[row])-discount) > 1e-6 || out.Action[row] != h[k].action {
			t.Fatalf("observation %v: action %v, return %v, discount %v, want %v, %v, %v", obs, out.Action[row], out.Return[row], out.Discount[row], h[k].action, sum, discount)
		}
		if discount != 0 && (out.NextObs[row] != at || [2]bool(out.NextMask[2*row:]) != atMask) {
			t.Fatalf("observation %v: bootstraps at %v under %v, want %v under %v", obs, out.NextObs[row], out.NextMask[2*row:2*row+2], at, atMask)
		}
	}
	if len(seen) != b.Len() {
		t.Errorf("%d transitions were sampled in 400 draws, Len() = %d", len(seen), b.Len())
	}
}

// find returns the environment and step of an observation.
func find(history [][]transition, obs float32) (env, k int) {
	for env, h := range history {
		for k, x := range h {
			if x.obs == obs {
				return env, k
			}
		}
	}
	return -1, 0
}
