package bc

import (
	"github.com/kubernasium/kubernasium/agents"
	"github.com/kubernasium/kubernasium/agents/policies"
)

// Config holds the hyperparameters of behavioural cloning, with Stable-Baselines3's names.
type Config struct {
	LearningRate agents.Schedule `json:"learning_rate"` // of Adam; default 1e-3
	BatchSize    int             `json:"batch_size"`    // transitions of a gradient step; default 100
	EntCoef      float64         `json:"ent_coef"`      // weight of the entropy bonus; default 1e-3
	MaxGradNorm  float64         `json:"max_grad_norm"` // bound of the gradient's norm; default 10
	policies.Network
	agents.Horizon
}

// Defaults returns the learning rate of d3rlpy 2.8 and imitation 1.0, d3rlpy's batch size and
// imitation's weight of the entropy.
func Defaults() Config {
	n := policies.Defaults()
	n.ActivationFn = "relu"
	return Config{LearningRate: agents.Constant(1e-3), BatchSize: 100, EntCoef: 1e-3, MaxGradNorm: 10, Network: n}
}

// RolloutSteps returns 1: training can pause after any gradient step.
func (c *Config) RolloutSteps(int) int { return 1 }

func (c *Config) validate() error {
	return agents.Validate(Algo,
		agents.Above("learning_rate", c.LearningRate.Initial, 0),
		agents.AtLeast("batch_size", c.BatchSize, 1),
		agents.AtLeast("ent_coef", c.EntCoef, 0),
		agents.Above("max_grad_norm", c.MaxGradNorm, 0),
		agents.Timesteps("total_timesteps", c.TotalTimesteps),
	)
}
