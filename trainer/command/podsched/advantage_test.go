package podsched

import (
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/kubernasium/kubernasium/envs/envstest"
	"github.com/kubernasium/kubernasium/models"
	"github.com/kubernasium/kubernasium/trainer/cli"
	"github.com/kubernasium/kubernasium/trainer/clitest"
	"github.com/kubernasium/kubernasium/trainer/nodescorer"
)

// TestAdvantage trains by the command and lets the model play beside its teacher.
func TestAdvantage(t *testing.T) {
	model := filepath.Join(t.TempDir(), "advantage.safetensors")
	args := []string{"podsched", "advantage", "--env-kwargs", "num_nodes:8", "--episodes", "10", "--futures", "2", "--steps", "20", "--out", model, "--json"}
	res := clitest.Decode[nodescorer.Result](t, mustExecute(t, args...))
	if res.Decisions < 50 || res.Explained == 0 || res.Model != model || res.EnvKwargs["num_nodes"] != 8. {
		t.Errorf("%+v, want at least 50 decisions, a part explained, and the model and options of the command line", res)
	}
	first := envstest.Read(t, model)
	if f, err := models.ReadFile(model); err != nil || !strings.HasPrefix(f.Meta.Metadata[cli.CommandKey], "trainer podsched advantage ") {
		t.Errorf("the model says that it was trained by %q, want the command (%v)", f.Meta.Metadata[cli.CommandKey], err)
	}
	mustExecute(t, args...)
	if again, err := os.ReadFile(model); err != nil || string(again) != first {
		t.Errorf("the same command writes another model (%v)", err)
	}
	if out := mustExecute(t, "compare", "--env", "k8s/GPUPodScheduling-v2", "--episodes", "4", "--model", model, "--baseline", "WeightedFGD"); !strings.Contains(out, "WeightedFGD") {
		t.Errorf("compare prints %s", out)
	}
	for want, args := range map[string][]string{
		"give --out":       {"podsched", "advantage"},
		"defer":            {"podsched", "advantage", "--env-kwargs", "defer:true", "--out", model},
		"within 0s":        {"podsched", "advantage", "--env-kwargs", "dynamics:timed", "--horizon", "0s", "--out", model},
		"at least one":     {"podsched", "advantage", "--episodes", "0", "--out", model},
		"load_end":         {"podsched", "advantage", "--env", "k8s/PodBalance-v0", "--out", model},
		"want key:value":   {"podsched", "advantage", "--env-kwargs", "x", "--out", model},
		"gains of no futu": {"podsched", "advantage", "--futures", "0", "--out", model},
	} {
		if _, _, err := execute(t, t.Context(), args...); err == nil || !strings.Contains(err.Error(), want) {
			t.Errorf("%v: error %v, want one with %q", args, err, want)
		}
	}
}
