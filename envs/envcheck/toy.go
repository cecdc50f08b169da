package envcheck

import (
	"context"
	"fmt"
	"math/rand/v2"

	"github.com/kubernasium/kubernasium/envs"
	"github.com/kubernasium/kubernasium/envs/cluster"
	"github.com/kubernasium/kubernasium/envs/space"
)

// Identity is the simplest task that can be learned. The observation is one of n numbers as a one-hot vector. The
// action that equals the number earns 1, every other 0. An episode has 100 steps, so the optimal return is 100 and a
// random one is 100/n.
func Identity(n int) *envs.Spec {
	return toySpec("toy/Identity-v0", 100, func() envs.Task { return &identity{n: n} })
}

type identity struct {
	n, want int
	rng     *rand.Rand
}

func (t *identity) Spaces() (obs, act space.Space) {
	return space.NewBox(0, 1, t.n), space.Discrete{N: t.n}
}

func (t *identity) Begin(_ context.Context, _ cluster.Cluster, rng *rand.Rand) error {
	t.rng, t.want = rng, rng.IntN(t.n)
	return nil
}

func (t *identity) Apply(_ context.Context, _ cluster.Cluster, action []float32) (envs.Outcome, error) {
	var o envs.Outcome
	if int(action[0]) == t.want {
		o.Reward = 1
	}
	t.want = t.rng.IntN(t.n)
	return o, nil
}

func (t *identity) Observe(_ *cluster.State, obs []float32, mask []bool) {
	oneHot(obs, t.want)
	space.PermitAll(mask)
}

// Timing tests how steps and episodes are counted. The observation is the number of steps since the reset over 10, and
// the reward of step k (from 1) is k. The episode terminates with step length, or is truncated at the limit if that
// comes first (0 is no limit). Action 1 is masked out at even steps.
func Timing(length, limit int) *envs.Spec {
	return toySpec("toy/Timing-v0", limit, func() envs.Task { return &timing{length: length} })
}

type timing struct{ length, k int }

func (t *timing) Spaces() (obs, act space.Space) {
	return space.NewBox(0, 100, 1), space.Discrete{N: 2}
}

func (t *timing) Begin(context.Context, cluster.Cluster, *rand.Rand) error {
	t.k = 0
	return nil
}

func (t *timing) Apply(context.Context, cluster.Cluster, []float32) (envs.Outcome, error) {
	t.k++
	return envs.Outcome{Reward: float64(t.k), Terminated: t.k == t.length}, nil
}

func (t *timing) Observe(_ *cluster.State, obs []float32, mask []bool) {
	obs[0] = float32(t.k) / 10
	mask[0], mask[1] = true, t.k%2 == 1
}

// FixedSequence asks for a fixed sequence of actions. Each right action earns 1. The first wrong one terminates the
// episode, as does the end of the sequence, so the optimal return is the length of the sequence. The observation is the
// position as a one-hot vector.
func FixedSequence(actions int, sequence []int) *envs.Spec {
	for _, a := range sequence {
		if a < 0 || a >= actions {
			panic(fmt.Sprintf("envcheck: action %d of the sequence not in Discrete(%d)", a, actions))
		}
	}
	return toySpec("toy/FixedSequence-v0", 0, func() envs.Task { return &fixedSequence{actions: actions, sequence: sequence} })
}

type fixedSequence struct {
	actions, k int
	sequence   []int
}

func (t *fixedSequence) Spaces() (obs, act space.Space) {
	return space.NewBox(0, 1, len(t.sequence)+1), space.Discrete{N: t.actions}
}

func (t *fixedSequence) Begin(context.Context, cluster.Cluster, *rand.Rand) error {
	t.k = 0
	return nil
}

func (t *fixedSequence) Apply(_ context.Context, _ cluster.Cluster, action []float32) (envs.Outcome, error) {
	if int(action[0]) != t.sequence[t.k] {
		return envs.Outcome{Terminated: true}, nil
	}
	t.k++
	return envs.Outcome{Reward: 1, Terminated: t.k == len(t.sequence)}, nil
}

func (t *fixedSequence) Observe(_ *cluster.State, obs []float32, mask []bool) {
	oneHot(obs, t.k)
	space.PermitAll(mask)
}

func toySpec(id string, limit int, task func() envs.Task) *envs.Spec {
	return &envs.Spec{
		ID: id, MaxEpisodeSteps: limit,
		Open: envs.Open(
			func() (none struct{}) { return none },
			func(none struct{}) (struct{}, error) { return none, nil },
			func(struct{}) envs.Task { return task() }),
	}
}

// answer returns a baseline whose actions depend on the task alone.
func answer[T envs.Task](name, doc string, act func(t T, action []float32)) []envs.Baseline {
	return []envs.Baseline{{Name: name, Doc: doc, New: envs.ForTask("envcheck: a baseline", func(t T) (envs.Policy, error) {
		return func(_ context.Context, _ *cluster.State, _ bool, action []float32) error {
			act(t, action)
			return nil
		}, nil
	})}}
}

func oneHot(obs []float32, i int) {
	clear(obs)
	obs[i] = 1
}
