package lra

import (
	"bytes"
	"context"
	"encoding/json"
	"math"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/kubernasium/kubernasium/envs/envstest"
	"github.com/kubernasium/kubernasium/envs/lra/files"
	"github.com/kubernasium/kubernasium/envs/lra/throughput"
	"github.com/kubernasium/kubernasium/trainer/cli"
	"github.com/kubernasium/kubernasium/trainer/clitest"
)

// metisData returns the folder of the published tables and batches, or skips the test.
func metisData(t *testing.T) string {
	t.Helper()
	dir := filepath.Join(cli.DataFolder(), "metis")
	if _, err := os.Stat(filepath.Join(dir, "node_table_rf_p20.csv")); err != nil {
		t.Skipf("%v: set %s to the folder that holds metis/ to enable this test", err, cli.DataVariable)
	}
	return dir
}

// lraJSON runs the command with --json and returns its document.
func lraJSON(t *testing.T, args ...string) map[string]any {
	t.Helper()
	var out bytes.Buffer
	cmd := root()
	cmd.SetOut(&out)
	cmd.SetArgs(append(args, "--json"))
	if err := cmd.Execute(); err != nil {
		t.Fatalf("%v: %v", args, err)
	}
	var doc map[string]any
	if err := json.Unmarshal(out.Bytes(), &doc); err != nil {
		t.Fatalf("%v: %v in %q", args, err, out.String())
	}
	return doc
}

func nearRow(t *testing.T, doc map[string]any, key string, want, tolerance float64) {
	t.Helper()
	if got, ok := doc[key].(float64); !ok || math.Abs(got-want) > tolerance {
		t.Errorf("%s is %v, want %v within %v", key, doc[key], want, tolerance)
	}
}

func TestLRARefuses(t *testing.T) {
	table := generatedTable(t)
	for _, tc := range []struct {
		args []string
		want string
	}{
		{[]string{"table", "--node-table", table, "--containers", "10", "--rows", "-1"}, "--rows -1, --containers 10: want at least 1 and 0"},
		{[]string{"learned", "--node-table", table, "--policy", "none", "--containers", "-1"}, "--containers -1, --milp-nodes 300: want at least 1 and 0"},
		{[]string{"vanilla", "--episodes", "0"}, "--episodes 0, --budget 10m0s: want at least 1, and more than 0s"},
		{[]string{"train-high", "--budget", "0s"}, "--episodes 3000, --budget 0s: want at least 1, and more than 0s"},
		{[]string{"greedy", "--size", "small", "--node-table", table}, `--size "small", want medium or large`},
	} {
		if _, _, err := execute(t, context.Background(), append([]string{"lra"}, tc.args...)...); err == nil || err.Error() != tc.want {
			t.Errorf("trainer lra %s: %v, want %q", strings.Join(tc.args, " "), err, tc.want)
		}
	}
}

// 60 weighted violations are the fewest of this batch, by HiGHS.
func TestLRAMethodWrites(t *testing.T) {
	dir, out := metisData(t), t.TempDir()
	doc := lraJSON(t, "lra", "medea", "--data", dir, "--batch-set-size", "200", "--out", out)
	nearRow(t, doc, "violations", 60, 0)
	for _, name := range []string{"placement.csv", "nodes.csv", "result.json"} {
		text, err := os.ReadFile(filepath.Join(out, name))
		if err != nil || len(text) == 0 {
			t.Errorf("%s: %d bytes, %v", name, len(text), err)
		}
	}
}

func TestLRAInterferenceIsPublished(t *testing.T) {
	dir, out := metisData(t), t.TempDir()
	cmd := root()
	cmd.SetArgs([]string{"lra", "interference", "--data", dir, "--out", out})
	if err := cmd.Execute(); err != nil {
		t.Fatal(err)
	}
	for _, name := range []string{"interference_applist.csv", "interference_rpslist.csv"} {
		got, err := os.ReadFile(filepath.Join(out, name))
		if err != nil {
			t.Fatal(err)
		}
		if want, err := os.ReadFile(filepath.Join(dir, name)); err != nil || !bytes.Equal(got, want) {
			t.Errorf("%s differs from the published one: %v", name, err)
		}
	}
}

// The first episode is the demonstration of the golden row; the result is the best episode.
func TestLRATrainHigh(t *testing.T) {
	dir, out := metisData(t), t.TempDir()
	doc := lraJSON(t, "lra", "train-high", "--data", dir, "--episodes", "200", "--out", out)
	if got := doc["throughput"].(float64); got < 1.178886+0.0005 || got > 1.204463 {
		t.Errorf("throughput %v, want above the demonstration's 1.178886 and at most the bound 1.204463", got)
	}
	for _, name := range []string{"placement.csv", "nodes.csv", "result.json", "model.safetensors", "curve.csv", "learning_curve.png"} {
		if info, err := os.Stat(filepath.Join(out, name)); err != nil || info.Size() == 0 {
			t.Errorf("%s: %v", name, err)
		}
	}
}

// generatedTable writes the table that the shipped models are trained on.
func generatedTable(t *testing.T) string {
	t.Helper()
	var b bytes.Buffer
	if err := files.WriteTable(&b, throughput.GenerateTable(0)); err != nil {
		t.Fatal(err)
	}
	return envstest.TempFile(t, "table.csv", b.String())
}

// TestLRALearnedBaselines compares baselines alone: nothing is averaged, and rounded, at a scale of
// prices that holds its own, is the best of dense batches.
func TestLRALearnedBaselines(t *testing.T) {
	if testing.Short() {
		t.Skip("solves a linear program for each node; run without -short")
	}
	var out bytes.Buffer
	cmd := root()
	cmd.SetOut(&out)
	cmd.SetArgs([]string{"lra", "learned", "--containers", "600", "--rows", "3", "--milp-nodes", "0", "--node-table", generatedTable(t), "--reference", "rounded", "--env-kwargs", "scale:1", "--json"})
	if err := cmd.Execute(); err != nil {
		t.Fatal(err)
	}
	all := clitest.Decode[[]lraScores](t, out.String())
	if len(all) != 7 {
		t.Fatalf("%d rows, want greedy twice, local search, mean_values, duals, rounded and the bound", len(all))
	}
	for _, s := range all[:5] {
		if s.Gain >= 0 {
			t.Errorf("%s gains %v over rounded, want less than 0", s.Method, s.Gain)
		}
	}
}

// The shipped prices beat the best of 21 greedy placements of dense batches with confidence, and
// prices without learning; no method is above the bound.
func TestLRALearned(t *testing.T) {
	if testing.Short() {
		t.Skip("solves a linear program for each node; run without -short")
	}
	model := filepath.Join("..", "..", "..", "models", "pretrained", "k8s-LRAPricing-v0", "ppo.safetensors")
	var out bytes.Buffer
	cmd := root()
	cmd.SetOut(&out)
	cmd.SetArgs([]string{"lra", "learned", "--policy", model, "--containers", "600", "--rows", "6", "--milp-nodes", "0", "--node-table", generatedTable(t), "--json"})
	if err := cmd.Execute(); err != nil {
		t.Fatal(err)
	}
	all := clitest.Decode[[]lraScores](t, out.String())
	bound, unlearned := all[len(all)-1], all[3]
	for _, s := range all {
		if s.Method == model && s.GainLow <= 0 {
			t.Errorf("%s gains %v to %v, want more than 0", s.Method, s.GainLow, s.GainHigh)
		}
		if s.Method == model && s.Throughput <= unlearned.Throughput {
			t.Errorf("%s reaches %v, %s %v: want more", s.Method, s.Throughput, unlearned.Method, unlearned.Throughput)
		}
		for k, v := range s.Each {
			if v > bound.Each[k]+1e-9 {
				t.Errorf("%s reaches %v on batch %d, above the bound %v", s.Method, v, k, bound.Each[k])
			}
		}
	}
	if len(all) != 9 {
		t.Errorf("%d rows, want greedy twice, local search, prices without learning three times, the policy, the mean and the bound", len(all))
	}
}

// Pairs by hand: A gains 0.1 and 0.3 over B, 0.2 in the mean; the bound's mean is 2.
func TestLRASummarise(t *testing.T) {
	all := []lraScores{{Method: "A", Each: []float64{1.1, 1.3}}, {Method: "B", Each: []float64{1, 1}}, {Method: "linear bound", Each: []float64{2, 2}}}
	if err := summarise(all, "B"); err != nil {
		t.Fatal(err)
	}
	if a := all[0]; math.Abs(a.Gain-0.2) > 1e-12 || math.Abs(a.OfBound-0.6) > 1e-12 || all[1].Gain != 0 {
		t.Errorf("A gains %v over B and has %v of the bound, want 0.2 and 0.6; B gains %v over itself, want 0", a.Gain, a.OfBound, all[1].Gain)
	}
	if err := summarise(all, ""); err != nil || math.Abs(all[1].Gain+0.2) > 1e-12 {
		t.Errorf("B gains %v over the first, want -0.2; %v", all[1].Gain, err)
	}
	if err := summarise(all, "C"); err == nil {
		t.Error("a reference that no method has is accepted")
	}
}

// The shipped sub-scheduler is at no number of containers below round-robin, on the table that it
// is trained on and on a published one, which it never saw.
func TestLRASubScheduler(t *testing.T) {
	if testing.Short() {
		t.Skip("plays 216 numbers of containers; run without -short")
	}
	model := filepath.Join("..", "..", "..", "models", "pretrained", "k8s-LRASubcluster-v0", "ppo.safetensors")
	for _, table := range []string{generatedTable(t), filepath.Join(metisData(t), "node_table_rf_p20.csv")} {
		doc := lraJSON(t, "lra", "train-sub", "--model", model, "--node-table", table, "--rows", "5")
		if n := len(doc["counts"].([]any)); n != 216 {
			t.Errorf("%s: %d numbers of containers, want 216", table, n)
		}
		if worse, _ := doc["worse"].([]any); len(worse) > 0 {
			t.Errorf("%s: round-robin is better at %v containers", table, worse)
		}
	}
}
