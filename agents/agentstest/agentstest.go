// Package agentstest holds the common parts of the learners' tests: a network with given outputs,
// handmade batches, and steps in toy environments.
package agentstest

import (
	"context"
	"errors"
	"io"
	"math"
	"strings"
	"testing"

	"github.com/kubernasium/kubernasium/agents"
	"github.com/kubernasium/kubernasium/envs"
	"github.com/kubernasium/kubernasium/envs/space"
	"github.com/kubernasium/kubernasium/models"
)

// Stub is a network with one parameter, Theta. The test gives its outputs and its gradient.
type Stub struct {
	Actions int                                          // number of the first outputs
	Outputs func(obs []float32, theta float32) []float32 // of one row
	Grad    float32                                      // that each Backward sets
	DOut    []float32                                    // of the last Backward
	Err     error                                        // of Forward
	Calls   int                                          // of Forward

	out   []float32
	param []models.Param
}

var _ models.Network = (*Stub)(nil)

// NewStub returns a network for the given number of discrete actions.
func NewStub(actions int, outputs func(obs []float32, theta float32) []float32) *Stub {
	param := models.Param{Name: "theta", Shape: []int{1}, Value: make([]float32, 1), Grad: make([]float32, 1)}
	return &Stub{Actions: actions, Outputs: outputs, param: []models.Param{param}}
}

// Rows returns outputs for a Stub: the observation is the number of the row.
func Rows(outputs []float64, width int) func(obs []float32, theta float32) []float32 {
	return func(obs []float32, _ float32) []float32 {
		row := make([]float32, width)
		for j := range row {
			row[j] = float32(outputs[int(obs[0])*width+j])
		}
		return row
	}
}

// Theta returns the parameter.
func (s *Stub) Theta() float32 { return s.param[0].Value[0] }

// Forward implements [models.Network].
func (s *Stub) Forward(obs []float32, n int) ([]float32, error) {
	s.Calls++
	if s.Err != nil {
		return nil, s.Err
	}
	s.out = s.out[:0] // valid until the next Forward, as for any Network
	size := len(obs) / n
	for i := range n {
		s.out = append(s.out, s.Outputs(obs[i*size:(i+1)*size], s.Theta())...)
	}
	return s.out, nil
}

// Backward implements [models.Network].
func (s *Stub) Backward(dOutputs []float32) error {
	s.DOut = append(s.DOut[:0], dOutputs...)
	s.param[0].Grad[0] = s.Grad
	return nil
}

// Params implements [models.Network].
func (s *Stub) Params() []models.Param { return s.param }

// WriteTo implements [models.Network]. It is not supported.
func (s *Stub) WriteTo(io.Writer) (int64, error) { return 0, errors.ErrUnsupported }

// ReadFrom implements [models.Network]. It is not supported.
func (s *Stub) ReadFrom(io.Reader) (int64, error) { return 0, errors.ErrUnsupported }

// Env describes n environments with observations of one number and discrete actions.
func Env(actions, n int) agents.EnvInfo {
	return agents.EnvInfo{ID: "toy/Stub-v0", Obs: space.NewBox(-100, 100, 1), Act: space.Discrete{N: actions}, NumEnvs: n}
}

// BatchOf returns a batch of one-number observations, in which all actions are permitted and no
// episode ends.
func BatchOf(actions int, obs ...float32) *envs.Batch {
	n := len(obs)
	b := &envs.Batch{
		Obs: obs, FinalObs: make([]float32, n), FinalMask: make([]bool, n*actions), Mask: make([]bool, n*actions), Reward: make([]float64, n),
		Terminated: make([]bool, n), Truncated: make([]bool, n), EpisodeReturn: make([]float64, n), EpisodeLength: make([]int64, n),
	}
	for i := range b.Mask {
		b.Mask[i], b.FinalMask[i] = true, true
	}
	return b
}

// NewVec returns n environments and their first batch. The test closes them when it ends.
func NewVec(t *testing.T, spec *envs.Spec, n int) (*envs.Vec, *envs.Batch) {
	t.Helper()
	v, err := envs.NewVec(spec, n, envs.VecOptions{Autoreset: envs.SameStep})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { v.Close() })
	b, err := v.Reset(context.Background(), envs.VecResetOptions{Seed: new(uint64(1))})
	if err != nil {
		t.Fatal(err)
	}
	return v, b
}

// An Observer acts and observes.
type Observer interface {
	agents.Policy
	Observe(next *envs.Batch) error
}

// Step acts once, into actions, and observes the result.
func Step(t *testing.T, l Observer, v *envs.Vec, b *envs.Batch, actions []float32) *envs.Batch {
	t.Helper()
	if err := l.Act(b, actions); err != nil {
		t.Fatal(err)
	}
	next, err := v.Step(context.Background(), actions)
	if err != nil {
		t.Fatal(err)
	}
	if err := l.Observe(next); err != nil {
		t.Fatal(err)
	}
	return next
}

// CheckRejectsRewards gives new learners of three environments of Env a reward that is not finite,
// and checks that Observe rejects it.
func CheckRejectsRewards[L interface {
	Observer
	NumTimesteps() int
}](t *testing.T, newLearner func() L, check func(l L)) {
	t.Helper()
	for _, bad := range []float64{math.NaN(), math.Inf(1), math.Inf(-1)} {
		l := newLearner()
		b, actions := BatchOf(2, 0, 0, 0), make([]float32, 3)
		for range 2 {
			if err := errors.Join(l.Act(b, actions), l.Observe(b)); err != nil {
				t.Fatal(err)
			}
		}
		if err := l.Act(b, actions); err != nil {
			t.Fatal(err)
		}
		b.Reward[1] = bad
		err := l.Observe(b)
		if err == nil {
			t.Fatalf("Observe of reward %v gives no error", bad)
		}
		// Two steps of 3 environments came before; this is the 8th timestep, counted from 0.
		for _, part := range []string{"environment 1", "timestep 7", "reward"} {
			if !strings.Contains(err.Error(), part) {
				t.Errorf("error %q does not name %q", err, part)
			}
		}
		if l.NumTimesteps() != 6 {
			t.Errorf("after the error NumTimesteps() = %d, want 6", l.NumTimesteps())
		}
		check(l)
	}
}
