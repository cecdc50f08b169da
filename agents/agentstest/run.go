package agentstest

import (
	"bytes"
	"context"
	"math/rand/v2"
	"testing"

	"github.com/kubernasium/kubernasium/agents"
	"github.com/kubernasium/kubernasium/agents/evaluation"
	"github.com/kubernasium/kubernasium/envs"
	"github.com/kubernasium/kubernasium/envs/pcg"
	"github.com/kubernasium/kubernasium/models"
	"github.com/kubernasium/kubernasium/models/fused"
)

// Learner is a learner that counts its timesteps.
type Learner interface {
	agents.Learner
	NumTimesteps() int
}

// Run is a learner in its environments.
type Run[L Learner] struct {
	T       *testing.T
	Vec     *envs.Vec
	L       L
	Batch   *envs.Batch
	Actions []float32
	Returns []float64 // of the completed episodes
}

// NewRun makes n environments and a learner in them, all from seed.
func NewRun[L Learner](t *testing.T, spec *envs.Spec, n int, seed uint64, build func(env agents.EnvInfo, seed uint64) (L, error)) *Run[L] {
	t.Helper()
	v, err := envs.NewVec(spec, n, envs.VecOptions{Autoreset: envs.SameStep, Log: true})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { v.Close() })
	obs, act := v.Spaces()
	l, err := build(agents.EnvInfo{ID: spec.ID, Obs: obs, Act: act, NumEnvs: n}, seed)
	if err != nil {
		t.Fatal(err)
	}
	b, err := v.Reset(context.Background(), envs.VecResetOptions{Seed: &seed})
	if err != nil {
		t.Fatal(err)
	}
	return &Run[L]{T: t, Vec: v, L: l, Batch: b, Actions: make([]float32, n*act.Size())}
}

// An Algorithm makes a learner from a configuration.
type Algorithm[C any, L Learner] func(cfg C, env agents.EnvInfo, newNetwork agents.NetworkBuilder, seed uint64) (L, error)

// NewRun makes n environments, a network and a learner in them, all from seed.
func (a Algorithm[C, L]) NewRun(t *testing.T, spec *envs.Spec, n int, cfg C, seed uint64) *Run[L] {
	t.Helper()
	return NewRun(t, spec, n, seed, func(env agents.EnvInfo, seed uint64) (L, error) {
		return a(cfg, env, Networks(t, seed), seed)
	})
}

// NewStub returns a learner of n environments of Env with the network net.
func (a Algorithm[C, L]) NewStub(t *testing.T, cfg C, net *Stub, n int) L {
	t.Helper()
	l, err := a(cfg, Env(net.Actions, n), agents.Given(net), 1)
	if err != nil {
		t.Fatal(err)
	}
	return l
}

// Networks returns a builder of networks, each with weights drawn from seed.
func Networks(t *testing.T, seed uint64) agents.NetworkBuilder {
	return func(spec models.Spec) (models.Network, error) { return Network(t, spec, seed), nil }
}

// Network returns a network with weights drawn from seed. The test closes it when it ends.
func Network(t *testing.T, spec models.Spec, seed uint64) models.Network {
	t.Helper()
	net, err := fused.New(spec, rand.New(pcg.New(seed)))
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { net.Close() })
	return net
}

// Train trains for at least the given number of environment steps.
func (r *Run[L]) Train(steps int) {
	r.T.Helper()
	for end := r.L.NumTimesteps() + steps; r.L.NumTimesteps() < end; {
		r.Cycle()
	}
}

// Cycle acts, observes and learns once, and reports whether anything was learned.
func (r *Run[L]) Cycle() (learned bool) {
	r.T.Helper()
	r.Batch = Step(r.T, r.L, r.Vec, r.Batch, r.Actions)
	for i := range r.Batch.Reward {
		if r.Batch.Done(i) {
			r.Returns = append(r.Returns, r.Batch.EpisodeReturn[i])
		}
	}
	m, err := r.L.Update()
	if err != nil {
		r.T.Fatal(err)
	}
	return m != nil
}

// Updates trains until the learner has made n more updates.
func (r *Run[L]) Updates(n int) {
	r.T.Helper()
	for learned := 0; learned < n; {
		if r.Cycle() {
			learned++
		}
	}
}

// Evaluate returns the mean return of the greedy policy over n episodes.
func (r *Run[L]) Evaluate(spec *envs.Spec, n int) float64 {
	r.T.Helper()
	return MeanReturn(r.T, spec, r.L.Greedy(), n)
}

// MeanReturn returns the mean return of a policy over n episodes.
func MeanReturn(t *testing.T, spec *envs.Spec, policy agents.Policy, n int) float64 {
	t.Helper()
	v, err := envs.NewVec(spec, n, envs.VecOptions{Autoreset: envs.SameStep})
	if err != nil {
		t.Fatal(err)
	}
	defer v.Close()
	r, err := evaluation.Play(context.Background(), v, policy, evaluation.Seeds(1_000_000, n))
	if err != nil {
		t.Fatal(err)
	}
	sum := 0.0
	for _, x := range r.Returns {
		sum += x
	}
	return sum / float64(n)
}

// CheckSeeds trains three runs for the given number of updates: two of one seed must end in equal
// checkpoints, byte for byte, and one of another seed must not.
func CheckSeeds[L Learner](t *testing.T, updates int, run func(seed uint64) *Run[L]) {
	t.Helper()
	a, b, c := run(7), run(7), run(8)
	for _, r := range []*Run[L]{a, b, c} {
		r.Updates(updates)
	}
	if !bytes.Equal(a.Saved(), b.Saved()) {
		t.Error("two runs with one seed end in different checkpoints")
	}
	if bytes.Equal(a.Tensors(), c.Tensors()) {
		t.Error("runs with different seeds end in the same checkpoint")
	}
}

// CheckResume stops a run after one half, resumes it in fresh objects, and compares the final checkpoint
// with that of an uninterrupted run, byte for byte.
func CheckResume[L Learner](t *testing.T, half func(r *Run[L]), run func(seed uint64) *Run[L]) {
	t.Helper()
	whole, first, second := run(7), run(7), run(99)
	half(whole)
	half(whole)
	half(first)
	snapshot, err := first.Vec.Snapshot()
	if err != nil {
		t.Fatal(err)
	}
	if err := second.L.Load(bytes.NewReader(first.Saved())); err != nil {
		t.Fatal(err)
	}
	// The seed given to New is in the checkpoint and differs; nothing else may.
	if !bytes.Equal(first.Tensors(), second.Tensors()) {
		t.Error("the checkpoint after Load is not the one loaded")
	}
	if second.Batch, err = second.Vec.Restore(context.Background(), snapshot); err != nil {
		t.Fatal(err)
	}
	half(second)
	if !bytes.Equal(whole.Tensors(), second.Tensors()) {
		t.Error("the resumed run differs from the uninterrupted one")
	}
}
