package main

import (
	"context"
	"path/filepath"
	"runtime"
	"strings"
	"testing"

	"github.com/kubernasium/kubernasium/envs/envstest"
	"github.com/kubernasium/kubernasium/version"
)

func TestErrors(t *testing.T) {
	dir := t.TempDir()
	garbage := filepath.Join(dir, "garbage.safetensors")
	envstest.Write(t, garbage, "no model")
	for _, tc := range []struct {
		args []string
		want string
	}{
		{[]string{"train", "--env", "k8s/GangWindov-v0"}, "did you mean k8s/GangWindow-v0?"},
		{[]string{"train", "--algo", "sac"}, `no algorithm "sac"; there is ppo, a2c, dqn, reinforce, ppo_lstm`},
		{[]string{"train", "--env-kwargs", "window:5", "-f", dir}, `unknown option "window"; did you mean "windows"?`},
		{[]string{"train", "--env-kwargs", "windows"}, `invalid argument "windows" for "--env-kwargs" flag: want key:value`},
		{[]string{"train", "--params", "net_arch:[64"}, `invalid argument "net_arch:[64" for "--params" flag: the value of net_arch is no YAML`},
		{[]string{"train", "--params", "learning_rat:1"}, `unknown field "learning_rat"`},
		{[]string{"train", "--params", "batch_size:100", "-f", dir}, "no multiple of batch_size 100"},
		{[]string{"train", "-n", "0"}, "n_timesteps 0"},
		{[]string{"train", "--engine", "torch", "-f", dir}, `no engine "torch"; there are fused and gorgonia`},
		{[]string{"train", "--resume", garbage}, "garbage.safetensors"},
		{[]string{"train", "--eval-env-kwargs", "window:5", "-f", dir}, `unknown option "window"; did you mean "windows"?`},
		{[]string{"train", "--eval-freq", "-1", "-n", "64", "-f", dir}, "--eval-freq -1, --save-freq 100000: want at least 0"},
		{[]string{"train", "--save-freq", "-1", "-n", "64", "-f", dir}, "--save-freq -1: want at least 0"},
		{[]string{"train", "--compare", "-1", "-n", "64", "-f", dir}, "--compare -1, want 0"},
		{[]string{"train", "--compare", "1", "-n", "64", "-f", dir}, "--compare 1, want 0"},
		{[]string{"train", "--eval-episodes", "0", "-f", dir}, "eval-episodes 0"},
		{[]string{"train", "--algo", "dqn", "--params", "normalize:true", "-f", dir}, "hyperparameter normalize is true, and dqn does not normalize; ppo, a2c, reinforce, ppo_lstm do"},
		{[]string{"train", "--algo", "dqn", "--params", "normalize:{norm_obs: true}", "-f", dir}, "dqn does not normalize"},
		{[]string{"train", "--algo", "dqn", "--params", "normalize:false", "--params", "tau:-1", "-n", "64", "-f", dir}, "tau"},
		{[]string{"eval", "--env", "classic/CartPole-v1", "--baseline", "random", "--episodes", "0"}, "--episodes 0, want at least 1"},
		{[]string{"eval", "--env", "classic/CartPole-v1", "--baseline", "random", "--episodes", "-3"}, "--episodes -3, want at least 1"},
		{[]string{"compare", "--env", "classic/CartPole-v1", "--episodes", "0"}, "--episodes 0, want at least 2"},
		{[]string{"vpa", "forecaster", "--episodes", "0"}, "--episodes 0, want at least 1"},
		{[]string{"eval", "--model", garbage}, "garbage.safetensors"},
		{[]string{"eval"}, "want one of --model and --baseline"},
		{[]string{"eval", "--env", "k8s/GangWindow-v0", "--baseline", "mpc"}, `no baseline "mpc"; it has`},
		{[]string{"compare"}, "neither --env nor --model is given"},
		{[]string{"compare", "--env", "classic/CartPole-v1", "--episodes", "1"}, "--episodes 1, want at least 2"},
		{[]string{"reproduce", "gang", "--window", "3"}, "--window selects a single case and needs --controller"},
		{[]string{"reproduce", "gang", "--data", dir}, "workload_profiling.csv"},
	} {
		_, _, err := execute(t, context.Background(), tc.args...)
		if err == nil || !strings.Contains(err.Error(), tc.want) {
			t.Errorf("trainer %s: %v, want an error with %q", strings.Join(tc.args, " "), err, tc.want)
		}
	}
}

func TestVersion(t *testing.T) {
	out := mustExecute(t, "--version")
	for _, want := range []string{"trainer version " + version.Number + "\n", "\ncommit: ", "\ngo: " + runtime.Version()} {
		if !strings.Contains(out, want) {
			t.Errorf("trainer --version printed\n%s\nwithout %q", out, want)
		}
	}
}
