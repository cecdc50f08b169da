package run

import (
	"slices"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"

	"github.com/kubernasium/kubernasium/agents"
	"github.com/kubernasium/kubernasium/agents/algorithms"
	"github.com/kubernasium/kubernasium/agents/dqn"
	"github.com/kubernasium/kubernasium/agents/ppo"
	"github.com/kubernasium/kubernasium/envs/space"
)

const cartPole = "classic/CartPole-v1"

// TestConfigurations: published hyperparameters stand in place of the tuned ones, as a file does.
func TestConfigurations(t *testing.T) {
	h, err := ReadHyperparams("dqn", cartPole, "rl_zoo", map[string]any{"batch_size": 32})
	if err != nil {
		t.Fatal(err)
	}
	c := h.Config.(*dqn.Config)
	if c.TrainFreq != 256 || c.DoubleQ || c.NSteps != 1 || c.LearningRate.Linear || c.BatchSize != 32 || h.NTimesteps != 50_000 {
		t.Errorf("RL Zoo's DQN with batch_size 32: %+v", c)
	}
	soft, err := ReadHyperparams("dqn", cartPole, "rl_zoo_soft", map[string]any{"batch_size": 32, "tau": 1, "n_steps": 1, "double_q": false})
	if err != nil {
		t.Fatal(err)
	}
	if diff := cmp.Diff(h, soft); diff != "" {
		t.Errorf("but for its target, rl_zoo_soft differs from rl_zoo:\n%s", diff)
	}
	h, err = ReadHyperparams("ppo", cartPole, "cleanrl", nil)
	if err != nil {
		t.Fatal(err)
	}
	if c := h.Config.(*ppo.Config); !c.ClipVLoss || c.GAELambda != 0.95 || h.NEnvs != 4 {
		t.Errorf("CleanRL's PPO: %+v", c)
	}
	for _, tc := range []struct{ algo, env, conf, want string }{
		{"dqn", cartPole, "nowhere", "one of rl_zoo"},
		{"a2c", cartPole, "rl_zoo", "want a file"},
		{"dqn", "k8s/GangWindow-v0", "rl_zoo", "it has " + cartPole},
	} {
		if _, err := ReadHyperparams(tc.algo, tc.env, tc.conf, nil); err == nil || !strings.Contains(err.Error(), tc.want) {
			t.Errorf("%s on %s from %s: %v, want an error with %q", tc.algo, tc.env, tc.conf, err, tc.want)
		}
	}
}

// TestNothingTuned: an algorithm without a file of tuned hyperparameters trains with its defaults.
func TestNothingTuned(t *testing.T) {
	before := algorithms.All
	t.Cleanup(func() { algorithms.All = before })
	a := before[0]
	a.Name = "untuned"
	algorithms.All = append(slices.Clone(before), a)
	h, err := ReadHyperparams(a.Name, cartPole, "", nil)
	if err != nil {
		t.Fatal(err)
	}
	if diff := cmp.Diff(Hyperparams{1, 1_000_000, a.Defaults()}, h); diff != "" {
		t.Errorf("hyperparameters (-defaults +got):\n%s", diff)
	}
}

// TestAbsurdHyperparameters: what fits in no memory and ends in no time is refused before anything is made.
func TestAbsurdHyperparameters(t *testing.T) {
	for name, value := range map[string]any{"n_envs": 1e9, "n_epochs": 1e18, "n_steps": 1e15, "batch_size": 1e12} {
		h, err := ReadHyperparams("ppo", cartPole, "", map[string]any{name: value})
		if err == nil {
			box := space.NewBox(-1, 1, 4)
			_, err = NewLearner("ppo", h, agents.EnvInfo{ID: cartPole, Obs: box, Act: space.Discrete{N: 2}, NumEnvs: 8}, "fused", 0)
		}
		if err == nil || !strings.Contains(err.Error(), name) || !strings.Contains(err.Error(), "want") {
			t.Errorf("%s = %v: %v, want an error that names it", name, value, err)
		}
	}
}
