package ppo

import (
	"fmt"

	"github.com/kubernasium/kubernasium/agents"
	"github.com/kubernasium/kubernasium/agents/normalize"
	"github.com/kubernasium/kubernasium/agents/policies"
)

// Config holds the hyperparameters of PPO, with the names and defaults of
// Stable-Baselines3 2.9.
type Config struct {
	LearningRate       agents.Schedule `json:"learning_rate"`       // of Adam; default 3e-4
	NSteps             int             `json:"n_steps"`             // steps of each environment in a rollout; default 2048
	BatchSize          int             `json:"batch_size"`          // rows of a minibatch; default 64
	NEpochs            int             `json:"n_epochs"`            // passes over a rollout; default 10
	Gamma              float64         `json:"gamma"`               // discount, in [0, 1]; default 0.99
	GAELambda          float64         `json:"gae_lambda"`          // λ of the advantage estimate, in [0, 1]; default 0.95
	ClipRange          agents.Schedule `json:"clip_range"`          // ε of the surrogate objective; default 0.2
	ClipRangeVf        agents.Schedule `json:"clip_range_vf"`       // ε of the value's change; default 0: no clipping
	ClipVLoss          bool            `json:"clip_vloss"`          // where clipped, take the greater of both value losses, as CleanRL; default false: the clipped one, as Stable-Baselines3
	NormalizeAdvantage bool            `json:"normalize_advantage"` // over each minibatch; default true
	EntCoef            float64         `json:"ent_coef"`            // weight of the entropy bonus; default 0
	VfCoef             float64         `json:"vf_coef"`             // weight of the value loss; default 0.5
	MaxGradNorm        float64         `json:"max_grad_norm"`       // bound of the gradient's norm; default 0.5
	TargetKL           float64         `json:"target_kl"`           // ends an update early above 1.5 times it; default 0: never
	policies.Network
	normalize.Normalization
	agents.Horizon
}

// Defaults returns Stable-Baselines3's defaults.
func Defaults() Config {
	return Config{
		LearningRate: agents.Constant(3e-4), NSteps: 2048, BatchSize: 64, NEpochs: 10,
		Gamma: 0.99, GAELambda: 0.95, ClipRange: agents.Constant(0.2), NormalizeAdvantage: true,
		VfCoef: 0.5, MaxGradNorm: 0.5, Network: policies.Defaults(),
		Normalization: normalize.Defaults(),
	}
}

// RolloutSteps returns the environment steps of a rollout, after which training can pause.
func (c *Config) RolloutSteps(numEnvs int) int { return c.NSteps * numEnvs }

// validate reports the first hyperparameter that is out of its range, for numEnvs
// environments.
func (c *Config) validate(numEnvs int) error {
	if err := agents.Validate(Algo,
		agents.Above("learning_rate", c.LearningRate.Initial, 0),
		agents.AtLeast("n_steps", c.NSteps, 1),
		agents.AtLeast("batch_size", c.BatchSize, 2),
		agents.AtLeast("n_epochs", c.NEpochs, 1),
		agents.Fraction("gamma", c.Gamma),
		agents.Fraction("gae_lambda", c.GAELambda),
		agents.Above("clip_range", c.ClipRange.Initial, 0),
		agents.AtLeast("clip_range_vf", c.ClipRangeVf.Initial, 0),
		agents.AtLeast("ent_coef", c.EntCoef, 0),
		agents.AtLeast("vf_coef", c.VfCoef, 0),
		agents.Above("max_grad_norm", c.MaxGradNorm, 0),
		agents.AtLeast("target_kl", c.TargetKL, 0),
		agents.Timesteps("total_timesteps", c.TotalTimesteps),
	); err != nil {
		return err
	}
	if rows := c.NSteps * numEnvs; rows%c.BatchSize != 0 {
		return fmt.Errorf("ppo: a rollout of n_steps × n_envs = %d × %d = %d rows is no multiple of batch_size %d", c.NSteps, numEnvs, rows, c.BatchSize)
	}
	return nil
}
