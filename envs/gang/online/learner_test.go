package online_test

import (
	"fmt"
	"math"
	"math/rand/v2"
	"os"
	"strings"
	"testing"

	"gonum.org/v1/gonum/mat"

	"github.com/kubernasium/kubernasium/envs/gang/gangtest"
	"github.com/kubernasium/kubernasium/envs/gang/online"
	"github.com/kubernasium/kubernasium/envs/gang/planner"
	"github.com/kubernasium/kubernasium/envs/gang/profile"
)

// model returns the model of a profile with the default shares: 24 cores for eight tasks.
func model(t *testing.T, p *profile.Profile) *profile.Model {
	t.Helper()
	m, err := profile.NewModel(p, profile.DefaultModelConfig())
	if err != nil {
		t.Fatal(err)
	}
	return m
}

// generated returns the profile of the eight tasks, and one in which some tasks take factor times as long and
// others have an exponent of shares that is off by that much.
func generated(factor, exponent float64) (truth, wrong *profile.Profile) {
	truth = profile.Generate(rand.New(rand.NewPCG(5, 6)))
	wrong = &profile.Profile{Tasks: truth.Tasks, Sizes: truth.Sizes, Shares: truth.Shares}
	for k := range truth.Tasks {
		for i := range truth.Sizes {
			for j, share := range truth.Shares {
				d := truth.Duration(k, i, j)
				switch k % 4 {
				case 1:
					d *= factor
				case 3:
					d *= math.Pow(share/3000, exponent)
				}
				wrong.Durations = append(wrong.Durations, d)
			}
		}
	}
	return truth, wrong
}

// TestEqualsBatchRegression: the posterior after all observations solves the normal equations
// (X'X/σ² + Σ⁻¹) β = X'y/σ², and its covariance is their matrix's inverse.
func TestEqualsBatchRegression(t *testing.T) {
	cfg := online.Config{Noise: 0.2, Scale: 0.4, Size: 0.15, Share: 0.25}
	p, _ := generated(1, 0)
	m := model(t, p)
	l, err := online.NewLearner(cfg, m)
	if err != nil {
		t.Fatal(err)
	}
	const task, n = 4, 30
	cmax := 1000 * profile.FitLaw(p, task).CMax
	feature := func(size, share float64) []float64 { // sizes 10 to 49, 1000 to 8500 millicores
		return []float64{1, math.Log(size / math.Sqrt(10*49)), -math.Log(min(share, cmax) / math.Sqrt(1000*8500))}
	}
	rng := rand.New(rand.NewPCG(1, 2))
	x, y := mat.NewDense(n, 3, nil), mat.NewVecDense(n, nil)
	for i := range n {
		size, share, off := 10+39*rng.Float64(), 1000+7500*rng.Float64(), 0.3*rng.NormFloat64()
		x.SetRow(i, feature(size, share))
		y.SetVec(i, off)
		if err := l.Observe(task, size, share, m.Duration(task, size, share)*math.Exp(off)); err != nil {
			t.Fatal(err)
		}
	}
	var a, inverse mat.Dense
	var b, beta mat.VecDense
	a.Mul(x.T(), x)
	a.Scale(1/(0.2*0.2), &a)
	for i, sd := range []float64{0.4, 0.15, 0.25} {
		a.Set(i, i, a.At(i, i)+1/(sd*sd))
	}
	b.MulVec(x.T(), y)
	b.ScaleVec(1/(0.2*0.2), &b)
	if err := inverse.Inverse(&a); err != nil {
		t.Fatal(err)
	}
	beta.MulVec(&inverse, &b)
	for _, at := range [][2]float64{{10, 1000}, {25, 3000}, {49, 8500}} {
		f := mat.NewVecDense(3, feature(at[0], at[1]))
		want, std := mat.Dot(f, &beta), math.Sqrt(mat.Inner(f, &inverse, f))
		if got, gotStd := l.Correction(task, at[0], at[1]); math.Abs(got-want) > 1e-9 || math.Abs(gotStd-std) > 1e-9 {
			t.Errorf("at %v: %v ± %v, want %v ± %v", at, got, gotStd, want, std)
		}
	}
	if mean, std := l.Correction(task+1, 25, 3000); mean != 0 || std < 0.4 {
		t.Errorf("a task without observations: %v ± %v, want 0 and the prior's, at least 0.4", mean, std)
	}
}

// play plays an episode with a dynamic MPC that plans with planned where the truth is another, and returns
// the totals of its first and second half, and of each task the factor by which its prediction is off at the end. learn says
// whether it refines its profile, and how cautiously.
func play(t *testing.T, planned, truth *profile.Model, learn bool, caution float64) (first, second float64, off []float64) {
	t.Helper()
	const steps = 100
	in, err := planner.NewInstance(t.Context(), planned, gangtest.LawTrace(11, steps, 8, 8, true), 1, 8)
	if err != nil {
		t.Fatal(err)
	}
	in.ExecuteBy(truth)
	l, err := online.NewLearner(online.DefaultConfig(), planned)
	if err != nil {
		t.Fatal(err)
	}
	now := planned
	p := gangtest.NewPlanner(t, planner.Config{Controller: planner.ControllerDynamicMPC, Window: 6, Lambda: 1, Learned: func() *profile.Model { return now }},
		in, planner.Episode{Steps: steps, Penalty: 15})
	levels, next := make([]uint16, 8), make([]uint16, 8)
	for s := range steps {
		if learn {
			if now, err = l.Model(caution); err != nil {
				t.Fatal(err)
			}
		}
		total := 0.0
		if p.Plan(t.Context(), s, levels, next) != 0 {
			copy(levels, next)
			total = 15
		}
		d, _ := in.Execute(s, levels)
		total += d
		if s < steps/2 {
			first += total
		} else {
			second += total
		}
		off = nil
		for k, size := range in.True(s) {
			true1 := truth.DurationAt(k, size, int(levels[k]))
			off = append(off, now.DurationAt(k, size, int(levels[k]))/true1)
			if s < steps/2 { // the second half rests on what the first has taught
				if err := l.Observe(k, size, float64(truth.MilliCPU(int(levels[k]))), true1); err != nil {
					t.Fatal(err)
				}
			}
		}
	}
	return first, second, off
}

// TestWrongProfileIsCorrected: a planner whose profile has two tasks 1.5 times as slow as they are, or two whose
// exponent of shares is off by 0.4, learns in 50 supersteps to predict them, and is then as fast as one that knows
// the truth. The same planner without learning stays slower. docs/results/gang.md has these figures.
func TestWrongProfileIsCorrected(t *testing.T) {
	page, err := os.ReadFile("../../../docs/results/gang.md")
	if err != nil {
		t.Fatal(err)
	}
	for _, test := range []struct {
		name             string
		factor, exponent float64
	}{
		{"a factor of 1.5", 1.5, 0},
		{"exponent by 0.4", 1, 0.4},
		{"both", 1.5, 0.4},
	} {
		right, wrong := generated(test.factor, test.exponent)
		truth, planned := model(t, right), model(t, wrong)
		first, best, _ := play(t, truth, truth, false, 0)
		wrongFirst, wrongSecond, _ := play(t, planned, truth, false, 0)
		learntFirst, learntSecond, off := play(t, planned, truth, true, 0)
		t.Logf("%s: supersteps 0 to 49 %.0f s knowing, %.0f s wrong, %.0f s learning; 50 to 99 %.0f, %.0f, %.0f s; predictions off by %.3f",
			test.name, first, wrongFirst, learntFirst, best, wrongSecond, learntSecond, off)
		figures := fmt.Sprintf("| %s | %.0f | %.0f | %.0f | %.0f | %.0f | %.0f |", test.name, first, wrongFirst, learntFirst, best, wrongSecond, learntSecond)
		if !strings.Contains(string(page), figures) {
			t.Errorf("docs/results/gang.md has no row that begins with %s", figures)
		}
		for k, f := range off {
			if math.Abs(math.Log(f)) > 0.05 {
				t.Errorf("%s: task %d is predicted %v times its duration after 50 supersteps", test.name, k, f)
			}
		}
		if learntSecond-best > (wrongSecond-best)/4 || wrongSecond < 1.02*best {
			t.Errorf("%s: %v s after 50 supersteps of learning, %v s without, %v s knowing the truth", test.name, learntSecond, wrongSecond, best)
		}
		if learntFirst >= wrongFirst {
			t.Errorf("%s: %v s while learning, want less than the %v s without", test.name, learntFirst, wrongFirst)
		}
	}
}

// TestCautionFollowsUncertainty: before the first observation a caution of 1 lengthens durations by the prior's standard
// deviation, and the more observations, the less.
func TestCautionFollowsUncertainty(t *testing.T) {
	p, _ := generated(1, 0)
	m := model(t, p)
	l, err := online.NewLearner(online.Config{Noise: 0.1, Scale: 0.5, Size: 1e-9, Share: 1e-9}, m)
	if err != nil {
		t.Fatal(err)
	}
	// The scale alone is uncertain: its variance is 1/(1/0.25 + n/0.01).
	for n := range 4 {
		cautious, err := l.Model(1)
		if err != nil {
			t.Fatal(err)
		}
		std := math.Sqrt(1 / (1/0.25 + float64(n)/0.01))
		if got, want := cautious.Duration(2, 25, 3000), m.Duration(2, 25, 3000)*math.Exp(std); math.Abs(got-want) > 2e-3*want { // a smaller change makes no new model
			t.Errorf("after %d observations: %v s, want %v", n, got, want)
		}
		if err := l.Observe(2, 25, 3000, m.Duration(2, 25, 3000)); err != nil {
			t.Fatal(err)
		}
	}
}

func TestLearnerErrors(t *testing.T) {
	p, _ := generated(1, 0)
	m := model(t, p)
	if _, err := online.NewLearner(online.Config{Noise: 0.1, Scale: 0.5, Size: 0.1}, m); err == nil {
		t.Error("a prior without spread was accepted")
	}
	l, err := online.NewLearner(online.DefaultConfig(), m)
	if err != nil {
		t.Fatal(err)
	}
	for _, seconds := range []float64{0, -1, math.Inf(1), math.NaN()} {
		if err := l.Observe(0, 20, 2000, seconds); err == nil {
			t.Errorf("a duration of %v s was accepted", seconds)
		}
	}
}

func BenchmarkModel(b *testing.B) {
	m, err := profile.NewModel(profile.Generate(rand.New(rand.NewPCG(5, 6))), profile.DefaultModelConfig())
	if err != nil {
		b.Fatal(err)
	}
	l, err := online.NewLearner(online.DefaultConfig(), m)
	if err != nil {
		b.Fatal(err)
	}
	for b.Loop() {
		if err := l.Observe(0, 20, 2000, 100); err != nil {
			b.Fatal(err)
		}
		if _, err := l.Model(0); err != nil {
			b.Fatal(err)
		}
	}
}
