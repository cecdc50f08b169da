package core

import (
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"github.com/spf13/cobra"

	"github.com/kubernasium/kubernasium/envs/envstest"
	"github.com/kubernasium/kubernasium/models"
	"github.com/kubernasium/kubernasium/trainer/cli"
)

// parseTraining returns the command train with these flags and those of its file.
func parseTraining(t *testing.T, args ...string) (*cobra.Command, error) {
	t.Helper()
	cmd, _, err := root().Find([]string{"train"})
	if err != nil {
		t.Fatal(err)
	}
	if err := cmd.ParseFlags(args); err != nil {
		t.Fatal(err)
	}
	return cmd, useTrainingFile(cmd.Flags())
}

// The file beside each shipped model is the training that the model says it comes from.
func TestPretrainedTrainings(t *testing.T) {
	paths, err := filepath.Glob("../../../models/pretrained/*/*.safetensors")
	if err != nil || len(paths) == 0 {
		t.Fatal(paths, err)
	}
	files := 0
	for _, path := range paths {
		f, err := models.ReadFile(path)
		if err != nil {
			t.Fatal(err)
		}
		want := f.Meta.Metadata[cli.CommandKey]
		if !strings.HasPrefix(want, "trainer train ") { // trained by another command
			continue
		}
		files++
		cmd, err := parseTraining(t, "--conf-file", strings.TrimSuffix(path, ".safetensors")+".yml")
		if err != nil {
			t.Error(err)
		} else if got := cli.CommandLine(cmd); got != want {
			t.Errorf("%s: its file is of\n%s, want\n%s", path, got, want)
		}
	}
	all, _ := filepath.Glob("../../../models/pretrained/*/*.yml")
	all = slices.DeleteFunc(all, func(path string) bool { return filepath.Base(path) == seedsFile })
	if len(all) != files {
		t.Errorf("%d files of trainings for %d models", len(all), files)
	}
}

func TestTrainingFile(t *testing.T) {
	const training = "algo: a2c\nenv: k8s/GangWindow-v0\nseed: 3\nenv_kwargs:\n  windows: 5\nparams:\n  gamma: 0.5\n"
	for name, c := range map[string]struct {
		text, flags, want string // of the command line, or of the error
	}{
		"whole": {training, "", "trainer train --algo a2c --env k8s/GangWindow-v0 --env-kwargs windows:5 --params gamma:0.5 --seed 3"},
		"flags win": {training, "--seed 4 --env-kwargs windows:6 --env-kwargs jobs:2",
			"trainer train --algo a2c --env k8s/GangWindow-v0 --env-kwargs windows:5 --env-kwargs windows:6 --env-kwargs jobs:2 --params gamma:0.5 --seed 4"},
		"seeds":           {training, "--seeds 1..2", "trainer train --algo a2c --env k8s/GangWindow-v0 --env-kwargs windows:5 --params gamma:0.5 --seeds 1..2"},
		"switch":          {training, "--resume-newest", "trainer train --algo a2c --env k8s/GangWindow-v0 --env-kwargs windows:5 --params gamma:0.5 --resume-newest=true --seed 3"},
		"hyperparameters": {"gamma: 0.5\n", "", "trainer train --conf-file FILE"},
		"RL Zoo's":        {"k8s/GangWindow-v0:\n  gamma: 0.5\n", "", "trainer train --conf-file FILE"},
		"unknown":         {training + "gamma: 0.5\n", "", "FILE:8: gamma is no setting of a training"},
		"no map":          {"env: k8s/GangWindow-v0\nenv_kwargs: 5\n", "", "FILE:2: env_kwargs: want a map"},
		"no value":        {"env: k8s/GangWindow-v0\nseed:\n  a: 5\n", "", "FILE:2: seed: want a single value"},
		"no number":       {"env: k8s/GangWindow-v0\nseed: x\n", "", "FILE:2: seed: "},
	} {
		t.Run(name, func(t *testing.T) {
			path := envstest.TempFile(t, "training.yml", c.text)
			cmd, err := parseTraining(t, append(strings.Fields(c.flags), "--conf-file", path)...)
			var got string
			if err != nil {
				got = err.Error()
			} else {
				got = cli.CommandLine(cmd)
			}
			if got = strings.ReplaceAll(got, path, "FILE"); !strings.HasPrefix(got, c.want) || err == nil && got != c.want {
				t.Errorf("%q, want %q", got, c.want)
			}
		})
	}
}
