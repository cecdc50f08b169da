package models

import (
	"fmt"
	"math"
	"math/rand/v2"

	"gonum.org/v1/gonum/blas/blas64"
	"gonum.org/v1/gonum/lapack/lapack64"
)

// ParamInfo describes one parameter of a [Spec].
type ParamInfo struct {
	Name  string  // PyTorch's name
	Shape []int   // in memory: (inputs, outputs) of a weight, (outputs) of a bias
	Gain  float64 // of a weight's orthogonal initialization; 0 for other initializations
}

// ParamLayout returns the parameters of a valid spec in the order of [Network.Params]: the free
// heads, the towers, the other heads and the LSTMs, which is that of PyTorch's state_dict. The
// layers of a tower are numbered 0, 2, 4, ..., since PyTorch also counts activations, or 0, 3, 6,
// ... with layer norms 1, 4, 7, ... between them.
func ParamLayout(s Spec) []ParamInfo {
	layout := layout(s)
	infos := make([]ParamInfo, len(layout))
	for i, p := range layout {
		infos[i] = p.ParamInfo
	}
	return infos
}

// A parameter is a ParamInfo with its initialization: orthogonal with a gain, uniform in ±bound, or
// all value.
type parameter struct {
	ParamInfo
	bound, value float64
}

// layout is ParamLayout with the initialization.
func layout(s Spec) []parameter {
	var l parameters
	for _, h := range s.Heads {
		if h.Free {
			l.constant(h.Name, h.Size, h.Value)
		}
	}
	for i, t := range s.Towers {
		in, step := s.TowerInputs(i), 2
		if t.LayerNorm {
			step = 3
		}
		for j, out := range t.Hidden {
			layers[t.Layer](&l, fmt.Sprintf("%s.%d", t.Name, step*j), in, out, HiddenGain)
			if t.LayerNorm {
				norm := fmt.Sprintf("%s.%d", t.Name, step*j+1)
				l.constant(norm+".weight", out, 1)
				l.constant(norm+".bias", out, 0)
			}
			in = out
		}
	}
	for _, h := range s.Heads {
		if !h.Free {
			l.dense(h.Name, s.TowerOutputs(h.Tower), h.Size, h.Gain)
		}
	}
	for i, r := range s.LSTMs {
		l.lstm(r, s.LSTMInputs(i))
	}
	return l
}

type parameters []parameter

func (l *parameters) constant(name string, n int, value float64) {
	*l = append(*l, parameter{ParamInfo: ParamInfo{Name: name, Shape: []int{n}}, value: value})
}

func (l *parameters) weight(name string, in, out int, gain float64) {
	*l = append(*l, parameter{ParamInfo: ParamInfo{Name: name, Shape: []int{in, out}, Gain: gain}})
}

func (l *parameters) uniform(name string, bound float64, shape ...int) {
	*l = append(*l, parameter{ParamInfo: ParamInfo{Name: name, Shape: shape}, bound: bound})
}

// layers holds functions that append the parameters of a layer, by its kind.
var layers = map[string]func(l *parameters, name string, in, out int, gain float64){
	"": (*parameters).dense, SAGE: (*parameters).sage, GCN: (*parameters).gcn,
}

func (l *parameters) dense(name string, in, out int, gain float64) {
	l.weight(name+".weight", in, out, gain)
	l.constant(name+".bias", out, 0)
}

func (l *parameters) sage(name string, in, out int, gain float64) {
	l.dense(name+".lin_l", in, out, gain)
	l.weight(name+".lin_r.weight", in, out, gain)
}

func (l *parameters) gcn(name string, in, out int, gain float64) {
	l.weight(name+".lin.weight", in, out, gain)
	l.constant(name+".bias", out, 0)
}

// lstm appends the parameters of an LSTM with PyTorch's initialization, which sb3-contrib keeps:
// uniform in ±1/√Hidden, and for the dense layer in ±1/√inputs.
func (l *parameters) lstm(r LSTM, in int) {
	if r.Layers == 0 {
		bound := 1 / math.Sqrt(float64(in))
		l.uniform(r.Name+".weight", bound, in, r.Hidden)
		l.uniform(r.Name+".bias", bound, r.Hidden)
		return
	}
	gates, bound := 4*r.Hidden, 1/math.Sqrt(float64(r.Hidden))
	for k := range r.Layers {
		l.uniform(fmt.Sprintf("%s.weight_ih_l%d", r.Name, k), bound, in, gates)
		l.uniform(fmt.Sprintf("%s.weight_hh_l%d", r.Name, k), bound, r.Hidden, gates)
		l.uniform(fmt.Sprintf("%s.bias_ih_l%d", r.Name, k), bound, gates)
		l.uniform(fmt.Sprintf("%s.bias_hh_l%d", r.Name, k), bound, gates)
		in = r.Hidden
	}
}

// NewParams returns the parameters of a valid spec, all zero. The values share one array, and so do
// the gradients, so that alignments are the same in every run: the order in which gonum's assembly
// sums a dot product depends on them.
func NewParams(s Spec) []Param {
	infos := ParamLayout(s)
	total := 0
	for _, p := range infos {
		total += size(p.Shape)
	}
	values, grads := make([]float32, total), make([]float32, total)
	params := make([]Param, len(infos))
	for i, p := range infos {
		n := size(p.Shape)
		params[i] = Param{Name: p.Name, Shape: p.Shape, Value: values[:n:n], Grad: grads[:n:n]}
		values, grads = values[n:], grads[n:]
	}
	return params
}

// Init initializes the parameters of a valid spec, in the order of [ParamLayout]: weights are
// orthogonal matrices times a gain, biases are 0, weights of layer norms are 1, free heads have
// their Value, and the parameters of LSTMs are uniform, as in PyTorch's default. Equal states of
// rng give equal values.
//
// Source: Saxe, McClelland and Ganguli, "Exact solutions to the nonlinear dynamics of learning
// in deep linear neural networks", arXiv:1312.6120, as torch.nn.init.orthogonal_ does it.
func Init(params []Param, s Spec, rng *rand.Rand) {
	for i, p := range layout(s) {
		if p.Gain != 0 {
			orthogonal(params[i].Value, p.Shape[0], p.Shape[1], p.Gain, rng)
		} else {
			p.fill(params[i].Value, rng)
		}
	}
}

// fill draws from ±bound or, if bound is 0, sets all elements to value.
func (p parameter) fill(w []float32, rng *rand.Rand) {
	for j := range w {
		w[j] = float32(p.value)
		if p.bound != 0 {
			w[j] = float32(p.bound * (2*rng.Float64() - 1))
		}
	}
}

// orthogonal fills w, of shape (in, out), with a matrix whose rows or columns, whichever are
// fewer, are orthogonal and of length gain. The signs that make the diagonal of R positive
// make the distribution uniform.
func orthogonal(w []float32, in, out int, gain float64, rng *rand.Rand) {
	rows, cols := max(in, out), min(in, out)
	q := blas64.General{Rows: rows, Cols: cols, Stride: cols, Data: make([]float64, rows*cols)}
	for i := range q.Data {
		q.Data[i] = rng.NormFloat64()
	}
	// LAPACK gives the thin Q; the rows×rows matrix of mat.QR does not fit for wide inputs.
	tau, work := make([]float64, cols), make([]float64, 64*cols)
	lapack64.Geqrf(q, tau, work, len(work))
	scale := make([]float64, cols)
	for j := range scale {
		scale[j] = math.Copysign(gain, q.Data[j*cols+j])
	}
	lapack64.Orgqr(q, tau, work, len(work))
	for i := range rows {
		for j := range cols {
			v := float32(q.Data[i*cols+j] * scale[j])
			if in >= out {
				w[i*out+j] = v
			} else {
				w[j*out+i] = v
			}
		}
	}
}

func size(shape []int) int {
	n := 1
	for _, d := range shape {
		n *= d
	}
	return n
}
