package fused

import "github.com/kubernasium/kubernasium/models"

// A module is one step of a stack. It computes y from x for the items of a worker's tile, row by
// row, and the gradient of x from d, the gradient of y. The first module of a stack has no x.
type module interface {
	// grow allocates memory for the given number of items and returns that of y, which is x if the
	// module works in place.
	grow(items int, x []float32) (y []float32)

	// forward computes y.
	forward(w *worker, x, y []float32)

	// backward adds the gradients of the parameters and returns that of x, or nil if no parameter
	// below needs it. It may change d.
	backward(w *worker, x, y, d []float32) (dx []float32)
}

// A step is a module of a stack.
type step struct {
	module
	width int       // of a result
	y     []float32 // results for all items of the last Forward
}

// A stack passes items through one module after another.
type stack []step

func (s *stack) push(m module, width int) { *s = append(*s, step{module: m, width: width}) }

func (s stack) grow(items int) {
	var x []float32
	for i := range s {
		s[i].y = s[i].grow(items, x)
		x = s[i].y
	}
}

// forward returns the results of the worker's tile.
func (s stack) forward(w *worker) []float32 {
	var x []float32
	for i := range s {
		y := s[i].results(w)
		s[i].forward(w, x, y)
		x = y
	}
	return x
}

// backward propagates d, the gradient of the results, down to the lowest module that needs it.
func (s stack) backward(w *worker, d []float32) {
	for i := len(s) - 1; i >= 0 && d != nil; i-- {
		var x []float32
		if i > 0 {
			x = s[i-1].results(w)
		}
		d = s[i].backward(w, x, s[i].results(w), d[:w.items*s[i].width])
	}
}

// results returns those of the worker's tile.
func (s *step) results(w *worker) []float32 {
	return s.y[w.at*s.width : (w.at+w.items)*s.width]
}

// A param is a parameter of a module.
type param struct {
	index       int // in Network.Params
	value, grad []float32
	shape       []int
}

// A cursor hands out parameters to modules in the order of [models.ParamLayout].
type cursor struct {
	params     []models.Param
	next       int
	transposes []transpose
}

func (c *cursor) take() param {
	p := c.params[c.next]
	c.next++
	return param{index: c.next - 1, value: p.Value, grad: p.Grad, shape: p.Shape}
}

// transposed returns memory that holds the transpose of a weight's rows, from one on, during
// backward passes.
func (c *cursor) transposed(p param, from int) []float32 {
	rows, cols := p.shape[0]-from, p.shape[1]
	t := transpose{dst: aligned(rows * cols), src: p.value[from*cols:], rows: rows, cols: cols}
	c.transposes = append(c.transposes, t)
	return t.dst
}

// A transpose is a transposed copy of a weight, which Backward updates.
type transpose struct {
	dst, src   []float32
	rows, cols int
}
