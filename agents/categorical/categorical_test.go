package categorical_test

import (
	"fmt"
	"math"
	"math/rand/v2"
	"testing"

	"github.com/google/go-cmp/cmp"
	"github.com/google/go-cmp/cmp/cmpopts"
	"gonum.org/v1/gonum/diff/fd"

	"github.com/kubernasium/kubernasium/agents/categorical"
)

var (
	ninf   = math.Inf(-1)
	approx = cmpopts.EquateApprox(1e-6, 1e-9)
)

func logProbs(logits []float32, mask []bool) []float64 {
	logp := make([]float64, len(logits))
	categorical.LogProbs(logp, logits, mask)
	return logp
}

func TestLogProbs(t *testing.T) {
	ln := math.Log
	ln2, ln3 := float32(ln(2)), float32(ln(3))
	for _, tc := range []struct {
		name   string
		logits []float32
		mask   []bool
		want   []float64
	}{
		// exp gives the weights 1, 2 and 3, so that the probabilities are the weights over the sum
		// of those permitted.
		{"all permitted", []float32{0, ln2, ln3}, nil, []float64{ln(1. / 6), ln(2. / 6), ln(3. / 6)}},
		{"empty mask", []float32{0, ln2, ln3}, []bool{}, []float64{ln(1. / 6), ln(2. / 6), ln(3. / 6)}},
		{"full mask", []float32{0, ln2, ln3}, []bool{true, true, true}, []float64{ln(1. / 6), ln(2. / 6), ln(3. / 6)}},
		{"first masked out", []float32{0, ln2, ln3}, []bool{false, true, true}, []float64{ninf, ln(2. / 5), ln(3. / 5)}},
		{"highest masked out", []float32{0, ln2, ln3}, []bool{true, true, false}, []float64{ln(1. / 3), ln(2. / 3), ninf}},
		{"one permitted", []float32{0, ln2, ln3}, []bool{false, true, false}, []float64{ninf, 0, ninf}},
		{"only the differences count", []float32{100, 101}, nil, []float64{-ln(1 + math.E), 1 - ln(1+math.E)}},
		// exp(1e4) overflows, and exp(-2e4) is 0 beside 1.
		{"extreme", []float32{1e4, -1e4}, nil, []float64{0, -2e4}},
		{"all very high", []float32{1e4, 1e4}, nil, []float64{ln(.5), ln(.5)}},
		{"all very low", []float32{-1e4, -1e4}, nil, []float64{ln(.5), ln(.5)}},
		{"the extreme one masked out", []float32{1e4, -1e4, -1e4}, []bool{false, true, true}, []float64{ninf, ln(.5), ln(.5)}},
		{"a logit of -Inf", []float32{0, float32(ninf), 0}, nil, []float64{ln(.5), ninf, ln(.5)}},
	} {
		if diff := cmp.Diff(tc.want, logProbs(tc.logits, tc.mask), approx); diff != "" {
			t.Errorf("%s (-want +got):\n%s", tc.name, diff)
		}
	}
}

func TestSampleFrequencies(t *testing.T) {
	const draws = 100_000
	// 18.47 is the 99.9th percentile of chi-square with 4 degrees of freedom, from the table
	// 1.3.6.7.4 of the NIST/SEMATECH e-Handbook of Statistical Methods.
	const limit = 18.47
	probabilities := []float64{0.05, 0, 0.3, 0.15, 0.4, 0.1}
	logp, counts := make([]float64, len(probabilities)), make([]float64, len(probabilities))
	for j, p := range probabilities {
		logp[j] = math.Log(p)
	}
	rng := rand.New(rand.NewPCG(1, 2))
	for range draws {
		counts[categorical.Sample(rng, logp)]++
	}
	if counts[1] != 0 {
		t.Errorf("an action of probability 0 was drawn %v times", counts[1])
	}
	x := 0.0
	for j, p := range probabilities {
		if p > 0 {
			x += (counts[j] - draws*p) * (counts[j] - draws*p) / (draws * p)
		}
	}
	if x > limit {
		t.Errorf("counts %v have chi-square %.1f, want at most %v", counts, x, limit)
	}
}

// constant is a source whose Float64 is always the greatest below 1.
type constant struct{}

func (constant) Uint64() uint64 { return math.MaxUint64 }

// TestSampleAtTheEdges draws where the probabilities sum to less than the number drawn.
func TestSampleAtTheEdges(t *testing.T) {
	rng := rand.New(constant{})
	for _, tc := range []struct {
		name string
		logp []float64
		want int
	}{
		{"last permitted", []float64{math.Log(0.3), math.Log(0.6), ninf}, 1},
		{"only one permitted", []float64{ninf, 0, ninf}, 1},
	} {
		if got := categorical.Sample(rng, tc.logp); got != tc.want {
			t.Errorf("%s: Sample(%v) = %d, want %d", tc.name, tc.logp, got, tc.want)
		}
	}
}

func TestMode(t *testing.T) {
	for _, tc := range []struct {
		name   string
		logits []float32
		mask   []bool
		want   int
	}{
		{"highest", []float32{1, 3, 2}, nil, 1},
		{"first of equals", []float32{1, 3, 3}, nil, 1},
		{"all equal", []float32{0, 0, 0}, []bool{}, 0},
		{"highest masked out", []float32{1, 3, 2}, []bool{true, false, true}, 2},
		{"first of equals masked out", []float32{3, 3, 3}, []bool{false, true, true}, 1},
		{"negative", []float32{-3, -1, -2}, nil, 1},
		{"one permitted, the lowest", []float32{5, 4, -9}, []bool{false, false, true}, 2},
		{"extreme", []float32{-1e4, 1e4}, nil, 1},
	} {
		if got := categorical.Mode(tc.logits, tc.mask); got != tc.want {
			t.Errorf("%s: Mode(%v, %v) = %d, want %d", tc.name, tc.logits, tc.mask, got, tc.want)
		}
	}
}

func TestEntropy(t *testing.T) {
	for n := 1; n <= 6; n++ {
		if got, want := entropy(logProbs(make([]float32, n), nil)), math.Log(float64(n)); math.Abs(got-want) > 1e-12 {
			t.Errorf("entropy of %d equal actions is %v, want ln %d = %v", n, got, n, want)
		}
	}
	for _, tc := range []struct {
		name   string
		logits []float32
		mask   []bool
		want   float64
	}{
		{"two of four permitted", []float32{0, 7, 0, -7}, []bool{true, false, true, false}, math.Ln2},
		{"one permitted", []float32{1, 2}, []bool{true, false}, 0},
		{"certain", []float32{1e4, -1e4}, nil, 0},
		// 1/4 and 3/4: ln 4 − (3/4)·ln 3.
		{"a quarter", []float32{0, float32(math.Log(3))}, nil, math.Log(4) - 0.75*math.Log(3)},
	} {
		if got := entropy(logProbs(tc.logits, tc.mask)); math.Abs(got-tc.want) > 1e-7 {
			t.Errorf("%s: entropy %v, want %v", tc.name, got, tc.want)
		}
	}
}

// reference returns dLogProb·log π(action) + dEntropy·H(π), from the definitions.
func reference(logits []float64, mask []bool, action int, dLogProb, dEntropy float64) float64 {
	sum := 0.0
	for j, l := range logits {
		if mask[j] {
			sum += math.Exp(l)
		}
	}
	entropy := 0.0
	for j, l := range logits {
		if p := math.Exp(l) / sum; mask[j] {
			entropy -= p * math.Log(p)
		}
	}
	return dLogProb*math.Log(math.Exp(logits[action])/sum) + dEntropy*entropy
}

func TestGradAgainstFiniteDifferences(t *testing.T) {
	rng := rand.New(rand.NewPCG(3, 4))
	for _, w := range []struct {
		name               string
		dLogProb, dEntropy float64
	}{
		{"log-probability", 1, 0}, {"entropy", 0, 1}, {"both", -0.7, 0.3}, {"neither", 0, 0},
	} {
		for trial := range 50 {
			n := 1 + rng.IntN(6)
			logits, mask := make([]float32, n), make([]bool, n)
			wide := make([]float64, n)
			for j := range logits {
				logits[j] = float32(2 * rng.NormFloat64())
				wide[j], mask[j] = float64(logits[j]), rng.IntN(3) > 0
			}
			action := rng.IntN(n)
			mask[action] = true

			got := make([]float32, n)
			for j := range got {
				got[j] = 10 // Grad adds
			}
			gradient(got, logProbs(logits, mask), action, w.dLogProb, w.dEntropy)
			want := fd.Gradient(nil, func(x []float64) float64 {
				return reference(x, mask, action, w.dLogProb, w.dEntropy)
			}, wide, &fd.Settings{Formula: fd.Central})
			for j := range got {
				if math.Abs(float64(got[j]-10)-want[j]) > 3e-6 { // float32 beside 10 has steps of 1e-6
					t.Fatalf("%s, trial %d, logits %v, mask %v, action %d: gradient %v less 10, want %v", w.name, trial, logits, mask, action, got, want)
				}
				if !mask[j] && got[j] != 10 {
					t.Fatalf("%s, trial %d: masked action %d has gradient %v", w.name, trial, j, got[j]-10)
				}
			}
		}
	}
}

// TestGradOfExtremeLogits: the probabilities are 1 and 0 to the last bit, so that the gradient
// of log π(1) = l₁ − l₀ is (−1, 1) and that of the entropy 0.
func TestGradOfExtremeLogits(t *testing.T) {
	got := make([]float32, 3)
	gradient(got, logProbs([]float32{1e4, -1e4, 1e4}, []bool{true, true, false}), 1, 1, 1)
	if diff := cmp.Diff([]float32{-1, 1, 0}, got); diff != "" {
		t.Errorf("(-want +got):\n%s", diff)
	}
}

func TestPanicsIfNothingIsPermitted(t *testing.T) {
	for name, f := range map[string]func(mask []bool){
		"LogProbs": func(mask []bool) { logProbs(make([]float32, 3), mask) },
		"Mode":     func(mask []bool) { categorical.Mode(make([]float32, 3), mask) },
	} {
		func() {
			defer func() {
				if recover() == nil {
					t.Errorf("%s does not panic", name)
				}
			}()
			f(make([]bool, 3))
		}()
	}
}

func TestNothingAllocates(t *testing.T) {
	logits, mask := []float32{1, 2, 3, 4}, []bool{true, false, true, true}
	logp, p, grad, rng := make([]float64, 4), make([]float64, 4), make([]float32, 4), rand.New(rand.NewPCG(5, 6))
	if n := testing.AllocsPerRun(100, func() {
		categorical.LogProbs(logp, logits, mask)
		a := categorical.Sample(rng, logp)
		categorical.Probs(p, logp)
		categorical.Grad(grad, logp, p, a, categorical.Entropy(logp, p), float64(categorical.Mode(logits, mask)))
	}); n != 0 {
		t.Errorf("%v allocs/op, want 0", n)
	}
}

func BenchmarkRow(b *testing.B) {
	for _, n := range []int{2, 32} {
		b.Run(fmt.Sprint(n), func(b *testing.B) {
			logits, logp, p := make([]float32, n), make([]float64, n), make([]float64, n)
			grad, rng := make([]float32, n), rand.New(rand.NewPCG(5, 6))
			b.ReportAllocs()
			for b.Loop() {
				categorical.LogProbs(logp, logits, nil)
				categorical.Probs(p, logp)
				categorical.Grad(grad, logp, p, categorical.Sample(rng, logp), 1, 1)
			}
		})
	}
}

// entropy and gradient compute the probabilities first.
func entropy(logp []float64) float64 {
	p := make([]float64, len(logp))
	categorical.Probs(p, logp)
	return categorical.Entropy(logp, p)
}

func gradient(dLogits []float32, logp []float64, action int, dLogProb, dEntropy float64) {
	p := make([]float64, len(logp))
	categorical.Probs(p, logp)
	categorical.Grad(dLogits, logp, p, action, dLogProb, dEntropy)
}
