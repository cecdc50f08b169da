package ppo

import (
	"math"
	"testing"

	"github.com/kubernasium/kubernasium/agents"
	"github.com/kubernasium/kubernasium/agents/agentstest"
	"github.com/kubernasium/kubernasium/envs/space"
)

func TestConfigIsValidated(t *testing.T) {
	for _, tc := range []struct {
		name   string
		change func(*Config)
		want   string // the whole message; empty if it is valid
	}{
		{"defaults", func(*Config) {}, ""},
		{"bounds", func(c *Config) { c.Gamma, c.GAELambda, c.VfCoef, c.BatchSize = 1, 0, 0, 2 }, ""},
		{"learning_rate", func(c *Config) { c.LearningRate.Initial = 0 }, "ppo: learning_rate is 0, want above 0"},
		{"learning_rate is NaN", func(c *Config) { c.LearningRate.Initial = math.NaN() }, "ppo: learning_rate is NaN, want above 0"},
		{"n_steps", func(c *Config) { c.NSteps = 0 }, "ppo: n_steps is 0, want at least 1"},
		{"batch_size", func(c *Config) { c.BatchSize = 1 }, "ppo: batch_size is 1, want at least 2"},
		{"n_epochs", func(c *Config) { c.NEpochs = -1 }, "ppo: n_epochs is -1, want at least 1"},
		{"gamma", func(c *Config) { c.Gamma = 1.01 }, "ppo: gamma is 1.01, want in [0, 1]"},
		{"gae_lambda", func(c *Config) { c.GAELambda = -0.5 }, "ppo: gae_lambda is -0.5, want in [0, 1]"},
		{"clip_range", func(c *Config) { c.ClipRange.Initial = 0 }, "ppo: clip_range is 0, want above 0"},
		{"clip_range_vf", func(c *Config) { c.ClipRangeVf.Initial = -1 }, "ppo: clip_range_vf is -1, want at least 0"},
		{"ent_coef", func(c *Config) { c.EntCoef = -0.1 }, "ppo: ent_coef is -0.1, want at least 0"},
		{"vf_coef", func(c *Config) { c.VfCoef = math.NaN() }, "ppo: vf_coef is NaN, want at least 0"},
		{"max_grad_norm", func(c *Config) { c.MaxGradNorm = 0 }, "ppo: max_grad_norm is 0, want above 0"},
		{"target_kl", func(c *Config) { c.TargetKL = -1 }, "ppo: target_kl is -1, want at least 0"},
		{"total_timesteps", func(c *Config) { c.TotalTimesteps = 0 }, "ppo: total_timesteps is 0, want at least 1"},
		{"rows", func(c *Config) { c.NSteps, c.BatchSize = 10, 16 }, "ppo: a rollout of n_steps × n_envs = 10 × 4 = 40 rows is no multiple of batch_size 16"},
	} {
		cfg := Defaults()
		cfg.TotalTimesteps = 1
		tc.change(&cfg)
		env := agents.EnvInfo{Obs: space.NewBox(0, 1, 1), Act: space.Discrete{N: 2}, NumEnvs: 4}
		got := ""
		if _, err := New(cfg, env, agentstest.NewStub(2, even), 1); err != nil {
			got = err.Error()
		}
		if got != tc.want {
			t.Errorf("%s: error %q, want %q", tc.name, got, tc.want)
		}
	}
}
