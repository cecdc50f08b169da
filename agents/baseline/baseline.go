// Package baseline plays the baselines of environments, and random actions, as policies.
package baseline

import (
	"context"

	"github.com/kubernasium/kubernasium/agents"
	"github.com/kubernasium/kubernasium/envs"
)

// RandomName is the name of the policy that [New] gives besides an environment's baselines.
const RandomName = envs.RandomName

// New returns the policy of the baseline of that name, or of random permitted actions, for
// the environments of v. It reads their true state and so serves no others. seed is for random
// actions. The caller has to carry out its actions, because a baseline also leaves choices in the
// environments that no action says.
func New(v *envs.Vec, name string, seed uint64) (agents.Policy, error) {
	return NewContext(context.Background(), v, name, seed)
}

// NewContext does New; the rules, some of which solve for seconds, end with ctx.
func NewContext(ctx context.Context, v *envs.Vec, name string, seed uint64) (agents.Policy, error) {
	r, err := envs.NewRules(v, name, seed)
	if err != nil {
		return nil, err
	}
	return &policy{ctx, r}, nil
}

// policy asks the rule of each environment.
type policy struct {
	ctx   context.Context // for Act, which takes none
	rules *envs.Rules
}

// Act implements [agents.Policy].
func (p *policy) Act(_ *envs.Batch, actions []float32) error {
	return p.rules.Follow(p.ctx, actions)
}
