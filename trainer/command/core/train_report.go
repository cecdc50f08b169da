package core

import (
	"errors"
	"fmt"
	"io"
	"maps"
	"os"
	"path/filepath"
	"time"

	"github.com/spf13/cobra"

	"github.com/kubernasium/kubernasium/envs"
	"github.com/kubernasium/kubernasium/trainer/cli"
	"github.com/kubernasium/kubernasium/trainer/play"
	"github.com/kubernasium/kubernasium/trainer/run"
)

// train trains, then compares with baselines on the given number of episodes unless it is 0, and prints the
// result.
func train(cmd *cobra.Command, spec *envs.Spec, c run.Config, compare int) error {
	ctx := cmd.Context()
	start := time.Now()
	r, err := run.New(ctx, spec, c, cmd.ErrOrStderr())
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
			fmt.Fprintf(w, "stopped: the mean return of an evaluation, %.2f, reached the threshold %.2f\n", result.Reached, *c.Threshold)
		}
		fmt.Fprintf(w, "%s on %s: %d steps in %.0f s, mean return %.2f ± %.2f over %s\n",
			result.Algo, result.Env, result.Timesteps, result.Seconds, result.EvalMean, result.EvalStd, play.EpisodesText(spec, play.Validation(spec, c.EnvKwargs, c.EvalEnvKwargs), result.EvalEpisodes))
	}
	if compare > 0 {
		if err := compareTrained(cmd, spec, c, []string{r.BestModel()}, compare, r.Folder, &result); err != nil {
			if errors.Is(err, cli.ErrInterrupted) {
				err = fmt.Errorf("%w; the training is complete, and trainer compare --model %s compares it", err, r.BestModel())
			}
			return err
		}
	}
	if !cli.WantJSON(cmd) {
		printFiles(w, r)
	}
	return nil
}

// compareTrained compares models with every baseline, in this process, because baselines read the true state.
// It plays held-out instances even if the training was evaluated on others. It writes its files to the folder.
func compareTrained(cmd *cobra.Command, spec *envs.Spec, c run.Config, models []string, episodes int, folder string, trained any) error {
	given := maps.Clone(c.EvalEnvKwargs)
	maps.DeleteFunc(given, func(option string, _ any) bool { _, part := spec.HeldOut[option]; return part })
	return compare(cmd, play.CompareConfig{Spec: spec, Trained: c.EnvKwargs, Given: given, Models: models, Episodes: episodes, Seed: play.CompareSeed},
		comparisonFiles{
			plot: filepath.Join(folder, "comparison.png"), csv: filepath.Join(folder, "comparison.csv"), episodes: filepath.Join(folder, "comparison_episodes.csv"),
		}, trained)
}

// printFiles lists the files of a training.
func printFiles(w io.Writer, r *run.Run) {
	fmt.Fprintln(w)
	for _, f := range []struct{ what, path string }{
		{"best model", r.BestModel()},
		{"last model", r.LastModel()},
		{"logs", r.Folder},
		{"learning curve", filepath.Join(r.Folder, "learning_curve.png")},
		{"comparison", filepath.Join(r.Folder, "comparison.png")},
	} {
		if _, err := os.Stat(f.path); err == nil {
			fmt.Fprintf(w, "%-15s %s\n", f.what, f.path)
		}
	}
}

// trainSeeds trains once with each seed, jobs at a time, and prints a table of the trainings.
func trainSeeds(cmd *cobra.Command, spec *envs.Spec, c run.Config, seeds []uint64, jobs, compare int) error {
	ctx := cmd.Context()
	res, err := run.TrainSeeds(ctx, spec, c, seeds, jobs, cmd.ErrOrStderr())
	if err != nil {
		return err
	}
	var failed []error
	var models []string
	for _, s := range res.Seeds {
		if s.Err != nil {
			failed = append(failed, fmt.Errorf("seed %d: %w", s.Seed, s.Err))
		} else {
			models = append(models, s.Best)
		}
	}
	if ctx.Err() != nil {
		failed = append(failed, fmt.Errorf("all of them go on with --resume %s", res.Folder))
	}
	compares := compare > 0 && len(models) > 0 && ctx.Err() == nil
	switch {
	case !cli.WantJSON(cmd):
		if err := res.Print(cmd.OutOrStdout()); err != nil {
			return err
		}
	case !compares:
		failed = append(failed, cli.PrintJSON(cmd, res))
	}
	if compares {
		failed = append(failed, compareTrained(cmd, spec, c, models, compare, res.Folder, res))
	}
	return errors.Join(failed...)
}
