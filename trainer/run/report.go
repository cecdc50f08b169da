package run

import (
	"errors"
	"fmt"
	"path/filepath"
	"runtime"
	"time"

	"github.com/spf13/cobra"

	"github.com/kubernasium/kubernasium/envs"
	"github.com/kubernasium/kubernasium/trainer/cli"
	"github.com/kubernasium/kubernasium/trainer/play"
)

// Result is the last line of `train --json`.
type Result struct {
	Algo         string  `json:"algo"`
	Env          string  `json:"env"`
	Timesteps    int     `json:"timesteps"`
	Seconds      float64 `json:"seconds"` // of the training, evaluations included
	EvalMean     float64 `json:"eval_mean"`
	EvalStd      float64 `json:"eval_std"`
	EvalEpisodes int     `json:"eval_episodes"`
	Model        string  `json:"model"`
	Stopped      bool    `json:"stopped_early,omitempty"` // at the reward threshold
}

// Train trains, compares if asked to, and prints what came of it.
func Train(cmd *cobra.Command, spec *envs.Spec, c Config, compare int) error {
	ctx := cmd.Context()
	start := time.Now()
	r, err := New(ctx, spec, c, cmd.ErrOrStderr())
	if err != nil {
		return err
	}
	defer r.Close()
	if err := r.Train(ctx); err != nil {
		return err
	}
	result, err := r.Result(ctx)
	if err != nil {
		return err
	}
	result.Seconds = time.Since(start).Seconds()
	if cli.WantJSON(cmd) && compare == 0 {
		return cli.PrintJSON(cmd, result)
	}
	w := cmd.OutOrStdout()
	if !cli.WantJSON(cmd) {
		if result.Stopped {
			fmt.Fprintf(w, "stopped: the mean return of an evaluation, %.2f, reached the threshold %.2f\n", result.EvalMean, *c.Threshold)
		}
		fmt.Fprintf(w, "%s on %s: %d steps in %.0f s, mean return %.2f ± %.2f over %s\n",
			result.Algo, result.Env, result.Timesteps, result.Seconds, result.EvalMean, result.EvalStd, play.EpisodesText(spec, play.HeldOut(spec, c.EnvKwargs, c.EvalEnvKwargs), result.EvalEpisodes))
	}
	if compare > 0 { // in this process: baselines look at the true state
		cc := play.CompareConfig{Spec: spec, Trained: c.EnvKwargs, Given: c.EvalEnvKwargs, Models: []string{r.BestModel()}, Episodes: compare,
			Seed: play.CompareSeed, Plot: r.path("comparison.png"), CSV: r.path("comparison.csv")}
		if err := play.CompareAndReport(cmd, cc, &result); err != nil {
			if errors.Is(err, cli.ErrInterrupted) {
				err = fmt.Errorf("%w; the training is complete, and trainer compare --model %s compares it", err, r.BestModel())
			}
			return err
		}
	}
	if !cli.WantJSON(cmd) {
		r.printFiles(w)
	}
	return nil
}

// TrainSeeds trains once with each seed, jobs at one time, each in its own folder, and
// prints a table of what came of them.
func TrainSeeds(cmd *cobra.Command, spec *envs.Spec, c Config, seeds []uint64, jobs, compare int) error {
	if jobs < 0 {
		return fmt.Errorf("--n-jobs %d, want at least 1", jobs)
	}
	if jobs == 0 {
		jobs = runtime.GOMAXPROCS(0)
	}
	folder, err := c.openSeeds(seeds)
	if err != nil {
		return err
	}
	res, err := trainSeeds(cmd, spec, c, folder, seeds, jobs)
	if err != nil {
		return err
	}
	if err := res.write(); err != nil {
		return err
	}
	var failed []error
	var models []string
	for _, s := range res.Seeds {
		if s.err != nil {
			failed = append(failed, fmt.Errorf("seed %d: %w", s.Seed, s.err))
		} else {
			models = append(models, s.best)
		}
	}
	if cmd.Context().Err() != nil {
		failed = append(failed, fmt.Errorf("all of them go on with --resume %s", folder))
	}
	if cli.WantJSON(cmd) && (compare == 0 || len(models) == 0 || cmd.Context().Err() != nil) {
		return errors.Join(append(failed, cli.PrintJSON(cmd, res))...)
	}
	if !cli.WantJSON(cmd) {
		if err := res.print(cmd); err != nil {
			return err
		}
	}
	if compare > 0 && len(models) > 0 && cmd.Context().Err() == nil {
		cc := play.CompareConfig{Spec: spec, Trained: c.EnvKwargs, Given: c.EvalEnvKwargs, Models: models, Episodes: compare, Seed: play.CompareSeed,
			Plot: filepath.Join(folder, "comparison.png"), CSV: filepath.Join(folder, "comparison.csv")}
		failed = append(failed, play.CompareAndReport(cmd, cc, res))
	}
	return errors.Join(failed...)
}
