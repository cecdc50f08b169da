package envcheck

import (
	"context"
	"math/rand/v2"

	"github.com/kubernasium/kubernasium/envs"
	"github.com/kubernasium/kubernasium/envs/cluster"
	"github.com/kubernasium/kubernasium/envs/space"
)

// Memory shows one of n cues in the first step of an episode of the given length, and asks for it in the last: there
// the action that equals the cue earns 1. Earlier actions earn nothing. In between the observation is 0, except that
// its last number is 1 in the last step. A policy without memory cannot do better than 1/n. The baseline Recall attains
// the optimal return of 1.
func Memory(n, length int) *envs.Spec {
	s := toySpec("toy/Memory-v0", 0, func() envs.Task { return &memory{n: n, length: length} })
	s.Baselines = answer("Recall", "Chooses the cue in every step.", func(t *memory, action []float32) { action[0] = float32(t.cue) })
	return s
}

type memory struct{ n, length, k, cue int }

func (t *memory) Spaces() (obs, act space.Space) {
	return space.NewBox(0, 1, t.n+1), space.Discrete{N: t.n}
}

func (t *memory) Begin(_ context.Context, _ cluster.Cluster, rng *rand.Rand) error {
	t.k, t.cue = 0, rng.IntN(t.n)
	return nil
}

func (t *memory) Apply(_ context.Context, _ cluster.Cluster, action []float32) (envs.Outcome, error) {
	t.k++
	o := envs.Outcome{Terminated: t.k == t.length}
	if o.Terminated && int(action[0]) == t.cue {
		o.Reward = 1
	}
	return o, nil
}

func (t *memory) Observe(_ *cluster.State, obs []float32, mask []bool) {
	clear(obs)
	if t.k == 0 {
		obs[t.cue] = 1
	}
	if t.k == t.length-1 {
		obs[t.n] = 1
	}
	space.PermitAll(mask)
}
