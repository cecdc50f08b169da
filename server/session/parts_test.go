package session

import (
	"context"
	"math/rand/v2"
	"regexp"

	"github.com/kubernasium/kubernasium/envs"
	"github.com/kubernasium/kubernasium/envs/cluster"
	"github.com/kubernasium/kubernasium/envs/space"
)

var errorID = regexp.MustCompile(`error_id=([0-9a-f]{12})`)

// parts is an environment with a Dict observation of random numbers, whose episodes have three steps.
type parts struct {
	rng  *rand.Rand
	step int
}

func (*parts) Spaces() (obs, act space.Space) {
	return space.Dict{Fields: []space.Field{
		{Key: "first", Space: space.NewBox(0, 1, 2)}, {Key: "second", Space: space.NewBox(0, 1, 3)}, {Key: "third", Space: space.NewBox(0, 1, 1)},
	}}, space.Discrete{N: 2}
}

func (p *parts) Begin(_ context.Context, _ cluster.Cluster, rng *rand.Rand) error {
	p.rng, p.step = rng, 0
	return nil
}

func (p *parts) Apply(context.Context, cluster.Cluster, []float32) (envs.Outcome, error) {
	p.step++
	return envs.Outcome{Reward: 1, Terminated: p.step == 3}, nil
}

func (p *parts) Observe(_ *cluster.State, obs []float32, mask []bool) {
	for i := range obs {
		obs[i] = p.rng.Float32()
	}
	mask[0], mask[1] = true, true
}

func init() {
	envs.Register(&envs.Spec{ID: "test/Parts-v0", Open: func(map[string]any) (envs.Maker, error) {
		return func() (envs.Task, error) { return &parts{}, nil }, nil
	}})
}
