package lra

import (
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/kubernasium/kubernasium/envs/envstest"
	"github.com/kubernasium/kubernasium/models"
	"github.com/kubernasium/kubernasium/trainer/cli"
	"github.com/kubernasium/kubernasium/trainer/clitest"
	"github.com/kubernasium/kubernasium/trainer/run"
)

// TestAdvantage trains by the command, the same model twice, and another one with another horizon.
func TestAdvantage(t *testing.T) {
	model := filepath.Join(t.TempDir(), "advantage.safetensors")
	args := []string{"lra", "advantage", "--env-kwargs", "nodes:6", "--env-kwargs", "containers:40", "--rounds", "2", "--episodes", "10", "--steps", "20", "--out", model, "--json"}
	out, progress, err := execute(t, t.Context(), args...)
	if err != nil {
		t.Fatal(err)
	}
	res := clitest.Decode[run.AdvantageResult](t, out)
	if res.Decisions < 700 || res.Explained == 0 || res.GainError == 0 || res.Model != model || res.EnvKwargs["nodes"] != 6. {
		t.Errorf("%+v, want at least 700 decisions, a part explained, and the model and options of the command line", res)
	}
	if strings.Count(progress, "of 2: ") != 2 {
		t.Errorf("tells %q, want a line for each of two rounds", progress)
	}
	first := envstest.Read(t, model)
	if f, err := models.ReadFile(model); err != nil || !strings.HasPrefix(f.Meta.Metadata[cli.CommandKey], "trainer lra advantage ") {
		t.Errorf("the model says that it was trained by %q, want the command (%v)", f.Meta.Metadata[cli.CommandKey], err)
	}
	mustExecute(t, args...)
	if again, err := os.ReadFile(model); err != nil || string(again) != first {
		t.Errorf("the same command writes another model (%v)", err)
	}
	mustExecute(t, append(args, "--horizon", "0.1")...)
	if other, err := os.ReadFile(model); err != nil || string(other) == first {
		t.Errorf("another horizon writes the same model (%v)", err)
	}
	for want, args := range map[string][]string{
		"give --out":         {"lra", "advantage"},
		"within 0 lifetimes": {"lra", "advantage", "--horizon", "0", "--out", model},
		"at least one round": {"lra", "advantage", "--rounds", "0", "--out", model},
		"k8s/LRAOnline":      {"lra", "advantage", "--env", "k8s/LRAPlacement-v0", "--out", model},
		"gains of no future": {"lra", "advantage", "--futures", "0", "--out", model},
	} {
		if _, _, err := execute(t, t.Context(), args...); err == nil || !strings.Contains(err.Error(), want) {
			t.Errorf("%v: error %v, want one with %q", args, err, want)
		}
	}
}
