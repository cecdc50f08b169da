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

// study holds everything that determines the result of a search.
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
	Rungs        []int          `json:"rungs"`        // timesteps of each rung; the last is Timesteps
}

// rungResult is the result of a trial at a rung.
type rungResult struct {
	Trial     int            `json:"trial"`
	Rung      int            `json:"rung"`
	Timesteps int            `json:"timesteps"`
	Mean      float64        `json:"mean"`
	Std       float64        `json:"std"`
	Params    map[string]any `json:"params"`
	Error     string         `json:"error,omitempty"`  // why it failed; then it has no mean
	Folder    string         `json:"folder,omitempty"` // folder of a shared study's attempt, below the study's folder
}

// complete checks the command's arguments, and fills in defaults and the contents of files.
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
	if s.Fixed, err = run.ExpandZoo(algo, s.Fixed); err != nil { // under the names of the search space
		return err
	}
	s.Timesteps = cmp.Or(s.Timesteps, h.NTimesteps)
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

// rungs returns the timesteps of each rung. The last rung has all of them, and each earlier one a Reduction-th
// of the next, as long as more than one trial is left and the rung has at least MinResource. They are rounded
// up to multiples of unit, and equal ones are merged.
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

// maxRounding is the maximum factor by which rounded rungs may lengthen a study.
const maxRounding = 4

// setRungs sets Rungs, and Timesteps to the last of them, such that every trial completes a rollout at each
// rung: all trials of a rung train for the same number of steps.
func (s *study) setRungs(space searchSpace) error {
	unit := 1
	for trial := range s.Trials {
		drawn, err := s.params(space, trial)
		if err != nil {
			return err
		}
		h, err := run.ReadHyperparams(s.Algo, s.Env, "", drawn)
		if err != nil {
			continue // the trial fails, with this error
		}
		if n := h.Config.RolloutSteps(h.NEnvs); n > 0 {
			unit = lcm(unit, n)
		}
		if unit > maxRounding*s.Timesteps {
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

// params returns the hyperparameters of a trial: those tuned for the environment, overridden by the drawn ones,
// overridden by the fixed ones. They include all that differ from the algorithm's defaults, so that a file with
// them is complete.
func (s *study) params(space searchSpace, trial int) (map[string]any, error) {
	base, err := run.ReadHyperparams(s.Algo, s.Env, "", maps.Clone(s.Fixed))
	if err != nil {
		return nil, err
	}
	// Each trial has its own generator, so that the first trials of a longer study are the same.
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

// searchStream separates the random numbers of the search from those of trainings, which may have the same
// seed. Its value is arbitrary.
const searchStream = 0x7475_6e65

// promote returns the trials of a rung that reach the next one: the best 1/reduction, at least one, in the
// order of their means. It promotes no failed trials.
func promote(results []rungResult, reduction int) []int {
	ranked := slices.DeleteFunc(slices.Clone(results), func(r rungResult) bool { return r.Error != "" })
	slices.SortFunc(ranked, byMean)
	var trials []int
	for _, r := range ranked[:min(len(ranked), max(1, len(results)/reduction))] {
		trials = append(trials, r.Trial)
	}
	return trials
}

// byMean orders results from the best to the worst; of equal ones, the earlier trial is first.
func byMean(a, b rungResult) int {
	return cmp.Or(cmp.Compare(b.Mean, a.Mean), cmp.Compare(a.Trial, b.Trial))
}

// checkStudy checks the contents of a journal.
func checkStudy(s *study, results []rungResult) error {
	if len(s.Rungs) == 0 {
		return errors.New("a study without rungs, of an older trainer, whose trials of a rung were not trained for as long: begin it anew")
	}
	if n := len(results); n > 0 && (results[n-1].Trial < 0 || results[n-1].Trial >= s.Trials) {
		return fmt.Errorf("trial %d of %d", results[n-1].Trial, s.Trials)
	}
	return nil
}

// find returns the result of a trial at a rung, if the journal has it.
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
