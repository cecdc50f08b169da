package core

import (
	"context"
	"encoding/json"
	"errors"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"github.com/kubernasium/kubernasium/agents/live"
	"github.com/kubernasium/kubernasium/envs"
	"github.com/kubernasium/kubernasium/kwok"
	"github.com/kubernasium/kubernasium/kwok/kwoktest"
	"github.com/kubernasium/kubernasium/models"
	"github.com/kubernasium/kubernasium/server/host/hosttest"
	"github.com/kubernasium/kubernasium/trainer/cli"
	"github.com/kubernasium/kubernasium/trainer/clitest"
	"github.com/kubernasium/kubernasium/trainer/play"
)

const balanceModel = "../../../models/pretrained/k8s-PodBalance-v0/ppo.safetensors"

// twinModel writes the pretrained model of k8s/PodBalance-v0 as a training on the twin writes it,
// which had a control plane that is gone.
func twinModel(t *testing.T) string {
	t.Helper()
	f, err := models.ReadFile(balanceModel)
	if err != nil {
		t.Fatal(err)
	}
	kwargs, err := (&play.Model{Meta: f.Meta}).EnvKwargs()
	if err != nil {
		t.Fatal(err)
	}
	f.Meta.Env = "k8s/PodBalanceKwok-v0"
	if f.Meta.EnvKwargs, err = json.Marshal(cli.MergeKwargs(kwargs, map[string]any{"kubeconfig": "/gone/kubeconfig", "allow_real_nodes": true})); err != nil {
		t.Fatal(err)
	}
	path := filepath.Join(t.TempDir(), "twin.safetensors")
	if err := models.WriteFile(path, f); err != nil {
		t.Fatal(err)
	}
	return path
}

// evalReturns runs eval and returns the returns.
func evalReturns(t *testing.T, args ...string) []float64 {
	t.Helper()
	res := clitest.Decode[evalResult](t, mustExecute(t, append([]string{"eval", "--episodes", "2", "--env-kwargs", "steps:30", "--json"}, args...)...))
	return res.Returns
}

// TestModelsOfTwins: a model that was trained on an API server plays in the simulator as the one
// that was trained there, by every command that takes a model, here and at a server.
func TestModelsOfTwins(t *testing.T) {
	const env = "k8s/PodBalance-v0"
	path := twinModel(t)
	url := hosttest.Start(t).WS
	want := evalReturns(t, "--model", balanceModel)
	for _, args := range [][]string{{}, {"--url", url, "--verify"}} {
		if got := evalReturns(t, append([]string{"--model", path, "--env", env}, args...)...); !slices.Equal(got, want) {
			t.Errorf("eval %v: %v, want %v of the model itself", args, got, want)
		}
	}
	for _, args := range [][]string{
		{"compare", "--env", env, "--model", path, "--model", balanceModel, "--baseline", "Greedy", "--episodes", "2", "--env-kwargs", "steps:10"},
		{"enjoy", "--env", env, "--model", path, "--episodes", "1", "--env-kwargs", "steps:10", "--fps", "0"},
		{"export", "--model", "../../../models/pretrained/k8s-GangWindow-v0/ppo.safetensors", "--onnx", filepath.Join(t.TempDir(), "m.onnx")},
	} {
		mustExecute(t, args...)
	}
	scheduled, err := live.Open(live.Args{Model: path}, 5)
	if err != nil {
		t.Fatalf("schedule: %v", err)
	}
	if _, ok := scheduled.Options()["kubeconfig"]; ok || scheduled.Env().ID != env {
		t.Errorf("schedule: %s with %v, want %s without options of the twin", scheduled.Env().ID, scheduled.Options(), env)
	}
	if err := scheduled.Close(); err != nil {
		t.Error(err)
	}
	// Another environment is refused as before, by its own name.
	_, _, err = execute(t, context.Background(), "eval", "--env", "k8s/GangWindowKwok-v0", "--model", path, "--env-kwargs", "kubeconfig:"+path)
	if err == nil || !strings.Contains(err.Error(), "GangWindowKwok") && !errors.Is(err, envs.ErrInvalidOption) {
		t.Errorf("another twin: %v, want it refused", err)
	}
}

// TestKwokModelsOfTheSimulator plays a model of the simulator on the API server, here and by a
// server: its returns are those in the simulator.
func TestKwokModelsOfTheSimulator(t *testing.T) {
	url := hosttest.Start(t).WS // first: it looks for goroutines when the control plane has stopped
	t.Setenv(kwok.KubeconfigVariable, kwoktest.Start(t, "--components=kwok").Kubeconfig)
	want := evalReturns(t, "--model", balanceModel)
	for _, args := range [][]string{{}, {"--url", url}} {
		if got := evalReturns(t, append([]string{"--model", balanceModel, "--env", "k8s/PodBalanceKwok-v0"}, args...)...); !slices.Equal(got, want) {
			t.Errorf("eval on the twin %v: %v, want %v as in the simulator", args, got, want)
		}
	}
	mustExecute(t, "compare", "--env", "k8s/PodBalanceKwok-v0", "--model", balanceModel, "--baseline", "Greedy", "--episodes", "2", "--env-kwargs", "steps:5")
	mustExecute(t, "enjoy", "--env", "k8s/PodBalanceKwok-v0", "--model", balanceModel, "--episodes", "1", "--env-kwargs", "steps:5", "--fps", "0")
	if got := evalReturns(t, "--model", twinModel(t), "--env-kwargs", "kubeconfig:"); !slices.Equal(got, want) {
		t.Errorf("a model of the twin with another control plane: %v, want %v", got, want)
	}
}
