package a2c

import (
	"math"
	"testing"

	"github.com/kubernasium/kubernasium/agents"
	"github.com/kubernasium/kubernasium/agents/agentstest"
	"github.com/kubernasium/kubernasium/envs/space"
)

func TestConfigIsValidated(t *testing.T) {
	cfg := Defaults()
	cfg.TotalTimesteps = 1
	env := agents.EnvInfo{Obs: space.NewBox(0, 1, 1), Act: space.Discrete{N: 2}, NumEnvs: 1}
	agentstest.CheckConfigs(t, cfg, func(cfg Config) error {
		_, err := New(cfg, env, agents.Given(agentstest.NewStub(2, even)), 1)
		return err
	}, func(c *Config) { c.Gamma, c.GAELambda, c.VfCoef, c.NSteps = 1, 0, 0, 1 }, map[string]func(*Config){
		"a2c: learning_rate is NaN, want above 0":                                               func(c *Config) { c.LearningRate.Initial = math.NaN() },
		"a2c: n_steps is 0, want at least 1":                                                    func(c *Config) { c.NSteps = 0 },
		"a2c: gamma is 1.01, want in [0, 1]":                                                    func(c *Config) { c.Gamma = 1.01 },
		"a2c: gae_lambda is -0.5, want in [0, 1]":                                               func(c *Config) { c.GAELambda = -0.5 },
		"a2c: ent_coef is -0.1, want at least 0":                                                func(c *Config) { c.EntCoef = -0.1 },
		"a2c: vf_coef is NaN, want at least 0":                                                  func(c *Config) { c.VfCoef = math.NaN() },
		"a2c: max_grad_norm is 0, want above 0":                                                 func(c *Config) { c.MaxGradNorm = 0 },
		"a2c: rms_prop_eps is 0, want above 0":                                                  func(c *Config) { c.RMSPropEps = 0 },
		"a2c: total_timesteps is 0, want at least 1":                                            func(c *Config) { c.TotalTimesteps = 0 },
		"a2c: normalize_advantage of a rollout of one row, want n_steps × n_envs of at least 2": func(c *Config) { c.NormalizeAdvantage, c.NSteps = true, 1 },
	})
}
