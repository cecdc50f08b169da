package lra

import (
	"path/filepath"
	"strings"
	"testing"

	"github.com/kubernasium/kubernasium/envs/envstest"
	"github.com/kubernasium/kubernasium/trainer/clitest"
	"github.com/kubernasium/kubernasium/trainer/nodescorer"
)

// TestAdvantage trains in two rounds, with two horizons. The test of podsched advantage covers what the commands share.
func TestAdvantage(t *testing.T) {
	dir := t.TempDir()
	model := filepath.Join(dir, "new", "advantage.safetensors")
	args := []string{"lra", "advantage", "--env-kwargs", "nodes:6", "--env-kwargs", "containers:40", "--rounds", "2", "--episodes", "10", "--steps", "20", "--out", model, "--json"}
	out, progress, err := execute(t, t.Context(), args...)
	if err != nil {
		t.Fatal(err)
	}
	if res := clitest.Decode[nodescorer.Result](t, out); res.Decisions < 700 || res.Env != "k8s/LRAOnline-v0" || res.GainError == 0 {
		t.Errorf("%+v, want at least 700 decisions of k8s/LRAOnline-v0 and an error of the gain", res)
	}
	if strings.Count(progress, "of 2: ") != 2 {
		t.Errorf("writes %q, want a line for each of two rounds", progress)
	}
	first := envstest.Read(t, model)
	mustExecute(t, append(args, "--horizon", "0.1")...)
	if envstest.Read(t, model) == first {
		t.Error("another horizon gives the same model")
	}
	for want, args := range map[string][]string{
		"is a folder, want":  {"--out", dir},
		"not a directory":    {"--out", filepath.Join(model, "below.safetensors")},
		"within 0 lifetimes": {"--horizon", "0"},
		"at least one round": {"--rounds", "0"},
		"k8s/LRAOnline":      {"--env", "k8s/LRAPlacement-v0"},
		"gains of no future": {"--futures", "0"},
	} {
		_, progress, err := execute(t, t.Context(), append([]string{"lra", "advantage", "--out", model}, args...)...)
		if err == nil || !strings.Contains(err.Error(), want) || strings.Contains(progress, "round") {
			t.Errorf("%v: error %v after %q, want one with %q before the first round", args, err, progress, want)
		}
	}
}
