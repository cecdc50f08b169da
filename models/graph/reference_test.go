package graph

import (
	"math"
	"math/rand/v2"
	"testing"

	"github.com/kubernasium/kubernasium/models"
)

// reference computes the outputs in float64 by plain loops, from the parameters laid end to
// end in the order of models.ParamLayout. It shares no code with the package.
func reference(spec models.Spec, params, obs []float64, n int) []float64 {
	next := func(k int) []float64 {
		v := params[:k]
		params = params[k:]
		return v
	}
	dense := func(x []float64, in, out int) []float64 {
		w, b := next(in*out), next(out)
		y := make([]float64, n*out)
		for r := range n {
			for j := range out {
				s := b[j]
				for i := range in {
					s += x[r*in+i] * w[i*out+j]
				}
				y[r*out+j] = s
			}
		}
		return y
	}
	towers, widths := make([][]float64, len(spec.Towers)), make([]int, len(spec.Towers))
	for t, tower := range spec.Towers {
		h, width := obs, spec.Inputs
		for _, out := range tower.Hidden {
			h = dense(h, width, out)
			width = out
			for i, v := range h {
				if tower.Activation == "tanh" {
					h[i] = math.Tanh(v)
				} else {
					h[i] = max(v, 0)
				}
			}
		}
		towers[t], widths[t] = h, width
	}
	total := 0
	for _, h := range spec.Heads {
		total += h.Size
	}
	out, offset := make([]float64, n*total), 0
	for _, h := range spec.Heads {
		y := dense(towers[h.Tower], widths[h.Tower], h.Size)
		for r := range n {
			copy(out[r*total+offset:], y[r*h.Size:(r+1)*h.Size])
		}
		offset += h.Size
	}
	return out
}

// specs are the networks that the tests compare with the reference.
var specs = map[string]models.Spec{
	"actor-critic tanh": models.ActorCritic(5, 3, []int{7, 6}, models.Tanh),
	"actor-critic relu": models.ActorCritic(5, 3, []int{7, 6}, models.ReLU),
	"no hidden layers":  models.ActorCritic(4, 2, nil, ""),
	"one of everything": {
		Inputs: 1,
		Towers: []models.Tower{{Name: "t", Hidden: []int{1}, Activation: models.Tanh}},
		Heads:  []models.Head{{Name: "h", Size: 1, Gain: 1}},
	},
	"shared tower": {
		Inputs: 6,
		Towers: []models.Tower{
			{Name: "shared", Hidden: []int{8}, Activation: models.ReLU},
			{Name: "input"},
			{Name: "deep", Hidden: []int{3, 4, 5}, Activation: models.Tanh},
		},
		Heads: []models.Head{
			{Name: "a", Tower: 0, Size: 2, Gain: 1},
			{Name: "b", Tower: 1, Size: 3, Gain: 1},
			{Name: "c", Tower: 0, Size: 2, Gain: 1},
			{Name: "d", Tower: 2, Size: 4, Gain: 1},
		},
	},
}

// newNetwork returns a network whose biases are random, too.
func newNetwork(t testing.TB, spec models.Spec, seed uint64) *Network {
	t.Helper()
	rng := rand.New(rand.NewPCG(seed, 0))
	n, err := New(spec, rng)
	if err != nil {
		t.Fatal(err)
	}
	for _, p := range n.Params() {
		if len(p.Shape) == 1 {
			fill(p.Value, rng)
		}
	}
	return n
}

func fill(x []float32, rng *rand.Rand) {
	for i := range x {
		x[i] = float32(rng.NormFloat64())
	}
}

func normal(n int, seed uint64) []float32 {
	x := make([]float32, n)
	fill(x, rand.New(rand.NewPCG(seed, 1)))
	return x
}

func float64s(x []float32) []float64 {
	y := make([]float64, len(x))
	for i, v := range x {
		y[i] = float64(v)
	}
	return y
}

// flat lays the values of the parameters end to end.
func flat(params []models.Param) []float64 {
	var v []float64
	for _, p := range params {
		v = append(v, float64s(p.Value)...)
	}
	return v
}
