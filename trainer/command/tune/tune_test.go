package tune

import (
	"context"
	"encoding/json"
	"errors"
	"maps"
	"math/rand/v2"
	"os"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"

	"github.com/kubernasium/kubernasium/agents"
	"github.com/kubernasium/kubernasium/agents/algorithms"
	"github.com/kubernasium/kubernasium/agents/ppo"
	"github.com/kubernasium/kubernasium/envs/envstest"
	"github.com/kubernasium/kubernasium/envs/pcg"
	"github.com/kubernasium/kubernasium/envs/space"
	"github.com/kubernasium/kubernasium/trainer/cli"
	"github.com/kubernasium/kubernasium/trainer/clitest"
	"github.com/kubernasium/kubernasium/trainer/play"
	"github.com/kubernasium/kubernasium/trainer/run"
	"github.com/kubernasium/kubernasium/trainer/searchspaces"
)

// TestSearchSpaces draws from each algorithm's space, for numbers of environments that are a
// power of 2 and that are none, and makes a learner of each draw: none is refused.
func TestSearchSpaces(t *testing.T) {
	for _, algo := range algorithms.Names(nil) {
		text, err := searchspaces.Files.ReadFile(algo + ".yml")
		if err != nil {
			t.Fatal(err)
		}
		s, err := parseSearchSpace(algo, text)
		if err != nil {
			t.Fatal(err)
		}
		names := map[string]map[string]bool{}
		for k := range 60 {
			n := []int{1, 6, 8}[k%3]
			drawn, err := s.sample(rand.New(pcg.New(uint64(k))), map[string]any{"n_envs": n}, nil)
			if err != nil {
				t.Fatal(err)
			}
			for name, v := range drawn {
				if names[name] == nil {
					names[name] = map[string]bool{}
				}
				text, _ := json.Marshal(v)
				names[name][string(text)] = true
			}
			if _, err := run.ReadHyperparams(algo, "none", "", maps.Clone(drawn)); err != nil {
				t.Fatal(err)
			}
			// A small network, as the size of one changes nothing here but the time.
			h, err := run.ReadHyperparams(algo, "none", "", cli.MergeKwargs(drawn, map[string]any{"n_envs": n, "net_arch": []int{4}}))
			if err != nil {
				t.Fatal(err)
			}
			l, err := run.NewLearner(algo, h, agents.EnvInfo{ID: "x", Obs: space.NewBox(0, 1, 3), Act: space.Discrete{N: 2}, NumEnvs: n}, play.EngineFused, 1)
			if err != nil {
				t.Fatalf("%s with %d environments and %v: %v", algo, n, drawn, err)
			}
			if err := l.Close(); err != nil {
				t.Fatal(err)
			}
		}
		for name, values := range names {
			if len(values) < 2 {
				t.Errorf("%s: %s has only %v in 60 draws", algo, name, values)
			}
		}
	}
}

func TestSampleDependencies(t *testing.T) {
	s, err := parseSearchSpace("x", []byte(`
batch: {choice: [128], factor_of: [steps, n_envs]}
steps: {choice: [32]}
updates: {choice: [4], quotient_of: freq}
freq: {choice: [1, 2]}
rate: {log_uniform: [0.001, 0.001]}
gamma: {one_minus: [0.0123, 0.0123]}
level: {uniform: [-2, -2]}
`))
	if err != nil {
		t.Fatal(err)
	}
	// 32·6 = 192 is a multiple of 64, not of 128; 10/4 = 2 by the division of whole numbers.
	got, err := s.sample(rand.New(pcg.New(1)), map[string]any{"n_envs": 6}, map[string]any{"freq": 10.0})
	want := map[string]any{"batch": 64, "steps": 32, "updates": 2, "rate": 0.001, "gamma": 0.9877, "level": -2.0}
	if diff := cmp.Diff(want, got); err != nil || diff != "" {
		t.Errorf("sample: %v (-want +got):\n%s", err, diff)
	}
	if _, err := s.sample(rand.New(pcg.New(1)), nil, nil); err == nil || !strings.Contains(err.Error(), "n_envs") {
		t.Errorf("sample without n_envs: %v, want an error that names it", err)
	}
	for text, want := range map[string]string{
		"":                                  "want a map",
		"[1]":                               "want a map",
		"a: {}":                             "f: a: want one of choice, uniform, log_uniform and one_minus",
		"a: {chioce: [1]}":                  "chioce",
		"a: {choice: [1], uniform: [0, 1]}": "want one of",
		"a: {uniform: [1, 0]}":              "range [1 0]",
		"a: {uniform: [1]}":                 "range [1]",
		"a: {log_uniform: [0, 1]}":          "no logarithm",
	} {
		if _, err := parseSearchSpace("f", []byte(text)); err == nil || !strings.Contains(err.Error(), want) {
			t.Errorf("parseSearchSpace(%q): %v, want %q", text, err, want)
		}
	}
}

// TestFixedIsNotSearched: hyperparameters in RL Zoo's form are not drawn either.
func TestFixedIsNotSearched(t *testing.T) {
	conf := envstest.TempFile(t, "ppo_lstm.yml", "classic/CartPole-v1: {policy_kwargs: 'dict(net_arch=[8], lstm_hidden_size=4, activation_fn=nn.ReLU)'}\n")
	s := study{Algo: "ppo_lstm", Env: "classic/CartPole-v1", Trials: 4, Reduction: 2, MinResource: 1000, EvalEpisodes: 1, Timesteps: 100_000,
		Fixed: map[string]any{"normalize": false}}
	if err := s.complete(conf, ""); err != nil {
		t.Fatal(err)
	}
	space, err := parseSearchSpace("search space", []byte(s.Space))
	if err != nil {
		t.Fatal(err)
	}
	for trial := range s.Trials {
		params, err := s.params(space, trial)
		if err != nil {
			t.Fatal(err)
		}
		h, err := run.ReadHyperparams(s.Algo, s.Env, "", params)
		if err != nil {
			t.Fatal(err)
		}
		c := h.Config.(*ppo.RecurrentConfig)
		if !slices.Equal(c.NetArch, []int{8}) || c.LSTMHiddenSize != 4 || c.ActivationFn != "relu" || c.NormObs || c.NormReward {
			t.Errorf("trial %d: %+v, want net_arch [8], lstm_hidden_size 4, relu and no normalization", trial, c)
		}
	}
}

func TestRungs(t *testing.T) {
	for _, tc := range []struct {
		trials, reduction, least, steps, unit int
		want                                  []int
	}{
		{16, 4, 1, 100000, 1, []int{6250, 25000, 100000}},
		{16, 4, 7000, 100000, 1, []int{25000, 100000}},
		{27, 3, 1, 2700, 1, []int{100, 300, 900, 2700}},
		{26, 3, 1, 2700, 1, []int{300, 900, 2700}},
		{3, 4, 1, 100, 1, []int{100}},
		{1, 2, 1, 100, 1, []int{100}},
		{16, 4, 1, 100000, 4096, []int{8192, 28672, 102400}},
		{16, 4, 1, 100000, 30000, []int{30000, 120000}}, // 6250 and 25000 would both be 30000
		{16, 4, 1, 100, 1000, []int{1000}},
	} {
		s := study{Trials: tc.trials, Reduction: tc.reduction, MinResource: tc.least, Timesteps: tc.steps}
		if diff := cmp.Diff(tc.want, s.rungs(tc.unit)); diff != "" {
			t.Errorf("%+v (-want +got):\n%s", tc, diff)
		}
	}
}

// TestTuneEqualRungs: trials whose rollouts differ, and of DQN such that have not begun to learn or
// that are in the middle of train_freq steps, are trained for the same number of steps at each rung.
func TestTuneEqualRungs(t *testing.T) {
	for _, tc := range []struct {
		algo, space string
		want        []int
	}{
		// 2 environments: the rollouts are 16, 64 and 200 steps, whose multiple is 1600.
		{"a2c", "n_steps: {choice: [8, 32, 100]}", []int{1600, 3200}},
		{"ppo", "n_steps: {choice: [16, 48]}\nbatch_size: {choice: [32]}\nn_epochs: {choice: [1]}", []int{576, 1056, 2016}},
		{"dqn", "learning_starts: {choice: [0, 100, 10000]}\ntrain_freq: {choice: [3, 7, 300]}\ngradient_steps: {choice: [1]}", []int{500, 1000, 2000}},
	} {
		t.Run(tc.algo, func(t *testing.T) {
			space := envstest.TempFile(t, "space.yml", tc.space)
			res := tuneResultOf(t, "tune", "--algo", tc.algo, "--env", "classic/CartPole-v1", "--n-trials", "9", "--reduction-factor", "2", "-n", "2000",
				"--min-resource", "500", "--eval-episodes", "1", "--params", "n_envs:2", "--params", "net_arch:[4]", "--search-space", space, "-f", t.TempDir(), "--json")
			j, err := resumeJournal(res.Folder, journalName, checkStudy)
			if err != nil {
				t.Fatal(err)
			}
			defer j.close()
			for _, r := range j.results {
				if r.Error != "" || r.Timesteps != tc.want[r.Rung] {
					t.Errorf("trial %d with %v at rung %d: %d timesteps, %q; want %d", r.Trial, r.Params, r.Rung, r.Timesteps, r.Error, tc.want[r.Rung])
				}
			}
			if got := res.Best.Params["n_timesteps"]; got != float64(tc.want[len(tc.want)-1]) {
				t.Errorf("best.yml has n_timesteps %v, want %d", got, tc.want[len(tc.want)-1])
			}
		})
	}
	space := envstest.TempFile(t, "space.yml", "n_steps: {choice: [97, 101, 103, 107]}")
	if _, _, err := execute(t, context.Background(), "tune", "--algo", "a2c", "--env", "classic/CartPole-v1", "--search-space", space, "-n", "2000", "-f", t.TempDir()); err == nil || !strings.Contains(err.Error(), "least common multiple") {
		t.Errorf("n_steps without a common multiple: %v", err)
	}
}

func TestPromote(t *testing.T) {
	results := []rungResult{{Trial: 0, Mean: 5}, {Trial: 1, Error: "x", Mean: 99}, {Trial: 2, Mean: 7}, {Trial: 3, Mean: 5}, {Trial: 4, Mean: 6}, {Trial: 5, Mean: -1}}
	for reduction, want := range map[int][]int{2: {2, 4, 0}, 3: {2, 4}, 4: {2}, 7: {2}} {
		if diff := cmp.Diff(want, promote(results, reduction)); diff != "" {
			t.Errorf("one in %d (-want +got):\n%s", reduction, diff)
		}
	}
	if got := promote(results[1:2], 2); len(got) != 0 {
		t.Errorf("of failures %v are promoted", got)
	}
}

// tuneArgs are arguments of a study of a few seconds: rungs of 4, 2 and 1 trials.
func tuneArgs(algo, folder string, more ...string) []string {
	args := []string{"tune", "--algo", algo, "--env", "classic/CartPole-v1", "--n-trials", "4", "--reduction-factor", "2", "-n", "1024",
		"--min-resource", "256", "--eval-episodes", "2", "--params", "n_envs:2", "--params", "net_arch:[8]", "--seed", "3", "-f", folder, "--json"}
	switch algo {
	case "ppo", "ppo_lstm":
		args = append(args, "--params", "n_epochs:1", "--params", "n_steps:32")
	case "a2c":
		args = append(args, "--params", "n_steps:16")
	case "dqn":
		args = append(args, "--params", "learning_starts:32", "--params", "train_freq:8", "--params", "gradient_steps:1", "--params", "buffer_size:1000")
	}
	return append(args, more...)
}

func tuneResultOf(t *testing.T, args ...string) tuneResult {
	t.Helper()
	return clitest.Decode[tuneResult](t, mustExecute(t, args...))
}

// TestTune: the rungs are those of successive halving, each trial resumes where it stopped, and
// the file of the best is one for train --conf-file.
func TestTune(t *testing.T) {
	for _, algo := range algorithms.Names(nil) {
		t.Run(algo, func(t *testing.T) {
			res := tuneResultOf(t, tuneArgs(algo, t.TempDir())...)
			j, err := resumeJournal(res.Folder, journalName, checkStudy)
			if err != nil {
				t.Fatal(err)
			}
			defer j.close()
			late := 0
			if algo == "reinforce" {
				late = 64 * 60 // an update has up to 64 whole episodes of a random policy
			}
			count, byRung := map[int]int{}, map[int][]rungResult{}
			for _, r := range j.results {
				count[r.Rung]++
				byRung[r.Rung] = append(byRung[r.Rung], r)
				if steps := []int{256, 512, 1024}[r.Rung]; r.Timesteps < steps || r.Timesteps > steps+late || r.Error != "" {
					t.Errorf("trial %d at rung %d: %d timesteps, %q; want %d", r.Trial, r.Rung, r.Timesteps, r.Error, steps)
				}
			}
			if diff := cmp.Diff(map[int]int{0: 4, 1: 2, 2: 1}, count); diff != "" {
				t.Errorf("trials of the rungs (-want +got):\n%s", diff)
			}
			for rung := range 2 {
				slices.SortFunc(byRung[rung], func(a, b rungResult) int { return a.Trial - b.Trial })
				want := promote(byRung[rung], 2)
				slices.Sort(want)
				var got []int
				for _, r := range byRung[rung+1] {
					got = append(got, r.Trial)
				}
				slices.Sort(got)
				if diff := cmp.Diff(want, got); diff != "" {
					t.Errorf("trials of rung %d (-want +got):\n%s", rung+1, diff)
				}
			}
			if res.Best.Rung != 2 || res.Best.Trial != byRung[2][0].Trial || len(res.Trials) != 4 {
				t.Errorf("best %+v of %d", res.Best, len(res.Trials))
			}
			sameAsUninterrupted(t, algo, res)
		})
	}
}

// sameAsUninterrupted trains with the file of the best hyperparameters: to the same mean as the
// trial that stopped at two rungs.
func sameAsUninterrupted(t *testing.T, algo string, res tuneResult) {
	t.Helper()
	args := []string{"train", "--algo", algo, "--env", "classic/CartPole-v1", "--conf-file", res.Conf, "--seed", "3", "--eval-freq", "0",
		"--eval-episodes", "2", "-f", t.TempDir(), "--json"}
	trained := clitest.Decode[run.Result](t, mustExecute(t, args...))
	if trained.Timesteps != res.Best.Timesteps || trained.EvalMean != res.Best.Mean {
		t.Errorf("training with %s: %d timesteps, mean %v; the trial had %d and %v", res.Conf, trained.Timesteps, trained.EvalMean, res.Best.Timesteps, res.Best.Mean)
	}
}

// TestTuneResume cuts a study's journal off after three results, in the middle of the fourth,
// and resumes it: to the same trials, means and best.
func TestTuneResume(t *testing.T) {
	whole := tuneResultOf(t, tuneArgs("ppo", t.TempDir(), "--n-jobs", "1")...)
	part := tuneResultOf(t, tuneArgs("ppo", t.TempDir(), "--n-jobs", "1")...)
	path := filepath.Join(part.Folder, journalName)
	lines := strings.SplitAfter(envstest.Read(t, path), "\n")
	cut := strings.Join(lines[:4], "") + lines[4][:20]
	envstest.Write(t, path, cut)
	again := tuneResultOf(t, "tune", "--resume", part.Folder, "--json")
	whole.Folder, whole.Conf = part.Folder, part.Conf
	if diff := cmp.Diff(whole, again); diff != "" {
		t.Errorf("study (-uninterrupted +resumed):\n%s", diff)
	}
	if got := strings.Count(envstest.Read(t, path), "\n"); got != 8 {
		t.Errorf("the journal has %d lines, want 1 and 7 results", got)
	}
	// A study that is complete has nothing to do.
	if diff := cmp.Diff(again, tuneResultOf(t, "tune", "--resume", part.Folder, "--json")); diff != "" {
		t.Errorf("resumed again:\n%s", diff)
	}
}

func TestTuneInterrupt(t *testing.T) {
	before := clitest.BrokenSteps.Load()
	ctx := clitest.CancelWhen(t, func() bool { return clitest.BrokenSteps.Load() > before+100 }) // in the midst of trials
	_, _, err := execute(t, ctx, tuneArgs("a2c", t.TempDir(), "--env", "test/Broken-v0", "-n", "100000000")...)
	if !errors.Is(err, cli.ErrInterrupted) {
		t.Fatalf("interrupted study: %v", err)
	}
	m := regexp.MustCompile(`go on with trainer tune --resume (\S+)$`).FindStringSubmatch(err.Error())
	if m == nil {
		t.Fatalf("%q does not say how to go on", err)
	}
	if _, err := os.Stat(filepath.Join(m[1], journalName)); err != nil {
		t.Error(err)
	}
}

// TestTuneFailures: a trial that cannot be trained is not promoted, and a study of none but such
// ends with the reason.
func TestTuneFailures(t *testing.T) {
	space := filepath.Join(t.TempDir(), "space.yml")
	write := func(text string) {
		envstest.Write(t, space, text)
	}
	write("batch_size: {choice: [32, 33]}\nlearning_rate: {uniform: [0.001, 0.002]}\n")
	res := tuneResultOf(t, tuneArgs("ppo", t.TempDir(), "--search-space", space, "--n-trials", "6")...)
	failed := 0
	for _, r := range res.Trials {
		if r.Error != "" {
			failed++
			if !strings.Contains(r.Error, "no multiple of batch_size 33") || r.Rung != 0 {
				t.Errorf("%+v", r)
			}
		}
	}
	if failed == 0 || failed == 6 || res.Best.Error != "" {
		t.Errorf("%d of 6 failed, best %+v", failed, res.Best)
	}
	write("batch_size: {choice: [33]}\n")
	for _, tc := range []struct {
		args []string
		want string
	}{
		{tuneArgs("ppo", t.TempDir(), "--search-space", space), "all trials failed, the first with: ppo: a rollout"},
		{tuneArgs("ppo", t.TempDir(), "--reduction-factor", "1"), "reduction-factor 1"},
		{tuneArgs("sac", t.TempDir()), `no algorithm "sac"`},
		{tuneArgs("cql", t.TempDir()), "learns from a dataset"},
		{[]string{"tune", "--resume", t.TempDir()}, journalName},
		{[]string{"tune", "--resume", "x", "--n-trials", "3"}, "--n-trials has no effect"},
		{[]string{"tune", "--env", "k8s/GangWindov-v0"}, "did you mean"},
	} {
		if _, _, err := execute(t, context.Background(), tc.args...); err == nil || !strings.Contains(err.Error(), tc.want) {
			t.Errorf("trainer %s: %v, want an error with %q", strings.Join(tc.args, " "), err, tc.want)
		}
	}
}
