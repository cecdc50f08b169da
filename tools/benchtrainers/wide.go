package main

import (
	"context"
	"math/rand/v2"

	"github.com/kubernasium/kubernasium/envs"
	"github.com/kubernasium/kubernasium/envs/cluster"
	"github.com/kubernasium/kubernasium/envs/space"
)

// wideID is an environment of almost no cost with the shape of a placement on 64 nodes: observations of 512
// numbers, and 65 actions, each permitted with probability 1/2. tools/bench_trainers.py has the same
// environment for the other libraries.
const wideID = "toy/Wide-v0"

const wideObs, wideActions, wideSteps = 512, 65, 200

func wide() *envs.Spec {
	return &envs.Spec{
		ID: wideID, MaxEpisodeSteps: wideSteps,
		Open: func(opts map[string]any) (envs.Maker, error) {
			return func() (envs.Task, error) { return &wideTask{}, nil }, nil
		},
	}
}

type wideTask struct{ rng *rand.Rand }

func (t *wideTask) Spaces() (obs, act space.Space) {
	return space.NewBox(0, 1, wideObs), space.Discrete{N: wideActions}
}

func (t *wideTask) Begin(_ context.Context, _ cluster.Cluster, rng *rand.Rand) error {
	t.rng = rng
	return nil
}

func (t *wideTask) Apply(_ context.Context, _ cluster.Cluster, action []float32) (envs.Outcome, error) {
	return envs.Outcome{Reward: float64(action[0]) / wideActions}, nil
}

func (t *wideTask) Observe(_ *cluster.State, obs []float32, mask []bool) {
	for i := range obs {
		obs[i] = t.rng.Float32()
	}
	bits := t.rng.Uint64()
	for i := range mask {
		mask[i] = bits>>(i%64)&1 == 1
	}
	mask[0] = true
}
