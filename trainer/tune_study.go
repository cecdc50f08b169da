package main

import (
	"cmp"
	"fmt"
	"maps"
	"os"
	"slices"

	"github.com/kubernasium/kubernasium/envs"
)

// study says everything that the outcome of a search depends on.
type study struct {
	Algo         string         `json:"algo"`
	Env          string         `json:"env"`
	EnvKwargs    map[string]any `json:"env_kwargs"`
	EvalKwargs   map[string]any `json:"eval_env_kwargs"`
	Engine       string         `json:"engine"`
	Seed         uint64         `json:"seed"`
	Trials       int            `json:"n_trials"`
	Reduction    int            `json:"reduction_factor"`
	MinResource  int            `json:"min_resource"`
	Timesteps    int            `json:"n_timesteps"`
	EvalEpisodes int            `json:"eval_episodes"`
	Fixed        map[string]any `json:"fixed"`        // hyperparameters that are not searched
	Space        string         `json:"search_space"` // YAML
}

// rungResult is what a trial came to at a rung.
type rungResult struct {
	Trial     int            `json:"trial"`
	Rung      int            `json:"rung"`
	Timesteps int            `json:"timesteps"`
	Mean      float64        `json:"mean"`
	Std       float64        `json:"std"`
	Params    map[string]any `json:"params"`
	Error     string         `json:"error,omitempty"` // why it failed: it has no mean then
}

// parse sets what the arguments of the command say, checks it and reads its files.
func (s *study) parse(kwargs, evalKwargs, params []string, conf, spaceFile string) (err error) {
	if s.EnvKwargs, err = parseKwargs("env-kwargs", kwargs); err != nil {
		return err
	}
	if s.EvalKwargs, err = parseKwargs("eval-env-kwargs", evalKwargs); err != nil {
		return err
	}
	if s.Fixed, err = parseKwargs("params", params); err != nil {
		return err
	}
	return s.complete(conf, spaceFile)
}

// complete fills in defaults and the contents of files.
func (s *study) complete(conf, spaceFile string) error {
	if err := checkAlgo(s.Algo); err != nil {
		return err
	}
	spec, err := envs.Lookup(s.Env)
	if err != nil {
		return err
	}
	s.Env = spec.ID
	if conf != "" {
		layer, err := configuration(s.Algo, s.Env, conf)
		if err != nil {
			return err
		}
		s.Fixed = merge(layer, s.Fixed)
	}
	h, err := readHyperparams(s.Algo, s.Env, "", maps.Clone(s.Fixed))
	if err != nil {
		return err
	}
	if s.Timesteps == 0 {
		s.Timesteps = h.NTimesteps
	}
	if s.Timesteps < 1 || s.Trials < 1 || s.Reduction < 2 || s.MinResource < 1 || s.EvalEpisodes < 1 || h.NEnvs < 1 {
		return fmt.Errorf("n-timesteps %d, n-trials %d, min-resource %d, eval-episodes %d, n_envs %d: want at least 1 of each; reduction-factor %d: want at least 2",
			s.Timesteps, s.Trials, s.MinResource, s.EvalEpisodes, h.NEnvs, s.Reduction)
	}
	if spaceFile == "" {
		text, err := searchSpaces.ReadFile("searchspaces/" + s.Algo + ".yml")
		s.Space = string(text)
		return err
	}
	text, err := os.ReadFile(spaceFile)
	if err != nil {
		return err
	}
	s.Space = string(text)
	_, err = parseSearchSpace(spaceFile, text)
	return err
}

// rungs returns the timesteps of each rung: the last is all of them, and each before it one in
// Reduction, as long as that leaves trials to choose from and is at least MinResource.
func (s *study) rungs() []int {
	steps := []int{s.Timesteps}
	for n := s.Trials / s.Reduction; n >= 1 && steps[0]/s.Reduction >= s.MinResource; n /= s.Reduction {
		steps = append([]int{steps[0] / s.Reduction}, steps...)
	}
	return steps
}

// promote returns the trials of a rung that go on: the best one in reduction, at least one, in
// the order of their means. Trials that failed do not.
func promote(results []rungResult, reduction int) []int {
	ranked := slices.DeleteFunc(slices.Clone(results), func(r rungResult) bool { return r.Error != "" })
	slices.SortFunc(ranked, byMean)
	var trials []int
	for _, r := range ranked[:min(len(ranked), max(1, len(results)/reduction))] {
		trials = append(trials, r.Trial)
	}
	return trials
}

// byMean orders the best first, and the first of equals.
func byMean(a, b rungResult) int {
	return cmp.Or(cmp.Compare(b.Mean, a.Mean), cmp.Compare(a.Trial, b.Trial))
}
