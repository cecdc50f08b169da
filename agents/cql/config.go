package cql

import (
	"github.com/kubernasium/kubernasium/agents"
	"github.com/kubernasium/kubernasium/agents/policies"
)

// Config holds the hyperparameters of conservative Q-learning. Names are Stable-Baselines3's for DQN, and
// d3rlpy's for alpha.
type Config struct {
	LearningRate         agents.Schedule `json:"learning_rate"`          // of Adam; default 6.25e-5
	BatchSize            int             `json:"batch_size"`             // transitions of a gradient step; default 32
	Gamma                float64         `json:"gamma"`                  // discount, in [0, 1]; default 0.99
	Alpha                float64         `json:"alpha"`                  // weight of the conservative term, at least 0; default 1
	DoubleQ              bool            `json:"double_q"`               // the online network chooses the target's action; default true
	TargetUpdateInterval int             `json:"target_update_interval"` // gradient steps between copies to the target network; default 8000
	MaxGradNorm          float64         `json:"max_grad_norm"`          // bound of the gradient's norm; default 10
	Policy               string          `json:"policy"`                 // "MlpPolicy" (default), "NodePolicy", "SAGEPolicy" or "GCNPolicy"
	NetArch              []int           `json:"net_arch"`               // widths of the hidden layers; default 256, 256
	ActivationFn         string          `json:"activation_fn"`          // "relu" (default) or "tanh"
	LayerNorm            bool            `json:"layer_norm"`             // between each hidden layer and its activation; default false
	Pool                 string          `json:"pool"`                   // pooling of nodes for the action that waits: "mean", "max" or "mean+max" (default)
	agents.Horizon
}

// Defaults returns the defaults of d3rlpy 2.8.
func Defaults() Config {
	return Config{
		LearningRate: agents.Constant(6.25e-5), BatchSize: 32, Gamma: 0.99, Alpha: 1, DoubleQ: true, TargetUpdateInterval: 8000,
		MaxGradNorm: 10, Policy: policies.Mlp, NetArch: []int{256, 256}, ActivationFn: "relu", Pool: "mean+max",
	}
}

// RolloutSteps returns 1: training can pause after any gradient step.
func (c *Config) RolloutSteps(int) int { return 1 }

func (c *Config) validate() error {
	return agents.Validate(Algo,
		agents.Above("learning_rate", c.LearningRate.Initial, 0),
		agents.AtLeast("batch_size", c.BatchSize, 1),
		agents.Fraction("gamma", c.Gamma),
		agents.AtLeast("alpha", c.Alpha, 0),
		agents.AtLeast("target_update_interval", c.TargetUpdateInterval, 1),
		agents.Above("max_grad_norm", c.MaxGradNorm, 0),
		agents.Timesteps("total_timesteps", c.TotalTimesteps),
	)
}
