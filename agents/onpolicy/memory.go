package onpolicy

import (
	"fmt"
	"slices"

	"github.com/kubernasium/kubernasium/envs"
	"github.com/kubernasium/kubernasium/models"
	"github.com/kubernasium/kubernasium/models/safetensors"
)

// A Memory evaluates a network step by step and keeps the state of its LSTMs, if any, for each
// environment. Where the batch begins an episode, the state before it is zero.
type Memory struct {
	net   models.Network
	lstm  models.Recurrent // nil if the network has no state
	part  models.Skipper   // nil if the network always computes all of its outputs
	state []float32        // (n, StateSize)
	peek  []float32        // a copy that may change
	begin []bool
}

func newMemory(net models.Network, spec models.Spec) (*Memory, error) {
	m := &Memory{net: net}
	m.part, _ = net.(models.Skipper)
	if spec.StateSize() > 0 {
		var ok bool
		if m.lstm, ok = net.(models.Recurrent); !ok {
			return nil, fmt.Errorf("onpolicy: a network with LSTMs is no models.Recurrent: %T", net)
		}
	}
	return m, nil
}

// Recurrent reports whether there is a state.
func (m *Memory) Recurrent() bool { return m.lstm != nil }

// resize makes room for n environments.
func (m *Memory) resize(n int) {
	if size := n * m.lstm.StateSize(); len(m.state) != size {
		m.state, m.peek, m.begin = make([]float32, size), make([]float32, size), make([]bool, n)
	}
}

// skipValue has further calls of the network leave out the value, or not.
func (m *Memory) skipValue(skip bool) {
	if m.part == nil {
		return
	}
	if skip {
		m.part.Skip(valueHead)
	} else {
		m.part.Skip("")
	}
}

// Step evaluates obs, the observations of b, and updates the state.
func (m *Memory) Step(obs []float32, b *envs.Batch) ([]float32, error) {
	n := len(b.Reward)
	if m.lstm == nil {
		return m.net.Forward(obs, n)
	}
	m.resize(n)
	for i := range m.begin {
		m.begin[i] = b.Begins(i)
	}
	return m.lstm.ForwardStep(obs, n, m.state, m.begin)
}

// Peek evaluates obs, the observations of n environments after the last Step, and keeps the state.
func (m *Memory) Peek(obs []float32, n int) ([]float32, error) {
	if m.lstm == nil {
		return m.net.Forward(obs, n)
	}
	m.resize(n)
	copy(m.peek, m.state)
	clear(m.begin)
	return m.lstm.ForwardStep(obs, n, m.peek, m.begin)
}

// Look evaluates obs, the observations of b, as Step does, and keeps the state.
func (m *Memory) Look(obs []float32, b *envs.Batch) ([]float32, error) {
	n := len(b.Reward)
	if m.lstm == nil {
		return m.net.Forward(obs, n)
	}
	m.resize(n)
	copy(m.peek, m.state)
	for i := range m.begin {
		m.begin[i] = b.Begins(i)
	}
	return m.lstm.ForwardStep(obs, n, m.peek, m.begin)
}

// stateTensor holds the state of the LSTMs.
const stateTensor = models.StatePrefix + "lstm"

// Save implements [State].
func (m *Memory) Save(f *models.File) {
	size := m.lstm.StateSize()
	f.Put(safetensors.Tensor{Name: stateTensor, Shape: []int{len(m.state) / size, size}, Data: slices.Clone(m.state)})
}

// Load implements [State]. If the checkpoint has another number of environments, the state is zero.
func (m *Memory) Load(f models.File) (commit func(), err error) {
	t, err := f.Tensor(stateTensor)
	if err != nil {
		return nil, err
	}
	state, err := safetensors.As[float32](t)
	if size := m.lstm.StateSize(); err != nil || len(t.Shape) != 2 || t.Shape[1] != size {
		return nil, fmt.Errorf("onpolicy: load: %w: %s has the shape %v, want %d numbers for each environment", models.ErrMismatch, stateTensor, t.Shape, size)
	}
	return func() {
		if len(state) == len(m.state) {
			copy(m.state, state)
		} else {
			clear(m.state)
		}
	}, nil
}
