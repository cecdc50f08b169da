package models

import (
	"fmt"
	"math"
	"math/rand/v2"

	"gonum.org/v1/gonum/blas/blas64"
	"gonum.org/v1/gonum/lapack/lapack64"
)

// ParamInfo is what a [Spec] says of one parameter.
type ParamInfo struct {
	Name  string  // PyTorch's name
	Shape []int   // in memory: (inputs, outputs) of a weight, (outputs) of a bias
	Gain  float64 // of a weight's orthogonal initialization; 0 for a bias, which starts at 0
}

// ParamLayout returns the parameters of a valid spec in the order of [Network.Params], which
// is that of PyTorch's state_dict: the towers, then the heads, each weight before its bias.
// The layers of a tower are numbered by 0, 2, 4, ..., as in PyTorch activations count too.
func ParamLayout(s Spec) []ParamInfo {
	var infos []ParamInfo
	dense := func(name string, in, out int, gain float64) {
		infos = append(infos,
			ParamInfo{Name: name + ".weight", Shape: []int{in, out}, Gain: gain},
			ParamInfo{Name: name + ".bias", Shape: []int{out}})
	}
	for _, t := range s.Towers {
		in := s.Inputs
		for i, out := range t.Hidden {
			dense(fmt.Sprintf("%s.%d", t.Name, 2*i), in, out, HiddenGain)
			in = out
		}
	}
	for _, h := range s.Heads {
		in := s.Inputs
		if hidden := s.Towers[h.Tower].Hidden; len(hidden) > 0 {
			in = hidden[len(hidden)-1]
		}
		dense(h.Name, in, h.Size, h.Gain)
	}
	return infos
}

// NewParams returns the parameters of a valid spec, all zero. The values share one array and
// so do the gradients, which gives each the same alignment in every run: the order in which
// gonum's assembly sums a dot product depends on it.
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

// Init gives the parameters of a valid spec, in the order of [ParamLayout], their first
// values: weights are orthogonal matrices times a gain and biases are 0. Equal states of rng
// give equal values.
//
// Source: Saxe, McClelland and Ganguli, "Exact solutions to the nonlinear dynamics of learning
// in deep linear neural networks", arXiv:1312.6120, as torch.nn.init.orthogonal_ does it.
func Init(params []Param, s Spec, rng *rand.Rand) {
	for i, p := range ParamLayout(s) {
		if len(p.Shape) == 2 {
			orthogonal(params[i].Value, p.Shape[0], p.Shape[1], p.Gain, rng)
		} else {
			clear(params[i].Value)
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
