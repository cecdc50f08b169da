// Command wide is the server with an additional environment, test/Wide-v0, whose observations have 2 KB and whose steps
// cost next to nothing, so that a benchmark measures the way of the observations. bench_wire.py builds and starts it.
//
// An observation is one of 64 rows of random numbers. Each step has reward 1, and an episode ends after 400.
package main

import (
	"context"
	"math/rand/v2"
	"os"

	"github.com/kubernasium/kubernasium/envs"
	"github.com/kubernasium/kubernasium/envs/cluster"
	"github.com/kubernasium/kubernasium/envs/space"
	"github.com/kubernasium/kubernasium/server/command"
)

const (
	size  = 512 // float32
	limit = 400
)

var table [64][size]float32

type wide struct{ steps, first int }

func (*wide) Spaces() (obs, act space.Space) { return space.NewBox(0, 1, size), space.Discrete{N: 2} }

func (w *wide) Begin(_ context.Context, _ cluster.Cluster, rng *rand.Rand) error {
	w.steps, w.first = 0, rng.IntN(len(table))
	return nil
}

func (w *wide) Apply(context.Context, cluster.Cluster, []float32) (envs.Outcome, error) {
	w.steps++
	return envs.Outcome{Reward: 1, Terminated: w.steps == limit}, nil
}

func (w *wide) Observe(_ *cluster.State, obs []float32, mask []bool) {
	copy(obs, table[(w.first+w.steps)%len(table)][:])
	space.PermitAll(mask)
}

func main() {
	rng := rand.New(rand.NewPCG(1, 2))
	for i := range table {
		for j := range table[i] {
			table[i][j] = rng.Float32()
		}
	}
	envs.Register(&envs.Spec{
		ID:  "test/Wide-v0",
		Doc: "Has observations of 2 KB and steps that cost next to nothing.",
		Open: func(map[string]any) (envs.Maker, error) {
			return func() (envs.Task, error) { return &wide{}, nil }, nil
		},
	})
	os.Exit(command.Main())
}
