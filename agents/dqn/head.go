package dqn

import (
	"github.com/kubernasium/kubernasium/agents/policies"
	"github.com/kubernasium/kubernasium/models"
)

// head computes action values from a network's outputs.
type head struct {
	actions, width int // action values, and outputs, of one row
	dueling        bool
}

func newHead(spec models.Spec) head {
	_, actions := spec.Head(spec.Heads[0].Name)
	_, value := spec.Head(policies.ValueHead)
	return head{actions: actions, width: spec.Outputs(), dueling: value == 1 && spec.Outputs() == actions+1}
}

// values returns the action values of row i of out. Those of dueling heads, V + A − mean A [4], it
// computes in q.
func (h head) values(q, out []float32, i int) []float32 {
	row := out[i*h.width : (i+1)*h.width]
	if !h.dueling {
		return row
	}
	mean := 0.0
	for _, a := range row[:h.actions] {
		mean += float64(a)
	}
	shift := float64(row[h.actions]) - mean/float64(h.actions)
	for a := range q {
		q[a] = float32(float64(row[a]) + shift)
	}
	return q
}

// backward adds to dOut, the gradient of one row's outputs, the gradient g of the value of one action.
func (h head) backward(dOut []float32, action int, g float64) {
	if !h.dueling {
		dOut[action] += float32(g)
		return
	}
	share := g / float64(h.actions)
	for a := range dOut[:h.actions] {
		if a != action {
			dOut[a] -= float32(share)
		}
	}
	dOut[action] += float32(g - share)
	dOut[h.actions] += float32(g)
}
