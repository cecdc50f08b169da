package categorical_test

import (
	"fmt"
	"math"
	"math/rand/v2"
	"slices"
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

// of returns the distribution of a row.
func of(logits []float32, mask []bool) *categorical.Distribution {
	d := categorical.New(len(logits))
	d.Condition(logits, mask)
	return d
}

func logProbs(logits []float32, mask []bool) []float64 {
	d, logp := of(logits, mask), make([]float64, len(logits))
	for a := range logp {
		logp[a] = d.LogProb(a)
	}
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
	logits, counts := make([]float32, len(probabilities)), make([]float64, len(probabilities))
	for j, p := range probabilities {
		logits[j] = float32(math.Log(p)) // -Inf for 0
	}
	rng := rand.New(rand.NewPCG(1, 2))
	d := of(logits, nil)
	for range draws {
		counts[d.Sample(rng)]++
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

// TestSampleAtTheEdges draws a number that is not below the sum of the probabilities, which are
// rounded. The last permitted action is then drawn, if it is the least probable, too.
func TestSampleAtTheEdges(t *testing.T) {
	draw, rng, short := rand.New(constant{}), rand.New(rand.NewPCG(7, 8)), 0
	for range 1000 {
		logits, mask := []float32{0, 0, 0, 0, -9, 0}, []bool{true, true, true, true, true, false}
		for j := range 4 {
			logits[j] = float32(rng.NormFloat64())
		}
		d := of(logits, mask)
		u := rand.New(constant{}).Float64()
		for a := range 5 {
			u -= math.Exp(d.LogProb(a))
		}
		if u < 0 {
			continue
		}
		short++
		if got := d.Sample(draw); got != 4 {
			t.Fatalf("Sample = %d of logits %v, want the last permitted action, 4", got, logits)
		}
	}
	if short == 0 {
		t.Error("no row whose probabilities sum to less than the number drawn")
	}
	if got := of([]float32{1, 2, 3}, []bool{false, true, false}).Sample(draw); got != 1 {
		t.Errorf("Sample = %d where only 1 is permitted", got)
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
		if got, want := of(make([]float32, n), nil).Entropy(), math.Log(float64(n)); math.Abs(got-want) > 1e-12 {
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
		if got := of(tc.logits, tc.mask).Entropy(); math.Abs(got-tc.want) > 1e-7 {
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
			of(logits, mask).Grad(got, action, w.dLogProb, w.dEntropy)
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
	of([]float32{1e4, -1e4, 1e4}, []bool{true, true, false}).Grad(got, 1, 1, 1)
	if diff := cmp.Diff([]float32{-1, 1, 0}, got); diff != "" {
		t.Errorf("(-want +got):\n%s", diff)
	}
}

func TestPanicsIfNothingIsPermitted(t *testing.T) {
	for name, f := range map[string]func(mask []bool){
		"Condition":           func(mask []bool) { of(make([]float32, 3), mask) },
		"Condition, all -Inf": func([]bool) { of([]float32{float32(ninf), float32(ninf)}, nil) },
		"Mode":                func(mask []bool) { categorical.Mode(make([]float32, 3), mask) },
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
	d, grad, rng := categorical.New(4), make([]float32, 4), rand.New(rand.NewPCG(5, 6))
	if n := testing.AllocsPerRun(100, func() {
		d.Condition(logits, mask)
		d.Grad(grad, d.Sample(rng), d.Entropy(), d.LogProb(categorical.Mode(logits, mask)))
	}); n != 0 {
		t.Errorf("%v allocs/op, want 0", n)
	}
}

// A row computes the same from the definitions, one action after another, in the order in which
// models have always been trained.
type row struct{ logp, p []float64 }

func rowOf(logits []float32, mask []bool) row {
	r := row{make([]float64, len(logits)), make([]float64, len(logits))}
	highest, sum := ninf, 0.0
	for j, l := range logits {
		if mask[j] {
			highest = max(highest, float64(l))
		}
	}
	for j, l := range logits {
		r.logp[j] = ninf
		if mask[j] {
			r.logp[j] = float64(l) - highest
			sum += math.Exp(r.logp[j])
		}
	}
	lse := math.Log(sum)
	for j := range logits {
		r.logp[j] -= lse
		r.p[j] = math.Exp(r.logp[j])
	}
	return r
}

func (r row) entropy() float64 {
	h := 0.0
	for j, l := range r.logp {
		if !math.IsInf(l, -1) {
			h -= r.p[j] * l
		}
	}
	return h
}

func (r row) grad(dLogits []float32, action int, dLogProb, dEntropy float64) {
	h := r.entropy()
	for j, l := range r.logp {
		if math.IsInf(l, -1) {
			continue
		}
		g := -dLogProb*r.p[j] - dEntropy*r.p[j]*(l+h)
		if j == action {
			g += dLogProb
		}
		dLogits[j] += float32(g)
	}
}

// TestBits: trained models depend on every bit.
func TestBits(t *testing.T) {
	rng := rand.New(rand.NewPCG(9, 10))
	for trial := range 20_000 {
		n := 1 + rng.IntN(80)
		logits, mask := make([]float32, n), make([]bool, n)
		spread := math.Pow(10, float64(rng.IntN(6)-2)) // up to 1000, where probabilities are subnormal
		share := rng.Float64()
		for j := range logits {
			logits[j], mask[j] = float32(spread*rng.NormFloat64()), rng.Float64() < share
			if rng.IntN(100) == 0 {
				logits[j] = float32(ninf)
			}
		}
		action := rng.IntN(n)
		logits[action], mask[action] = float32(spread*rng.NormFloat64()), true
		want, d := rowOf(logits, mask), categorical.New(n)
		d.Condition(make([]float32, n), nil) // an earlier row leaves nothing
		given := mask
		if rng.IntN(4) == 0 { // all permitted
			given, want = nil, rowOf(logits, slices.Repeat([]bool{true}, n))
		}
		d.Condition(logits, given)
		for a := range n {
			if got := d.LogProb(a); got != want.logp[a] {
				t.Fatalf("trial %d: log-probability of %d is %v, want %v", trial, a, got, want.logp[a])
			}
		}
		if got := d.Entropy(); got != want.entropy() {
			t.Fatalf("trial %d: entropy %v, want %v", trial, got, want.entropy())
		}
		got, grad := make([]float32, n), make([]float32, n)
		d.Grad(got, action, -0.7, 0.01)
		want.grad(grad, action, -0.7, 0.01)
		if !slices.Equal(got, grad) {
			t.Fatalf("trial %d: gradient %v, want %v", trial, got, grad)
		}
		u, sampled := rand.New(rand.NewPCG(uint64(trial), 1)).Float64(), -1
		for a, p := range want.p {
			if p > 0 || !math.IsInf(want.logp[a], -1) {
				sampled = a
				if u -= p; u < 0 {
					break
				}
			}
		}
		if got := d.Sample(rand.New(rand.NewPCG(uint64(trial), 1))); got != sampled {
			t.Fatalf("trial %d: Sample = %d, want %d", trial, got, sampled)
		}
	}
}

// TestNaN: a network that has diverged is reported by the loss, and does not panic.
func TestNaN(t *testing.T) {
	nan := float32(math.NaN())
	for _, logits := range [][]float32{{1, nan, 2}, {nan, nan, nan}, {float32(math.Inf(1)), 0, 0}, {float32(ninf), nan, 0}} {
		d := of(logits, nil)
		if h := d.Entropy(); !math.IsNaN(h) {
			t.Errorf("%v: entropy %v, want NaN", logits, h)
		}
	}
	negative := math.Float32frombits(0xffc00000) // NaN as the processor makes it
	if p := of([]float32{1, negative}, nil).LogProb(0); !math.IsNaN(p) {
		t.Errorf("log-probability %v beside a NaN, want NaN", p)
	}
}

// BenchmarkRow does what a row of a minibatch of PPO needs. Half of the actions are permitted.
func BenchmarkRow(b *testing.B) {
	for _, n := range []int{2, 8, 65, 1213} {
		b.Run(fmt.Sprint(n), func(b *testing.B) {
			const rows = 64
			d, rng := categorical.New(n), rand.New(rand.NewPCG(5, 6))
			logits, mask, grad := make([]float32, rows*n), make([]bool, rows*n), make([]float32, n)
			for i := range mask {
				logits[i], mask[i] = float32(rng.NormFloat64()), n == 2 || i%n == 0 || rng.IntN(2) == 0
			}
			b.ReportAllocs()
			for i := 0; b.Loop(); i = (i + 1) % rows {
				d.Condition(logits[i*n:(i+1)*n], mask[i*n:(i+1)*n])
				d.Grad(grad, 0, d.LogProb(0), d.Entropy())
			}
		})
	}
}
