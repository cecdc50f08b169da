package reinforce

import (
	"github.com/kubernasium/kubernasium/agents"
	"github.com/kubernasium/kubernasium/agents/normalize"
	"github.com/kubernasium/kubernasium/agents/policies"
)

// Config holds the hyperparameters of REINFORCE, with the names of Stable-Baselines3, which has no
// REINFORCE, in other algorithms.
type Config struct {
	LearningRate       agents.Schedule `json:"learning_rate"`       // of Adam; default 1e-2, falling linearly to 0
	NEpisodes          int             `json:"n_episodes"`          // of an update, rounded up to a multiple of n_envs; default 16
	Gamma              float64         `json:"gamma"`               // discount, in [0, 1]; default 0.99
	NormalizeAdvantage bool            `json:"normalize_advantage"` // over each update; default true
	EntCoef            float64         `json:"ent_coef"`            // weight of the entropy bonus; default 0
	VfCoef             float64         `json:"vf_coef"`             // weight of the value loss; default 0.5
	MaxGradNorm        float64         `json:"max_grad_norm"`       // bound of the gradient's norm; default 0.5
	policies.Network
	normalize.Normalization
	agents.Horizon
}

// Defaults returns the default hyperparameters.
func Defaults() Config {
	return Config{
		LearningRate: agents.Schedule{Initial: 1e-2, Linear: true}, NEpisodes: 16, Gamma: 0.99, NormalizeAdvantage: true,
		VfCoef: 0.5, MaxGradNorm: 0.5, Network: policies.Defaults(), Normalization: normalize.Defaults(),
	}
}

// RolloutSteps returns 0: the environment steps of an update depend on the lengths of episodes.
func (c *Config) RolloutSteps(int) int { return 0 }

// validate reports the first hyperparameter that is out of its range.
func (c *Config) validate() error {
	return agents.Validate(Algo,
		agents.Above("learning_rate", c.LearningRate.Initial, 0),
		agents.AtLeast("n_episodes", c.NEpisodes, 1),
		agents.Fraction("gamma", c.Gamma),
		agents.AtLeast("ent_coef", c.EntCoef, 0),
		agents.AtLeast("vf_coef", c.VfCoef, 0),
		agents.Above("max_grad_norm", c.MaxGradNorm, 0),
		agents.Timesteps("total_timesteps", c.TotalTimesteps),
	)
}
