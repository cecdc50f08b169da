package reinforce

import (
	"fmt"

	"github.com/kubernasium/kubernasium/agents"
	"github.com/kubernasium/kubernasium/agents/normalize"
	"github.com/kubernasium/kubernasium/agents/policies"
)

// Config holds the hyperparameters of REINFORCE. Names are Stable-Baselines3's as far as it has
// them; it has no REINFORCE.
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
	TotalTimesteps int `json:"-"` // over which linear schedules fall
}

// Defaults returns the default hyperparameters.
func Defaults() Config {
	return Config{
		LearningRate: agents.Schedule{Initial: 1e-2, Linear: true}, NEpisodes: 16, Gamma: 0.99, NormalizeAdvantage: true,
		VfCoef: 0.5, MaxGradNorm: 0.5, Network: policies.Defaults(), Normalization: normalize.Defaults(),
	}
}

// validate reports the first hyperparameter that is out of its range.
func (c *Config) validate() error {
	for _, p := range []struct {
		name string
		v    float64
		ok   bool
		want string
	}{
		{"learning_rate", c.LearningRate.Initial, c.LearningRate.Initial > 0, "above 0"},
		{"n_episodes", float64(c.NEpisodes), c.NEpisodes > 0, "at least 1"},
		{"gamma", c.Gamma, c.Gamma >= 0 && c.Gamma <= 1, "in [0, 1]"},
		{"ent_coef", c.EntCoef, c.EntCoef >= 0, "at least 0"},
		{"vf_coef", c.VfCoef, c.VfCoef >= 0, "at least 0"},
		{"max_grad_norm", c.MaxGradNorm, c.MaxGradNorm > 0, "above 0"},
		{"total_timesteps", float64(c.TotalTimesteps), c.TotalTimesteps > 0, "at least 1"},
	} {
		if !p.ok {
			return fmt.Errorf("reinforce: %s is %v, want %s", p.name, p.v, p.want)
		}
	}
	return nil
}
