package tracking

import (
	"math"
	"math/rand/v2"
	"slices"
	"testing"
)

// TestPairedTest: the p-values are those of scipy 1.17.1, ttest_rel with alternative "greater" and "less".
func TestPairedTest(t *testing.T) {
	a, b := []float64{12, 15, 11, 18, 14}, []float64{10, 14, 12, 13, 13}
	got := PairedTest(a, b)
	wantEstimate(t, "PairedTest", got.Estimate, Estimate{1.6, -1.1203495226330227, 4.320349522633023}, 1e-9)
	if math.Abs(got.Above-0.08890390417811062) > 1e-9 || math.Abs(got.Below-0.9110960958218894) > 1e-9 {
		t.Errorf("p-values %v and %v, want 0.0889 and 0.9111", got.Above, got.Below)
	}
}

// TestTestsWithoutSpread: values that are all equal leave no doubt about a sign, and one value all.
func TestTestsWithoutSpread(t *testing.T) {
	nan := math.NaN()
	for _, tc := range []struct {
		name string
		got  Test
		want Test
	}{
		{"equal", PairedTest([]float64{1, 2}, []float64{1, 2}), Test{Estimate{0, 0, 0}, 1, 1}},
		{"above", PairedTest([]float64{2, 3}, []float64{1, 2}), Test{Estimate{1, 1, 1}, 0, 1}},
		{"below", PairedTest([]float64{0, 1}, []float64{1, 2}), Test{Estimate{-1, -1, -1}, 1, 0}},
		{"one episode", PairedTest([]float64{2}, []float64{1}), Test{Estimate{1, nan, nan}, 1, 1}},
		{"two-way, equal", TwoWayTest([][]float64{{3, 3}, {3, 3}}), Test{Estimate{3, 3, 3}, 0, 1}},
		{"two-way, one model", TwoWayTest([][]float64{{3, 5}}), Test{Estimate{4, nan, nan}, 1, 1}},
		{"two-way, one episode", TwoWayTest([][]float64{{3}, {5}}), Test{Estimate{4, nan, nan}, 1, 1}},
		{"two-way, none", TwoWayTest(nil), Test{Estimate{nan, nan, nan}, 1, 1}},
	} {
		wantEstimate(t, tc.name, tc.got.Estimate, tc.want.Estimate, 0)
		if tc.got.Above != tc.want.Above || tc.got.Below != tc.want.Below {
			t.Errorf("%s: p-values %v and %v, want %v and %v", tc.name, tc.got.Above, tc.got.Below, tc.want.Above, tc.want.Below)
		}
	}
}

// TestTwoWayVariance, by hand: the models' means are 2 and 8 with variance 18, of a mean of two 9; the
// episodes' are 3 and 7 with variance 8, of a mean of two 4. Together 13. In the resample with the
// second model twice and the first episode three times of four, values are 5, 5, 5 and 11: the mean is
// 6.5, the models' means do not vary, and the episodes' squared deviations are 3·1.5² + 4.5² = 27,
// which 4·3 divides to 2.25.
func TestTwoWayVariance(t *testing.T) {
	b := newTwoWay([][]float64{{1, 3}, {5, 11}})
	if mean, v := b.estimate(); mean != 5 || v != 13 {
		t.Errorf("mean %v with variance %v, want 5 with 13", mean, v)
	}
	b = newTwoWay([][]float64{{1, 3, 1, 1}, {5, 11, 0, 0}})
	b.models, b.episodes = []float64{0, 2}, []float64{3, 1, 0, 0}
	if mean, v := b.estimate(); mean != 6.5 || v != 2.25 {
		t.Errorf("resample: mean %v with variance %v, want 6.5 with 2.25", mean, v)
	}
}

// TestTwoWayDistribution compares the resamples' t with all 27 × 27 that three models and three episodes
// have, enumerated here by their definition. 1.63/√n is the bound that the Kolmogorov-Smirnov distance of
// a true sample exceeds once in a hundred times.
func TestTwoWayDistribution(t *testing.T) {
	x := [][]float64{{1, 4, 0}, {3, 5, 4}, {8, 9, 2}}
	var exact []float64
	for k := range 27 * 27 {
		var y [3][3]float64
		for i, model := range []int{k % 3, k / 3 % 3, k / 9 % 3} {
			for j, episode := range []int{k / 27 % 3, k / 81 % 3, k / 243 % 3} {
				y[i][j] = x[model][episode]
			}
		}
		var models, episodes, all []float64
		for i := range 3 {
			models = append(models, (y[i][0]+y[i][1]+y[i][2])/3)
			episodes = append(episodes, (y[0][i]+y[1][i]+y[2][i])/3)
			all = append(all, y[i][:]...)
		}
		d := Mean(all) - 4 // the mean of x
		switch v := Std(models)*Std(models)/3 + Std(episodes)*Std(episodes)/3; {
		case math.Abs(d) < 1e-12:
			exact = append(exact, 0)
		case v < 1e-20:
			exact = append(exact, math.Inf(int(d*100)))
		default:
			exact = append(exact, d/math.Sqrt(v))
		}
	}
	b := newTwoWay(x)
	mean, variance := b.estimate()
	got := b.studentized(mean, variance)
	if i := slices.IndexFunc(got, math.IsNaN); i >= 0 { // one model, three times, in an episode with the mean, three times
		t.Errorf("resample %d has no t", i)
	}
	upTo := func(values []float64, at float64) (n float64) {
		for _, v := range values {
			if v <= at+1e-9 {
				n++
			}
		}
		return n / float64(len(values))
	}
	for _, at := range exact {
		if d := math.Abs(upTo(got, at) - upTo(exact, at)); d > 1.63/math.Sqrt(Resamples) {
			t.Fatalf("a share of %v of the resamples is up to %v, want %v", upTo(got, at), at, upTo(exact, at))
		}
	}
	// 12 of the 729 are at least the sample's own 4/√3.148.
	if p := TwoWayTest(x).Above; math.Abs(p-12.0/729) > 3*math.Sqrt(12.0/729/Resamples) {
		t.Errorf("p-value %v, want 12/729 = 0.0165", p)
	}
}

// The interval is NumPy 2.4.6's with a million resamples drawn by indices; tolerances are four standard
// deviations of the 9999 resamples here.
func TestTwoWayTest(t *testing.T) {
	x := [][]float64{
		{3.1, 0.4, 2.2, 1.7, 4.0, -0.6, 2.9, 1.1}, {2.0, 1.2, 0.9, 3.3, 2.6, 0.1, 1.5, 0.2},
		{4.4, 1.9, 3.0, 2.5, 5.1, 0.8, 3.6, 2.3}, {1.0, -0.7, 0.6, 1.9, 2.2, -1.4, 0.3, 0.5},
	}
	got := TwoWayTest(x)
	wantEstimate(t, "TwoWayTest", got.Estimate, Estimate{1.70625, 0.2624, 3.2776}, 0.12)
	if math.Abs(got.Above-0.01351) > 0.005 || math.Abs(got.Below-0.98649) > 0.005 {
		t.Errorf("p-values %v and %v, want 0.0135 and 0.9865", got.Above, got.Below)
	}
	if again := TwoWayTest(x); again != got {
		t.Errorf("again %+v, want the same bits as %+v", again, got)
	}
	// Models that are equal leave the episodes alone: the one-sample bootstrap-t of arch 8.0.0,
	// IIDBootstrap(x).conf_int(mean, 200000, "studentized").
	one := []float64{2, 4, 4, 4, 5, 5, 7, 9, 1, 3, 12, 4.5}
	wantEstimate(t, "equal models", TwoWayTest([][]float64{one, one, one}).Estimate, Estimate{5.041667, 3.5570, 7.9421}, 0.12)
}

// TestTwoWayAgrees: the interval excludes 0 if and only if a p-value is at most 0.025, and the sign of
// the sample only changes sides.
func TestTwoWayAgrees(t *testing.T) {
	rng := rand.New(rand.NewPCG(1, 2))
	excluded := 0
	for range 40 {
		x := sample(rng, 3, 6, 1, 1, 1)
		for i := range x {
			for k := range x[i] {
				x[i][k] += 2.5
			}
		}
		got := TwoWayTest(x)
		if above := got.Low > 0; above != (got.Above <= 0.025) {
			t.Errorf("%+v: interval and p-value disagree", got)
		} else if above {
			excluded++
		}
		for i := range x {
			for k := range x[i] {
				x[i][k] *= -1
			}
		}
		negative := TwoWayTest(x)
		wantEstimate(t, "the negative", negative.Estimate, Estimate{-got.Mean, -got.High, -got.Low}, 1e-9)
		if negative.Above != got.Below || negative.Below != got.Above {
			t.Errorf("p-values %v and %v, of the negative %v and %v", got.Above, got.Below, negative.Above, negative.Below)
		}
	}
	if excluded == 0 || excluded == 40 {
		t.Errorf("%d of 40 intervals exclude 0, want some", excluded)
	}
}

// sample draws values with the given deviations of models, episodes and single plays; the mean is 0.
func sample(rng *rand.Rand, models, episodes int, ofModels, ofEpisodes, ofPlays float64) [][]float64 {
	columns := make([]float64, episodes)
	for k := range columns {
		columns[k] = ofEpisodes * rng.NormFloat64()
	}
	x := make([][]float64, models)
	for i := range x {
		m := ofModels * rng.NormFloat64()
		for _, c := range columns {
			x[i] = append(x[i], m+c+ofPlays*rng.NormFloat64())
		}
	}
	return x
}

// TestTwoWayCovers: of 95 % intervals of five models, about 95 % contain the mean, whether models or
// episodes vary more. Intervals by models alone contain it in a seventh of the samples in which episodes
// do, and intervals by episodes alone likewise in the others.
func TestTwoWayCovers(t *testing.T) {
	if testing.Short() {
		t.Skip("200 samples of each kind; run without -short")
	}
	const samples = 200
	for _, tc := range []struct{ models, episodes float64 }{{1, 0.5}, {1, 2}, {0.1, 5}} {
		rng := rand.New(rand.NewPCG(3, 4))
		covered := 0
		for range samples {
			e := TwoWayTest(sample(rng, 5, 25, tc.models, tc.episodes, 0.5))
			if e.Low <= 0 && 0 <= e.High {
				covered++
			}
		}
		// 95 % of 200 ± 3.2 standard deviations of a binomial.
		if covered < 180 {
			t.Errorf("deviations of models %v and of episodes %v: %d of %d intervals contain the mean, want about 190", tc.models, tc.episodes, covered, samples)
		}
	}
}

func TestTwoWayPanics(t *testing.T) {
	defer func() {
		if recover() == nil {
			t.Error("no panic for lengths that differ")
		}
	}()
	TwoWayTest([][]float64{{1, 2}, {1}})
}
