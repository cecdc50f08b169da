package tune

import (
	"cmp"
	"errors"
	"fmt"
	"maps"
	"math/rand/v2"
	"os"
	"slices"
	"strings"

	"github.com/kubernasium/kubernasium/agents/algorithms"
	"github.com/kubernasium/kubernasium/envs"
	"github.com/kubernasium/kubernasium/envs/pcg"
	"github.com/kubernasium/kubernasium/trainer/cli"
	"github.com/kubernasium/kubernasium/trainer/run"
	"github.com/kubernasium/kubernasium/trainer/searchspaces"
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
	Rungs        []int          `json:"rungs"`        // timesteps of each rung, the last Timesteps
}

// rungResult is what a trial came to at a rung.
type rungResult struct {
	Trial     int            `json:"trial"`
	Rung      int            `json:"rung"`
	Timesteps int            `json:"timesteps"`
	Mean      float64        `json:"mean"`
	Std       float64        `json:"std"`
	Params    map[string]any `json:"params"`
	Error     string         `json:"error,omitempty"`  // why it failed: it has no mean then
	Folder    string         `json:"folder,omitempty"` // of a shared study's attempt, below that of all
}

// parse sets what the arguments of the command say, checks it and reads its files.
func (s *study) parse(kwargs, evalKwargs, params []string, conf, spaceFile string) (err error) {
	if s.EnvKwargs, err = cli.ParseKwargs("env-kwargs", kwargs); err != nil {
		return err
	}
	if s.EvalKwargs, err = cli.ParseKwargs("eval-env-kwargs", evalKwargs); err != nil {
		return err
	}
	if s.Fixed, err = cli.ParseKwargs("params", params); err != nil {
		return err
	}
	return s.complete(conf, spaceFile)
}

// complete fills in defaults and the contents of files.
func (s *study) complete(conf, spaceFile string) error {
	algo, err := algorithms.Get(s.Algo)
	if err != nil {
		return err
	}
	if algo.Offline {
		return fmt.Errorf("tune searches for %s, and not for %s, which learns from a dataset", strings.Join(algorithms.Names(nil), ", "), s.Algo)
	}
	spec, err := envs.Lookup(s.Env)
	if err != nil {
		return err
	}
	s.Env = spec.ID
	if conf != "" {
		layer, err := run.Configuration(s.Algo, s.Env, conf)
		if err != nil {
			return err
		}
		s.Fixed = cli.MergeKwargs(layer, s.Fixed)
	}
	h, err := run.ReadHyperparams(s.Algo, s.Env, "", maps.Clone(s.Fixed))
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
	var text []byte
	if spaceFile == "" {
		spaceFile = "searchspaces/" + s.Algo + ".yml"
		text, err = searchspaces.Files.ReadFile(s.Algo + ".yml")
	} else {
		text, err = os.ReadFile(spaceFile)
	}
	if err != nil {
		return err
	}
	s.Space = string(text)
	space, err := parseSearchSpace(spaceFile, text)
	if err != nil {
		return err
	}
	return s.setRungs(space)
}

// rungs returns the timesteps of each rung: the last is all of them, and each before it one in
// Reduction, as long as that leaves trials to choose from and is at least MinResource. All are
// multiples of unit, the next above, and two that this makes equal are one.
func (s *study) rungs(unit int) []int {
	even := func(steps int) int { return (steps + unit - 1) / unit * unit }
	steps := s.Timesteps
	rungs := []int{even(steps)}
	for n := s.Trials / s.Reduction; n >= 1 && steps/s.Reduction >= s.MinResource; n /= s.Reduction {
		steps /= s.Reduction
		if even(steps) < rungs[0] {
			rungs = append([]int{even(steps)}, rungs...)
		}
	}
	return rungs
}

// mostRounding is how many times as long as asked for rungs may make a study.
const mostRounding = 4

// setRungs sets Rungs, and Timesteps to the last, such that every trial ends its rollouts at each:
// all trials of a rung are trained for as many steps.
func (s *study) setRungs(space searchSpace) error {
	unit := 1
	for trial := range s.Trials {
		drawn, err := s.params(space, trial)
		if err != nil {
			return err
		}
		h, err := run.ReadHyperparams(s.Algo, s.Env, "", drawn)
		if err != nil {
			continue // the trial fails, and says why
		}
		if n := h.Config.RolloutSteps(h.NEnvs); n > 0 {
			unit = lcm(unit, n)
		}
		if unit > mostRounding*s.Timesteps {
			return fmt.Errorf("the rollouts of trials 0 to %d, of n_steps times n_envs, have the least common multiple of %d steps, and all trials of a rung are trained for as long: want n-timesteps of at least %d, not %d, or n_steps that divide one another",
				trial, unit, unit, s.Timesteps)
		}
	}
	s.Rungs = s.rungs(unit)
	s.Timesteps = s.Rungs[len(s.Rungs)-1]
	return nil
}

// lcm returns the least common multiple of numbers above 0.
func lcm(a, b int) int {
	x, y := a, b
	for y > 0 {
		x, y = y, x%y
	}
	return a / x * b
}

// params returns the hyperparameters of a trial: those tuned for the environment, over them those
// drawn, and over them those fixed. They are all that differ from the algorithm's defaults, so
// that a file of them stands for itself.
func (s *study) params(space searchSpace, trial int) (map[string]any, error) {
	base, err := run.ReadHyperparams(s.Algo, s.Env, "", maps.Clone(s.Fixed))
	if err != nil {
		return nil, err
	}
	// Each trial has a generator of its own, so that more trials begin with the same ones.
	rng := rand.New(pcg.New(s.Seed ^ uint64(trial)<<32 ^ searchStream))
	drawn, err := space.sample(rng, map[string]any{"n_envs": base.NEnvs}, s.Fixed)
	if err != nil {
		return nil, err
	}
	tuned, err := run.Configuration(s.Algo, s.Env, "")
	if err != nil {
		return nil, err
	}
	return cli.MergeKwargs(tuned, drawn, s.Fixed, map[string]any{"n_timesteps": s.Timesteps}), nil
}

// searchStream separates the random numbers of the search from those of trainings, which may
// have the same seed. Its value is arbitrary.
const searchStream = 0x7475_6e65

// promote returns the trials of a rung that reach the next: the best one in reduction, at least one, in
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

// checkStudy checks what a journal holds so far.
func checkStudy(s *study, results []rungResult) error {
	if len(s.Rungs) == 0 {
		return errors.New("a study without rungs, of an older trainer, whose trials of a rung were not trained for as long: begin it anew")
	}
	if n := len(results); n > 0 && (results[n-1].Trial < 0 || results[n-1].Trial >= s.Trials) {
		return fmt.Errorf("trial %d of %d", results[n-1].Trial, s.Trials)
	}
	return nil
}

// find returns the result of a trial at a rung, if it is on record.
func (t *tuner) find(trial, rung int) (rungResult, bool) {
	t.mu.Lock()
	defer t.mu.Unlock()
	for _, r := range t.results {
		if r.Trial == trial && r.Rung == rung {
			return r, true
		}
	}
	return rungResult{}, false
}
