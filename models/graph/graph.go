// Package graph builds networks as Gorgonia graphs, with gradients by automatic differentiation.
//
// Shapes are static in Gorgonia, so each batch size (for sequences of LSTMs, each number of steps
// and environments) has its own graphs: one computes the outputs; another, compiled by the first
// [Network.Backward], also differentiates. Compiling takes a millisecond or two. A Network keeps
// the graphs of the [MaxBatchSizes] most recently used batch sizes; a caller that alternates
// between more sizes recompiles each time. All graphs read the same memory of parameters.
package graph

import (
	"errors"
	"fmt"
	"io"
	"math/rand/v2"

	"github.com/kubernasium/kubernasium/models"
)

// MaxBatchSizes is the number of batch sizes whose graphs a [Network] keeps.
const MaxBatchSizes = 16

// MaxNodes bounds the nodes that pass messages, since adjacency matrices are dense here.
const MaxNodes = 64

// ErrBatch is wrapped by the errors of Forward and Backward about arguments of a wrong length
// or in a wrong order.
var ErrBatch = errors.New("graph: invalid batch")

// Network is a [models.Network] that Gorgonia evaluates. Equal parameters and observations give
// equal bits in every process on one kind of machine. It is not safe for concurrent use; different
// networks are independent.
type Network struct {
	spec    models.Spec
	params  []models.Param
	batches []*batch // most recently used first
	last    *batch   // of the last Forward; nil before the first
}

var _ models.Recurrent = (*Network)(nil)

// New returns the network of spec, with parameters that [models.Init] draws from rng. With a nil
// rng they stay zero, for ReadFrom. The error is that of [models.Spec.Validate], or wraps
// [models.ErrSpec] if more than [MaxNodes] nodes pass messages.
func New(spec models.Spec, rng *rand.Rand) (*Network, error) {
	if err := spec.Validate(); err != nil {
		return nil, fmt.Errorf("graph: %w", err)
	}
	if spec.Nodes != nil && spec.Nodes.N > MaxNodes && spec.MaxEdges() > 0 {
		return nil, fmt.Errorf("graph: %w: %d nodes with edges, want at most %d, or the engine fused", models.ErrSpec, spec.Nodes.N, MaxNodes)
	}
	n := &Network{spec: spec, params: models.NewParams(spec)}
	if rng != nil {
		models.Init(n.params, spec, rng)
	}
	return n, nil
}

// Spec returns the description that n was built from; the caller must not change it.
func (n *Network) Spec() models.Spec { return n.spec }

// Params implements [models.Network]. The arrays stay the same for the life of n.
func (n *Network) Params() []models.Param { return n.params }

// Forward implements [models.Network]. It copies obs. An error about edges in obs wraps
// [models.ErrEdge].
func (n *Network) Forward(obs []float32, rows int) ([]float32, error) {
	return n.forward(obs, 1, rows, nil, nil)
}

// StateSize implements [models.Recurrent].
func (n *Network) StateSize() int { return n.spec.StateSize() }

// ForwardStep implements [models.Recurrent].
func (n *Network) ForwardStep(obs []float32, num int, state []float32, episodeStarts []bool) ([]float32, error) {
	outputs, err := n.ForwardSequence(obs, 1, num, state, episodeStarts)
	if err == nil {
		n.last.takeState(n.StateSize(), state)
	}
	return outputs, err
}

// ForwardSequence implements [models.Recurrent].
func (n *Network) ForwardSequence(obs []float32, steps, num int, state []float32, episodeStarts []bool) ([]float32, error) {
	if steps < 1 || num < 1 || len(state) != num*n.StateSize() || len(episodeStarts) != steps*num {
		return nil, fmt.Errorf("%w: %d steps of %d environments with %d numbers of state and %d starts of episodes, want %d for each environment and one for each row",
			ErrBatch, steps, num, len(state), len(episodeStarts), n.StateSize())
	}
	return n.forward(obs, steps, num, state, episodeStarts)
}

func (n *Network) forward(obs []float32, steps, num int, state []float32, starts []bool) ([]float32, error) {
	rows := steps * num
	if rows < 1 || len(obs) != rows*n.spec.Inputs {
		return nil, fmt.Errorf("%w: %d numbers for %d rows, want %d for each of at least one row",
			ErrBatch, len(obs), rows, n.spec.Inputs)
	}
	n.last = nil
	b, err := n.batch(steps, num)
	if err != nil {
		return nil, fmt.Errorf("graph: compile for %d rows: %w", rows, err)
	}
	if err := b.fill(n.spec, obs, state, starts); err != nil {
		return nil, fmt.Errorf("graph: %w", err)
	}
	if err := b.forward.run(); err != nil {
		return nil, fmt.Errorf("graph: forward of %d rows: %w", rows, err)
	}
	b.joinOutputs()
	n.last = b
	return b.outputs, nil
}

// Backward implements [models.Network]. It evaluates the network of the last Forward again. It may
// be called again for other gradients of the same outputs; each call overwrites Param.Grad.
func (n *Network) Backward(dOutputs []float32) error {
	b := n.last
	if b == nil {
		return fmt.Errorf("%w: Backward without a Forward before it", ErrBatch)
	}
	if len(dOutputs) != len(b.outputs) {
		return fmt.Errorf("%w: %d gradients for %d outputs", ErrBatch, len(dOutputs), len(b.outputs))
	}
	if b.backward == nil {
		p, err := compileBackward(n.spec, n.params, b)
		if err != nil {
			return fmt.Errorf("graph: compile gradients for %d rows: %w", b.rows, err)
		}
		b.backward = p
	}
	b.splitGradients(dOutputs)
	for i := range b.selections {
		b.selections[i].update()
	}
	if err := b.backward.run(); err != nil {
		return fmt.Errorf("graph: backward of %d rows: %w", b.rows, err)
	}
	return nil
}

// batch returns the graphs for the given steps and environments, and marks them as the most
// recently used.
func (n *Network) batch(steps, num int) (*batch, error) {
	for i, b := range n.batches {
		if b.steps == steps && b.rows == steps*num {
			copy(n.batches[1:i+1], n.batches[:i])
			n.batches[0] = b
			return b, nil
		}
	}
	b, err := newBatch(n.spec, n.params, steps, num)
	if err != nil {
		return nil, err
	}
	if len(n.batches) == MaxBatchSizes {
		oldest := n.batches[MaxBatchSizes-1]
		n.batches = n.batches[:MaxBatchSizes-1]
		if err := oldest.close(); err != nil {
			return nil, err
		}
	}
	n.batches = append(n.batches, nil)
	copy(n.batches[1:], n.batches)
	n.batches[0] = b
	return b, nil
}

// Close releases the compiled graphs. The network stays usable and compiles them again.
func (n *Network) Close() error {
	var errs []error
	for _, b := range n.batches {
		errs = append(errs, b.close())
	}
	n.batches, n.last = nil, nil
	return errors.Join(errs...)
}

// WriteTo writes the parameters as [models.WriteParams] does.
func (n *Network) WriteTo(w io.Writer) (int64, error) { return models.WriteParams(w, n.params) }

// ReadFrom reads the parameters as [models.ReadParams] does and changes none if it returns an
// error.
func (n *Network) ReadFrom(r io.Reader) (int64, error) { return models.ReadParams(r, n.params) }
