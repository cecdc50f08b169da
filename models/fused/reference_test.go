package fused

import (
	"math"
	"math/rand/v2"
	"slices"
	"testing"

	"github.com/kubernasium/kubernasium/models/internal/oracle"

	"github.com/kubernasium/kubernasium/models"
)

// A reference computes a network in float64 by plain loops, from the parameters laid end to
// end in the order of models.ParamLayout. It shares no code with the package.
type reference struct {
	spec   models.Spec
	params []float64
	grads  []float64 // filled by backward
	rows   int

	inputs  [][]float64 // of each dense layer, in the order of the parameters
	results [][]float64 // after the activation
	offsets []int       // of each dense layer's weight among the parameters
	widths  []int       // of each dense layer's results
}

func (r *reference) dense(x []float64, in, out int, activation string) []float64 {
	offset := 0
	if last := len(r.offsets) - 1; last >= 0 {
		offset = r.offsets[last] + (len(r.inputs[last])/r.rows+1)*r.widths[last]
	}
	y := make([]float64, r.rows*out)
	for row := range r.rows {
		for j := range out {
			s := r.params[offset+in*out+j]
			for i := range in {
				s += x[row*in+i] * r.params[offset+i*out+j]
			}
			switch activation {
			case "tanh":
				s = math.Tanh(s)
			case "relu":
				s = max(s, 0)
			}
			y[row*out+j] = s
		}
	}
	r.inputs, r.results = append(r.inputs, x), append(r.results, y)
	r.offsets, r.widths = append(r.offsets, offset), append(r.widths, out)
	return y
}

// forward returns the outputs of that many rows.
func (r *reference) forward(obs []float64, rows int) []float64 {
	*r = reference{spec: r.spec, params: r.params, rows: rows}
	tops, widths := make([][]float64, len(r.spec.Towers)), make([]int, len(r.spec.Towers))
	for t, tower := range r.spec.Towers {
		tops[t], widths[t] = obs, r.spec.Inputs
		for _, out := range tower.Hidden {
			tops[t] = r.dense(tops[t], widths[t], out, tower.Activation)
			widths[t] = out
		}
	}
	total, offset := r.spec.Outputs(), 0
	outputs := make([]float64, rows*total)
	for _, h := range r.spec.Heads {
		y := r.dense(tops[h.Tower], widths[h.Tower], h.Size, "")
		for row := range rows {
			copy(outputs[row*total+offset:], y[row*h.Size:(row+1)*h.Size])
		}
		offset += h.Size
	}
	return outputs
}

// backward sets grads for the last forward.
func (r *reference) backward(dOut []float64) {
	r.grads = make([]float64, len(r.params))
	// A dense layer reads the results of layer i if it shares their array.
	d := make([][]float64, len(r.results))
	for i, y := range r.results {
		d[i] = make([]float64, len(y))
	}
	total, offset := r.spec.Outputs(), 0
	hidden := len(r.results) - len(r.spec.Heads)
	for h, head := range r.spec.Heads {
		for row := range r.rows {
			copy(d[hidden+h][row*head.Size:(row+1)*head.Size], dOut[row*total+offset:])
		}
		offset += head.Size
	}
	var activations []string
	for _, t := range r.spec.Towers {
		for range t.Hidden {
			activations = append(activations, t.Activation)
		}
	}
	for l := len(d) - 1; l >= 0; l-- {
		if l < hidden {
			for i, y := range r.results[l] {
				if activations[l] == "tanh" {
					d[l][i] *= 1 - y*y
				} else if y == 0 {
					d[l][i] = 0
				}
			}
		}
		below := slices.IndexFunc(r.results, func(y []float64) bool { return &y[0] == &r.inputs[l][0] })
		r.backwardDense(l, below, d)
	}
}

func (r *reference) backwardDense(l, below int, d [][]float64) {
	x, out, offset := r.inputs[l], r.widths[l], r.offsets[l]
	in := len(x) / r.rows
	for row := range r.rows {
		for j := range out {
			g := d[l][row*out+j]
			r.grads[offset+in*out+j] += g
			for i := range in {
				r.grads[offset+i*out+j] += g * x[row*in+i]
				if below >= 0 {
					d[below][row*in+i] += g * r.params[offset+i*out+j]
				}
			}
		}
	}
}

// wideSpecs have layers of several strips of columns and ranges of the inner index.
var wideSpecs = map[string]models.Spec{
	"wide tanh": models.ActorCritic(131, 18, []int{81, 65}, models.Tanh),
	"wide relu": models.ActorCritic(300, 65, []int{33, 200}, models.ReLU),
}

// withBiases returns a network whose biases are random, too.
func withBiases(t testing.TB, spec models.Spec, seed uint64, v variant) *Network {
	t.Helper()
	rng := rand.New(rand.NewPCG(seed, 0))
	n, err := newNetwork(spec, rng, v)
	if err != nil {
		t.Fatal(err)
	}
	oracle.DrawBiases(n.Params(), rng)
	return n
}

func bitsOf(arrays ...[]float32) []uint32 {
	var b []uint32
	for _, x := range arrays {
		for _, v := range x {
			b = append(b, math.Float32bits(v))
		}
	}
	return b
}

func grads(params []models.Param) [][]float32 {
	var g [][]float32
	for _, p := range params {
		g = append(g, p.Grad)
	}
	return g
}
