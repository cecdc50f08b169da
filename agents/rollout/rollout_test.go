package rollout_test

import (
	"math"
	"math/rand/v2"
	"strconv"
	"testing"

	"github.com/google/go-cmp/cmp"
	"github.com/google/go-cmp/cmp/cmpopts"

	"github.com/kubernasium/kubernasium/agents/rollout"
)

var approx = cmpopts.EquateApprox(1e-5, 1e-6)

// rolled is a rollout of shape (T, N).
type rolled struct {
	n                     int
	value, next           []float32
	reward                []float64
	terminated, truncated []bool
}

func (r rolled) gae(gamma, lambda float64) (adv, ret []float32) {
	adv, ret = make([]float32, len(r.reward)), make([]float32, len(r.reward))
	r.buffer(adv, ret).Estimate(nil, gamma, lambda)
	return adv, ret
}

func (r rolled) buffer(adv, ret []float32) *rollout.Buffer {
	return &rollout.Buffer{
		T: len(r.reward) / r.n, N: r.n, Value: r.value, NextValue: r.next, Reward: r.reward,
		Terminated: r.terminated, Truncated: r.truncated, Adv: adv, Ret: ret,
	}
}

// at returns n flags that are set at the given indices.
func at(n int, set ...int) []bool {
	flags := make([]bool, n)
	for _, i := range set {
		flags[i] = true
	}
	return flags
}

// TestGAEByHand has γ = λ = 1/2 unless said otherwise, so that γλ = 1/4. In the comments δ is
// reward + γ·next − value, and A the advantage, from the last step to the first.
func TestGAEByHand(t *testing.T) {
	const half = 0.5
	values := []float32{1, 2, 3}
	next := []float32{2, 3, 4}
	rewards := []float64{1, 1, 1}
	for _, tc := range []struct {
		name          string
		r             rolled
		gamma, lambda float64
		adv, ret      []float32
	}{
		{
			"episode goes on", // δ = 1+1−1, 1+1.5−2, 1+2−3 = 1, .5, 0; A = 0, .5, 1.125
			rolled{1, values, next, rewards, at(3), at(3)}, half, half,
			[]float32{1.125, 0.5, 0}, []float32{2.125, 2.5, 3},
		},
		{
			"terminated in the middle", // δ₁ = 1−2 = −1; A₁ = −1, A₀ = 1−1/4
			rolled{1, values, next, rewards, at(3, 1), at(3)}, half, half,
			[]float32{0.75, -1, 0}, []float32{1.75, 1, 3},
		},
		{
			"terminated at the end", // δ₂ = 1−3 = −2; A₂ = −2, A₁ = .5−.5, A₀ = 1+0
			rolled{1, values, next, rewards, at(3, 2), at(3)}, half, half,
			[]float32{1, 0, -2}, []float32{2, 2, 1},
		},
		{
			// next[1] = 10 is the value of the final observation: δ₁ = 1+5−2 = 4; A₁ = 4, A₀ = δ₀+4/4
			"truncated in the middle bootstraps",
			rolled{1, values, []float32{2, 10, 4}, rewards, at(3), at(3, 1)}, half, half,
			[]float32{2, 4, 0}, []float32{3, 6, 3},
		},
		{
			"terminated and truncated at once does not bootstrap",
			rolled{1, values, []float32{2, 10, 4}, rewards, at(3, 1), at(3, 1)}, half, half,
			[]float32{0.75, -1, 0}, []float32{1.75, 1, 3},
		},
		{
			"a terminated step's next value may be anything",
			rolled{1, values, []float32{2, float32(math.NaN()), 4}, rewards, at(3, 1), at(3)}, half, half,
			[]float32{0.75, -1, 0}, []float32{1.75, 1, 3},
		},
		{
			// γ = 0: each reward alone counts. A = reward − value
			"gamma 0", rolled{1, values, next, []float64{5, 6, 7}, at(3), at(3)}, 0, 1,
			[]float32{4, 4, 4}, []float32{5, 6, 7},
		},
		{
			// λ = 0: the TD error alone. δ = 1+2−1, 1+3−2, 1+4−3
			"gamma 1, lambda 0", rolled{1, values, next, rewards, at(3), at(3)}, 1, 0,
			[]float32{2, 2, 2}, []float32{3, 4, 5},
		},
		{
			// γ = λ = 1: the return is the rewards to come and the last value. 3+4, 2+4, 1+4
			"gamma 1, lambda 1", rolled{1, values, next, rewards, at(3), at(3)}, 1, 1,
			[]float32{6, 4, 2}, []float32{7, 6, 5},
		},
		{
			// Columns are the cases "episode continues" and "terminated in the middle" side by side.
			"two environments do not mix",
			rolled{2, []float32{1, 1, 2, 2, 3, 3}, []float32{2, 2, 3, 3, 4, 4}, []float64{1, 1, 1, 1, 1, 1}, at(6, 3), at(6)}, half, half,
			[]float32{1.125, 0.75, 0.5, -1, 0, 0}, []float32{2.125, 1.75, 2.5, 1, 3, 3},
		},
		{
			// T = 4: environment 0 is truncated at t=1 (next 10), environment 1 terminates at t=0 and
			// t=2. δ of 0: 1, 1+5−2 = 4, 0, 1+2.5−4 = −.5; A = 1+4/4, 4, 0−.5/4, −.5.
			// δ of 1: 1−1 = 0, 1+1.5−2 = .5, 1−3 = −2, −.5; A = 0, .5−2/4, −2, −.5.
			"four steps with three ends",
			rolled{2, []float32{1, 1, 2, 2, 3, 3, 4, 4}, []float32{2, 2, 10, 3, 4, 4, 5, 5}, []float64{1, 1, 1, 1, 1, 1, 1, 1}, at(8, 1, 5), at(8, 2)}, half, half,
			[]float32{2, 0, 4, 0, -0.125, -2, -0.5, -0.5}, []float32{3, 1, 6, 2, 2.875, 1, 3.5, 3.5},
		},
		{"no steps", rolled{2, nil, nil, nil, nil, nil}, half, half, nil, nil},
	} {
		t.Run(tc.name, func(t *testing.T) {
			adv, ret := tc.r.gae(tc.gamma, tc.lambda)
			if diff := cmp.Diff(tc.adv, adv, approx, cmpopts.EquateEmpty()); diff != "" {
				t.Errorf("advantages (-want +got):\n%s", diff)
			}
			if diff := cmp.Diff(tc.ret, ret, approx, cmpopts.EquateEmpty()); diff != "" {
				t.Errorf("returns (-want +got):\n%s", diff)
			}
		})
	}
}

// random returns a rollout with every combination of flags, in which the value of a next
// observation within an episode is that of the next step.
func random(rng *rand.Rand, steps, n int) rolled {
	size := steps * n
	r := rolled{n, make([]float32, size), make([]float32, size), make([]float64, size), make([]bool, size), make([]bool, size)}
	for i := range size {
		r.value[i], r.next[i], r.reward[i] = float32(rng.NormFloat64()), float32(rng.NormFloat64()), rng.NormFloat64()
		r.terminated[i], r.truncated[i] = rng.IntN(5) == 0, rng.IntN(5) == 0
	}
	for i := range size - n {
		if !r.terminated[i] && !r.truncated[i] {
			r.next[i] = r.value[i+n]
		}
	}
	return r
}

// TestGAEIsTheSum compares with the definition, equation 16 of the paper: the sum of
// (γλ)^l·δ over the steps to come of the same episode.
func TestGAEIsTheSum(t *testing.T) {
	rng := rand.New(rand.NewPCG(1, 2))
	for trial := range 200 {
		steps, n := 1+rng.IntN(20), 1+rng.IntN(4)
		gamma, lambda := rng.Float64(), rng.Float64()
		r := random(rng, steps, n)
		want := make([]float32, steps*n)
		for from := range want {
			sum := 0.0
			for l, i := 0, from; i < len(want); l, i = l+1, i+n {
				bootstrap := float64(r.next[i])
				if r.terminated[i] {
					bootstrap = 0
				}
				sum += math.Pow(gamma*lambda, float64(l)) * (r.reward[i] + gamma*bootstrap - float64(r.value[i]))
				if r.terminated[i] || r.truncated[i] {
					break
				}
			}
			want[from] = float32(sum)
		}
		adv, ret := r.gae(gamma, lambda)
		if diff := cmp.Diff(want, adv, approx); diff != "" {
			t.Fatalf("trial %d, T=%d, N=%d, γ=%v, λ=%v (-want +got):\n%s", trial, steps, n, gamma, lambda, diff)
		}
		for i := range ret {
			if ret[i] != adv[i]+r.value[i] {
				t.Fatalf("trial %d: return %v of row %d, want %v + %v", trial, ret[i], i, adv[i], r.value[i])
			}
		}
	}
}

// TestGAEOfLambda1 compares with Monte Carlo: the discounted rewards to the end of the episode
// or of the rollout, and the value there, less the value here.
func TestGAEOfLambda1(t *testing.T) {
	rng := rand.New(rand.NewPCG(3, 4))
	for trial := range 200 {
		steps, n, gamma := 1+rng.IntN(20), 1+rng.IntN(4), rng.Float64()
		r := random(rng, steps, n)
		want := make([]float32, steps*n)
		for from := range want {
			discount, ret := 1.0, 0.0
			for i := from; i < len(want); i += n {
				ret += discount * r.reward[i]
				discount *= gamma
				if last := i+n >= len(want); r.terminated[i] {
					break
				} else if r.truncated[i] || last {
					ret += discount * float64(r.next[i])
					break
				}
			}
			want[from] = float32(ret)
		}
		if _, ret := r.gae(gamma, 1); !cmp.Equal(want, ret, approx) {
			t.Fatalf("trial %d, T=%d, N=%d, γ=%v: λ-returns (-want +got):\n%s", trial, steps, n, gamma, cmp.Diff(want, ret, approx))
		}
	}
}

func TestBuffer(t *testing.T) {
	b := rollout.New(3, 2, 4, 1, 5)
	for _, l := range []struct {
		name      string
		got, want int
	}{
		{"Obs", len(b.Obs), 24}, {"Mask", len(b.Mask), 30}, {"Action", len(b.Action), 6}, {"LogProb", len(b.LogProb), 6},
		{"Value", len(b.Value), 6}, {"NextValue", len(b.NextValue), 6}, {"Reward", len(b.Reward), 6},
		{"Terminated", len(b.Terminated), 6}, {"Truncated", len(b.Truncated), 6}, {"Adv", len(b.Adv), 6}, {"Ret", len(b.Ret), 6},
	} {
		if l.got != l.want {
			t.Errorf("len(%s) = %d, want %d", l.name, l.got, l.want)
		}
	}
	for round := range 2 {
		for step := range 3 {
			from, to := b.Rows()
			if b.Full() || b.Step() != step || from != 2*step || to != 2*step+2 {
				t.Fatalf("round %d, step %d: Full() = %v, Step() = %d, Rows() = %d, %d", round, step, b.Full(), b.Step(), from, to)
			}
			b.Advance()
		}
		if !b.Full() || b.Step() != 3 {
			t.Fatalf("round %d: Full() = %v, Step() = %d after 3 of 3 steps", round, b.Full(), b.Step())
		}
		b.Clear()
	}
}

// TestBufferEstimate is "truncated in the middle" of TestGAEByHand.
func TestBufferEstimate(t *testing.T) {
	b := rollout.New(3, 1, 1, 1, 0)
	copy(b.Value, []float32{1, 2, 3})
	copy(b.NextValue, []float32{2, 10, 4})
	copy(b.Reward, []float64{1, 1, 1})
	b.Truncated[1] = true
	b.Estimate(nil, 0.5, 0.5)
	if diff := cmp.Diff([]float32{2, 4, 0}, b.Adv, approx); diff != "" {
		t.Errorf("advantages (-want +got):\n%s", diff)
	}
	if diff := cmp.Diff([]float32{3, 6, 3}, b.Ret, approx); diff != "" {
		t.Errorf("returns (-want +got):\n%s", diff)
	}
}

func BenchmarkGAE(b *testing.B) {
	for _, n := range []int{1, 8, 64} {
		b.Run(strconv.Itoa(n), func(b *testing.B) {
			r := random(rand.New(rand.NewPCG(5, 6)), 2048, n)
			adv, ret := make([]float32, len(r.reward)), make([]float32, len(r.reward))
			buffer := r.buffer(adv, ret)
			b.ReportAllocs()
			for b.Loop() {
				buffer.Estimate(nil, 0.99, 0.95)
			}
			b.ReportMetric(float64(b.Elapsed().Nanoseconds())/float64(b.N*len(r.reward)), "ns/step")
		})
	}
}

// TestEstimateAllocates: nothing but the function that the workers share, whatever the size.
func TestEstimateAllocates(t *testing.T) {
	r := random(rand.New(rand.NewPCG(5, 6)), 32, 200)
	buffer := r.buffer(make([]float32, 32*200), make([]float32, 32*200))
	if n := testing.AllocsPerRun(10, func() { buffer.Estimate(nil, 0.99, 0.95) }); n > 1 {
		t.Errorf("%v allocs/op, want at most 1", n)
	}
}
