package core

import (
	"context"
	"encoding/csv"
	"encoding/json"
	"errors"
	"os"
	"path/filepath"
	"reflect"
	"regexp"
	"slices"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"

	"github.com/kubernasium/kubernasium/agents/a2c"
	"github.com/kubernasium/kubernasium/agents/dqn"
	"github.com/kubernasium/kubernasium/envs/envstest"
	"github.com/kubernasium/kubernasium/trainer/run"
	"github.com/kubernasium/kubernasium/trainer/tracking"
)

// TestLearningGates is `make bench-learning` with two seeds instead of five and without the rows of
// RL Zoo's DQN: the published results on CartPole-v1, with the last policy.
func TestLearningGates(t *testing.T) {
	if testing.Short() {
		t.Skip("trains for a minute: run without -short")
	}
	folder := t.TempDir()
	path := func(name string) string { return filepath.Join(folder, name) }
	out := mustExecute(t, "learning", "--only", "PPO,A2C,DQN,PPO (CleanRL)", "--seeds", "2", "-f", folder,
		"--csv", path("learning.csv"), "--markdown", path("learning.md"), "--plots", folder)
	t.Logf("\n%s", out)
	for _, name := range []string{"learning_ppo.png", "learning_a2c.png", "learning_dqn.png", "learning.md"} {
		if info, err := os.Stat(path(name)); err != nil || info.Size() == 0 {
			t.Errorf("%s: %v", name, err)
		}
	}
	f, err := os.Open(path("learning.csv"))
	if err != nil {
		t.Fatal(err)
	}
	defer f.Close()
	rows, err := csv.NewReader(f).ReadAll()
	if err != nil {
		t.Fatal(err)
	}
	if want := 1 + 4*2*run.CurvePoints; len(rows) < want || len(rows) > want+4*2 { // a last one where the end is no multiple
		t.Errorf("%d rows in learning.csv, want about %d", len(rows), want)
	}
}

// TestChooseGates: rows are chosen by algorithm or by name, also by one with a comma.
func TestChooseGates(t *testing.T) {
	for _, tc := range []struct {
		only []string
		want []string
	}{
		{[]string{"DQN (soft target, double, 5 steps)"}, []string{"DQN (soft target, double, 5 steps)"}},
		{[]string{"A2C,PPO (CleanRL)", "DQN"}, []string{"A2C", "DQN", "PPO (CleanRL)"}},
		{[]string{"dqn"}, []string{"DQN", "DQN (soft target, double, 5 steps)", "DQN (RL Zoo)"}},
	} {
		chosen, err := chooseGates(tc.only)
		if err != nil {
			t.Fatal(err)
		}
		var got []string
		for _, g := range chosen {
			got = append(got, g.name)
		}
		if d := cmp.Diff(tc.want, got); d != "" {
			t.Errorf("--only %q (-want +got):\n%s", tc.only, d)
		}
	}
	if _, _, err := execute(t, context.Background(), "learning", "--only", "DQN (RL Zoo, hard target)"); err == nil || !strings.Contains(err.Error(), `no row "DQN (RL Zoo, hard target)"`) {
		t.Errorf("a row that there is not: %v", err)
	}
}

// TestLearningMissed trains too few steps to learn anything: the command reports it and fails.
func TestLearningMissed(t *testing.T) {
	old := gates
	defer func() { gates = old }()
	conf := envstest.TempFile(t, "short.yml", cartPole+": {n_timesteps: 200, n_envs: 2, n_steps: 20}\n")
	gates = []gate{{name: "A2C in no time", algo: a2c.Algo, env: cartPole, conf: conf, bar: evalBar}}
	stdout, stderr, err := execute(t, context.Background(), "learning", "--seeds", "2", "--eval-episodes", "3", "-f", t.TempDir())
	if !errors.Is(err, errGate) || !strings.Contains(err.Error(), "A2C in no time: 0 of 2 reach 475") {
		t.Errorf("error %v, want one that names the gate and says 0 of 2", err)
	}
	var results []learningResult
	out, _, err := execute(t, context.Background(), "learning", "--json", "--seeds", "2", "--eval-episodes", "3", "-f", t.TempDir())
	if json.Unmarshal([]byte(out), &results) != nil || !errors.Is(err, errGate) || len(results) != 1 ||
		results[0].Timesteps != 200 || len(results[0].Returns) != 2 || results[0].OK {
		t.Errorf("with --json: %s, error %v", out, err)
	}
	if !strings.Contains(stdout, "0 of 2 reach 475: missed") || strings.Count(stderr, "A2C in no time, seed ") != 2 {
		t.Errorf("output:\n%s%s", stdout, stderr)
	}
}

// TestResultsOfLearning: means over seeds are of the last policies, and the table has every seed's.
func TestResultsOfLearning(t *testing.T) {
	curve := func(last ...float64) []run.Evaluation {
		return []run.Evaluation{{Step: 100, Returns: []float64{500}}, {Step: 200, Returns: last}}
	}
	runs := [][]learned{{{curve: curve(470, 490), train: 400, seconds: 2}, {curve: curve(500), train: 300, seconds: 4}}}
	results := resultsOf([]gate{{name: "A2C", bar: noBar}}, runs)
	want := []learningResult{{Training: "A2C", Timesteps: 200, Returns: []float64{480, 500}, Mean: 490, TrainMean: 350, Seconds: 3, Reached: results[0].Reached, OK: true, Comparison: true}}
	if d := cmp.Diff(want, results); d != "" {
		t.Errorf("(-want +got):\n%s", d)
	}
	var text strings.Builder
	if err := resultTable(results).WriteText(&text); err != nil {
		t.Fatal(err)
	}
	for _, cell := range []string{"480 500", "490", "350", "3.0", ", for comparison"} {
		if !strings.Contains(text.String(), cell) {
			t.Errorf("no %q in\n%s", cell, text.String())
		}
	}
}

// TestGatesOwnSeeds: a gate with seeds of its own is trained with them unless the user names others.
func TestGatesOwnSeeds(t *testing.T) {
	old := gates
	defer func() { gates = old }()
	conf := envstest.TempFile(t, "short.yml", cartPole+": {n_timesteps: 200, n_envs: 2, n_steps: 20}\n")
	gates = []gate{{name: "A2C", algo: a2c.Algo, env: cartPole, conf: conf, bar: noBar, seeds: seedRange{41, 3}}}
	for _, tc := range []struct {
		flags []string
		want  []string
	}{
		{nil, []string{"seed 41", "seed 42", "seed 43"}},
		{[]string{"--seed", "7"}, []string{"seed 10", "seed 11", "seed 7", "seed 8", "seed 9"}},
		{[]string{"--seeds", "2"}, []string{"seed 1", "seed 2"}},
	} {
		_, stderr, err := execute(t, context.Background(), append([]string{"learning", "--eval-episodes", "1", "-f", t.TempDir()}, tc.flags...)...)
		if err != nil {
			t.Fatal(err)
		}
		got := regexp.MustCompile(`seed \d+`).FindAllString(stderr, -1)
		slices.Sort(got)
		if d := cmp.Diff(tc.want, got); d != "" {
			t.Errorf("learning %q (-want +got):\n%s", tc.flags, d)
		}
	}
}

// TestDQNGate: DQN's gate asks for 20 seeds; one that says nothing else takes the five of the flags.
func TestDQNGate(t *testing.T) {
	for _, g := range gates {
		want := seedRange{}
		if g.name == "DQN" {
			want = seedRange{601, 20}
		}
		if g.seeds != want {
			t.Errorf("%s is trained with %+v, want %+v", g.name, g.seeds, want)
		}
		if g.algo == dqn.Algo && g.conf != "" && g.bar != noBar {
			t.Errorf("%s has a bar; parity with Stable-Baselines3 is the gate of RL Zoo's settings", g.name)
		}
	}
}

// TestVerdicts: four of five, and all of fewer, have to reach 475; CleanRL's figure is a mean.
func TestVerdicts(t *testing.T) {
	runs := func(returns ...float64) []learned {
		var out []learned
		for _, r := range returns {
			out = append(out, learned{curve: []run.Evaluation{{Step: 1, Returns: []float64{r + 1, r - 1}}}, train: r})
		}
		return out
	}
	for _, tc := range []struct {
		bar  bar
		runs []learned
		what string
		ok   bool
	}{
		{evalBar, runs(500, 475, 100, 500, 480), "4 of 5 reach 475", true},
		{evalBar, runs(500, 474, 100, 500, 480), "3 of 5 reach 475", false},
		{evalBar, runs(500, 400), "1 of 2 reach 475", false},
		{noBar, runs(0), "0 of 1 reach 475", true},
		{trainBar, runs(500, 480), "490.0 in training, published 490.04", false},
		{trainBar, runs(500, 481), "490.5 in training, published 490.04", true},
	} {
		if what, ok := tc.bar.verdict(tc.runs); what != tc.what || ok != tc.ok {
			t.Errorf("verdict of %v: %q, %v; want %q, %v", trainReturns(tc.runs), what, ok, tc.what, tc.ok)
		}
	}
	want := tracking.Series{Name: "x", Steps: []int64{1}, Mean: []float64{200}, Low: []float64{100}, High: []float64{300}}
	if got := seriesOf("x", runs(100, 300)); !reflect.DeepEqual(got, want) {
		t.Errorf("seriesOf = %+v, want %+v", got, want)
	}
}
