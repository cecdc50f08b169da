package fused

import (
	"slices"
	"testing"

	"github.com/kubernasium/kubernasium/models/internal/oracle"
)

// TestWorkersGiveEqualSequences: the outputs, states and gradients of sequences do not depend on the number of workers,
// with any number of environments for each.
func TestWorkersGiveEqualSequences(t *testing.T) {
	for _, v := range variants() {
		for name, spec := range oracle.Specs() {
			net := withBiases(t, spec, 1, v)
			net.minWork = 0
			for _, size := range [][2]int{{1, 5}, {7, 9}, {40, 16}} {
				steps, num := size[0], size[1]
				_, obs, state, starts := oracle.Sequence(spec, steps, num, 2)
				pass := func(workers int) []uint32 {
					net.SetWorkers(workers)
					for _, p := range net.Params() { // else a gradient that is not set would be an earlier one
						for i := range p.Grad {
							p.Grad[i] = float32(workers)
						}
					}
					after := slices.Clone(state)
					step, err := net.ForwardStep(obs[:num*spec.Inputs], num, after, starts[:num])
					if err != nil {
						t.Fatal(err)
					}
					step = slices.Clone(step)
					out, err := net.ForwardSequence(obs, steps, num, state, starts)
					if err != nil {
						t.Fatal(err)
					}
					if err := net.Backward(oracle.Normal(len(out), 3)); err != nil {
						t.Fatal(err)
					}
					return bitsOf(append(grads(net.Params()), out, step, after)...)
				}
				want := pass(1)
				for _, workers := range []int{2, 3, 8} {
					if !slices.Equal(pass(workers), want) {
						t.Errorf("%s %s: %d steps of %d environments: %d workers differ from one", v.name, name, steps, num, workers)
					}
				}
			}
		}
	}
}
