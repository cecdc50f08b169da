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
	TotalTimesteps int `json:"-"` // over which linear schedules fall
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

// validate reports the first hyperparameter that is out of its range, for numEnvs
// environments.
func (c *Config) validate(numEnvs int) error {
	for _, p := range []struct {
		name string
		v    float64
		ok   bool
		want string
	}{
		{"learning_rate", c.LearningRate.Initial, c.LearningRate.Initial > 0, "above 0"},
		{"n_steps", float64(c.NSteps), c.NSteps > 0, "at least 1"},
		{"batch_size", float64(c.BatchSize), c.BatchSize > 1, "at least 2"},
		{"n_epochs", float64(c.NEpochs), c.NEpochs > 0, "at least 1"},
		{"gamma", c.Gamma, c.Gamma >= 0 && c.Gamma <= 1, "in [0, 1]"},
		{"gae_lambda", c.GAELambda, c.GAELambda >= 0 && c.GAELambda <= 1, "in [0, 1]"},
		{"clip_range", c.ClipRange.Initial, c.ClipRange.Initial > 0, "above 0"},
		{"clip_range_vf", c.ClipRangeVf.Initial, c.ClipRangeVf.Initial >= 0, "at least 0"},
		{"ent_coef", c.EntCoef, c.EntCoef >= 0, "at least 0"},
		{"vf_coef", c.VfCoef, c.VfCoef >= 0, "at least 0"},
		{"max_grad_norm", c.MaxGradNorm, c.MaxGradNorm > 0, "above 0"},
		{"target_kl", c.TargetKL, c.TargetKL >= 0, "at least 0"},
		{"total_timesteps", float64(c.TotalTimesteps), c.TotalTimesteps > 0, "at least 1"},
	} {
		if !p.ok {
			return fmt.Errorf("ppo: %s is %v, want %s", p.name, p.v, p.want)
		}
	}
	if rows := c.NSteps * numEnvs; rows%c.BatchSize != 0 {
		return fmt.Errorf("ppo: a rollout of n_steps × n_envs = %d × %d = %d rows is no multiple of batch_size %d", c.NSteps, numEnvs, rows, c.BatchSize)
	}
	return nil
}
