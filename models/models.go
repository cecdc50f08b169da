// Package models describes and holds function approximators.
//
// A [Spec] describes the function of a network and is plain data: an engine builds a [Network] from
// it, and a checkpoint stores it. Learning algorithms use only the Network: they compute the
// gradient of their loss with respect to the outputs, and the Network propagates it to the
// parameters. Package fused builds fast networks from explicit kernels; package graph uses Gorgonia
// and automatic differentiation.
//
// # Networks
//
// Functions return the usual specs; others are composed of towers and heads.
//   - [ActorCritic], also [MultiDiscreteActorCritic] and [GaussianActorCritic], are the MLPs of
//     Stable-Baselines3. Any tower may have layer norms.
//   - [NodeActorCritic] scores the nodes of an observation by layers that all of them share,
//     dense or passing messages along edges. [Spec.WithNodes] gives the spec of a cluster of
//     another size, which takes the same parameters.
//   - [RecurrentActorCritic] is sb3-contrib's MlpLstmPolicy. [WithLSTM] makes any actor-critic
//     recurrent, one over nodes with LSTMs that read the globals and the nodes' pooled
//     rows. The engines' networks are [Recurrent]: their state is an argument.
//   - Dueling action values are two heads, of advantages and of a value, which the learner
//     combines.
//
// # Outputs
//
// A row of outputs holds the heads side by side; [Spec.Head] finds them. Logits of one or several
// (Head.Blocks) categorical distributions, means and log_std of a Gaussian, and values are all
// numbers of that row, so a learner's loss needs nothing else.
//
// # Names
//
// Parameters have the names, and in files the shapes, of the PyTorch classes above, whose
// load_state_dict accepts them. These classes wrote the testdata of the tests. SAGE and GCN layers
// are named as in PyTorch Geometric.
package models

import "io"

// A Network maps rows of observations to rows of outputs and knows its parameters.
// It is not safe for concurrent use.
type Network interface {
	// Forward evaluates n observations, given as n rows of Spec.Inputs, and returns n rows of
	// Spec.Outputs. The result belongs to the Network and is valid until its next Forward.
	Forward(obs []float32, n int) (outputs []float32, err error)

	// Backward sets the gradient of each parameter to the product of dOutputs, of the shape
	// of the last Forward's outputs, with the Jacobian of that Forward. Parameters must not
	// have changed since.
	Backward(dOutputs []float32) error

	// Params returns the parameters in a fixed order, as memory that an optimizer may change
	// in place.
	Params() []Param

	// WriteTo writes the parameters as a safetensors file and ReadFrom reads them back.
	io.WriterTo
	io.ReaderFrom
}

// A Skipper is a [Network] that can leave out what a caller does not read, such as the value where only actions are
// wanted.
type Skipper interface {
	// Skip has Forward leave out a head and what only this head reads. The head's outputs are then undefined, and
	// Backward must not follow. An empty name has it compute all heads again.
	Skip(head string)
}

// A Parter is a [Network] that evaluates observations in parts, so that each worker prepares and uses its rows while
// they are in its cache.
type Parter interface {
	// ForwardBackward is Forward and BackwardBeside. It calls before for ranges of rows before it reads their
	// observations, and after with the outputs of a range, of at most PartRows rows, whose dOutputs after sets. Ranges
	// are disjoint and cover all rows. Calls with different workers, numbers below those of the network's team, are
	// concurrent. f is called when all rows have passed after.
	ForwardBackward(obs, dOutputs []float32, n int, before func(worker, lo, hi int), after func(worker, lo, hi int, outputs []float32), parts int, f func(worker, part int)) error

	// BackwardBeside is Backward. It also calls f for each part, 0 to parts-1, by the same workers.
	BackwardBeside(dOutputs []float32, parts int, f func(worker, part int)) error
}

// PartRows is the most rows in a part of a [Parter].
const PartRows = 64

// Param is one named array of parameters with its gradient.
//
// Dense weights are stored as (inputs, outputs), so that a row of observations is multiplied
// from the left; files hold PyTorch's transposed layout (see [WriteParams]).
type Param struct {
	Name        string // PyTorch's name, such as "mlp_extractor.policy_net.0.weight"
	Shape       []int
	Value, Grad []float32 // row-major
}
