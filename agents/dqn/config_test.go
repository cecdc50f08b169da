package dqn

import (
	"encoding/json"
	"errors"
	"math"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"

	"github.com/kubernasium/kubernasium/agents"
	"github.com/kubernasium/kubernasium/agents/agentstest"
	"github.com/kubernasium/kubernasium/envs/space"
	"github.com/kubernasium/kubernasium/models"
)

func TestConfigIsValidated(t *testing.T) {
	cfg := Defaults()
	cfg.TotalTimesteps = 1
	cfg.BufferSize = 1000
	env := agents.EnvInfo{Obs: space.NewBox(0, 1, 1), Act: space.Discrete{N: 2}, NumEnvs: 4}
	agentstest.CheckConfigs(t, cfg, func(cfg Config) error {
		_, err := New(cfg, env, agents.Given(agentstest.NewStub(2, prefersSecond), agentstest.NewStub(2, prefersSecond)), 1)
		return err
	}, func(c *Config) {
		c.Gamma, c.ExplorationFraction, c.LearningStarts, c.GradientSteps, c.BufferSize, c.BatchSize = 1, 0, 0, -1, 4, 1
	}, map[string]func(*Config){
		"dqn: learning_rate is NaN, want above 0":              func(c *Config) { c.LearningRate.Initial = math.NaN() },
		"dqn: buffer_size is 0, want at least 1":               func(c *Config) { c.BufferSize = 0 },
		"dqn: buffer_size is 3, want at least n_envs, 4":       func(c *Config) { c.BufferSize = 3 },
		"dqn: learning_starts is -1, want at least 0":          func(c *Config) { c.LearningStarts = -1 },
		"dqn: batch_size is 0, want at least 1":                func(c *Config) { c.BatchSize = 0 },
		"dqn: tau is 0, want in (0, 1]":                        func(c *Config) { c.Tau = 0 },
		"dqn: gamma is 1.01, want in [0, 1]":                   func(c *Config) { c.Gamma = 1.01 },
		"dqn: train_freq is 0, want at least 1":                func(c *Config) { c.TrainFreq = 0 },
		"dqn: gradient_steps is 0, want at least 1, or -1":     func(c *Config) { c.GradientSteps = 0 },
		"dqn: n_steps is 0, want at least 1":                   func(c *Config) { c.NSteps = 0 },
		"dqn: target_update_interval is 0, want at least 1":    func(c *Config) { c.TargetUpdateInterval = 0 },
		"dqn: exploration_fraction is 2, want in [0, 1]":       func(c *Config) { c.ExplorationFraction = 2 },
		"dqn: exploration_initial_eps is -1, want in [0, 1]":   func(c *Config) { c.ExplorationInitialEps = -1 },
		"dqn: exploration_final_eps is 1.5, want in [0, 1]":    func(c *Config) { c.ExplorationFinalEps = 1.5 },
		"dqn: max_grad_norm is 0, want above 0":                func(c *Config) { c.MaxGradNorm = 0 },
		"dqn: prioritized_replay_alpha is -1, want at least 0": func(c *Config) { c.PrioritizedReplayAlpha = -1 },
		"dqn: prioritized_replay_beta0 is 2, want in [0, 1]":   func(c *Config) { c.PrioritizedReplayBeta0 = 2 },
		"dqn: prioritized_replay_eps is 0, want above 0":       func(c *Config) { c.PrioritizedReplayEps = 0 },
		"dqn: total_timesteps is 0, want at least 1":           func(c *Config) { c.TotalTimesteps = 0 },
	})
}

func TestNewPassesOnTheFactorysError(t *testing.T) {
	broken := errors.New("broken")
	env := agents.EnvInfo{Obs: space.NewBox(0, 1, 1), Act: space.Discrete{N: 2}, NumEnvs: 1}
	for fails := range 2 {
		calls := 0
		_, err := New(small(), env, func(models.Spec) (models.Network, error) {
			if calls++; calls > fails {
				return nil, broken
			}
			return agentstest.NewStub(2, prefersSecond), nil
		}, 1)
		if !errors.Is(err, broken) {
			t.Errorf("call %d fails: error %v, want that of the factory", fails+1, err)
		}
	}
}

func TestOnlyDiscreteActions(t *testing.T) {
	for _, act := range []space.Space{space.NewBox(0, 1, 2), space.MultiBinary{N: 2}, space.MultiDiscrete{NVec: []int{2}}} {
		cfg := Defaults()
		if _, err := cfg.networkSpec(space.NewBox(0, 1, 1), act); err == nil || !strings.Contains(err.Error(), act.Describe().Kind) {
			t.Errorf("networkSpec for actions of kind %s: error %v, want one that names the kind", act.Describe().Kind, err)
		}
	}
	cfg := Defaults()
	cfg.ActivationFn = "gelu"
	if _, err := cfg.networkSpec(space.NewBox(0, 1, 1), space.Discrete{N: 2}); err == nil || !strings.Contains(err.Error(), "gelu") {
		t.Errorf("networkSpec with activation_fn gelu: error %v, want one that names it", err)
	}
}

// TestParameterNames are those of the state_dict of Stable-Baselines3's DQNPolicy.
func TestParameterNames(t *testing.T) {
	names := func(cfg Config) (names []string) {
		spec, err := cfg.networkSpec(space.NewBox(0, 1, 3), space.Discrete{N: 2})
		if err != nil {
			t.Fatal(err)
		}
		for _, p := range models.ParamLayout(spec) {
			names = append(names, p.Name)
		}
		return names
	}
	cfg := Defaults()
	want := []string{"q_net.q_net.0.weight", "q_net.q_net.0.bias", "q_net.q_net.2.weight", "q_net.q_net.2.bias", "q_net.q_net.4.weight", "q_net.q_net.4.bias"}
	if diff := cmp.Diff(want, names(cfg)); diff != "" {
		t.Errorf("(-want +got):\n%s", diff)
	}
	cfg.NetArch = nil
	if diff := cmp.Diff([]string{"q_net.q_net.0.weight", "q_net.q_net.0.bias"}, names(cfg)); diff != "" {
		t.Errorf("without hidden layers (-want +got):\n%s", diff)
	}
	cfg.NetArch, cfg.Dueling = []int{8}, true
	want = []string{"q_net.q_net.0.weight", "q_net.q_net.0.bias", "q_net.advantage_net.weight", "q_net.advantage_net.bias", "q_net.value_net.weight", "q_net.value_net.bias"}
	if diff := cmp.Diff(want, names(cfg)); diff != "" {
		t.Errorf("dueling (-want +got):\n%s", diff)
	}
}

func TestConfigAsJSON(t *testing.T) {
	text, err := json.Marshal(Defaults())
	if err != nil {
		t.Fatal(err)
	}
	var cfg Config
	if err := json.Unmarshal(text, &cfg); err != nil {
		t.Fatal(err)
	}
	if diff := cmp.Diff(Defaults(), cfg); diff != "" {
		t.Errorf("(-want +got):\n%s", diff)
	}
}

// TestReplayMemoryIsBounded: a slot of an observation of 250,000 numbers takes 1 MB, so that a million do not
// fit, and 4295 do: 4 GiB / 1,000,013 bytes = 4294.9, of which one is the open slot.
func TestReplayMemoryIsBounded(t *testing.T) {
	cfg := Defaults()
	cfg.TotalTimesteps = 1
	env := agents.EnvInfo{Obs: space.NewBox(0, 1, 250_000), Act: space.Discrete{N: 4}, NumEnvs: 1}
	_, err := New(cfg, env, agents.Given(agentstest.NewStub(2, prefersSecond), agentstest.NewStub(2, prefersSecond)), 1)
	for _, part := range []string{"buffer_size 1000000", "250000 numbers", "931.3 GiB", "at most 4 GiB", "a buffer_size of at most 4294"} {
		if err == nil || !strings.Contains(err.Error(), part) {
			t.Fatalf("error %v, want one with %q", err, part)
		}
	}
}
