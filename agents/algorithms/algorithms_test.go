package algorithms

import (
	"encoding/json"
	"maps"
	"path/filepath"
	"regexp"
	"slices"
	"testing"

	"github.com/google/go-cmp/cmp"

	"github.com/kubernasium/kubernasium/agents"
	"github.com/kubernasium/kubernasium/agents/agentstest"
	"github.com/kubernasium/kubernasium/agents/forecast"
	"github.com/kubernasium/kubernasium/envs/envcheck"
	"github.com/kubernasium/kubernasium/envs/envstest"
	"github.com/kubernasium/kubernasium/models"
)

// small are hyperparameters of a fast training; an algorithm takes those that it has.
var small = map[string]any{
	"net_arch": []int{8}, "lstm_hidden_size": 8, "n_steps": 16, "batch_size": 32, "n_epochs": 2, "n_episodes": 2,
	"learning_starts": 16, "buffer_size": 200,
}

// smallConfig returns an algorithm's defaults with what applies of small.
func smallConfig(t *testing.T, a Algorithm) Config {
	t.Helper()
	cfg := a.Defaults()
	given := maps.Clone(small)
	maps.DeleteFunc(given, func(name string, _ any) bool { _, ok := values(t, cfg)[name]; return !ok })
	text, err := json.Marshal(given)
	if err != nil {
		t.Fatal(err)
	}
	if err := json.Unmarshal(text, cfg); err != nil {
		t.Fatal(err)
	}
	return cfg
}

// values returns hyperparameters by their names.
func values(t *testing.T, cfg Config) map[string]any {
	t.Helper()
	text, err := json.Marshal(cfg)
	if err != nil {
		t.Fatal(err)
	}
	var m map[string]any
	if err := json.Unmarshal(text, &m); err != nil {
		t.Fatal(err)
	}
	return m
}

// TestEveryAlgorithm trains each algorithm, saves, loads and resumes it, reads its policy from the
// checkpoint and lets it act.
func TestEveryAlgorithm(t *testing.T) {
	for _, a := range All {
		t.Run(a.Name, func(t *testing.T) {
			cfg := smallConfig(t, a)
			before := values(t, cfg)
			var run *agentstest.Run[Learner]
			agentstest.CheckResume(t, func(r *agentstest.Run[Learner]) { r.Updates(3) }, func(seed uint64) *agentstest.Run[Learner] {
				run = agentstest.NewRun(t, envcheck.Identity(5), 2, seed, func(env agents.EnvInfo, seed uint64) (Learner, error) {
					return a.New(cfg, 4096, env, agentstest.Networks(t, seed), seed)
				})
				return run
			})
			if diff := cmp.Diff(before, values(t, cfg)); diff != "" {
				t.Errorf("New changes the hyperparameters (-before +after):\n%s", diff)
			}

			f := agentstest.Parse(t, run.Saved())
			if f.Meta.Algo != a.Name {
				t.Errorf("the checkpoint is of %q, want %q", f.Meta.Algo, a.Name)
			}
			run.CheckPolicy(readPolicy(t, f))

			if _, ok := run.L.(OffPolicyLearner); ok != a.OffPolicy {
				t.Errorf("OffPolicy is %v, and the learner is an OffPolicyLearner: %v", a.OffPolicy, ok)
			}
		})
	}
}

// readPolicy returns the policy of a checkpoint.
func readPolicy(t *testing.T, f models.File) agents.Policy {
	t.Helper()
	net := agentstest.Network(t, f.Meta.Spec, 99)
	if err := f.Params(net.Params()); err != nil {
		t.Fatal(err)
	}
	read, err := PolicyReader(f.Meta.Algo)
	if err != nil {
		t.Fatal(err)
	}
	policy, err := read(net, f)
	if err != nil {
		t.Fatal(err)
	}
	return policy
}

// TestEveryOfflineAlgorithm trains each offline algorithm and reads its policy from the checkpoint.
func TestEveryOfflineAlgorithm(t *testing.T) {
	for _, a := range Offline {
		t.Run(a.Name, func(t *testing.T) {
			spec := envcheck.Identity(5)
			run := agentstest.NewRun(t, spec, 2, 1, func(env agents.EnvInfo, seed uint64) (Learner, error) {
				return a.New(smallConfig(t, a), 4096, env, agentstest.Networks(t, seed), seed)
			})
			obs, act := run.Vec.Spaces()
			l, ok := run.L.(RecordedLearner)
			if !ok || !a.Offline || a.OffPolicy {
				t.Fatalf("the learner is a RecordedLearner: %v, Offline is %v, OffPolicy %v", ok, a.Offline, a.OffPolicy)
			}
			if _, err := l.Record(agentstest.Recorded(obs, act, 50, 1)); err != nil {
				t.Fatal(err)
			}
			for range 3 {
				if _, err := l.Update(); err != nil {
					t.Fatal(err)
				}
			}
			f := agentstest.Parse(t, run.Saved())
			if f.Meta.Algo != a.Name || f.Meta.Timesteps != 3 {
				t.Errorf("the checkpoint is of %q after %d timesteps, want %q and 3", f.Meta.Algo, f.Meta.Timesteps, a.Name)
			}
			run.CheckPolicy(readPolicy(t, f))
		})
	}
}

// TestDefaultsAreFresh: what is decoded into defaults changes no later ones.
func TestDefaultsAreFresh(t *testing.T) {
	for _, a := range All {
		want := values(t, a.Defaults())
		smallConfig(t, a)
		if diff := cmp.Diff(want, values(t, a.Defaults())); diff != "" {
			t.Errorf("%s: second defaults (-first +second):\n%s", a.Name, diff)
		}
	}
}

func TestUnknownName(t *testing.T) {
	const want = `no algorithm "sarsa"; there is ppo, a2c, dqn, reinforce, ppo_lstm, and from datasets bc, cql`
	if _, err := Get("sarsa"); err == nil || err.Error() != want {
		t.Errorf("Get: %v, want %s", err, want)
	}
	if _, err := PolicyReader("sarsa"); err == nil || err.Error() != want {
		t.Errorf("PolicyReader: %v, want %s", err, want)
	}
	if _, err := PolicyReader(forecast.Algo); err != nil {
		t.Errorf("PolicyReader(%s): %v", forecast.Algo, err)
	}
}

// TestNamesElsewhere compares the table with the lists of documents and of the Python client.
func TestNamesElsewhere(t *testing.T) {
	for _, tc := range []struct{ file, list, name string }{
		{"docs/training.md", "(?s)\\| `--algo` \\|.*?\n\n", "(?m)^\\| \\[?`(\\w+)`"},
		{"clients/python/src/kubernasium/load_sb3.py", `(?s)\n_CLASSES.*?\n}`, `"(\w+)":`},
	} {
		text := envstest.Read(t, filepath.Join("..", "..", filepath.FromSlash(tc.file)))
		var got []string
		for _, m := range regexp.MustCompile(tc.name).FindAllStringSubmatch(regexp.MustCompile(tc.list).FindString(text), -1) {
			got = append(got, m[1])
		}
		if diff := cmp.Diff(slices.Sorted(slices.Values(Names(nil))), slices.Sorted(slices.Values(got))); diff != "" {
			t.Errorf("%s (-table +file):\n%s", tc.file, diff)
		}
	}
}
