package a2c_test

import (
	"bytes"
	"context"
	"math/rand/v2"
	"os"
	"testing"

	"github.com/kubernasium/kubernasium/agents"
	"github.com/kubernasium/kubernasium/agents/a2c"
	"github.com/kubernasium/kubernasium/envs"
	_ "github.com/kubernasium/kubernasium/envs/classic"
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
	l       *a2c.Learner
	b       *envs.Batch
	actions []float32
	returns []float64 // of the episodes that ended
}

func newRun(t *testing.T, spec *envs.Spec, n int, cfg a2c.Config, seed uint64) *run {
	t.Helper()
	v, err := envs.NewVec(spec, n, envs.VecOptions{Autoreset: envs.SameStep, Log: true})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { v.Close() })
	obs, act := v.Spaces()
	net := newNetwork(t, cfg, seed, v)
	l, err := a2c.New(cfg, agents.EnvInfo{ID: spec.ID, Obs: obs, Act: act, NumEnvs: n}, net, seed)
	if err != nil {
		t.Fatal(err)
	}
	b, err := v.Reset(ctx, envs.VecResetOptions{Seed: &seed})
	if err != nil {
		t.Fatal(err)
	}
	return &run{t: t, v: v, l: l, b: b, actions: make([]float32, n*act.Size())}
}

func newNetwork(t *testing.T, cfg a2c.Config, seed uint64, v *envs.Vec) models.Network {
	t.Helper()
	obs, act := v.Spaces()
	spec, err := a2c.NetworkSpec(cfg, obs, act)
	if err != nil {
		t.Fatal(err)
	}
	net, err := graph.New(spec, rand.New(pcg.New(seed)))
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { net.Close() })
	return net
}

// train goes on for the given number of environment steps, which must be whole rollouts.
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

func quick() a2c.Config {
	cfg := a2c.Defaults()
	cfg.LearningRate = agents.Constant(3e-3)
	cfg.NetArch = []int{32}
	cfg.TotalTimesteps = 16_000
	return cfg
}

func TestSolvesIdentity(t *testing.T) {
	for name, rmsprop := range map[string]bool{"RMSprop": true, "Adam": false} {
		spec, cfg := envcheck.Identity(5), quick()
		cfg.UseRMSProp = rmsprop
		r := newRun(t, spec, 8, cfg, 1)
		r.train(16_000)
		if got := r.evaluate(spec, 10); got < 99 {
			t.Errorf("%s: mean return %v after 16,000 steps, want at least 99 of 100", name, got)
		}
	}
}

func TestLearnsFixedSequence(t *testing.T) {
	spec, cfg := envcheck.FixedSequence(4, []int{2, 0, 3, 1, 1, 2}), quick()
	cfg.EntCoef = 0.01
	r := newRun(t, spec, 8, cfg, 1)
	r.train(16_000)
	if got := r.evaluate(spec, 1); got != 6 {
		t.Errorf("return %v after 16,000 steps, want the optimum, 6", got)
	}
}

// TestCartPole is a learning gate: RL Zoo's tuned hyperparameters and budget, 100 evaluation
// episodes of the last policy. It trains one seed, or five with KUBERNASIUM_LEARNING=1.
func TestCartPole(t *testing.T) {
	if testing.Short() {
		t.Skip("a learning gate of half a minute: run without -short")
	}
	seeds := 1
	if os.Getenv("KUBERNASIUM_LEARNING") != "" {
		seeds = 5
	}
	cfg := a2c.Defaults()
	cfg.TotalTimesteps = 500_000
	spec, err := envs.Lookup("classic/CartPole-v1")
	if err != nil {
		t.Fatal(err)
	}
	solved := 0
	for seed := range uint64(seeds) {
		r := newRun(t, spec, 8, cfg, seed+1)
		r.train(cfg.TotalTimesteps)
		got := r.evaluate(spec, 100)
		t.Logf("seed %d: mean return %v", seed+1, got)
		if got >= 475 {
			solved++
		}
	}
	if want := max(1, seeds-1); solved < want {
		t.Errorf("%d of %d seeds reach a mean return of 475, want at least %d", solved, seeds, want)
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
// objects, and compares the final checkpoints byte for byte.
func TestResumeEqualsUninterrupted(t *testing.T) {
	for name, rmsprop := range map[string]bool{"RMSprop": true, "Adam": false} {
		spec, cfg := envcheck.Identity(5), quick()
		cfg.UseRMSProp = rmsprop
		whole := newRun(t, spec, 4, cfg, 7)
		whole.train(1000)
		first := newRun(t, spec, 4, cfg, 7)
		first.train(500)
		snapshot, err := first.v.Snapshot()
		if err != nil {
			t.Fatal(err)
		}
		second := newRun(t, spec, 4, cfg, 99)
		if err := second.l.Load(bytes.NewReader(saved(t, first.l))); err != nil {
			t.Fatal(err)
		}
		if second.b, err = second.v.Restore(ctx, snapshot); err != nil {
			t.Fatal(err)
		}
		second.train(500)
		// The seed given to New is on record and differs; everything else must not.
		if !bytes.Equal(tensors(t, whole.l), tensors(t, second.l)) {
			t.Errorf("%s: the resumed run differs from the uninterrupted one", name)
		}
	}
}

func saved(t *testing.T, l *a2c.Learner) []byte {
	t.Helper()
	var buf bytes.Buffer
	if err := l.Save(&buf); err != nil {
		t.Fatal(err)
	}
	return buf.Bytes()
}

// tensors returns the checkpoint without its seed.
func tensors(t *testing.T, l *a2c.Learner) []byte {
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
