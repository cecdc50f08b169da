package run

import (
	"path/filepath"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"

	"github.com/kubernasium/kubernasium/agents"
	"github.com/kubernasium/kubernasium/agents/a2c"
	"github.com/kubernasium/kubernasium/agents/dqn"
	"github.com/kubernasium/kubernasium/agents/normalize"
	"github.com/kubernasium/kubernasium/agents/ppo"
	"github.com/kubernasium/kubernasium/envs/envstest"
)

// TestNormalizeOfRLZoo reads the forms that RL Zoo's files have.
func TestNormalizeOfRLZoo(t *testing.T) {
	both := normalize.Normalization{NormObs: true, NormReward: true, ClipObs: 10, ClipReward: 10}
	obs := both
	obs.NormReward = false
	clipped := both
	clipped.ClipObs = 5
	for _, tc := range []struct {
		yaml   string
		params map[string]any
		want   normalize.Normalization
	}{
		{"normalize: true", nil, both},
		{"normalize: True", nil, both},
		{"normalize: false", nil, normalize.Defaults()},
		{`normalize: "{'norm_obs': True, 'norm_reward': False}"`, nil, obs},
		{"normalize: {norm_obs: true, norm_reward: false}", nil, obs},
		{"normalize: dict(norm_obs=True, norm_reward=False)", nil, obs},
		{"normalize: {clip_obs: 5.0}", nil, clipped},
		{"normalize: true", map[string]any{"norm_reward": false}, obs},
		{"normalize: true", map[string]any{"normalize": false}, normalize.Defaults()},
		{"{norm_obs: true, norm_reward: true}", map[string]any{"normalize": false, "norm_obs": true}, obs},
		{"gamma: 0.9", map[string]any{"normalize": "{norm_reward: false}"}, obs},
	} {
		file := envstest.TempFile(t, "ppo.yml", "classic/CartPole-v1:\n  "+tc.yaml+"\n")
		h, err := ReadHyperparams("ppo", "classic/CartPole-v1", file, tc.params)
		if err != nil {
			t.Errorf("%s: %v", tc.yaml, err)
			continue
		}
		if diff := cmp.Diff(tc.want, h.Config.(*ppo.Config).Normalization); diff != "" {
			t.Errorf("%s with %v (-want +got):\n%s", tc.yaml, tc.params, diff)
		}
	}
	for algo, values := range map[string][]any{"ppo": {3, "yes please", map[string]any{"norm_actions": true}}, "dqn": {true}} {
		for _, v := range values {
			if _, err := ReadHyperparams(algo, "classic/CartPole-v1", "", map[string]any{"normalize": v}); err == nil || !strings.Contains(err.Error(), "norm") {
				t.Errorf("%s, normalize %v: error %v", algo, v, err)
			}
		}
	}
	if _, err := ReadHyperparams("dqn", "classic/CartPole-v1", "", map[string]any{"normalize": false}); err != nil {
		t.Errorf("dqn, normalize false: %v", err)
	}
}

// zooFiles have the syntax of RL Zoo's hyperparameter files, with its settings of environments of
// Gymnasium's classic control, and of others by which a key comes in.
var zooFiles = map[string]string{
	"ppo": `
shared: &shared
  n_envs: 8
  n_timesteps: !!float 2e6
  policy: 'MlpPolicy'

CartPole-v1:
  n_envs: 8
  n_timesteps: !!float 1e5
  policy: 'MlpPolicy'
  n_steps: 32
  batch_size: 256
  gae_lambda: 0.8
  gamma: 0.98
  n_epochs: 20
  ent_coef: 0.0
  learning_rate: lin_0.001
  clip_range: lin_0.2

MountainCarContinuous-v0:
  <<: *shared
  normalize: true
  n_timesteps: !!float 2e4
  n_envs: 1
  n_steps: 8
  batch_size: 256
  learning_rate: !!float 7.77e-05
  use_sde: False
  sde_sample_freq: -1
  frame_stack: 1
  env_wrapper: []
  callback: null
  policy_kwargs: "dict(
                    log_std_init=-3.29,
                    ortho_init=True,
                    activation_fn=nn.ReLU,
                    net_arch=dict(pi=[256, 256], vf=[256, 256])
                  )"

Wrapped-v0:
  n_timesteps: !!float 1e6
  policy: 'CnnPolicy'
  env_wrapper:
    - gymnasium.wrappers.RescaleAction:
        min_action: -1.0
  use_sde: True
  frame_stack: 4
  callback: rl_zoo3.callbacks.ParallelTrainCallback
  gamma: 0.9

Towers-v0:
  policy_kwargs: dict(net_arch=dict(pi=[64], vf=[32]), ortho_init=False, activation_fn=nn.ELU, optimizer_kwargs=dict(eps=1e-5))

Broken-v0:
  policy_kwargs: "dict(net_arch=[64"

Loop-v0:
  policy_kwargs: "dict(net_arch=[i for i in range(10000000)])"
`,
	"a2c": `
CartPole-v1:
  n_envs: 8
  n_timesteps: !!float 5e5
  policy: 'MlpPolicy'
  ent_coef: 0.0

Pendulum-v1:
  normalize: "{'norm_obs': True, 'norm_reward': False}"
  n_timesteps: !!float 1e6
  policy: 'MultiInputPolicy'
  learning_rate: lin_7e-4
  use_rms_prop: True
  normalize_advantage: False
  policy_kwargs: {log_std_init: -2, activation_fn: th.nn.Tanh, net_arch: [{pi: [32], vf: [32]}]}
`,
	"dqn": `
CartPole-v1:
  n_timesteps: !!float 5e4
  policy: 'MlpPolicy'
  learning_rate: !!float 2.3e-3
  batch_size: 64
  buffer_size: 100000
  learning_starts: 1000
  gamma: 0.99
  target_update_interval: 10
  train_freq: 256
  gradient_steps: 128
  exploration_fraction: 0.16
  exploration_final_eps: 0.04
  policy_kwargs: "dict(net_arch=[256, 256])"

Acrobot-v1:
  train_freq: [4, "step"]
  gradient_steps: -1
  optimize_memory_usage: False
  replay_buffer_kwargs: dict(handle_timeout_termination=True)

Episodes-v0:
  train_freq: [1, "episode"]
  replay_buffer_kwargs: "dict(handle_timeout_termination=False)"
`,
}

// writeZoo writes the file of an algorithm and returns its path.
func writeZoo(t *testing.T, algo string) string {
	t.Helper()
	return envstest.TempFile(t, algo+".yml", zooFiles[algo])
}

// TestRLZooFiles reads files of RL Zoo's form.
func TestRLZooFiles(t *testing.T) {
	cartPole := ppo.Defaults()
	cartPole.NSteps, cartPole.BatchSize, cartPole.NEpochs, cartPole.GAELambda, cartPole.Gamma = 32, 256, 20, 0.8, 0.98
	cartPole.LearningRate, cartPole.ClipRange = agents.Schedule{Initial: 0.001, Linear: true}, agents.Schedule{Initial: 0.2, Linear: true}
	car := ppo.Defaults()
	car.NSteps, car.BatchSize, car.LearningRate, car.NormObs, car.NormReward = 8, 256, agents.Constant(7.77e-05), true, true
	car.LogStdInit, car.ActivationFn, car.NetArch = -3.29, "relu", []int{256, 256}
	plain := a2c.Defaults()
	pendulum := a2c.Defaults()
	pendulum.LearningRate, pendulum.NormObs, pendulum.LogStdInit, pendulum.NetArch = agents.Schedule{Initial: 7e-4, Linear: true}, true, -2, []int{32}
	q := dqn.Defaults()
	q.LearningRate, q.BatchSize, q.BufferSize, q.LearningStarts, q.TargetUpdateInterval = agents.Constant(0.0023), 64, 100_000, 1000, 10
	q.TrainFreq, q.GradientSteps, q.ExplorationFraction, q.ExplorationFinalEps, q.NetArch = 256, 128, 0.16, 0.04, []int{256, 256}
	acrobot := dqn.Defaults()
	acrobot.GradientSteps = -1
	for _, tc := range []struct {
		algo, env string
		want      Hyperparams
	}{
		{"ppo", "classic/CartPole-v1", Hyperparams{8, 100_000, &cartPole}},
		{"ppo", "CartPole-v1", Hyperparams{8, 100_000, &cartPole}},
		{"ppo", "MountainCarContinuous-v0", Hyperparams{1, 20_000, &car}},
		{"a2c", "classic/CartPole-v1", Hyperparams{8, 500_000, &plain}},
		{"a2c", "Pendulum-v1", Hyperparams{1, 1_000_000, &pendulum}},
		{"dqn", "classic/CartPole-v1", Hyperparams{1, 50_000, &q}},
		{"dqn", "Acrobot-v1", Hyperparams{1, 1_000_000, &acrobot}},
	} {
		got, err := ReadHyperparams(tc.algo, tc.env, writeZoo(t, tc.algo), nil)
		if err != nil {
			t.Errorf("%s of %s: %v", tc.env, tc.algo, err)
			continue
		}
		if diff := cmp.Diff(tc.want, got); diff != "" {
			t.Errorf("%s of %s (-want +got):\n%s", tc.env, tc.algo, diff)
		}
	}
}

// TestNoneIsTheDefault: as in RL Zoo, None on the command line replaces the value of a file.
func TestNoneIsTheDefault(t *testing.T) {
	file := envstest.TempFile(t, "ppo.yml", "classic/CartPole-v1: {target_kl: 0.03, clip_range_vf: 0.2, gamma: None}\n")
	h, err := ReadHyperparams("ppo", "classic/CartPole-v1", file, map[string]any{"target_kl": "None", "clip_range_vf": nil, "callback": nil})
	if err != nil {
		t.Fatal(err)
	}
	want := ppo.Defaults()
	if diff := cmp.Diff(&want, h.Config); diff != "" {
		t.Errorf("(-want +got):\n%s", diff)
	}
}

// TestRLZooRefuses: what cannot be honoured is named, all of it, and what else there is.
func TestRLZooRefuses(t *testing.T) {
	for _, tc := range []struct {
		algo, env string
		want      []string
	}{
		{"ppo", "Wrapped-v0", []string{"ppo.yml", "env_wrapper is [map[gymnasium", "use_sde is true", "frame_stack is 4", "callback is rl_zoo3"}},
		{"ppo", "Towers-v0", []string{"net_arch map[pi:[64] vf:[32]]", "ortho_init false", "activation_fn nn.ELU", "optimizer_kwargs", "there are net_arch"}},
		{"ppo", "Broken-v0", []string{`policy_kwargs is "dict(net_arch=[64"`, "want a dict such as"}},
		{"ppo", "Loop-v0", []string{"policy_kwargs", "too many steps"}},
		{"ppo", "Pendulum-v1", []string{"has no hyperparameters for Pendulum-v1; it has Broken-v0, CartPole-v1"}},
		{"ppo", "shared", nil},
		{"dqn", "Episodes-v0", []string{"train_freq is [1 episode]", "replay_buffer_kwargs is dict(handle"}},
	} {
		_, err := ReadHyperparams(tc.algo, tc.env, writeZoo(t, tc.algo), nil)
		if (err == nil) != (tc.want == nil) {
			t.Errorf("%s of %s: error %v, want one with %q", tc.env, tc.algo, err, tc.want)
		}
		for _, part := range tc.want {
			if err != nil && !strings.Contains(err.Error(), part) {
				t.Errorf("%s of %s: %v, want %q in it", tc.env, tc.algo, err, part)
			}
		}
	}
}

// TestConfigOfRLZoo reads the config.yml that RL Zoo leaves beside a model.
func TestConfigOfRLZoo(t *testing.T) {
	path := filepath.Join(t.TempDir(), "config.yml")
	text := `!!python/object/apply:collections.OrderedDict
- - - batch_size
    - 64
  - - learning_rate
    - 0.0005
  - - n_timesteps
    - 100000.0
  - - normalize
    - '{''norm_obs'': True, ''norm_reward'': False}'
  - - policy
    - MlpPolicy
  - - policy_kwargs
    - dict(net_arch=[32])
`
	envstest.Write(t, path, text)
	want := ppo.Defaults()
	want.BatchSize, want.LearningRate, want.NormObs, want.NetArch = 64, agents.Constant(0.0005), true, []int{32}
	got, err := ReadHyperparams("ppo", "classic/CartPole-v1", path, nil)
	if err != nil {
		t.Fatal(err)
	}
	if diff := cmp.Diff(Hyperparams{1, 100_000, &want}, got); diff != "" {
		t.Errorf("(-want +got):\n%s", diff)
	}
}
