package a2c

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
		{"bounds", func(c *Config) { c.Gamma, c.GAELambda, c.VfCoef, c.NSteps = 1, 0, 0, 1 }, ""},
		{"learning_rate", func(c *Config) { c.LearningRate.Initial = math.NaN() }, "a2c: learning_rate is NaN, want above 0"},
		{"n_steps", func(c *Config) { c.NSteps = 0 }, "a2c: n_steps is 0, want at least 1"},
		{"gamma", func(c *Config) { c.Gamma = 1.01 }, "a2c: gamma is 1.01, want in [0, 1]"},
		{"gae_lambda", func(c *Config) { c.GAELambda = -0.5 }, "a2c: gae_lambda is -0.5, want in [0, 1]"},
		{"ent_coef", func(c *Config) { c.EntCoef = -0.1 }, "a2c: ent_coef is -0.1, want at least 0"},
		{"vf_coef", func(c *Config) { c.VfCoef = math.NaN() }, "a2c: vf_coef is NaN, want at least 0"},
		{"max_grad_norm", func(c *Config) { c.MaxGradNorm = 0 }, "a2c: max_grad_norm is 0, want above 0"},
		{"rms_prop_eps", func(c *Config) { c.RMSPropEps = 0 }, "a2c: rms_prop_eps is 0, want above 0"},
		{"total_timesteps", func(c *Config) { c.TotalTimesteps = 0 }, "a2c: total_timesteps is 0, want at least 1"},
		{"normalize_advantage", func(c *Config) { c.NormalizeAdvantage, c.NSteps = true, 1 }, "a2c: normalize_advantage of a rollout of one row, want n_steps × n_envs of at least 2"},
	} {
		cfg := Defaults()
		cfg.TotalTimesteps = 1
		tc.change(&cfg)
		env := agents.EnvInfo{Obs: space.NewBox(0, 1, 1), Act: space.Discrete{N: 2}, NumEnvs: 1}
		got := ""
		if _, err := New(cfg, env, agentstest.NewStub(2, even), 1); err != nil {
			got = err.Error()
		}
		if got != tc.want {
			t.Errorf("%s: error %q, want %q", tc.name, got, tc.want)
		}
	}
}
