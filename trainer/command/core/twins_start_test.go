package core

import (
	"context"
	"path/filepath"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"

	"github.com/kubernasium/kubernasium/envs/envstest"
	"github.com/kubernasium/kubernasium/kwok"
	"github.com/kubernasium/kubernasium/trainer/run"
)

// TestHyperparametersOfTwins: an environment and its twin have the same tuned hyperparameters, and each
// takes a file that names the other.
func TestHyperparametersOfTwins(t *testing.T) {
	const env = "k8s/PodBalance-v0"
	defaults, err := run.ReadHyperparams("ppo", "test/Untuned-v0", "", nil)
	if err != nil {
		t.Fatal(err)
	}
	want, err := run.ReadHyperparams("ppo", env, "", nil)
	if err != nil || cmp.Equal(want, defaults) {
		t.Fatalf("%s: %+v, %v; want tuned ones", env, want, err)
	}
	got, err := run.ReadHyperparams("ppo", kwok.TwinID(env), "", nil)
	if diff := cmp.Diff(want, got); err != nil || diff != "" {
		t.Errorf("its twin: %v (-simulator +twin):\n%s", err, diff)
	}
	for named, asked := range map[string]string{env: kwok.TwinID(env), kwok.TwinID(env): env} {
		file := envstest.TempFile(t, "conf.yml", named+": {n_envs: 13}\n")
		if h, err := run.ReadHyperparams("ppo", asked, file, nil); err != nil || h.NEnvs != 13 {
			t.Errorf("%s with a file of %s: n_envs %d, %v; want 13", asked, named, h.NEnvs, err)
		}
	}
}

// TestTransitionsOfTwins: what was recorded on an API server, a training in the simulator starts with.
func TestTransitionsOfTwins(t *testing.T) {
	const env = "k8s/PodBalance-v0"
	path := filepath.Join(t.TempDir(), "recorded.safetensors")
	mustExecute(t, "record", "--env", env, "--policy", "Greedy", "-n", "40", "--out", path)
	recorded, meta, err := run.ReadTransitions(path)
	if err != nil {
		t.Fatal(err)
	}
	train := []string{"train", "--algo", "dqn", "--transitions", path, "-n", "8", "--params", "n_envs:1", "--params", "learning_starts:4", "--params", "buffer_size:100",
		"--params", "batch_size:4", "--eval-freq", "0", "--eval-episodes", "1", "--env-kwargs", "steps:5", "-f", t.TempDir(), "--env"}
	meta.Env = kwok.TwinID(env)
	if err := run.WriteTransitions(path, recorded, meta, len(recorded.Mask)/recorded.Len()); err != nil {
		t.Fatal(err)
	}
	mustExecute(t, append(train, env)...)
	if _, _, err := execute(t, context.Background(), append(train, "k8s/GangWindow-v0")...); err == nil || !strings.Contains(err.Error(), "was recorded in "+meta.Env) {
		t.Errorf("another environment: %v, want it refused", err)
	}
}
