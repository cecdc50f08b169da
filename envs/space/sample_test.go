package space_test

import (
	"math"
	"math/rand/v2"
	"testing"

	"github.com/kubernasium/kubernasium/envs/space"
)

// chi2 holds the 99.9th percentiles of the chi-square distribution by degrees of freedom.
//
// Source: NIST/SEMATECH e-Handbook of Statistical Methods, table 1.3.6.7.4.
var chi2 = map[int]float64{1: 10.828, 2: 13.816, 3: 16.266, 4: 18.467, 5: 20.515, 9: 27.877}

// checkUniform fails the test unless the counts could come from equally probable classes.
func checkUniform(t *testing.T, name string, counts []int) {
	t.Helper()
	total := 0
	for _, c := range counts {
		total += c
	}
	expected, x := float64(total)/float64(len(counts)), 0.0
	for _, c := range counts {
		x += (float64(c) - expected) * (float64(c) - expected) / expected
	}
	if limit := chi2[len(counts)-1]; limit == 0 || x > limit {
		t.Errorf("%s: counts %v have chi-square %.1f, want at most %.1f", name, counts, x, limit)
	}
}

func TestSampleIsInTheSpace(t *testing.T) {
	rng := rand.New(rand.NewPCG(1, 2))
	for _, tc := range []struct {
		name string
		s    space.Space
	}{
		{"box", space.NewBox(-3, 7, 5)},
		{"point", space.NewBox(2, 2, 2)},
		{"per element", perElement},
		{"unbounded", space.NewBox(-inf, inf, 3)},
		// Its width, twice the greatest float32, is no float32.
		{"widest", space.NewBox(-math.MaxFloat32, math.MaxFloat32, 3)},
		{"narrowest", space.NewBox(1, math.Nextafter32(1, 2), 3)},
		{"discrete", space.Discrete{N: 6}},
		{"one action", space.Discrete{N: 1}},
		{"multi_discrete", space.MultiDiscrete{NVec: []int{1, 2, 300}}},
		{"multi_binary", space.MultiBinary{N: 4}},
		{"dict", dict},
	} {
		v := make([]float32, tc.s.Size())
		for range 10_000 {
			for i := range v {
				v[i] = nan
			}
			if tc.s.Sample(rng, nil, v); !tc.s.Contains(v) {
				t.Errorf("%s: sample %v is not in the space", tc.name, v)
				break
			}
		}
	}
}

// TestBoxSampleDistribution sorts samples into classes that are equally probable: bounds of
// equal width, and the quartiles of the exponential and of the normal distribution.
func TestBoxSampleDistribution(t *testing.T) {
	const ln2, q3 = math.Ln2, 0.6744897501960817 // scipy.stats.norm.ppf(0.75)
	third := math.Log(4.0 / 3)                   // the exponential's first quartile
	for _, tc := range []struct {
		name  string
		box   space.Box
		edges []float64
	}{
		{"bounded", space.NewBox(-3, 7, 1), []float64{-2, -1, 0, 1, 2, 3, 4, 5, 6}},
		{"widest", space.NewBox(-math.MaxFloat32, math.MaxFloat32, 1), []float64{-math.MaxFloat32 / 2, 0, math.MaxFloat32 / 2}},
		{"bounded below", space.NewBox(2, inf, 1), []float64{2 + third, 2 + ln2, 2 + 2*ln2}},
		{"bounded above", space.NewBox(-inf, 2, 1), []float64{2 - 2*ln2, 2 - ln2, 2 - third}},
		{"unbounded", space.NewBox(-inf, inf, 1), []float64{-q3, 0, q3}},
	} {
		rng := rand.New(rand.NewPCG(3, 4))
		counts, v := make([]int, len(tc.edges)+1), make([]float32, 1)
		for range 10_000 {
			tc.box.Sample(rng, nil, v)
			k := 0
			for k < len(tc.edges) && float64(v[0]) >= tc.edges[k] {
				k++
			}
			counts[k]++
		}
		checkUniform(t, tc.name, counts)
	}
}

// TestSampleIsUniform counts the index of each element over samples under a mask.
func TestSampleIsUniform(t *testing.T) {
	for _, tc := range []struct {
		name  string
		act   space.Space
		mask  []bool
		parts [][]float32 // the permitted values of each element
	}{
		{"discrete", space.Discrete{N: 6}, nil, [][]float32{{0, 1, 2, 3, 4, 5}}},
		{"discrete, masked", space.Discrete{N: 6}, []bool{false, true, false, true, true, false}, [][]float32{{1, 3, 4}}},
		{"discrete, one permitted", space.Discrete{N: 3}, []bool{false, false, true}, [][]float32{{2}}},
		{"discrete, none permitted", space.Discrete{N: 3}, make([]bool, 3), [][]float32{{0, 1, 2}}},
		{"multi_discrete", space.MultiDiscrete{NVec: []int{2, 3}}, nil, [][]float32{{0, 1}, {0, 1, 2}}},
		{"multi_discrete, masked", space.MultiDiscrete{NVec: []int{2, 3}}, []bool{true, false, true, false, true}, [][]float32{{0}, {0, 2}}},
		{"multi_discrete, a part without any", space.MultiDiscrete{NVec: []int{2, 3}}, []bool{false, true, false, false, false}, [][]float32{{1}, {0, 1, 2}}},
		{"multi_binary", space.MultiBinary{N: 2}, nil, [][]float32{{0, 1}, {0, 1}}},
		{"multi_binary, masked", space.MultiBinary{N: 3}, []bool{false, true, true, true, true, false}, [][]float32{{1}, {0, 1}, {0}}},
	} {
		rng := rand.New(rand.NewPCG(5, 6))
		v, counts := make([]float32, tc.act.Size()), make([]map[float32]int, tc.act.Size())
		for i := range counts {
			counts[i] = map[float32]int{}
		}
		for range 6000 {
			tc.act.Sample(rng, tc.mask, v)
			for i, x := range v {
				counts[i][x]++
			}
		}
		for i, values := range tc.parts {
			var n []int
			total := 0
			for _, x := range values {
				n = append(n, counts[i][x])
				total += counts[i][x]
			}
			if total != 6000 {
				t.Errorf("%s: element %d was drawn as %v, want only %v", tc.name, i, counts[i], values)
			} else if len(n) > 1 {
				checkUniform(t, tc.name, n)
			}
		}
	}
}

// TestSampleElementsAreIndependent counts pairs: a sampler that drew once for all elements
// would pass the counts of each.
func TestSampleElementsAreIndependent(t *testing.T) {
	for _, tc := range []struct {
		name string
		act  space.Space
	}{
		{"multi_discrete", space.MultiDiscrete{NVec: []int{2, 2}}},
		{"multi_binary", space.MultiBinary{N: 2}},
	} {
		rng := rand.New(rand.NewPCG(7, 8))
		v, counts := make([]float32, 2), make([]int, 4)
		for range 8000 {
			tc.act.Sample(rng, nil, v)
			counts[2*int(v[0])+int(v[1])]++
		}
		checkUniform(t, tc.name, counts)
	}
}

func TestDictSampleIgnoresTheMask(t *testing.T) {
	rng := rand.New(rand.NewPCG(9, 10))
	d := space.Dict{Fields: []space.Field{{Key: "a", Space: space.Discrete{N: 2}}, {Key: "b", Space: space.Discrete{N: 2}}}}
	v, counts := make([]float32, 2), make([]int, 4)
	for range 8000 {
		d.Sample(rng, []bool{true, false}, v)
		counts[2*int(v[0])+int(v[1])]++
	}
	checkUniform(t, "dict", counts)
}
