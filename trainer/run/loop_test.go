package run_test

import (
	"encoding/json"
	"math"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"

	"github.com/kubernasium/kubernasium/agents/algorithms"
	"github.com/kubernasium/kubernasium/agents/evaluation"
	"github.com/kubernasium/kubernasium/envs"
	"github.com/kubernasium/kubernasium/envs/envstest"
	"github.com/kubernasium/kubernasium/models"
	"github.com/kubernasium/kubernasium/models/safetensors"
	"github.com/kubernasium/kubernasium/trainer/play"
	"github.com/kubernasium/kubernasium/trainer/run"
	"github.com/kubernasium/kubernasium/trainer/tracking"
)

// TestMonitorHasTheEpisodes: 256 steps of four environments whose episodes take 20 end three in each,
// which monitor.csv lists, and nothing else.
func TestMonitorHasTheEpisodes(t *testing.T) {
	c, params := gang(t)
	text := envstest.Read(t, filepath.Join(mustTrain(t, c, params).dir, "monitor.csv"))
	lines := strings.Split(strings.TrimSpace(text), "\n")
	if len(lines) != 2+12 || lines[1] != "r,l,t,timesteps" {
		t.Fatalf("%d lines, want a comment, a header and 12 episodes:\n%s", len(lines), text)
	}
	for i, line := range lines[2:] {
		if cells := strings.Split(line, ","); len(cells) != 4 || cells[1] != "20" || cells[3] != []string{"80", "160", "240"}[i/4] || !strings.HasPrefix(cells[0], "-") {
			t.Errorf("%q, want a negative return and 20 steps that end with 80, 160 or 240", line)
		}
	}
}

// TestSeeds: trainings with several seeds are those with each seed alone, and the result has the mean of
// their means with Student's interval.
func TestSeeds(t *testing.T) {
	c, params := gang(t)
	res, err := trainSeeds(t, c, params, "4..6")
	if err != nil {
		t.Fatal(err)
	}
	var mean float64
	for i, s := range res.Seeds {
		if s.Seed != uint64(4+i) || s.Timesteps != 256 || s.Error != "" {
			t.Errorf("seed %d: %+v", i, s)
		}
		mean += s.EvalMean / 3
	}
	var square float64
	for _, s := range res.Seeds {
		square += (s.EvalMean - mean) * (s.EvalMean - mean)
	}
	half := 4.302652729911275 * math.Sqrt(square/2/3) // t(0.975) with 2 degrees of freedom
	if math.Abs(res.Eval.Mean-mean) > 1e-9 || math.Abs(res.Eval.High-mean-half) > 1e-6 || math.Abs(mean-res.Eval.Low-half) > 1e-6 {
		t.Errorf("over the seeds %+v, want %v ± %v", res.Eval, mean, half)
	}
	alone := mustTrain(t, c, params) // seed 5
	for _, name := range []string{"k8s-GangWindow-v0.safetensors", "best_model.safetensors", "evaluations.csv"} {
		if envstest.Read(t, filepath.Join(res.Folder, "seed_5", name)) != envstest.Read(t, filepath.Join(alone.dir, name)) {
			t.Errorf("%s of seed 5 is not that of the training alone", name)
		}
	}
	if lines := strings.Count(envstest.Read(t, filepath.Join(res.Folder, "seeds.csv")), "\n"); lines != 4 {
		t.Errorf("seeds.csv has %d lines, want a header and 3", lines)
	}
	if len(envstest.Read(t, filepath.Join(res.Folder, "learning_curve.png"))) == 0 {
		t.Error("no learning curve")
	}
}

// TestNormalizedTrainings sees that evaluations use the statistics and leave them: the last
// model is the same with many as with none, and plays to the same mean from its file.
func TestNormalizedTrainings(t *testing.T) {
	for _, algo := range []string{"ppo", "a2c", "reinforce", "ppo_lstm"} {
		t.Run(algo, func(t *testing.T) {
			params := map[string]any{"n_timesteps": 2048, "n_envs": 2, "normalize": true}
			if strings.HasPrefix(algo, "ppo") {
				params["batch_size"], params["n_epochs"] = 64, 1
			}
			learned := func(freq int) (trained, models.File) { // without eval_freq and its like
				r := mustTrain(t, run.Config{Algo: algo, Env: "classic/CartPole-v1", EvalFreq: freq, EvalEpisodes: 2, LogFolder: t.TempDir()}, params)
				f, err := models.ReadFile(r.Model)
				if err != nil {
					t.Fatal(err)
				}
				n := len(f.Tensors)
				f.Tensors = slices.DeleteFunc(f.Tensors, func(t safetensors.Tensor) bool { return t.Name == run.TrainingTensor })
				if len(f.Tensors) != n-1 {
					t.Fatalf("%d tensors, %d without %s", n, len(f.Tensors), run.TrainingTensor)
				}
				return r, f
			}
			often, f := learned(256)
			_, g := learned(0)
			if diff := cmp.Diff(f, g); diff != "" {
				t.Errorf("evaluations change what is learned (-with many +with none):\n%s", diff)
			}
			if f.Meta.Metadata["normalize"] == "" {
				t.Error("no statistics in the checkpoint")
			}
			if mean := meanOf(t, often.Model, "classic/CartPole-v1", nil); mean != often.EvalMean {
				t.Errorf("mean %v of the file, %v of the training", mean, often.EvalMean)
			}
		})
	}
}

// TestValidationChoosesModels: of a pool of one instance, which every seed draws, a training is evaluated on
// the validation's. Options of the evaluation win.
func TestValidationChoosesModels(t *testing.T) {
	for _, given := range []map[string]any{nil, {"split": "heldout"}} {
		r := mustTrain(t, run.Config{Algo: "ppo", Env: "k8s/GangWindow-v0", EnvKwargs: map[string]any{"instances": 1, "steps": 20}, EvalEnvKwargs: given,
			EvalEpisodes: 2, LogFolder: t.TempDir()}, map[string]any{"n_timesteps": 64, "n_envs": 1, "n_steps": 64, "batch_size": 64, "n_epochs": 1})
		mean := func(split string) float64 {
			return meanOf(t, r.Model, "k8s/GangWindow-v0", map[string]any{"instances": 1, "steps": 20, "split": split})
		}
		want, other := mean("validation"), mean("heldout")
		if given != nil {
			want, other = other, want
		}
		if r.EvalMean != want || want == other {
			t.Errorf("options %v: evaluations have the mean %v, want %v and not %v", given, r.EvalMean, want, other)
		}
	}
}

// meanOf returns the mean return of a model over the two episodes of evaluations with these options.
func meanOf(t *testing.T, path, env string, options map[string]any) float64 {
	t.Helper()
	v, err := envs.Make(env, 2, envs.VecOptions{Options: options, Autoreset: envs.SameStep})
	if err != nil {
		t.Fatal(err)
	}
	defer v.Close()
	m, err := play.ReadModelFor(path, v)
	if err != nil {
		t.Fatal(err)
	}
	defer m.Net.Close()
	r, err := evaluation.Play(t.Context(), v, m, evaluation.Seeds(play.EvalSeed, 2))
	if err != nil {
		t.Fatal(err)
	}
	return tracking.Mean(r.Returns)
}

// TestConfigReadsBack trains with hyperparameters of every kind, and again with the config.yml that
// this left: to the same configuration, and the same model byte for byte.
func TestConfigReadsBack(t *testing.T) {
	for _, algo := range algorithms.Names(nil) {
		t.Run(algo, func(t *testing.T) {
			c, params := exact(t, algo)
			params["n_timesteps"], params["learning_rate"], params["gamma"], params["activation_fn"] = 128, "lin_0.002", 0.97, "relu"
			r := mustTrain(t, c, params)
			config := filepath.Join(r.dir, "config.yml")
			if strings.Contains(envstest.Read(t, config), "learningrate") {
				t.Errorf("config.yml has Go's names:\n%s", envstest.Read(t, config))
			}
			h, err := run.ReadHyperparams(algo, "none", config, nil)
			if err != nil {
				t.Fatal(err)
			}
			text, err := json.Marshal(h.Config)
			if err != nil {
				t.Fatal(err)
			}
			f, err := models.ReadFile(r.Model)
			if err != nil {
				t.Fatal(err)
			}
			if diff := cmp.Diff(string(f.Meta.Config), string(text)); diff != "" || h.NEnvs != 2 || h.NTimesteps != 128 {
				t.Errorf("%d environments, %d timesteps; want 2 and 128; hyperparameters (-of the model +of config.yml):\n%s", h.NEnvs, h.NTimesteps, diff)
			}
			values, err := h.Values()
			if err != nil {
				t.Fatal(err)
			}
			c.LogFolder = t.TempDir()
			if again := mustTrain(t, c, values); envstest.Read(t, r.Model) != envstest.Read(t, again.Model) {
				t.Error("the training by config.yml ends in another model")
			}
		})
	}
}
