package play

import (
	"context"

	"github.com/kubernasium/kubernasium/agents"
	client "github.com/kubernasium/kubernasium/clients/go"
	"github.com/kubernasium/kubernasium/envs"
)

// follower lets a baseline play environments on servers. It is both the environments and the policy: a step
// names the baseline, because a baseline's plan may contain more than an action.
type follower struct {
	envs.VecEnv
	ctx      context.Context // context of Act's requests; the interface of Act has none
	policies interface {
		Act(ctx context.Context, actions []float32) error
		Step(ctx context.Context) (*envs.Batch, error)
	}
}

var _ agents.Policy = (*follower)(nil)

// Follow returns v as the environments of a follower if v is on servers and a baseline plays. Otherwise it
// returns v.
func (c *Config) Follow(ctx context.Context, v envs.VecEnv) envs.VecEnv {
	if c.Model != "" {
		return v
	}
	if f := follow(ctx, v, c.Baseline, c.Seed); f != nil {
		return f
	}
	return v
}

// follow returns v as the environments of a follower of the baseline, or nil if v is in this process.
func follow(ctx context.Context, v envs.VecEnv, name string, seed uint64) *follower {
	f := &follower{VecEnv: v, ctx: ctx}
	switch v := v.(type) {
	case *client.VecEnv:
		f.policies = v.Baseline(name, seed)
	case *client.Joined:
		f.policies = v.Baseline(name, seed)
	default:
		return nil
	}
	return f
}

func (f *follower) Act(_ *envs.Batch, actions []float32) error { return f.policies.Act(f.ctx, actions) }

// Step takes the baseline's step. Act has written its actions.
func (f *follower) Step(ctx context.Context, _ []float32) (*envs.Batch, error) {
	return f.policies.Step(ctx)
}
