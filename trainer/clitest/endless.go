package clitest

import (
	"context"
	"math/rand/v2"
	"sync/atomic"

	"github.com/kubernasium/kubernasium/envs"
	"github.com/kubernasium/kubernasium/envs/cluster"
	"github.com/kubernasium/kubernasium/envs/space"
)

// endless is a task whose episodes end only at the step limit of its options.
type endless struct{ steps int }

type endlessOptions struct {
	Steps int `opt:"steps" doc:"of an episode"`
}

// EndlessSteps counts the steps of all endless tasks.
var EndlessSteps atomic.Int64

func init() {
	defaults := endlessOptions{Steps: 1_000_000_000}
	always := func(action float32) func(envs.Task) (envs.Policy, error) {
		return func(envs.Task) (envs.Policy, error) {
			return func(_ context.Context, _ *cluster.State, _ bool, a []float32) error { a[0] = action; return nil }, nil
		}
	}
	envs.Register(&envs.Spec{
		ID: "test/Endless-v0", Doc: "Goes on.", Options: &defaults,
		Baselines: []envs.Baseline{{Name: "zero", Doc: "0", New: always(0)}, {Name: "one", Doc: "1", New: always(1)}},
		Open: func(opts map[string]any) (envs.Maker, error) {
			o := defaults
			if err := envs.DecodeOptions(opts, &o); err != nil {
				return nil, err
			}
			return func() (envs.Task, error) { return &endless{o.Steps}, nil }, nil
		},
	})
}

func (*endless) Spaces() (obs, act space.Space) { return space.NewBox(-1, 1, 1), space.Discrete{N: 2} }

// MaxEpisodeSteps implements [envs.Limiter].
func (t *endless) MaxEpisodeSteps() int { return t.steps }

func (*endless) Begin(context.Context, cluster.Cluster, *rand.Rand) error { return nil }

func (*endless) Apply(_ context.Context, _ cluster.Cluster, action []float32) (envs.Outcome, error) {
	EndlessSteps.Add(1)
	return envs.Outcome{Reward: float64(action[0])}, nil
}

func (*endless) Observe(_ *cluster.State, obs []float32, mask []bool) {
	obs[0] = 0
	space.PermitAll(mask)
}
