package dqn_test

import (
	"bytes"
	"context"
	"math/rand/v2"
	"testing"

	"github.com/kubernasium/kubernasium/agents"
	"github.com/kubernasium/kubernasium/agents/dqn"
	"github.com/kubernasium/kubernasium/envs"
	"github.com/kubernasium/kubernasium/envs/envcheck"
	"github.com/kubernasium/kubernasium/envs/pcg"
	"github.com/kubernasium/kubernasium/models"
	"github.com/kubernasium/kubernasium/models/graph"
)

var ctx = context.Background()

// run is a learner in its environments.
type run struct {
	t       *testing.T
	v       *envs.Vec
	l       *dqn.Learner
	b       *envs.Batch
	actions []float32
	returns []float64 // of the episodes that ended
}

func newRun(t *testing.T, spec *envs.Spec, n int, cfg dqn.Config, seed uint64) *run {
	t.Helper()
	v, err := envs.NewVec(spec, n, envs.VecOptions{Autoreset: envs.SameStep, Log: true})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { v.Close() })
	obs, act := v.Spaces()
	rng := rand.New(pcg.New(seed))
	l, err := dqn.New(cfg, agents.EnvInfo{ID: spec.ID, Obs: obs, Act: act, NumEnvs: n}, func() (models.Network, error) { return newNetwork(t, cfg, rng, v), nil }, seed)
	if err != nil {
		t.Fatal(err)
	}
	b, err := v.Reset(ctx, envs.VecResetOptions{Seed: &seed})
	if err != nil {
		t.Fatal(err)
	}
	return &run{t: t, v: v, l: l, b: b, actions: make([]float32, n*act.Size())}
}

func newNetwork(t *testing.T, cfg dqn.Config, rng *rand.Rand, v *envs.Vec) models.Network {
	t.Helper()
	obs, act := v.Spaces()
	spec, err := dqn.NetworkSpec(cfg, obs, act)
	if err != nil {
		t.Fatal(err)
	}
	net, err := graph.New(spec, rng)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { net.Close() })
	return net
}

// train goes on for the given number of environment steps.
func (r *run) train(steps int) {
	r.t.Helper()
	for end := r.l.NumTimesteps() + steps; r.l.NumTimesteps() < end; {
		if err := r.l.Act(r.b, r.actions); err != nil {
			r.t.Fatal(err)
		}
		var err error
		if r.b, err = r.v.Step(ctx, r.actions); err != nil {
			r.t.Fatal(err)
		}
		if err := r.l.Observe(r.b); err != nil {
			r.t.Fatal(err)
		}
		for i := range r.b.Reward {
			if r.b.Done(i) {
				r.returns = append(r.returns, r.b.EpisodeReturn[i])
			}
		}
		if _, err := r.l.Update(); err != nil {
			r.t.Fatal(err)
		}
	}
}

// evaluate returns the mean return of the greedy policy over n episodes.
func (r *run) evaluate(spec *envs.Spec, n int) float64 {
	r.t.Helper()
	v, err := envs.NewVec(spec, n, envs.VecOptions{Autoreset: envs.SameStep})
	if err != nil {
		r.t.Fatal(err)
	}
	defer v.Close()
	seed := uint64(1_000_000)
	b, err := v.Reset(ctx, envs.VecResetOptions{Seed: &seed})
	if err != nil {
		r.t.Fatal(err)
	}
	_, act := v.Spaces()
	actions, done, left, sum := make([]float32, n*act.Size()), make([]bool, n), n, 0.0
	for policy := r.l.Greedy(); left > 0; {
		if err := policy.Act(b, actions); err != nil {
			r.t.Fatal(err)
		}
		if b, err = v.Step(ctx, actions); err != nil {
			r.t.Fatal(err)
		}
		for i := range n {
			if b.Done(i) && !done[i] {
				done[i], left, sum = true, left-1, sum+b.EpisodeReturn[i]
			}
		}
	}
	return sum / float64(n)
}

func quick() dqn.Config {
	cfg := dqn.Defaults()
	cfg.LearningRate = agents.Constant(3e-3)
	cfg.BufferSize, cfg.TargetUpdateInterval, cfg.TrainFreq = 5000, 200, 1
	cfg.NetArch = []int{32}
	cfg.ExplorationFraction = 0.5
	cfg.TotalTimesteps = 8000
	return cfg
}

// variants are the options of the algorithm.
var variants = map[string]func(*dqn.Config){
	"plain":       func(*dqn.Config) {},
	"double":      func(c *dqn.Config) { c.DoubleQ = true },
	"dueling":     func(c *dqn.Config) { c.Dueling = true },
	"n-step":      func(c *dqn.Config) { c.NSteps = 3 },
	"prioritized": func(c *dqn.Config) { c.PrioritizedReplay = true },
	"soft target": func(c *dqn.Config) { c.Tau, c.TargetUpdateInterval = 0.05, 8 },
	"everything": func(c *dqn.Config) {
		c.DoubleQ, c.Dueling, c.NSteps, c.PrioritizedReplay, c.GradientSteps = true, true, 3, true, 2
	},
}

func TestSolvesIdentity(t *testing.T) {
	spec := envcheck.Identity(5)
	r := newRun(t, spec, 8, quick(), 1)
	r.train(8000)
	if got := r.evaluate(spec, 10); got < 99 {
		t.Errorf("mean return %v after 8000 steps, want at least 99 of 100", got)
	}
}

func TestLearnsFixedSequence(t *testing.T) {
	for name, change := range variants {
		t.Run(name, func(t *testing.T) {
			if testing.Short() && name != "n-step" && name != "everything" {
				t.Skip("run without -short")
			}
			spec, cfg := envcheck.FixedSequence(4, []int{2, 0, 3, 1, 1, 2}), quick()
			change(&cfg)
			r := newRun(t, spec, 8, cfg, 1)
			r.train(8000)
			if got := r.evaluate(spec, 1); got != 6 {
				t.Errorf("return %v after 8000 steps, want the optimum, 6", got)
			}
		})
	}
}

func TestSameSeedSameBits(t *testing.T) {
	a, b := newRun(t, envcheck.Identity(5), 4, quick(), 7), newRun(t, envcheck.Identity(5), 4, quick(), 7)
	a.train(1000)
	b.train(1000)
	if !bytes.Equal(saved(t, a.l), saved(t, b.l)) {
		t.Error("two runs with one seed end in different checkpoints")
	}
	c := newRun(t, envcheck.Identity(5), 4, quick(), 8)
	c.train(1000)
	if bytes.Equal(saved(t, a.l), saved(t, c.l)) {
		t.Error("runs with different seeds end in the same checkpoint")
	}
}

// TestResumeEqualsUninterrupted breaks a run off in the middle of episodes, goes on in fresh
// objects, and compares the final checkpoints byte for byte. The replay buffer is overwritten
// before and after the break.
func TestResumeEqualsUninterrupted(t *testing.T) {
	for name, change := range variants {
		t.Run(name, func(t *testing.T) {
			spec, cfg := envcheck.Identity(5), quick()
			change(&cfg)
			cfg.BufferSize, cfg.TrainFreq = 300, 3
			whole := newRun(t, spec, 4, cfg, 7)
			whole.train(1000)
			first := newRun(t, spec, 4, cfg, 7)
			first.train(500) // 125 steps: the last update was one step before
			snapshot, err := first.v.Snapshot()
			if err != nil {
				t.Fatal(err)
			}
			second := newRun(t, spec, 4, cfg, 99)
			if err := second.l.Load(bytes.NewReader(saved(t, first.l))); err != nil {
				t.Fatal(err)
			}
			if !bytes.Equal(tensors(t, first.l), tensors(t, second.l)) {
				t.Error("the checkpoint after Load is not the one loaded")
			}
			if second.b, err = second.v.Restore(ctx, snapshot); err != nil {
				t.Fatal(err)
			}
			second.train(500)
			// The seed given to New is on record and differs; everything else must not.
			if !bytes.Equal(tensors(t, whole.l), tensors(t, second.l)) {
				t.Error("the resumed run differs from the uninterrupted one")
			}
		})
	}
}

func saved(t *testing.T, l *dqn.Learner) []byte {
	t.Helper()
	var buf bytes.Buffer
	if err := l.Save(&buf); err != nil {
		t.Fatal(err)
	}
	return buf.Bytes()
}

// tensors returns the checkpoint without its seed.
func tensors(t *testing.T, l *dqn.Learner) []byte {
	t.Helper()
	f := parse(t, saved(t, l))
	f.Meta.Seed = 0
	var buf bytes.Buffer
	if err := models.Write(&buf, f); err != nil {
		t.Fatal(err)
	}
	return buf.Bytes()
}

func parse(t *testing.T, file []byte) models.File {
	t.Helper()
	f, err := models.Read(bytes.NewReader(file))
	if err != nil {
		t.Fatal(err)
	}
	return f
}
