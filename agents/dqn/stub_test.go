package dqn

import (
	"errors"
	"io"
	"testing"

	"github.com/kubernasium/kubernasium/agents"
	"github.com/kubernasium/kubernasium/envs"
	"github.com/kubernasium/kubernasium/envs/space"
	"github.com/kubernasium/kubernasium/models"
)

// stub is a network with one parameter whose outputs and gradient are functions of the test.
type stub struct {
	outputs func(obs []float32, theta float32) []float32 // of one row
	grad    float32                                      // what each Backward sets
	dOut    []float32                                    // what the last Backward got
	calls   int                                          // of Forward
	err     error                                        // of Forward

	out   []float32
	param []models.Param
}

var _ models.Network = (*stub)(nil)

func newStub(outputs func(obs []float32, theta float32) []float32) *stub {
	param := models.Param{Name: "theta", Shape: []int{1}, Value: make([]float32, 1), Grad: make([]float32, 1)}
	return &stub{outputs: outputs, param: []models.Param{param}}
}

func (s *stub) theta() float32 { return s.param[0].Value[0] }

func (s *stub) Forward(obs []float32, n int) ([]float32, error) {
	s.calls++
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

// small returns a configuration that learns after each step from the first on.
func small() Config {
	cfg := Defaults()
	cfg.BufferSize, cfg.LearningStarts, cfg.TrainFreq, cfg.TotalTimesteps = 100, 0, 1, 1000
	return cfg
}

// stubLearner returns a learner of n environments with observations of one number.
func stubLearner(t *testing.T, cfg Config, actions, n int, net, target *stub) *Learner {
	t.Helper()
	env := agents.EnvInfo{ID: "toy/Stub-v0", Obs: space.NewBox(-100, 100, 1), Act: space.Discrete{N: actions}, NumEnvs: n}
	nets := []models.Network{net, target}
	l, err := New(cfg, env, func() (models.Network, error) {
		next := nets[0]
		nets = nets[1:]
		return next, nil
	}, 1)
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
		Obs: obs, FinalObs: make([]float32, n), FinalMask: make([]bool, n*actions), Mask: make([]bool, n*actions), Reward: make([]float64, n),
		Terminated: make([]bool, n), Truncated: make([]bool, n), EpisodeReturn: make([]float64, n), EpisodeLength: make([]int64, n),
	}
	for i := range b.Mask {
		b.Mask[i], b.FinalMask[i] = true, true
	}
	return b
}

// cycle acts at b and observes b, without an update.
func cycle(t *testing.T, l *Learner, b *envs.Batch) {
	t.Helper()
	if err := l.Act(b, make([]float32, len(b.Reward))); err != nil {
		t.Fatal(err)
	}
	if err := l.Observe(b); err != nil {
		t.Fatal(err)
	}
}
