package ppo

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
	env := agents.EnvInfo{Obs: space.NewBox(0, 1, 1), Act: space.Discrete{N: 2}, NumEnvs: 4}
	agentstest.CheckConfigs(t, cfg, func(cfg Config) error {
		_, err := New(cfg, env, agents.Given(agentstest.NewStub(2, even)), 1)
		return err
	}, func(c *Config) { c.Gamma, c.GAELambda, c.VfCoef, c.BatchSize = 1, 0, 0, 2 }, map[string]func(*Config){
		"ppo: learning_rate is 0, want above 0":                                                 func(c *Config) { c.LearningRate.Initial = 0 },
		"ppo: learning_rate is NaN, want above 0":                                               func(c *Config) { c.LearningRate.Initial = math.NaN() },
		"ppo: n_steps is 0, want at least 1":                                                    func(c *Config) { c.NSteps = 0 },
		"ppo: batch_size is 1, want at least 2":                                                 func(c *Config) { c.BatchSize = 1 },
		"ppo: n_epochs is -1, want at least 1":                                                  func(c *Config) { c.NEpochs = -1 },
		"ppo: gamma is 1.01, want in [0, 1]":                                                    func(c *Config) { c.Gamma = 1.01 },
		"ppo: gae_lambda is -0.5, want in [0, 1]":                                               func(c *Config) { c.GAELambda = -0.5 },
		"ppo: clip_range is 0, want above 0":                                                    func(c *Config) { c.ClipRange.Initial = 0 },
		"ppo: clip_range_vf is -1, want at least 0":                                             func(c *Config) { c.ClipRangeVf.Initial = -1 },
		"ppo: ent_coef is -0.1, want at least 0":                                                func(c *Config) { c.EntCoef = -0.1 },
		"ppo: vf_coef is NaN, want at least 0":                                                  func(c *Config) { c.VfCoef = math.NaN() },
		"ppo: max_grad_norm is 0, want above 0":                                                 func(c *Config) { c.MaxGradNorm = 0 },
		"ppo: target_kl is -1, want at least 0":                                                 func(c *Config) { c.TargetKL = -1 },
		"ppo: total_timesteps is 0, want at least 1":                                            func(c *Config) { c.TotalTimesteps = 0 },
		"ppo: a rollout of n_steps × n_envs = 10 × 4 = 40 rows is no multiple of batch_size 16": func(c *Config) { c.NSteps, c.BatchSize = 10, 16 },
	})
}
