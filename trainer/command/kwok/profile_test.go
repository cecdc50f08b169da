package kwok

import (
	"context"
	"errors"
	"math"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	"github.com/kubernasium/kubernasium/envs/envstest"
	"github.com/kubernasium/kubernasium/envs/lra"
	"github.com/kubernasium/kubernasium/kwok"
	"github.com/kubernasium/kubernasium/kwok/kwoktest"
	"github.com/kubernasium/kubernasium/trainer/clitest"
)

// TestKwokProfile collects a profile by the command, interrupted by Ctrl-C, makes a node table of it
// and plays an episode by that.
func TestKwokProfile(t *testing.T) {
	t.Setenv(kwok.KubeconfigVariable, kwoktest.Start(t).Kubeconfig)
	folder := t.TempDir()
	out, table := filepath.Join(folder, "profile.csv"), filepath.Join(folder, "table.csv")
	args := []string{"kwok", "profile", "--out", out, "--max-containers", "2", "--coverage", "1", "--table-seed", "3", "--nodes", "2", "--json"}
	measured := interrupt(t, args, out+".state.json")
	r := clitest.Decode[profileResult](t, mustExecute(t, args...))
	want := profileResult{Out: out, State: out + ".state.json", Rows: 35, Measured: 35 - measured, Resumed: measured, Failed: []lra.Counts{}, Seconds: r.Seconds}
	if diff := cmp.Diff(want, r); diff != "" {
		t.Errorf("profile after %d measurements (-want +got):\n%s", measured, diff)
	}
	mustExecute(t, "lra", "predict", "--profile", out, "--out", table)
	returns := func(option string) []float64 {
		t.Helper()
		text := mustExecute(t, "eval", "--env", "k8s/LRAPlacement-v0", "--baseline", "greedy", "--episodes", "3", "--env-kwargs", "nodes:12",
			"--env-kwargs", "containers:20", "--env-kwargs", "classes:[1:2:1]", "--env-kwargs", option, "--json")
		res := clitest.Decode[struct{ Returns []float64 }](t, text)
		return res.Returns
	}
	// On nodes with room for two all states are measured, and without noise they are the law's.
	collected, law := returns("table:"+table), returns("table_seed:3")
	for i := range law {
		if math.Abs(collected[i]-law[i]) > 1e-5 {
			t.Errorf("episode %d: return %v by the collected table, %v by the law's", i, collected[i], law[i])
		}
	}
}

// interrupt sends Ctrl-C to the command in a process of its own, in the middle, and returns how many
// measurements its state file has.
func interrupt(t *testing.T, args []string, state string) int {
	t.Helper()
	cmd := exec.Command(os.Args[0], args...)
	cmd.Env = append(os.Environ(), clitest.ChildVariable+"=1")
	var stderr strings.Builder
	cmd.Stderr = &stderr
	if err := cmd.Start(); err != nil {
		t.Fatal(err)
	}
	count := func() int {
		text, err := os.ReadFile(state)
		if err != nil {
			return 0 // not there yet
		}
		return strings.Count(string(text), `"try"`)
	}
	for begin := time.Now(); count() < 8 && time.Since(begin) < time.Minute; time.Sleep(5 * time.Millisecond) {
	}
	if err := cmd.Process.Signal(os.Interrupt); err != nil {
		t.Fatal(err)
	}
	var exit *exec.ExitError
	if err := cmd.Wait(); !errors.As(err, &exit) || exit.ExitCode() != 130 || !strings.Contains(stderr.String(), "the same command goes on") {
		t.Fatalf("the interrupted collection: %v, want exit status 130\n%s", err, stderr.String())
	}
	n := count()
	if n < 8 || n >= 35 {
		t.Fatalf("%d measurements when it was interrupted, want 8 to 34\n%s", n, stderr.String())
	}
	return n
}

func TestKwokProfileRefuses(t *testing.T) {
	pods := envstest.TempFile(t, "pods.yaml", "{apiVersion: v1, kind: Pod, metadata: {name: redis}}")
	for _, tc := range []struct {
		args []string
		want string
	}{
		{nil, `"out"`},
		{[]string{"--out", "x", "--warm-up", "1s"}, "--warm-up: it is for --load-command"},
		{[]string{"--out", "x", "--load-command", "true", "--noise", "0.1"}, "--noise: it is for simulated"},
		{[]string{"--out", "x", "--load-command", "true"}, "needs --node and --pods"},
		{[]string{"--out", "x", "--load-command", "{{.Nonesuch}}", "--node", "n", "--pods", pods}, "Nonesuch"},
		{[]string{"--out", "x", "--load-command", "true", "--node", "n", "--pods", pods}, "no Pod for [mms ckm ycsba ycsbb scd isr]"},
		{[]string{"--out", "x", "--noise", "-1"}, "--noise -1"},
		{[]string{"--out", "x", "--coverage", "2"}, "coverage 2"},
		{[]string{"--out", "x", "--max-containers", "9"}, "up to 9 containers"},
		{[]string{"--out", "x", "--repeats", "0"}, "0 repeats"},
		{[]string{"--out", "x", "--nodes", "0"}, "0 new ones"},
	} {
		t.Setenv(kwok.KubeconfigVariable, "")
		_, _, err := execute(t, context.Background(), append([]string{"kwok", "profile"}, tc.args...)...)
		if err == nil || !strings.Contains(err.Error(), tc.want) {
			t.Errorf("kwok profile %v: %v, want an error with %q", tc.args, err, tc.want)
		}
	}
}
