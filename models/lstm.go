package models

// MaxLSTMLayers bounds the layers of an [LSTM].
const MaxLSTMLayers = 16

// An LSTM reads observations in sequence and keeps a state: Layers of torch.nn.LSTM on top of each
// other, each of Hidden cells. With 0 layers it is a dense layer without activation and without
// state, which sb3-contrib uses in place of a critic's LSTM.
//
// It reads the observation or, with a Pool, the globals followed by the pooled rows of the nodes,
// so that its parameters do not depend on the number of nodes.
//
// Source: Hochreiter and Schmidhuber, "Long Short-Term Memory", Neural Computation 9(8), 1997, with
// the gates i, f, g, o of torch.nn.LSTM.
type LSTM struct {
	Name   string `json:"name"`   // PyTorch's name, such as "lstm_actor"
	Hidden int    `json:"hidden"` // cells of a layer
	Layers int    `json:"layers"`
	Pool   string `json:"pool,omitempty"` // empty, or Mean, Max or MeanMax in a spec with nodes
}

// LSTMInputs returns the width of the input of LSTM i of a valid spec.
func (s Spec) LSTMInputs(i int) int {
	if pool := s.LSTMs[i].Pool; pool != "" {
		return s.globals() + len(poolings[pool])*s.Nodes.Features
	}
	return s.Inputs
}

// StateSize returns the length of a state: for each LSTM and each of its layers the Hidden
// results h, then the Hidden cells c. It is 0 if the spec has no LSTM.
func (s Spec) StateSize() int {
	n := 0
	for _, l := range s.LSTMs {
		n += 2 * l.Layers * l.Hidden
	}
	return n
}

// A Recurrent is a [Network] with LSTMs that take their state from the caller and return it. Its
// Forward treats each row as the first of an episode, with a state of zeros. Its Backward belongs
// to the last Forward of any kind; after ForwardSequence it carries the gradient back through time
// to the first step, and not into the caller's state.
type Recurrent interface {
	Network

	// StateSize returns the length of the state of one environment, [Spec.StateSize].
	StateSize() int

	// ForwardStep evaluates n observations, one of each of n environments. It reads and then
	// replaces state, n rows of StateSize. Where episodeStarts, of length n, is true, the state
	// is zero before the step.
	ForwardStep(obs []float32, n int, state []float32, episodeStarts []bool) (outputs []float32, err error)

	// ForwardSequence evaluates steps observations of each of n environments, row-major of shape
	// (steps, n, Inputs), and returns outputs of shape (steps, n, Outputs). It begins with state, n
	// rows of StateSize, which it does not change, and sets an environment's state to zero before
	// each step where episodeStarts, of shape (steps, n), is true.
	ForwardSequence(obs []float32, steps, n int, state []float32, episodeStarts []bool) (outputs []float32, err error)
}
