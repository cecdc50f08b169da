package core

import (
	"encoding/json"
	"path/filepath"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"

	"github.com/kubernasium/kubernasium/agents/algorithms"
	"github.com/kubernasium/kubernasium/trainer/clitest"
	"github.com/kubernasium/kubernasium/trainer/play"
	"github.com/kubernasium/kubernasium/trainer/run"
)

// TestConfigReadsBack trains with hyperparameters of every kind, and again with the config.yml that
// this left: to the same configuration, and the same model byte for byte.
func TestConfigReadsBack(t *testing.T) {
	for _, algo := range algorithms.Names(nil) {
		t.Run(algo, func(t *testing.T) {
			folder := t.TempDir()
			args := exactArgs(algo, folder, "-n", "128", "--params", "learning_rate:lin_0.002", "--params", "gamma:0.97", "--params", "activation_fn:relu")
			mustExecute(t, args...)
			dir := filepath.Join(folder, algo, "classic-CartPole-v1_1")
			config := filepath.Join(dir, "config.yml")
			if strings.Contains(clitest.Read(t, config), "learningrate") {
				t.Errorf("config.yml has Go's names:\n%s", clitest.Read(t, config))
			}
			h, err := run.ReadHyperparams(algo, "none", config, nil)
			if err != nil {
				t.Fatal(err)
			}
			text, err := json.Marshal(h.Config)
			if err != nil {
				t.Fatal(err)
			}
			model := filepath.Join(dir, "classic-CartPole-v1.safetensors")
			f, err := play.ReadModel(model)
			if err != nil {
				t.Fatal(err)
			}
			defer f.Net.Close()
			if diff := cmp.Diff(string(f.Meta.Config), string(text)); diff != "" || h.NEnvs != 2 || h.NTimesteps != 128 {
				t.Errorf("%d environments, %d timesteps; want 2 and 128; hyperparameters (-of the model +of config.yml):\n%s", h.NEnvs, h.NTimesteps, diff)
			}
			again := t.TempDir()
			mustExecute(t, "train", "--algo", algo, "--env", "classic/CartPole-v1", "--conf-file", config, "-f", again, "--seed", "3",
				"--eval-freq", "128", "--eval-episodes", "2", "--save-freq", "128", "--json")
			if clitest.Read(t, model) != clitest.Read(t, filepath.Join(again, algo, "classic-CartPole-v1_1", "classic-CartPole-v1.safetensors")) {
				t.Error("the training by config.yml ends in another model")
			}
		})
	}
}
