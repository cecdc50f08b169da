package run

import (
	"encoding/json"
	"errors"
	"fmt"
	"io/fs"
	"maps"
	"math"
	"os"
	"path/filepath"
	"slices"
	"strconv"
	"strings"

	"github.com/kubernasium/kubernasium/agents/algorithms"
	"github.com/kubernasium/kubernasium/agents/replay"
	"github.com/kubernasium/kubernasium/envs"
	"github.com/kubernasium/kubernasium/models"
	"github.com/kubernasium/kubernasium/trainer/cli"
)

// A resumed training keeps the settings and hyperparameters of its checkpoint. Those that define it are fixed:
// a flag with another value is an error. The others may change; args.yml and config.yml record the change.

// changeable lists the hyperparameters that a resumed training may change, because no state of a learner
// depends on them.
var changeable = []string{
	"n_timesteps", "learning_rate", "clip_range", "clip_range_vf", "target_kl", "ent_coef", "vf_coef", "max_grad_norm", "n_epochs", "batch_size",
	"gradient_steps", "exploration_fraction", "exploration_initial_eps", "exploration_final_eps", "exploration_decay", "checkpoint_replay_buffer",
}

// Changes holds the options that the user gives to a resumed training. Their values are in its Config.
type Changes struct {
	Given  func(option string) bool // whether the user gave an option, by the name of its flag
	Conf   string                   // file of hyperparameters; empty: none
	Params map[string]any           // hyperparameters, which take precedence over the file
}

// LoadCheckpoint sets c from the checkpoint c.Resume, a file or the newest checkpoint of a folder, and applies
// the changes. For a folder of several trainings it returns their seeds.
func (c *Config) LoadCheckpoint(ch Changes) (seeds []uint64, err error) {
	path := c.Resume
	defer func() {
		if err != nil && !strings.Contains(err.Error(), path) {
			err = fmt.Errorf("resume %s: %w", path, err)
		}
	}()
	info, err := os.Stat(path)
	if err != nil {
		return nil, err
	}
	if ch.Given("log-folder") {
		if err := c.checkLogFolder(); err != nil {
			return nil, err
		}
	}
	if info.IsDir() {
		if seeds, err = c.loadSeeds(ch); err != nil || seeds != nil {
			return seeds, err
		}
		a, err := ReadArgs(path)
		if err != nil {
			return nil, err
		}
		if c.Resume, err = newestCheckpoint(path, a.Env); err != nil {
			return nil, err
		}
		if c.Resume == "" {
			return nil, errors.New("the folder has no checkpoint: train again")
		}
	}
	f, err := models.ReadFile(c.Resume)
	if err != nil {
		return nil, err
	}
	s, h, err := c.trainingOf(f)
	if err != nil {
		return nil, err
	}
	if err := c.adopt(ch, s, h); err != nil {
		return nil, err
	}
	// Whole rollouts may have taken a complete training beyond its number of timesteps.
	if n := c.Params.NTimesteps; ch.Given("n-timesteps") && n != h.NTimesteps && int64(n) < f.Meta.Timesteps {
		return nil, fmt.Errorf("--n-timesteps %d, but the checkpoint has %d timesteps already", c.Params.NTimesteps, f.Meta.Timesteps)
	}
	return nil, nil
}

// loadSeeds is LoadCheckpoint for a folder of several trainings. For any other folder it returns no seeds.
func (c *Config) loadSeeds(ch Changes) ([]uint64, error) {
	a, err := ReadArgs(c.Resume)
	if err != nil {
		return nil, fmt.Errorf("%w: want a checkpoint, or the folder of a training", err)
	}
	if len(a.Seeds) == 0 {
		return nil, nil
	}
	h, err := ReadHyperparams(a.Algo, a.Env, filepath.Join(c.Resume, "config.yml"), nil)
	if err != nil {
		return nil, err
	}
	begun := h.NTimesteps
	if err := c.adopt(ch, a.Settings, h); err != nil {
		return nil, err
	}
	if c.Params.NTimesteps < begun {
		return nil, fmt.Errorf("--n-timesteps %d, want at least the %d that the trainings were begun with", c.Params.NTimesteps, begun)
	}
	return a.Seeds, nil
}

// checkLogFolder rejects a --log-folder that does not contain the checkpoint, because a resumed training writes
// to its checkpoint's folder.
func (c *Config) checkLogFolder() error {
	root, err := filepath.Abs(c.LogFolder)
	if err != nil {
		return err
	}
	path, err := filepath.Abs(c.Resume)
	if err != nil {
		return err
	}
	if rel, err := filepath.Rel(root, path); err != nil || rel == ".." || strings.HasPrefix(rel, ".."+string(filepath.Separator)) {
		return fmt.Errorf("--log-folder %s: a resumed training writes to the folder of its checkpoint: leave it out", c.LogFolder)
	}
	return nil
}

// adopt sets settings and hyperparameters from the checkpoint and applies the changes.
func (c *Config) adopt(ch Changes, s Settings, h Hyperparams) error {
	if ch.Given("env") { // the flag may omit the version
		spec, err := envs.Lookup(c.Env)
		if err != nil {
			return err
		}
		c.Env = spec.ID
	}
	asked := c.settings()
	asked.Imitate, asked.ImitateSteps, asked.ImitateEpochs = c.Imitate.Baseline, c.Imitate.Steps, c.Imitate.Epochs
	asked.ImitateLearningRate, asked.ImitateWeightDecay = c.Imitate.Rate, c.Imitate.WeightDecay
	asked.ImitateRounds, s.ImitateRounds = c.Imitate.Rounds, max(1, s.ImitateRounds)
	asked.WarmStartSteps = c.WarmStart.Steps
	for _, o := range []struct {
		flag        string
		asked, kept any
	}{
		{"algo", asked.Algo, s.Algo}, {"env", asked.Env, s.Env}, {"seed", asked.Seed, s.Seed},
		{"env-kwargs", asked.EnvKwargs, s.EnvKwargs}, {"eval-env-kwargs", asked.EvalEnvKwargs, s.EvalEnvKwargs}, {"eval-episodes", asked.EvalEpisodes, s.EvalEpisodes},
		{"imitate", asked.Imitate, s.Imitate}, {"imitate-steps", asked.ImitateSteps, s.ImitateSteps}, {"imitate-epochs", asked.ImitateEpochs, s.ImitateEpochs},
		{"imitate-rounds", asked.ImitateRounds, s.ImitateRounds},
		{"imitate-learning-rate", asked.ImitateLearningRate, s.ImitateLearningRate}, {"imitate-weight-decay", asked.ImitateWeightDecay, s.ImitateWeightDecay},
		{"warm-start", asked.WarmStart, s.WarmStart}, {"warm-start-steps", asked.WarmStartSteps, s.WarmStartSteps}, {"transitions", asked.Transitions, s.Transitions},
		{"dataset", asked.Dataset, s.Dataset},
	} {
		if ch.Given(o.flag) && !within(o.asked, o.kept) {
			return fmt.Errorf("%w: --%s %s, but the training began with %s, which a resumed one keeps: leave it out, or start another training",
				models.ErrMismatch, o.flag, asJSON(o.asked), asJSON(o.kept))
		}
	}
	c.changes = nil
	for _, o := range []struct {
		flag     string
		was, now any
		take     func()
	}{
		{"engine", s.Engine, asked.Engine, func() { s.Engine = asked.Engine }},
		{"eval-freq", s.EvalFreq, asked.EvalFreq, func() { s.EvalFreq = asked.EvalFreq }},
		{"save-freq", s.SaveFreq, asked.SaveFreq, func() { s.SaveFreq = asked.SaveFreq }},
		{"reward-threshold", s.RewardThreshold, asked.RewardThreshold, func() { s.RewardThreshold = asked.RewardThreshold }},
	} {
		if ch.Given(o.flag) {
			c.change(strings.ReplaceAll(o.flag, "-", "_"), o.was, o.now)
			o.take()
		}
	}
	c.use(s)
	return c.adoptParams(ch, h)
}

// change records an option whose value differs from the resumed training's.
func (c *Config) change(what string, was, now any) {
	if a, b := asJSON(was), asJSON(now); a != b {
		c.changes = append(c.changes, fmt.Sprintf("%s is %s, was %s", what, b, a))
	}
}

// adoptParams sets the hyperparameters from the checkpoint and applies the changes.
func (c *Config) adoptParams(ch Changes, h Hyperparams) error {
	was, err := h.Values()
	if err != nil {
		return err
	}
	algo, err := algorithms.Get(c.Algo)
	if err != nil {
		return err
	}
	asked := map[string]any{}
	if ch.Conf != "" {
		layer, err := Configuration(c.Algo, c.Env, ch.Conf)
		if err != nil {
			return err
		}
		if asked, err = ExpandZoo(algo, layer); err != nil {
			return inFile(ch.Conf, err)
		}
	}
	given, err := ExpandZoo(algo, ch.Params)
	if err != nil {
		return err
	}
	c.Params = Hyperparams{Config: algo.Defaults()}
	if err := c.Params.set(was); err != nil {
		return err
	}
	if err := c.Params.set(cli.MergeKwargs(asked, given)); err != nil {
		return err
	}
	now, err := c.Params.Values()
	if err != nil {
		return err
	}
	for _, name := range slices.Sorted(maps.Keys(now)) {
		if !slices.Contains(changeable, name) && asJSON(was[name]) != asJSON(now[name]) {
			return fmt.Errorf("%w: %s is %s, but the training began with %s, which a resumed one keeps: leave it out, or start another training; what may change is %s",
				models.ErrMismatch, name, asJSON(now[name]), asJSON(was[name]), strings.Join(changeable, ", "))
		}
		c.change(name, was[name], now[name])
	}
	return nil
}

// within reports whether asked equals kept or, if both are maps, kept has all entries of asked.
func within(asked, kept any) bool {
	m, ok := asked.(map[string]any)
	if !ok {
		return asJSON(asked) == asJSON(kept)
	}
	for name, v := range m {
		if k, ok := kept.(map[string]any)[name]; !ok || asJSON(v) != asJSON(k) {
			return false
		}
	}
	return true
}

// asJSON formats a value so that equal numbers give equal text.
func asJSON(v any) string {
	text, err := json.Marshal(v)
	if err != nil {
		return fmt.Sprint(v)
	}
	return string(text)
}

// newestCheckpoint returns the last model in the folder of a training, or the checkpoint with the most timesteps if
// there is no last model or it has fewer, or "" if there is neither.
func newestCheckpoint(folder, env string) (string, error) {
	found, err := checkpointsAfter(folder, -1)
	if err != nil {
		return "", err
	}
	final := filepath.Join(folder, EnvName(env)+models.Ext)
	if _, err := os.Stat(final); err == nil {
		if len(found) == 0 {
			return final, nil
		}
		f, err := models.ReadFile(final)
		if err != nil {
			return final, nil // who resumes from it reports the error
		}
		// A complete training that was resumed for longer has later checkpoints until its new end.
		if found, err = checkpointsAfter(folder, int(f.Meta.Timesteps)); err != nil || len(found) == 0 {
			return final, err
		}
	}
	if len(found) == 0 {
		return "", nil
	}
	return found[len(found)-1], nil
}

// Newest returns the newest resumable folder below c.LogFolder of a training of the algorithm in the
// environment: one with a checkpoint, or one of several seeds. It returns "" if there is none.
func (c *Config) Newest() (string, error) {
	parent := filepath.Join(c.LogFolder, c.Algo)
	entries, err := os.ReadDir(parent)
	if errors.Is(err, fs.ErrNotExist) {
		return "", nil
	} else if err != nil {
		return "", err
	}
	newest, folder := 0, ""
	for _, e := range entries {
		number, ok := strings.CutPrefix(e.Name(), EnvName(c.Env)+"_")
		n, err := strconv.Atoi(number)
		if !ok || err != nil || n <= newest {
			continue
		}
		path := filepath.Join(parent, e.Name())
		checkpoint, err := newestCheckpoint(path, c.Env)
		if err != nil {
			return "", err
		}
		if checkpoint == "" {
			if a, err := ReadArgs(path); err != nil || len(a.Seeds) == 0 {
				continue // the training ended before its first checkpoint
			}
		}
		newest, folder = n, path
	}
	return folder, nil
}

// checkpointsAfter returns the checkpoints in a folder with more timesteps than step, sorted by timesteps.
func checkpointsAfter(folder string, step int) ([]string, error) {
	entries, err := os.ReadDir(folder)
	if errors.Is(err, fs.ErrNotExist) {
		return nil, nil
	}
	if err != nil {
		return nil, err
	}
	at := map[string]int{}
	var found []string
	for _, e := range entries {
		number, isCheckpoint := strings.CutPrefix(e.Name(), "rl_model_")
		number, isModel := strings.CutSuffix(number, "_steps.safetensors")
		if n, err := strconv.Atoi(number); isCheckpoint && isModel && err == nil && n > step {
			path := filepath.Join(folder, e.Name())
			found, at[path] = append(found, path), n
		}
	}
	slices.SortFunc(found, func(a, b string) int { return at[a] - at[b] })
	return found, nil
}

// checkReplayBuffer returns an error if an off-policy algorithm would resume without its replay buffer, unless
// the user permits an inexact training; then it prints a warning.
func (r *Run) checkReplayBuffer(f models.File) error {
	cfg, ok := r.Params.Config.(algorithms.OffPolicyConfig)
	if !ok || replay.InCheckpoint(f) {
		return nil
	}
	held, learningStarts := cfg.ReplayCheckpoints()
	if held {
		return fmt.Errorf("resume %s: it has no replay buffer, without which the training is not that of an uninterrupted one: "+
			"resume from the last model or a checkpoint rl_model_<n>_steps.safetensors, or add --params checkpoint_replay_buffer:false to begin with an empty buffer", r.Resume)
	}
	r.inexact = true
	r.warn("resume %s: without its replay buffer: %d steps are collected before it learns again, and the result is not that of an uninterrupted training",
		r.Resume, learningStarts)
	return nil
}

// supersede moves files that the training wrote after the checkpoint to the folder superseded. If the resumed
// training is exact, the best model stays, because the training will reach it again.
func (r *Run) supersede() error {
	if err := models.SweepTemporary(r.Folder); err != nil {
		return err
	}
	stale, err := checkpointsAfter(r.Folder, r.First)
	if err != nil {
		return err
	}
	later := func(path string) (bool, error) {
		f, err := models.ReadFile(path)
		if errors.Is(err, fs.ErrNotExist) {
			return false, nil
		}
		return err == nil && f.Meta.Timesteps > int64(r.First), err
	}
	if is, err := later(r.LastModel()); err != nil {
		return err
	} else if is {
		stale = append(stale, r.LastModel(), r.path("learning_curve.png"), r.path("comparison.png"), r.path("comparison.csv"), r.path("comparison_episodes.csv"))
	}
	if r.inexact || len(r.changes) > 0 {
		if is, err := later(r.BestModel()); err != nil {
			return err
		} else if is {
			stale = append(stale, r.BestModel())
			r.best = math.Inf(-1) // a later model has replaced the best model of that time
		}
	}
	var moved []string
	for _, path := range stale {
		if err := os.MkdirAll(r.path("superseded"), 0o755); err != nil {
			return err
		}
		err := os.Rename(path, filepath.Join(r.path("superseded"), filepath.Base(path)))
		switch {
		case err == nil:
			moved = append(moved, filepath.Base(path))
		case !errors.Is(err, fs.ErrNotExist):
			return err
		}
	}
	if len(moved) > 0 {
		r.warn("resume %s: moved what the training wrote later to %s: %s", r.Resume, r.path("superseded"), strings.Join(moved, ", "))
	}
	return nil
}

// warn prints a line, with or without a progress bar.
func (r *Run) warn(format string, args ...any) {
	fmt.Fprintf(r.output(), format+"\n", args...)
}
