package reproduce

import (
	"context"
	"path/filepath"
	"strings"
	"testing"

	"github.com/kubernasium/kubernasium/envs/podsched/gpushare/published"
	"github.com/kubernasium/kubernasium/trainer/cli"
	"github.com/kubernasium/kubernasium/trainer/clitest"
)

// TestReproduceFGD prints exactly the keys that are promised. Expected values: the reference's
// own log of FGD, default list, seed 42.
func TestReproduceFGD(t *testing.T) {
	if testing.Short() {
		t.Skip("places the pods of whole lists; run without -short")
	}
	if cli.DataFolder() == "" {
		t.Skipf("no data: set %s to the folder that holds openb/ to enable this test", cli.DataVariable)
	}
	dir := filepath.Join(cli.DataFolder(), "openb")
	nodes, pods := filepath.Join(dir, published.NodeFile), filepath.Join(dir, "openb_pod_list_default.csv")
	out := mustExecute(t, "reproduce", "fgd", "--nodes", nodes, "--pods", pods, "--policy", "FGD", "--seed", "42", "--json")
	run := clitest.Decode[map[string]any](t, out)
	for key, want := range map[string]any{
		"policy": "FGD", "seed": 42.0, "milli_gpu": 5919410.0, "milli_cpu": 89928302.0, "memory_mib": 313757356.0, "pods": 10866.0, "failed": 2532.0,
	} {
		if run[key] != want {
			t.Errorf("%s is %v, want %v", key, run[key], want)
		}
		delete(run, key)
	}
	for _, key := range []string{"alloc", "frag"} {
		if points, ok := run[key].([]any); !ok || len(points) != 131 {
			t.Errorf("%s is %v, want 131 points", key, run[key])
		}
		delete(run, key)
	}
	if len(run) > 0 {
		t.Errorf("further keys: %v", run)
	}
	if text := mustExecute(t, "reproduce", "fgd", "--nodes", nodes, "--pods", pods); !strings.Contains(text, "2532 of 10866 pods failed") {
		t.Errorf("text: %s", text)
	}
	plots := t.TempDir()
	rows := clitest.Decode[[]published.Row](t, mustExecute(t, "reproduce", "fgd", "--all", "--data", dir, "--policy", "BestFit", "--plot", plots, "--json"))
	if files, err := filepath.Glob(filepath.Join(plots, "fgd_*.png")); err != nil || len(files) != len(rows) {
		t.Errorf("plots %v, %v; want one for each of %d lists", files, err, len(rows))
	}
	// 92.86 ± 0.14: the published table of BestFit on default.
	if r := rows[1]; r.List != "default" || len(r.Runs) != 10 || r.Mean < 92.855 || r.Mean > 92.865 || r.SD < 0.135 || r.SD > 0.145 {
		t.Errorf("%s: %.3f ± %.3f of %d runs, want default 92.86 ± 0.14 of 10", r.List, r.Mean, r.SD, len(r.Runs))
	}
}

func TestFGDErrors(t *testing.T) {
	for _, tc := range []struct {
		args []string
		want string
	}{
		{[]string{"reproduce", "fgd", "--nodes", "a"}, "--nodes and --pods go together"},
		{[]string{"reproduce", "fgd", "--all", "--seed", "42"}, "--seed selects a single run"},
		{[]string{"reproduce", "fgd", "--all", "--data", t.TempDir()}, published.NodeFile},
		{[]string{"reproduce", "fgd", "--nodes", "a", "--pods", "b", "--plot", "c"}, "--plot draws curves"},
		{[]string{"reproduce", "fgd", "--ratio", "-1"}, "--ratio is -1"},
	} {
		if _, _, err := execute(t, context.Background(), tc.args...); err == nil || !strings.Contains(err.Error(), tc.want) {
			t.Errorf("%v: %v, want an error with %q", tc.args, err, tc.want)
		}
	}
}
