package a2c

import (
	"context"
	"errors"
	"io"
	"testing"

	"github.com/kubernasium/kubernasium/agents"
	"github.com/kubernasium/kubernasium/envs"
	"github.com/kubernasium/kubernasium/envs/space"
	"github.com/kubernasium/kubernasium/models"
)

var ctx = context.Background()

// stub is a network with one parameter whose outputs and gradient are functions of the test.
type stub struct {
	actions int
	outputs func(obs []float32, theta float32) []float32 // of one row: the logits, then the value
	grad    float32                                      // what each Backward sets
	dOut    []float32                                    // what the last Backward got
	err     error                                        // of Forward

	out   []float32
	param []models.Param
}

var _ models.Network = (*stub)(nil)

func newStub(actions int, outputs func(obs []float32, theta float32) []float32) *stub {
	param := models.Param{Name: "theta", Shape: []int{1}, Value: make([]float32, 1), Grad: make([]float32, 1)}
	return &stub{actions: actions, outputs: outputs, param: []models.Param{param}}
}

func (s *stub) theta() float32 { return s.param[0].Value[0] }

func (s *stub) Forward(obs []float32, n int) ([]float32, error) {
	if s.err != nil {
		return nil, s.err
	}
	s.out = s.out[:0] // valid until the next Forward, as the interface has it
	size := len(obs) / n
	for i := range n {
		s.out = append(s.out, s.outputs(obs[i*size:(i+1)*size], s.theta())...)
	}
	return s.out, nil
}

func (s *stub) Backward(dOutputs []float32) error {
	s.dOut = append(s.dOut[:0], dOutputs...)
	s.param[0].Grad[0] = s.grad
	return nil
}

func (s *stub) Params() []models.Param              { return s.param }
func (s *stub) WriteTo(io.Writer) (int64, error)    { return 0, errors.ErrUnsupported }
func (s *stub) ReadFrom(r io.Reader) (int64, error) { return 0, errors.ErrUnsupported }

// small returns a configuration with rollouts of that many steps.
func small(steps int) Config {
	cfg := Defaults()
	cfg.NSteps, cfg.TotalTimesteps = steps, 1_000_000
	return cfg
}

// stubLearner returns a learner of n environments with observations of one number.
func stubLearner(t *testing.T, cfg Config, net *stub, n int) *Learner {
	t.Helper()
	env := agents.EnvInfo{ID: "toy/Stub-v0", Obs: space.NewBox(-100, 100, 1), Act: space.Discrete{N: net.actions}, NumEnvs: n}
	l, err := New(cfg, env, net, 1)
	if err != nil {
		t.Fatal(err)
	}
	return l
}

// batchOf returns a batch of one-number observations, with everything permitted and no
// episode's end.
func batchOf(actions int, obs ...float32) *envs.Batch {
	n := len(obs)
	b := &envs.Batch{
		Obs: obs, FinalObs: make([]float32, n), Mask: make([]bool, n*actions), Reward: make([]float64, n),
		Terminated: make([]bool, n), Truncated: make([]bool, n), EpisodeReturn: make([]float64, n), EpisodeLength: make([]int64, n),
	}
	for i := range b.Mask {
		b.Mask[i] = true
	}
	return b
}

func newVec(t *testing.T, spec *envs.Spec, n int) (*envs.Vec, *envs.Batch) {
	t.Helper()
	v, err := envs.NewVec(spec, n, envs.VecOptions{Autoreset: envs.SameStep})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { v.Close() })
	seed := uint64(1)
	b, err := v.Reset(ctx, envs.VecResetOptions{Seed: &seed})
	if err != nil {
		t.Fatal(err)
	}
	return v, b
}

// step acts once and observes what follows.
func step(t *testing.T, l *Learner, v *envs.Vec, b *envs.Batch, actions []float32) *envs.Batch {
	t.Helper()
	if err := l.Act(b, actions); err != nil {
		t.Fatal(err)
	}
	next, err := v.Step(ctx, actions)
	if err != nil {
		t.Fatal(err)
	}
	if err := l.Observe(next); err != nil {
		t.Fatal(err)
	}
	return next
}
