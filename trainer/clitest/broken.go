package clitest

import (
	"context"
	"math"
	"math/rand/v2"
	"sync/atomic"

	"github.com/kubernasium/kubernasium/envs"
	"github.com/kubernasium/kubernasium/envs/cluster"
	"github.com/kubernasium/kubernasium/envs/space"
)

// brokenOptions define which value fails, in which step of an episode and in which environment.
type brokenOptions struct {
	What  string `opt:"what" doc:"reward, observation or huge"`
	After int    `opt:"after" doc:"steps of the environment before it breaks; 0 is never"`
	Size  int    `opt:"size" doc:"numbers in an observation"`
	Limit int    `opt:"limit" doc:"steps of an episode"`
}

// broken is a task with endless episodes that returns a NaN in the third environment only.
type broken struct {
	brokenOptions
	index, k int
}

// BrokenSteps counts the steps of all broken tasks.
var BrokenSteps atomic.Int64

func init() {
	defaults := brokenOptions{What: "reward", Size: 2, Limit: 50}
	envs.Register(&envs.Spec{
		ID: "test/Broken-v0", Doc: "Breaks.", Options: &defaults,
		Open: func(opts map[string]any) (envs.Maker, error) {
			o, n := defaults, -1
			if err := envs.DecodeOptions(opts, &o); err != nil {
				return nil, err
			}
			return func() (envs.Task, error) { n++; return &broken{brokenOptions: o, index: n}, nil }, nil
		},
	})
}

func (t *broken) Spaces() (obs, act space.Space) {
	return space.NewBox(-10, 10, t.Size), space.Discrete{N: 2}
}

// MaxEpisodeSteps implements [envs.Limiter].
func (t *broken) MaxEpisodeSteps() int { return t.Limit }

func (t *broken) Begin(context.Context, cluster.Cluster, *rand.Rand) error { return nil }

func (t *broken) now() bool { return t.index == 2 && t.After > 0 && t.k >= t.After }

func (t *broken) Apply(context.Context, cluster.Cluster, []float32) (envs.Outcome, error) {
	t.k++
	BrokenSteps.Add(1)
	o := envs.Outcome{Reward: 1}
	if t.now() && t.What == "reward" {
		o.Reward = math.NaN()
	}
	if t.now() && t.k == t.After && t.What == "huge" {
		o.Reward = 1e300 // a finite number, but infinite as a float32, and so is the loss
	}
	return o, nil
}

func (t *broken) Observe(_ *cluster.State, obs []float32, mask []bool) {
	for i := range obs {
		obs[i] = float32(t.k % 2)
	}
	if t.now() && t.What == "observation" {
		obs[1] = float32(math.NaN())
	}
	space.PermitAll(mask)
}
