package advantage

import (
	"fmt"
	"slices"

	"github.com/kubernasium/kubernasium/agents"
	"github.com/kubernasium/kubernasium/agents/policies"
	"github.com/kubernasium/kubernasium/envs"
	"github.com/kubernasium/kubernasium/models"
	"github.com/kubernasium/kubernasium/models/fused"
)

// Policy returns the policy that takes the node with the highest sum of the network's gain and the weight times the heuristic's
// score, for the environments of c. It is an actor-critic whose value is 0.
//
// It has two units in each layer besides those of net: a ReLU of the score and one of minus the score, whose
// difference is the score. Terms of which the positive part counts have a unit each in the first layer, and join the score in
// the second.
func (c *Config) Policy(net *fused.Network) (policies.Network, *fused.Network, agents.EnvInfo, error) {
	n := policies.Defaults()
	v, err := envs.Make(c.Env, 1, envs.VecOptions{Options: c.EnvKwargs})
	if err != nil {
		return n, nil, agents.EnvInfo{}, err
	}
	defer v.Close()
	g, err := c.Domain.Gains(v.Env(0).Task(), c.Futures)
	if err != nil {
		return n, nil, agents.EnvInfo{}, err
	}
	columns, err := g.Score()
	if err != nil {
		return n, nil, agents.EnvInfo{}, err
	}
	_, positive := parts(columns)
	n.Policy, n.NetArch, n.ActivationFn = policies.Node, []int{c.Width + 2 + len(positive), c.Width + 2}, models.ReLU
	obs, act := v.Spaces()
	info := agents.EnvInfo{ID: v.Spec().ID, Kwargs: c.EnvKwargs, Obs: obs, Act: act, NumEnvs: 1}
	spec, err := n.ActorCritic(obs, act)
	if err != nil {
		return n, nil, info, err
	}
	policy, err := fused.New(spec, nil)
	if err != nil {
		return n, nil, info, err
	}
	for i, p := range net.Params() {
		if err := c.graft(policy, i, p, columns); err != nil {
			return n, nil, info, err
		}
	}
	return n, policy, info, nil
}

// grafted are the policy's parameters, in the order of the network of gains.
var grafted = []string{
	"mlp_extractor.policy_net.0.weight", "mlp_extractor.policy_net.0.bias",
	"mlp_extractor.policy_net.2.weight", "mlp_extractor.policy_net.2.bias",
	"action_net.weight", "action_net.bias",
}

// graft copies parameter i of the network of gains into the policy, and lets the score through.
func (c *Config) graft(policy *fused.Network, i int, from models.Param, columns []Column) error {
	params := policy.Params()
	k := slices.IndexFunc(params, func(p models.Param) bool { return p.Name == grafted[i] })
	if k < 0 {
		return fmt.Errorf("advantage: the policy has no parameter %s", grafted[i])
	}
	to := params[k]
	if len(to.Shape) == 1 {
		copy(to.Value, from.Value)
		return nil
	}
	wide, narrow := to.Shape[1], from.Shape[1]
	linear, positive := parts(columns)
	for r := range from.Shape[0] {
		copy(to.Value[r*wide:], from.Value[r*narrow:][:narrow])
	}
	for unit, sign := range []float32{1, -1} {
		at := c.Width + unit
		switch i {
		case 0:
			for _, x := range linear {
				to.Value[x.Column*wide+at] = sign * x.Weight / 100
			}
			for k, x := range positive {
				to.Value[x.Column*wide+c.Width+2+k] = 1
			}
		case 2:
			to.Value[at*wide+at] = 1
			if len(positive) > 0 { // of either sign the unit needs all of the score
				to.Value[(c.Width+1-unit)*wide+at] = -1
			}
			for k, x := range positive {
				to.Value[(c.Width+2+k)*wide+at] = sign * x.Weight / 100
			}
		case 4:
			to.Value[at] = sign * float32(100*c.Weight)
		}
	}
	return nil
}

// parts divides the columns of a score into those that count whole, and those of which the positive part counts.
func parts(columns []Column) (linear, positive []Column) {
	for _, x := range columns {
		if x.Positive {
			positive = append(positive, x)
		} else {
			linear = append(linear, x)
		}
	}
	return linear, positive
}
