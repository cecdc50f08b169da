package space_test

import (
	"encoding/json"
	"math"
	"math/rand/v2"
	"testing"

	"github.com/google/go-cmp/cmp"

	"github.com/kubernasium/kubernasium/envs/space"
)

var (
	inf = float32(math.Inf(1))
	nan = float32(math.NaN())
)

// perElement has one pair of bounds for each element.
var perElement = space.Box{Low: []float32{-1, 0, -inf}, High: []float32{1, inf, 5}, Shape: []int{3}}

var dict = space.Dict{Fields: []space.Field{
	{Key: "nodes", Space: space.NewBox(0, 1, 2)},
	{Key: "queue", Space: space.Discrete{N: 3}},
	{Key: "up", Space: space.MultiBinary{N: 2}},
}}

func TestSize(t *testing.T) {
	for _, tc := range []struct {
		name string
		s    space.Space
		want int
	}{
		{"matrix", space.NewBox(0, 1, 2, 3, 4), 24},
		{"scalar", space.NewBox(0, 1), 1},
		{"discrete", space.Discrete{N: 7}, 1},
		{"multi_discrete", space.MultiDiscrete{NVec: []int{2, 3}}, 2},
		{"multi_binary", space.MultiBinary{N: 5}, 5},
		{"dict", dict, 2 + 1 + 2},
	} {
		if got := tc.s.Size(); got != tc.want {
			t.Errorf("%s: Size() = %d, want %d", tc.name, got, tc.want)
		}
	}
}

func TestContains(t *testing.T) {
	box, multi := space.NewBox(-1, 2, 2), space.MultiDiscrete{NVec: []int{2, 3}}
	for _, tc := range []struct {
		name string
		s    space.Space
		v    []float32
		want bool
	}{
		{"box: bounds are included", box, []float32{-1, 2}, true},
		{"box: below", box, []float32{-1.0000001, 0}, false},
		{"box: above", box, []float32{0, 2.0000002}, false},
		{"box: NaN", box, []float32{0, nan}, false},
		{"box: short", box, []float32{0}, false},
		{"box: long", box, []float32{0, 0, 0}, false},
		{"box: nil", box, nil, false},
		{"unbounded box: infinite", space.NewBox(-inf, inf, 2), []float32{-inf, inf}, true},
		{"unbounded box: NaN", space.NewBox(-inf, inf, 1), []float32{nan}, false},
		{"scalar box", space.NewBox(0, 1), []float32{0.5}, true},
		{"per element: all at a bound", perElement, []float32{-1, 0, 5}, true},
		{"per element: far in the unbounded directions", perElement, []float32{1, 1e30, -1e30}, true},
		{"per element: first above", perElement, []float32{1.5, 1, 1}, false},
		{"per element: second below", perElement, []float32{0, -0.5, 1}, false},
		{"per element: third above", perElement, []float32{0, 1, 6}, false},
		{"one low, many high", space.Box{Low: []float32{0}, High: []float32{1, 2}, Shape: []int{2}}, []float32{1, 2}, true},
		{"one low, many high: above", space.Box{Low: []float32{0}, High: []float32{1, 2}, Shape: []int{2}}, []float32{2, 1}, false},
		{"discrete: first", space.Discrete{N: 3}, []float32{0}, true},
		{"discrete: last", space.Discrete{N: 3}, []float32{2}, true},
		{"discrete: n", space.Discrete{N: 3}, []float32{3}, false},
		{"discrete: negative", space.Discrete{N: 3}, []float32{-1}, false},
		{"discrete: fraction", space.Discrete{N: 3}, []float32{1.5}, false},
		{"discrete: small negative fraction", space.Discrete{N: 3}, []float32{-0.25}, false},
		{"discrete: NaN", space.Discrete{N: 3}, []float32{nan}, false},
		{"discrete: infinite", space.Discrete{N: 3}, []float32{inf}, false},
		{"discrete: beyond int", space.Discrete{N: 3}, []float32{1e30}, false},
		{"discrete: empty", space.Discrete{N: 3}, nil, false},
		{"discrete: long", space.Discrete{N: 3}, []float32{0, 0}, false},
		{"multi_discrete: greatest", multi, []float32{1, 2}, true},
		{"multi_discrete: each has its own n", multi, []float32{2, 1}, false},
		{"multi_discrete: fraction", multi, []float32{0, 0.5}, false},
		{"multi_discrete: NaN", multi, []float32{nan, 0}, false},
		{"multi_discrete: short", multi, []float32{0}, false},
		{"multi_discrete: long", multi, []float32{0, 0, 0}, false},
		{"multi_binary: mixed", space.MultiBinary{N: 3}, []float32{0, 1, 0}, true},
		{"multi_binary: two", space.MultiBinary{N: 3}, []float32{0, 2, 0}, false},
		{"multi_binary: half", space.MultiBinary{N: 3}, []float32{0, 0.5, 0}, false},
		{"multi_binary: NaN", space.MultiBinary{N: 3}, []float32{0, nan, 0}, false},
		{"multi_binary: short", space.MultiBinary{N: 3}, []float32{0, 1}, false},
		{"dict: parts in the order of keys", dict, []float32{0.5, 1, 2, 0, 1}, true},
		{"dict: first part wrong", dict, []float32{0.5, 1.5, 2, 0, 1}, false},
		{"dict: second part wrong", dict, []float32{0.5, 1, 3, 0, 1}, false},
		{"dict: last part wrong", dict, []float32{0.5, 1, 2, 0, 2}, false},
		{"dict: short", dict, []float32{0.5, 1, 2, 0}, false},
		{"dict: long", dict, []float32{0.5, 1, 2, 0, 1, 0}, false},
	} {
		if got := tc.s.Contains(tc.v); got != tc.want {
			t.Errorf("%s: Contains(%v) = %v, want %v", tc.name, tc.v, got, tc.want)
		}
	}
}

func TestNewBoxPanics(t *testing.T) {
	for _, tc := range []struct {
		name      string
		low, high float32
		shape     []int
	}{
		{"low above high", 1, 0, []int{1}},
		{"low is NaN", nan, 0, []int{1}},
		{"high is NaN", 0, nan, []int{1}},
		{"side of 0", 0, 1, []int{2, 0}},
		{"negative side", 0, 1, []int{-1}},
	} {
		func() {
			defer func() {
				if recover() == nil {
					t.Errorf("%s: NewBox(%v, %v, %v) does not panic", tc.name, tc.low, tc.high, tc.shape)
				}
			}()
			space.NewBox(tc.low, tc.high, tc.shape...)
		}()
	}
}

func TestNewBoxKeepsNoCallersMemory(t *testing.T) {
	shape := []int{2, 3}
	b := space.NewBox(0, 1, shape...)
	shape[0] = 100
	if b.Size() != 6 {
		t.Errorf("Size() = %d after the caller changed its shape, want 6", b.Size())
	}
}

func TestBoxBounds(t *testing.T) {
	for i, want := range [][2]float32{{-1, 1}, {0, inf}, {-inf, 5}} {
		if low, high := perElement.Bounds(i); low != want[0] || high != want[1] {
			t.Errorf("Bounds(%d) = %v, %v, want %v", i, low, high, want)
		}
	}
	if low, high := space.NewBox(-2, 3, 4).Bounds(3); low != -2 || high != 3 {
		t.Errorf("Bounds(3) = %v, %v, want -2, 3", low, high)
	}
}

// TestDescribe compares with JSON written by hand, which clients read.
func TestDescribe(t *testing.T) {
	for _, tc := range []struct {
		name string
		s    space.Space
		want string
	}{
		{"box", space.NewBox(-1, 2.5, 2, 3), `{"kind":"box","shape":[2,3],"dtype":"float32","low":[-1],"high":[2.5]}`},
		{"unbounded box", space.NewBox(-inf, inf, 4), `{"kind":"box","shape":[4],"dtype":"float32","low":["-inf"],"high":["inf"]}`},
		{"per element", perElement, `{"kind":"box","shape":[3],"dtype":"float32","low":[-1,0,"-inf"],"high":[1,"inf",5]}`},
		{"a float32 in its shortest form", space.NewBox(0, 0.1, 1), `{"kind":"box","shape":[1],"dtype":"float32","low":[0],"high":[0.1]}`},
		{"discrete", space.Discrete{N: 4}, `{"kind":"discrete","dtype":"int64","n":[4]}`},
		{"multi_discrete", space.MultiDiscrete{NVec: []int{2, 3}}, `{"kind":"multi_discrete","shape":[2],"dtype":"int64","n":[2,3]}`},
		{"multi_binary", space.MultiBinary{N: 3}, `{"kind":"multi_binary","shape":[3],"dtype":"int8","n":[3]}`},
		{"dict keeps the order of layout", space.Dict{Fields: []space.Field{
			{Key: "z", Space: space.Discrete{N: 2}},
			{Key: "a", Space: space.NewBox(0, inf, 1)},
		}}, `{"kind":"dict","keys":["z","a"],"parts":[{"kind":"discrete","dtype":"int64","n":[2]},` +
			`{"kind":"box","shape":[1],"dtype":"float32","low":[0],"high":["inf"]}]}`},
	} {
		got, err := json.Marshal(tc.s.Describe())
		if err != nil {
			t.Errorf("%s: %v", tc.name, err)
			continue
		}
		if diff := cmp.Diff(tc.want, string(got)); diff != "" {
			t.Errorf("%s (-want +got):\n%s", tc.name, diff)
		}
	}
}

func TestMaskSize(t *testing.T) {
	for _, tc := range []struct {
		name string
		act  space.Space
		want int
	}{
		{"discrete", space.Discrete{N: 4}, 4},
		{"multi_discrete", space.MultiDiscrete{NVec: []int{2, 3, 4}}, 9},
		{"multi_binary", space.MultiBinary{N: 3}, 6},
		{"box", space.NewBox(0, 1, 3), 0},
		{"dict", dict, 0},
	} {
		if got := space.MaskSize(tc.act); got != tc.want {
			t.Errorf("%s: MaskSize = %d, want %d", tc.name, got, tc.want)
		}
	}
}

// TestMasked has the layouts of sb3-contrib 2.9's common/maskable/distributions.py: the mask of
// a MultiDiscrete is split into pieces of NVec, and a MultiBinary is a MultiDiscrete of twos.
func TestMasked(t *testing.T) {
	multi := space.MultiDiscrete{NVec: []int{2, 3}}
	for _, tc := range []struct {
		name   string
		act    space.Space
		action []float32
		mask   []bool
		want   bool
	}{
		{"nil permits all", space.Discrete{N: 2}, []float32{1}, nil, true},
		{"empty permits all", multi, []float32{1, 2}, []bool{}, true},
		{"discrete: permitted", space.Discrete{N: 3}, []float32{2}, []bool{false, false, true}, true},
		{"discrete: masked out", space.Discrete{N: 3}, []float32{1}, []bool{true, false, true}, false},
		{"multi_discrete: both permitted", multi, []float32{1, 2}, []bool{false, true, false, false, true}, true},
		{"multi_discrete: first masked out", multi, []float32{0, 2}, []bool{false, true, true, true, true}, false},
		{"multi_discrete: second masked out", multi, []float32{1, 0}, []bool{true, true, false, true, true}, false},
		{"multi_binary: 0 and 1 permitted", space.MultiBinary{N: 2}, []float32{0, 1}, []bool{true, false, false, true}, true},
		{"multi_binary: 1 of the first masked out", space.MultiBinary{N: 2}, []float32{1, 1}, []bool{true, false, true, true}, false},
		{"multi_binary: 0 of the second masked out", space.MultiBinary{N: 2}, []float32{1, 0}, []bool{true, true, false, true}, false},
		{"box has none", space.NewBox(0, 1, 1), []float32{0.5}, nil, true},
	} {
		if got := space.Masked(tc.act, tc.action, tc.mask); got != tc.want {
			t.Errorf("%s: Masked(%v, %v) = %v, want %v", tc.name, tc.action, tc.mask, got, tc.want)
		}
	}
}

func TestNothingAllocates(t *testing.T) {
	rng := rand.New(rand.NewPCG(1, 2))
	for _, tc := range []struct {
		name string
		s    space.Space
	}{
		{"box", perElement}, {"discrete", space.Discrete{N: 300}}, {"multi_discrete", space.MultiDiscrete{NVec: []int{2, 3}}},
		{"multi_binary", space.MultiBinary{N: 3}}, {"dict", dict},
	} {
		v, mask := make([]float32, tc.s.Size()), make([]bool, space.MaskSize(tc.s))
		for i := range mask {
			mask[i] = true
		}
		ok := true
		if n := testing.AllocsPerRun(100, func() {
			tc.s.Sample(rng, mask, v)
			ok = ok && tc.s.Contains(v) && space.Masked(tc.s, v, mask) && space.MaskSize(tc.s) == len(mask)
		}); n != 0 {
			t.Errorf("%s: %v allocs/op, want 0", tc.name, n)
		}
		if !ok {
			t.Errorf("%s: a sample is not permitted", tc.name)
		}
	}
}
