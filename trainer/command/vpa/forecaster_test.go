package vpa

import (
	"context"
	"path/filepath"
	"strings"
	"testing"

	"github.com/kubernasium/kubernasium/envs/envstest"
	"github.com/kubernasium/kubernasium/trainer/clitest"
)

// TestVPAForecaster trains a little, so that the loss falls, and plays the model.
func TestVPAForecaster(t *testing.T) {
	path := filepath.Join(t.TempDir(), "forecaster.safetensors")
	res := clitest.Decode[forecasterResult](t, mustExecute(t, "vpa", "forecaster", "--episodes", "64", "--env-kwargs", "steps:720", "-o", path, "--json"))
	if res.Episodes != 64 || !(res.Last < 0.9*res.First) || !(res.HeldOut < res.First) {
		t.Errorf("%+v: want 64 episodes, and a loss that falls by a tenth, also on held-out workloads", res)
	}
	out := mustExecute(t, "compare", "--model", path, "--baseline", "upstream", "--episodes", "2")
	if !strings.Contains(out, "lstm_forecaster") {
		t.Errorf("compare does not play the forecaster:\n%s", out)
	}
	if _, _, err := execute(t, context.Background(), "compare", "--model", path, "--env-kwargs", "encoding:log", "--env-kwargs", "safety:none", "--episodes", "2"); err == nil {
		t.Error("the forecaster plays observations without upstream's amounts")
	}
	// What it does can be imitated.
	log := t.TempDir()
	mustExecute(t, "train", "--algo", "ppo", "--env", forecasterEnv, "--env-kwargs", "encoding:upstream", "--env-kwargs", "safety:memory", "--env-kwargs", "hold:30",
		"--imitate", path, "--imitate-steps", "200", "--imitate-epochs", "2", "-n", "16", "--eval-freq", "0", "--eval-episodes", "2", "-f", log,
		"--params", "n_envs:2", "--params", "n_steps:8", "--params", "batch_size:16", "--json")
	args := envstest.Read(t, filepath.Join(log, "ppo", "k8s-VerticalPodAutoscaler-v0_1", "args.yml"))
	if !strings.Contains(args, "imitate: "+path) {
		t.Errorf("no model in args.yml:\n%s", args)
	}
	if _, _, err := execute(t, context.Background(), "train", "--env", "k8s/GangWindow-v0", "--imitate", path, "-n", "64", "-f", t.TempDir()); err == nil {
		t.Error("a model of another environment is imitated")
	}
}
