package core

import (
	"bytes"
	"context"
	"errors"
	"path/filepath"
	"strings"
	"testing"

	"github.com/kubernasium/kubernasium/envs/envstest"
	"github.com/kubernasium/kubernasium/models"
	"github.com/kubernasium/kubernasium/models/safetensors"
)

// brokenArgs are arguments of a training whose checkpoints come every 64 steps: four
// environments, 16 steps each.
func brokenArgs(algo, folder string, more ...string) []string {
	args := []string{"train", "--algo", algo, "--env", "test/Broken-v0", "--params", "n_envs:4", "-n", "100000", "-f", folder,
		"--eval-freq", "0", "--save-freq", "64", "--json"}
	switch algo {
	case "ppo", "ppo_lstm":
		args = append(args, "--params", "n_steps:16", "--params", "batch_size:32", "--params", "n_epochs:1")
	case "a2c":
		args = append(args, "--params", "n_steps:16")
	case "dqn":
		args = append(args, "--params", "learning_starts:16", "--params", "train_freq:16")
	case "reinforce": // an update is an episode of each environment
		args = append(args, "--params", "n_episodes:4", "--env-kwargs", "limit:16")
	}
	return append(args, more...)
}

// TestResumeRefuses: checkpoints of other trainings, and damaged ones.
func TestResumeRefuses(t *testing.T) {
	folder := t.TempDir()
	mustExecute(t, brokenArgs("ppo", folder, "-n", "64")...)
	good := filepath.Join(folder, "ppo", "test-Broken-v0_1", "rl_model_64_steps.safetensors")
	data := []byte(envstest.Read(t, good))
	damaged := func(name string, change func([]byte) []byte) string {
		return envstest.TempFile(t, name, string(change(append([]byte{}, data...))))
	}
	truncated := damaged("truncated.safetensors", func(b []byte) []byte { return b[:len(b)/2] })
	altered := damaged("altered.safetensors", func(b []byte) []byte { b[len(b)-9] ^= 4; return b })
	newer := damaged("newer.safetensors", func(b []byte) []byte {
		f, err := safetensors.Decode(b)
		if err != nil {
			t.Fatal(err)
		}
		f.Metadata["kubernasium"] = strings.Replace(f.Metadata["kubernasium"], `{"format":2,`, `{"format":9,`, 1)
		var buf bytes.Buffer
		if err := safetensors.Write(&buf, f.Tensors, f.Metadata); err != nil {
			t.Fatal(err)
		}
		return buf.Bytes()
	})
	relu := damaged("relu.safetensors", func(b []byte) []byte {
		changed := bytes.Replace(b, []byte(`\"activation\":\"tanh\"`), []byte(`\"activation\":\"relu\"`), 1)
		if bytes.Equal(changed, b) {
			t.Fatal("no tanh in the header")
		}
		return changed
	})
	for _, tc := range []struct {
		name string
		args []string
		is   error
		want string
	}{
		{"environment", []string{"train", "--env", "k8s/GangWindow-v0", "--resume", good}, models.ErrMismatch, `--env "k8s/GangWindow-v0", but the training began with "test/Broken-v0"`},
		{"spaces", []string{"train", "--env-kwargs", "size:3", "--resume", good}, models.ErrMismatch, `--env-kwargs {"size":3}, but the training began with {}`},
		{"algorithm", []string{"train", "--algo", "a2c", "--resume", good}, models.ErrMismatch, `--algo "a2c", but the training began with "ppo"`},
		{"network", []string{"train", "--params", "net_arch:[8]", "--resume", good}, models.ErrMismatch, "net_arch is [8], but the training began with [64,64]"},
		{"newer", []string{"train", "--resume", newer}, models.ErrFormat, "format 9, want 1 to 2"},
		{"truncated", []string{"train", "--resume", truncated}, safetensors.ErrCorrupt, "truncated"},
		{"altered", []string{"train", "--resume", altered}, safetensors.ErrCorrupt, "altered: the SHA-256 of header and data is"},
		{"altered header", []string{"train", "--resume", relu}, safetensors.ErrCorrupt, "altered: the SHA-256 of header and data is"},
		{"altered header to play", []string{"eval", "--model", relu}, safetensors.ErrCorrupt, "altered: the SHA-256 of header and data is"},
	} {
		t.Run(tc.name, func(t *testing.T) {
			_, _, err := execute(t, context.Background(), tc.args...)
			if !errors.Is(err, tc.is) || !strings.Contains(err.Error(), tc.want) || !strings.Contains(err.Error(), ".safetensors") {
				t.Errorf("%v, want %v with %q and the file's name", err, tc.is, tc.want)
			}
		})
	}
	if string(data) != envstest.Read(t, good) {
		t.Error("the checkpoint was changed")
	}
}
