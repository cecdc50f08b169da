package models

import (
	"fmt"
	"io"
	"slices"
	"strings"

	"github.com/kubernasium/kubernasium/models/safetensors"
)

// Prefixes of the names of tensors that are not parameters.
const (
	OptimizerPrefix = "optimizer."
	StatePrefix     = "state."
)

// Put adds copies of tensors to f.
func (f *File) Put(tensors ...safetensors.Tensor) { f.Tensors = append(f.Tensors, tensors...) }

// PutParams adds the values of the parameters, in PyTorch's layout.
func (f *File) PutParams(params []Param) {
	for _, p := range params {
		f.PutState("", p, p.Value)
	}
}

// PutState adds an array of the shape of p, in PyTorch's layout, under the prefix and the name
// of p: PutState("optimizer.exp_avg.", p, m).
func (f *File) PutState(prefix string, p Param, values []float32) {
	shape, data := fileShape(p.Shape), slices.Clone(values)
	if len(shape) == 2 {
		transpose(data, values, p.Shape[0], p.Shape[1])
	}
	f.Put(safetensors.Tensor{Name: prefix + p.Name, Shape: shape, Data: data})
}

// Params copies the values of the parameters out of f. The error wraps [ErrMismatch] if a parameter
// is missing or has another shape or type, or if f holds a weight or bias of another network. After
// an error, params are unchanged.
func (f File) Params(params []Param) error {
	if err := f.checkParams(params); err != nil {
		return err
	}
	values := make([][]float32, len(params))
	for i, p := range params {
		values[i] = make([]float32, len(p.Value))
		if err := f.State("", p, values[i]); err != nil {
			return err
		}
	}
	for i, p := range params {
		copy(p.Value, values[i])
	}
	return nil
}

// State copies to values the array that PutState stored. After an error, values are unchanged.
func (f File) State(prefix string, p Param, values []float32) error {
	t, err := f.Tensor(prefix + p.Name)
	if err != nil {
		return err
	}
	data, err := safetensors.As[float32](t)
	if err != nil {
		return fmt.Errorf("%w: %w", ErrMismatch, err)
	}
	if want := fileShape(p.Shape); !slices.Equal(t.Shape, want) {
		return fmt.Errorf("%w: tensor %q has shape %v, want %v", ErrMismatch, t.Name, t.Shape, want)
	}
	if len(t.Shape) == 2 {
		transpose(values, data, t.Shape[0], t.Shape[1])
	} else {
		copy(values, data)
	}
	return nil
}

// checkParams looks for weights and biases that params lacks.
func (f File) checkParams(params []Param) error {
	known := map[string]bool{}
	for _, p := range params {
		known[p.Name] = true
	}
	for _, t := range f.Tensors {
		last := t.Name[strings.LastIndexByte(t.Name, '.')+1:]
		// weight and bias of layers, weight_ih_l0 and others of an LSTM, log_std of a Gaussian
		layer := strings.HasPrefix(last, "weight") || strings.HasPrefix(last, "bias") || last == "log_std"
		state := strings.HasPrefix(t.Name, OptimizerPrefix) || strings.HasPrefix(t.Name, StatePrefix)
		if layer && !state && !known[t.Name] {
			return fmt.Errorf("%w: tensor %q is of no layer of this network", ErrMismatch, t.Name)
		}
	}
	return nil
}

// WriteParams writes the parameters as a safetensors file, without a [Checkpoint]. Weights, which
// are (inputs, outputs) in memory, are (outputs, inputs) in the file, as in PyTorch, so that they
// form a state_dict of a policy of Stable-Baselines3.
func WriteParams(w io.Writer, params []Param) (int64, error) {
	var f File
	f.PutParams(params)
	cw := &countingWriter{w: w}
	err := safetensors.Write(cw, f.Tensors, map[string]string{"format": "pt"})
	return cw.n, err
}

// ReadParams reads what [WriteParams] wrote, or the parameters of a checkpoint, to the end of
// r. It changes none if it returns an error, which wraps [safetensors.ErrCorrupt] or
// [ErrMismatch] or is that of r.
func ReadParams(r io.Reader, params []Param) (int64, error) {
	cr := &countingReader{r: r}
	sf, err := safetensors.Read(cr)
	if err != nil {
		return cr.n, err
	}
	return cr.n, File{Tensors: sf.Tensors}.Params(params)
}

// fileShape returns the shape in a file of an array with the given shape in memory.
func fileShape(shape []int) []int {
	s := slices.Clone(shape)
	slices.Reverse(s)
	return s
}

// transpose writes to dst the transpose of src, which has the given rows and columns.
func transpose(dst, src []float32, rows, cols int) {
	for i := range rows {
		for j := range cols {
			dst[j*rows+i] = src[i*cols+j]
		}
	}
}

type countingWriter struct {
	w io.Writer
	n int64
}

func (c *countingWriter) Write(p []byte) (int, error) {
	n, err := c.w.Write(p)
	c.n += int64(n)
	return n, err
}

type countingReader struct {
	r io.Reader
	n int64
}

func (c *countingReader) Read(p []byte) (int, error) {
	n, err := c.r.Read(p)
	c.n += int64(n)
	return n, err
}
