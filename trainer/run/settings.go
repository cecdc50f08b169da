package run

import (
	"encoding/json"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"regexp"

	"go.yaml.in/yaml/v3"

	"github.com/kubernasium/kubernasium/agents/algorithms"
	"github.com/kubernasium/kubernasium/models"
	"github.com/kubernasium/kubernasium/models/safetensors"
	"github.com/kubernasium/kubernasium/trainer/play"
)

// Settings are the arguments of a training except its hyperparameters. args.yml and every checkpoint contain
// them, so that a checkpoint alone is enough to resume.
type Settings struct {
	Algo                string         `json:"algo" yaml:"algo"`
	Engine              string         `json:"engine" yaml:"engine"`
	Env                 string         `json:"env" yaml:"env"`
	Seed                uint64         `json:"seed" yaml:"seed"`
	EnvKwargs           map[string]any `json:"env_kwargs" yaml:"env_kwargs"`
	EvalEnvKwargs       map[string]any `json:"eval_env_kwargs" yaml:"eval_env_kwargs"`
	EvalFreq            int            `json:"eval_freq" yaml:"eval_freq"`
	EvalEpisodes        int            `json:"eval_episodes" yaml:"eval_episodes"`
	SaveFreq            int            `json:"save_freq" yaml:"save_freq"`
	Imitate             string         `json:"imitate,omitempty" yaml:"imitate,omitempty"`
	ImitateSteps        int            `json:"imitate_steps,omitempty" yaml:"imitate_steps,omitempty"`
	ImitateEpochs       int            `json:"imitate_epochs,omitempty" yaml:"imitate_epochs,omitempty"`
	ImitateRounds       int            `json:"imitate_rounds,omitempty" yaml:"imitate_rounds,omitempty"`
	ImitateLearningRate string         `json:"imitate_learning_rate,omitempty" yaml:"imitate_learning_rate,omitempty"`
	ImitateWeightDecay  float64        `json:"imitate_weight_decay,omitempty" yaml:"imitate_weight_decay,omitempty"`
	WarmStart           string         `json:"warm_start,omitempty" yaml:"warm_start,omitempty"`
	WarmStartSteps      int            `json:"warm_start_steps,omitempty" yaml:"warm_start_steps,omitempty"`
	Transitions         string         `json:"transitions,omitempty" yaml:"transitions,omitempty"`
	Dataset             string         `json:"dataset,omitempty" yaml:"dataset,omitempty"`
	RewardThreshold     *float64       `json:"reward_threshold,omitempty" yaml:"reward_threshold,omitempty"`
}

// settings returns the settings in c.
func (c *Config) settings() Settings {
	s := Settings{
		Algo: c.Algo, Engine: c.Engine, Env: c.Env, Seed: c.Seed, EnvKwargs: c.EnvKwargs, EvalEnvKwargs: c.EvalEnvKwargs,
		EvalFreq: c.EvalFreq, EvalEpisodes: c.EvalEpisodes, SaveFreq: c.SaveFreq, Transitions: c.Transitions, Dataset: c.Dataset, RewardThreshold: c.Threshold,
	}
	if c.Imitate.Baseline != "" {
		s.Imitate, s.ImitateSteps, s.ImitateEpochs = c.Imitate.Baseline, c.Imitate.Steps, c.Imitate.Epochs
		s.ImitateLearningRate, s.ImitateWeightDecay = c.Imitate.Rate, c.Imitate.WeightDecay
		if c.Imitate.Rounds > 1 {
			s.ImitateRounds = c.Imitate.Rounds
		}
	}
	if c.WarmStart.Baseline != "" {
		s.WarmStart, s.WarmStartSteps = c.WarmStart.Baseline, c.WarmStart.Steps
	}
	return s
}

// use sets the settings in c.
func (c *Config) use(s Settings) {
	c.Algo, c.Engine, c.Env, c.Seed, c.EnvKwargs, c.EvalEnvKwargs = s.Algo, s.Engine, s.Env, s.Seed, s.EnvKwargs, s.EvalEnvKwargs
	c.EvalFreq, c.EvalEpisodes, c.SaveFreq, c.Threshold = s.EvalFreq, s.EvalEpisodes, s.SaveFreq, s.RewardThreshold
	c.Imitate = Imitation{Baseline: s.Imitate, Steps: s.ImitateSteps, Epochs: s.ImitateEpochs, Rounds: max(1, s.ImitateRounds),
		Rate: s.ImitateLearningRate, WeightDecay: s.ImitateWeightDecay}
	c.WarmStart, c.Transitions, c.Dataset = WarmStart{Baseline: s.WarmStart, Steps: s.WarmStartSteps}, s.Transitions, s.Dataset
}

// Args is the content of args.yml.
type Args struct {
	Settings `yaml:",inline"`
	Seeds    []uint64     `yaml:"seeds,omitempty"` // of several trainings, instead of seed
	Command  string       `yaml:"command"`
	Resumed  []Resumption `yaml:"resumed,omitempty"`
}

// Resumption is a later command that resumed the training.
type Resumption struct {
	Timesteps int    `yaml:"timesteps"` // at which it resumed; 0 for several trainings
	Command   string `yaml:"command"`
}

var singleSeed = regexp.MustCompile(`(?m)^seed: .*\n`)

// ReadArgs reads args.yml in a folder. If it does not exist, the error is fs.ErrNotExist.
func ReadArgs(folder string) (a Args, err error) {
	path := filepath.Join(folder, "args.yml")
	text, err := os.ReadFile(path)
	if err != nil {
		return a, err
	}
	if err := yaml.Unmarshal(text, &a); err != nil {
		return a, fmt.Errorf("%s: %w", path, err)
	}
	return a, nil
}

// writeConfig records the settings of trainings: config.yml holds the hyperparameters in the form that
// --conf-file reads, args.yml the rest. For a training that resumed at first timesteps it keeps the original
// command.
func (c *Config) writeConfig(folder string, seeds []uint64, first int) error {
	config, err := c.Params.Values()
	if err != nil {
		return err
	}
	a := Args{Settings: c.settings(), Seeds: seeds, Command: c.Command}
	earlier, err := ReadArgs(folder)
	switch {
	case err == nil && earlier.Command != c.Command:
		a.Command, a.Resumed = earlier.Command, append(earlier.Resumed, Resumption{first, c.Command})
	case err == nil:
		a.Resumed = earlier.Resumed
	case !errors.Is(err, fs.ErrNotExist):
		return err
	}
	for name, v := range map[string]any{"config.yml": config, "args.yml": a} {
		text, err := yaml.Marshal(v)
		if err != nil {
			return err
		}
		if seeds != nil { // there is no single seed
			text = singleSeed.ReplaceAll(text, nil)
		}
		if err := os.WriteFile(filepath.Join(folder, name), text, 0o644); err != nil {
			return err
		}
	}
	return nil
}

// TrainingTensor holds the settings and the numbers of environments and timesteps in a checkpoint, as JSON. The
// learner's part of the checkpoint holds the other hyperparameters.
const TrainingTensor = models.StatePrefix + "training"

type savedTraining struct {
	Settings
	NEnvs      int `json:"n_envs"`
	NTimesteps int `json:"n_timesteps"`
}

// putTraining adds the training's settings to a checkpoint.
func (c *Config) putTraining(f *models.File) error {
	text, err := json.Marshal(savedTraining{c.settings(), c.Params.NEnvs, c.Params.NTimesteps})
	if err != nil {
		return err
	}
	f.Put(safetensors.Tensor{Name: TrainingTensor, Shape: []int{len(text)}, Data: text})
	return nil
}

// trainingOf returns the settings in a checkpoint. c provides those that a checkpoint of an earlier version
// lacks.
func (c *Config) trainingOf(f models.File) (s Settings, h Hyperparams, err error) {
	a, err := algorithms.Get(f.Meta.Algo)
	if err != nil {
		return s, h, err
	}
	h = Hyperparams{Config: a.Defaults()}
	values := map[string]any{}
	if err := json.Unmarshal(f.Meta.Config, &values); err != nil {
		return s, h, fmt.Errorf("%w: hyperparameters: %w", models.ErrMismatch, err)
	}
	var saved savedTraining
	if text, err := tensor[uint8](f, TrainingTensor); err == nil {
		if err := json.Unmarshal(text, &saved); err != nil {
			return s, h, fmt.Errorf("%w: %s: %w", models.ErrMismatch, TrainingTensor, err)
		}
	} else {
		m := play.Model{Meta: f.Meta}
		kwargs, err := m.EnvKwargs()
		if err != nil {
			return s, h, err
		}
		tuned, err := ReadHyperparams(f.Meta.Algo, f.Meta.Env, "", nil)
		if err != nil {
			return s, h, err
		}
		saved = savedTraining{c.settings(), tuned.NEnvs, tuned.NTimesteps}
		saved.Algo, saved.Env, saved.EnvKwargs, saved.Seed = f.Meta.Algo, f.Meta.Env, kwargs, f.Meta.Seed
	}
	values["n_envs"], values["n_timesteps"] = saved.NEnvs, saved.NTimesteps
	return saved.Settings, h, h.set(values)
}
