package core

import (
	"bytes"
	"context"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"

	"github.com/kubernasium/kubernasium/envs"
	"github.com/kubernasium/kubernasium/envs/envstest"
	"github.com/kubernasium/kubernasium/server/host/hosttest"
	"github.com/kubernasium/kubernasium/trainer/clitest"
	"github.com/kubernasium/kubernasium/trainer/minari"
	"github.com/kubernasium/kubernasium/trainer/run"
)

// TestDatasetEqualsTransitions: one recording gives the same transitions as a dataset and as a file,
// except that in the dataset the last episode counts as truncated. Pods have Dict observations and masks.
func TestDatasetEqualsTransitions(t *testing.T) {
	folder := t.TempDir()
	file, dataset := filepath.Join(folder, "t.safetensors"), filepath.Join(folder, "d")
	mustExecute(t, "record", "--env", "k8s/GPUPodScheduling-v1", "--policy", "random", "-n", "300", "--out", file, "--dataset", dataset)
	want, _, err := run.ReadTransitions(file)
	if err != nil {
		t.Fatal(err)
	}
	spec, err := envs.Lookup("k8s/GPUPodScheduling-v1")
	if err != nil {
		t.Fatal(err)
	}
	v, err := envs.NewVec(spec, 1, envs.VecOptions{})
	if err != nil {
		t.Fatal(err)
	}
	defer v.Close()
	obs, act := v.Spaces()
	episodes, err := minari.Read(dataset, obs, act)
	if err != nil {
		t.Fatal(err)
	}
	got := minari.Transitions(episodes, obs, act)
	if !want.Terminated[299] {
		want.Truncated[299] = true
	}
	if diff := cmp.Diff(want, got); diff != "" {
		t.Errorf("transitions (-file +dataset):\n%s", diff)
	}
	if got.Mask == nil {
		t.Error("no step of the recording has a masked action")
	}
	m, err := minari.ReadMeta(dataset)
	if diff := cmp.Diff(minari.Meta{
		ID: "d", Env: "k8s/GPUPodScheduling-v1", EnvKwargs: map[string]any{}, Algorithm: "random", Episodes: len(episodes), Steps: 300,
	}, m); err != nil || diff != "" {
		t.Errorf("metadata: %v (-want +got):\n%s", err, diff)
	}
}

// TestTrainFromDataset: both offline algorithms find environment and options in the dataset, learn from
// it, resume to the bytes of an uninterrupted training, and are evaluated.
func TestTrainFromDataset(t *testing.T) {
	root := t.TempDir()
	t.Setenv("MINARI_DATASETS_PATH", root)
	mustExecute(t, "record", "--env", "k8s/GangWindow-v0", "--env-kwargs", "steps:30", "--policy", "static_3", "--epsilon", "0.2", "-n", "600", "--dataset", "gang/static3-v0")
	for _, algo := range []string{"bc", "cql"} {
		t.Run(algo, func(t *testing.T) {
			// The environment has the dataset's 30 steps, not the 400 of its default.
			args := []string{"train", "--algo", algo, "--dataset", "gang/static3-v0", "--eval-freq", "0", "--eval-episodes", "2", "--params", "net_arch:[16]", "--params", "learning_rate:lin_0.001", "--json"}
			train := func(more ...string) run.Result {
				t.Helper()
				return clitest.Decode[run.Result](t, mustExecute(t, append(args, more...)...))
			}
			whole := train("-n", "300", "--save-freq", "150", "-f", t.TempDir())
			if whole.Timesteps != 300 || whole.Env != "k8s/GangWindow-v0" {
				t.Errorf("%+v, want 300 timesteps in k8s/GangWindow-v0", whole)
			}
			if settings := envstest.Read(t, filepath.Join(filepath.Dir(whole.Model), "args.yml")); !strings.Contains(settings, "steps: 30") {
				t.Errorf("args.yml lacks the dataset's option steps: %s", settings)
			}
			want := envstest.Read(t, whole.Model)
			if err := os.Remove(whole.Model); err != nil {
				t.Fatal(err)
			}
			checkpoint := filepath.Join(filepath.Dir(whole.Model), "rl_model_150_steps.safetensors")
			mustExecute(t, "train", "--resume", checkpoint, "--json")
			if envstest.Read(t, whole.Model) != want {
				t.Error("the resumed training ends with another model")
			}
			if text := mustExecute(t, "eval", "--model", whole.Model, "--episodes", "2"); !strings.Contains(text, algo+" on k8s/GangWindow-v0") {
				t.Errorf("eval prints %q", text)
			}
		})
	}
	if text := mustExecute(t, "train", "--algo", "dqn", "--dataset", "gang/static3-v0", "-n", "64", "--params", "buffer_size:1000", "--params", "n_envs:2", "--eval-freq", "0", "--eval-episodes", "1", "-f", t.TempDir()); text == "" {
		t.Error("dqn prints nothing")
	}
}

func TestDatasetRefusals(t *testing.T) {
	root := t.TempDir()
	t.Setenv("MINARI_DATASETS_PATH", root)
	mustExecute(t, "record", "--env", "classic/CartPole-v1", "--policy", "random", "-n", "60", "--dataset", "pole-v0")
	for want, args := range map[string][]string{
		"pole-v0":     {"record", "--env", "classic/CartPole-v1", "--policy", "random", "--dataset", "pole-v0"},
		"want --out":  {"record", "--env", "classic/CartPole-v1", "--policy", "random"},
		"--epsilon 2": {"record", "--env", "classic/CartPole-v1", "--policy", "random", "--epsilon", "2", "--dataset", "x-v0"},
		"only dqn learns, and bc, cql learn, from what others recorded": {"train", "--algo", "ppo", "--dataset", "pole-v0"},
		"want --dataset":         {"train", "--algo", "cql", "--env", "classic/CartPole-v1"},
		"want one of them":       {"train", "--algo", "bc", "--dataset", "pole-v0", "--transitions", "x"},
		"record one of static_2": {"train", "--algo", "bc", "--dataset", "pole-v0", "--env", "k8s/GangWindow-v0", "--imitate", "static_2"},
		"recorded in classic/CartPole-v1, want k8s/GangWindow-v0": {"train", "--algo", "bc", "--dataset", "pole-v0", "--env", "k8s/GangWindow-v0", "-f", t.TempDir()},
		"no dataset in":                        {"train", "--algo", "bc", "--dataset", "missing-v0"},
		"want discrete, which dqn learns from": {"record", "--env", "k8s/LRAPricing-v0", "--policy", "random", "--out", filepath.Join(root, "x.safetensors")},
	} {
		if _, _, err := execute(t, context.Background(), args...); err == nil || !strings.Contains(err.Error(), want) {
			t.Errorf("trainer %s: %v, want an error with %q", strings.Join(args, " "), err, want)
		}
	}
}

// TestRecordOnServer: the episodes of a server are those of this process: a baseline's own steps and random ones between
// them, and a model's.
func TestRecordOnServer(t *testing.T) {
	url := hosttest.Start(t).WS
	for name, policy := range map[string][]string{
		"baseline": {"--env", "k8s/GangWindow-v0", "--env-kwargs", "steps:30", "--policy", "static_3", "--epsilon", "0.3"},
		"model":    {"--model", "../../../models/pretrained/classic-CartPole-v1/ppo.safetensors", "--epsilon", "0.3"},
	} {
		t.Run(name, func(t *testing.T) {
			file := func(more ...string) []byte {
				t.Helper()
				path := filepath.Join(t.TempDir(), "t.safetensors")
				mustExecute(t, append(append([]string{"record", "-n", "200", "--out", path}, policy...), more...)...)
				data, err := os.ReadFile(path)
				if err != nil {
					t.Fatal(err)
				}
				return data
			}
			if here, there := file(), file("--url", url); !bytes.Equal(here, there) {
				t.Errorf("%d bytes recorded here and %d other ones at a server, want the same", len(here), len(there))
			}
		})
	}
}
