package onnx

import (
	"fmt"

	"github.com/kubernasium/kubernasium/models"
)

// lstms adds one step of each LSTM as dense layers: ONNX's LSTM operator orders the gates
// differently from PyTorch, and so needs other parameters.
func (g *graph) lstms() {
	offset, state := 0, ""
	if g.spec.StateSize() > 0 { // zeros where an episode starts
		state = g.op("Where", State+"/begin", g.op("Unsqueeze", EpisodeStart+"/column", EpisodeStart, g.ints(1)), g.number(0), State)
	}
	for _, l := range g.spec.LSTMs {
		x := g.lstmInput(l)
		if l.Layers == 0 {
			x = g.gemm(x, l.Name, l.Name+"/gemm")
		}
		for k := range l.Layers {
			h := g.slice(fmt.Sprintf("%s/h%d", State, offset), state, offset, offset+l.Hidden)
			c := g.slice(fmt.Sprintf("%s/c%d", State, offset), state, offset+l.Hidden, offset+2*l.Hidden)
			offset += 2 * l.Hidden
			x = g.cell(l, k, x, h, c)
		}
		g.memory = append(g.memory, x)
	}
}

// lstmInput returns the input of an LSTM.
func (g *graph) lstmInput(l models.LSTM) string {
	if l.Pool == "" {
		return g.read(models.Range{End: g.spec.Inputs})
	}
	pooled := g.pool("nodes/pool "+l.Pool, g.rows, l.Pool)
	if g.globals == "" {
		return pooled
	}
	return g.concat("globals and nodes/pool "+l.Pool, 1, g.globals, pooled)
}

// cell adds layer k of an LSTM and returns its results. The gates are i, f, g and o, as in
// torch.nn.LSTM.
func (g *graph) cell(l models.LSTM, k int, x, h, c string) string {
	name := fmt.Sprintf("%s.%d", l.Name, k)
	dense := func(x, kind string) string {
		weight, bias := fmt.Sprintf("%s.weight_%s_l%d", l.Name, kind, k), fmt.Sprintf("%s.bias_%s_l%d", l.Name, kind, k)
		return g.opInts("Gemm", name+"/"+kind, map[string]int64{"transB": 1}, x, weight, bias)
	}
	gates := g.op("Add", name+"/gates", dense(x, "ih"), dense(h, "hh"))
	gate := func(i int, op, what string) string {
		return g.op(op, name+"/"+what, g.slice(name+"/"+what+" sum", gates, i*l.Hidden, (i+1)*l.Hidden))
	}
	in, forget, candidate, out := gate(0, "Sigmoid", "i"), gate(1, "Sigmoid", "f"), gate(2, "Tanh", "g"), gate(3, "Sigmoid", "o")
	next := g.op("Add", name+"/c", g.op("Mul", name+"/kept", forget, c), g.op("Mul", name+"/added", in, candidate))
	result := g.op("Mul", name+"/h", out, g.op("Tanh", name+"/tanh c", next))
	g.nextState = append(g.nextState, result, next)
	return result
}

// stateOutput adds the state after the step.
func (g *graph) stateOutput() {
	if len(g.nextState) == 0 {
		return
	}
	g.opInts("Concat", NextState, map[string]int64{"axis": 1}, g.nextState...)
	g.outputs = append(g.outputs, value{NextState, typeFloat, []dim{batchDim, {size: g.spec.StateSize()}}})
}
