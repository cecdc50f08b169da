package main

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
)

// settings are what a training was started with, but for its hyperparameters. They stand in args.yml
// and in every checkpoint, so that the file of one is enough to resume.
type settings struct {
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
	ImitateLearningRate string         `json:"imitate_learning_rate,omitempty" yaml:"imitate_learning_rate,omitempty"`
	WarmStart           string         `json:"warm_start,omitempty" yaml:"warm_start,omitempty"`
	WarmStartSteps      int            `json:"warm_start_steps,omitempty" yaml:"warm_start_steps,omitempty"`
	Transitions         string         `json:"transitions,omitempty" yaml:"transitions,omitempty"`
	RewardThreshold     *float64       `json:"reward_threshold,omitempty" yaml:"reward_threshold,omitempty"`
}

// settings returns those of c.
func (c *trainConfig) settings() settings {
	s := settings{
		Algo: c.algo, Engine: c.engine, Env: c.env, Seed: c.seed, EnvKwargs: c.kwargs, EvalEnvKwargs: c.evalKwargs,
		EvalFreq: c.evalFreq, EvalEpisodes: c.evalEpisodes, SaveFreq: c.saveFreq, Transitions: c.transitions, RewardThreshold: c.threshold,
	}
	if c.imitate.baseline != "" {
		s.Imitate, s.ImitateSteps, s.ImitateEpochs, s.ImitateLearningRate = c.imitate.baseline, c.imitate.steps, c.imitate.epochs, c.imitate.rate
	}
	if c.warmStart.baseline != "" {
		s.WarmStart, s.WarmStartSteps = c.warmStart.baseline, c.warmStart.steps
	}
	return s
}

// use sets what settings returns.
func (c *trainConfig) use(s settings) {
	c.algo, c.engine, c.env, c.seed, c.kwargs, c.evalKwargs = s.Algo, s.Engine, s.Env, s.Seed, s.EnvKwargs, s.EvalEnvKwargs
	c.evalFreq, c.evalEpisodes, c.saveFreq, c.threshold = s.EvalFreq, s.EvalEpisodes, s.SaveFreq, s.RewardThreshold
	c.imitate = imitateConfig{baseline: s.Imitate, steps: s.ImitateSteps, epochs: s.ImitateEpochs, rate: s.ImitateLearningRate}
	c.warmStart, c.transitions = warmStartConfig{baseline: s.WarmStart, steps: s.WarmStartSteps}, s.Transitions
}

// args is the content of args.yml.
type args struct {
	settings `yaml:",inline"`
	Seeds    []uint64     `yaml:"seeds,omitempty"` // of several trainings, in place of seed
	Command  string       `yaml:"command"`
	Resumed  []resumption `yaml:"resumed,omitempty"`
}

// resumption is a later command that resumed the training.
type resumption struct {
	Timesteps int    `yaml:"timesteps"` // at which it did; 0 of several trainings
	Command   string `yaml:"command"`
}

var singleSeed = regexp.MustCompile(`(?m)^seed: .*\n`)

// readArgs reads args.yml in a folder. Without one the error is fs.ErrNotExist.
func readArgs(folder string) (a args, err error) {
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

// writeConfig records what trainings were started with: config.yml holds the hyperparameters, as
// --conf-file reads them, args.yml the rest. Of a training resumed at first timesteps it keeps the
// command that began it.
func (c *trainConfig) writeConfig(folder string, seeds []uint64, first int) error {
	config, err := c.params.values()
	if err != nil {
		return err
	}
	a := args{settings: c.settings(), Seeds: seeds, Command: c.command}
	earlier, err := readArgs(folder)
	switch {
	case err == nil && earlier.Command != c.command:
		a.Command, a.Resumed = earlier.Command, append(earlier.Resumed, resumption{first, c.command})
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
		if seeds != nil { // and no single one
			text = singleSeed.ReplaceAll(text, nil)
		}
		if err := os.WriteFile(filepath.Join(folder, name), text, 0o644); err != nil {
			return err
		}
	}
	return nil
}

// trainingTensor holds the settings and the numbers of environments and timesteps in a checkpoint, as
// JSON. The other hyperparameters are the learner's part of it.
const trainingTensor = models.StatePrefix + "training"

type savedTraining struct {
	settings
	NEnvs      int `json:"n_envs"`
	NTimesteps int `json:"n_timesteps"`
}

// putTraining adds to a checkpoint what the training was started with.
func (c *trainConfig) putTraining(f *models.File) error {
	text, err := json.Marshal(savedTraining{c.settings(), c.params.NEnvs, c.params.NTimesteps})
	if err != nil {
		return err
	}
	f.Put(safetensors.Tensor{Name: trainingTensor, Shape: []int{len(text)}, Data: text})
	return nil
}

// trainingOf returns what a checkpoint's training was started with. One of an earlier version says
// less: the rest is what c has.
func (c *trainConfig) trainingOf(f models.File) (s settings, h hyperparams, err error) {
	a, err := algorithms.Get(f.Meta.Algo)
	if err != nil {
		return s, h, err
	}
	h = hyperparams{Config: a.Defaults()}
	values := map[string]any{}
	if err := json.Unmarshal(f.Meta.Config, &values); err != nil {
		return s, h, fmt.Errorf("%w: hyperparameters: %w", models.ErrMismatch, err)
	}
	var saved savedTraining
	if text, err := tensor[uint8](f, trainingTensor); err == nil {
		if err := json.Unmarshal(text, &saved); err != nil {
			return s, h, fmt.Errorf("%w: %s: %w", models.ErrMismatch, trainingTensor, err)
		}
	} else {
		m := model{meta: f.Meta}
		kwargs, err := m.kwargs()
		if err != nil {
			return s, h, err
		}
		tuned, err := readHyperparams(f.Meta.Algo, f.Meta.Env, "", nil)
		if err != nil {
			return s, h, err
		}
		saved = savedTraining{c.settings(), tuned.NEnvs, tuned.NTimesteps}
		saved.Algo, saved.Env, saved.EnvKwargs, saved.Seed = f.Meta.Algo, f.Meta.Env, kwargs, f.Meta.Seed
	}
	values["n_envs"], values["n_timesteps"] = saved.NEnvs, saved.NTimesteps
	return saved.settings, h, h.set(values)
}
