// Package baseline plays the baselines of environments, and random actions, as policies.
package baseline

import (
	"context"

	"github.com/kubernasium/kubernasium/agents"
	"github.com/kubernasium/kubernasium/envs"
)

// RandomName names the policy that [New] offers beside an environment's baselines.
const RandomName = envs.RandomName

// New returns the named baseline of v's environments as a policy; the name "random" draws permitted
// actions from seed. A baseline reads the true state, so the policy acts on v only, and the caller
// must carry out its actions: a baseline may leave a plan in the environments beside the action.
func New(v *envs.Vec, name string, seed uint64) (agents.Policy, error) {
	return NewContext(context.Background(), v, name, seed)
}

// NewContext is New for policies that end with ctx: some solve for seconds.
func NewContext(ctx context.Context, v *envs.Vec, name string, seed uint64) (agents.Policy, error) {
	r, err := envs.NewPolicies(v, name, seed)
	if err != nil {
		return nil, err
	}
	return &policy{ctx, r}, nil
}

// policy follows the baseline in each environment.
type policy struct {
	ctx      context.Context // Act takes no context
	policies *envs.Policies
}

// Act implements [agents.Policy].
func (p *policy) Act(_ *envs.Batch, actions []float32) error {
	return p.policies.Follow(p.ctx, actions)
}
