package a2c

import (
	"fmt"

	"github.com/kubernasium/kubernasium/agents"
	"github.com/kubernasium/kubernasium/agents/normalize"
	"github.com/kubernasium/kubernasium/agents/policies"
)

// Config holds the hyperparameters of A2C, with the names and defaults of
// Stable-Baselines3 2.9.
type Config struct {
	LearningRate       agents.Schedule `json:"learning_rate"`       // default 7e-4
	NSteps             int             `json:"n_steps"`             // steps of each environment in a rollout; default 5
	Gamma              float64         `json:"gamma"`               // discount, in [0, 1]; default 0.99
	GAELambda          float64         `json:"gae_lambda"`          // λ of the advantage estimate, in [0, 1]; default 1
	EntCoef            float64         `json:"ent_coef"`            // weight of the entropy bonus; default 0
	VfCoef             float64         `json:"vf_coef"`             // weight of the value loss; default 0.5
	MaxGradNorm        float64         `json:"max_grad_norm"`       // bound of the gradient's norm; default 0.5
	RMSPropEps         float64         `json:"rms_prop_eps"`        // ε of RMSprop; default 1e-5
	UseRMSProp         bool            `json:"use_rms_prop"`        // false: Adam with ε = 1e-5; default true
	NormalizeAdvantage bool            `json:"normalize_advantage"` // over each rollout; default false
	policies.Network
	normalize.Normalization
	agents.Horizon
}

// Defaults returns Stable-Baselines3's defaults.
func Defaults() Config {
	return Config{
		LearningRate: agents.Constant(7e-4), NSteps: 5, Gamma: 0.99, GAELambda: 1, VfCoef: 0.5, MaxGradNorm: 0.5,
		RMSPropEps: 1e-5, UseRMSProp: true, Network: policies.Defaults(), Normalization: normalize.Defaults(),
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
		agents.Fraction("gamma", c.Gamma),
		agents.Fraction("gae_lambda", c.GAELambda),
		agents.AtLeast("ent_coef", c.EntCoef, 0),
		agents.AtLeast("vf_coef", c.VfCoef, 0),
		agents.Above("max_grad_norm", c.MaxGradNorm, 0),
		agents.Above("rms_prop_eps", c.RMSPropEps, 0),
		agents.Timesteps("total_timesteps", c.TotalTimesteps),
	); err != nil {
		return err
	}
	if c.NormalizeAdvantage && c.NSteps*numEnvs < 2 {
		return fmt.Errorf("a2c: normalize_advantage of a rollout of one row, want n_steps × n_envs of at least 2")
	}
	return nil
}
