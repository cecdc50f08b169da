package core

import (
	"bytes"
	"encoding/json"
	"errors"

	"github.com/spf13/cobra"

	"github.com/kubernasium/kubernasium/trainer/cli"
	"github.com/kubernasium/kubernasium/trainer/play"
)

func newCompare() *cobra.Command {
	var c play.CompareConfig
	var env string
	var files comparisonFiles
	var kwargs, evalKwargs map[string]any
	cmd := &cobra.Command{
		Use:   "compare",
		Short: "Rank models and baselines on the same held-out episodes",
		Long: `Rank models and baselines on the same held-out episodes.

Every policy plays episodes with the same seeds, so that differences are paired by episode.
Clairvoyant baselines use information that no agent can have, such as the future, so verdicts ignore them. Not all of
them are bounds.`,
		Example: `  trainer compare --env k8s/GangWindow-v0 --episodes 40
  trainer compare --model logs/ppo/k8s-GangWindow-v0_1/best_model.safetensors --plot comparison.png
  trainer compare --env k8s/GangWindow-v0 --baseline dynamic_mpc --baseline static_2 --env-kwargs penalty:45
  trainer compare --env k8s/GangWindow-v0 --env-kwargs split:train            # on the instances of trainings
  trainer compare --env k8s/GangWindow-v0 --csv-episodes episodes.csv         # every episode of every policy
  trainer compare --env k8s/GPUPodScheduling-v1 --baseline FGD --search rollout:base=FGD,k=3,m=4
  trainer compare --model FILE --url ws://127.0.0.1:8765                      # on a server`,
		RunE: func(cmd *cobra.Command, _ []string) error {
			id, trained, err := play.EnvOf(env, c.Models)
			if err != nil {
				return err
			}
			c.Given, c.Trained = cli.MergeKwargs(kwargs, evalKwargs), trained
			if c.Spec, err = play.Lookup(cmd.Context(), id, c.URLs); err != nil {
				return err
			}
			return compare(cmd, c, files, nil)
		},
	}
	f := cmd.Flags()
	f.StringVar(&env, "env", "", "id of the environment (default: that of the first model)")
	cli.KwargsVar(f, &kwargs, "env-kwargs", "option key:value of the environment (repeat; default: those of the first model, on held-out instances)")
	cli.KwargsVar(f, &evalKwargs, "eval-env-kwargs", "further option key:value, as of train; overrides --env-kwargs (repeat)")
	f.StringArrayVar(&c.Models, "model", nil, "model file (repeat)")
	f.StringArrayVar(&c.Baselines, "baseline", nil, "baseline (repeat; default: all, and random actions)")
	f.StringArrayVar(&c.Searches, "search", nil, "search over a baseline or a model, such as rollout:base=FGD,k=6,m=12, gumbel:base=FGD or posterior:base=FILE (repeat); see package agents/search")
	f.IntVar(&c.Episodes, "episodes", 40, "held-out episodes")
	f.Uint64Var(&c.Seed, "seed", play.CompareSeed, "random seed of the first episode")
	f.BoolVar(&c.Ablate, "ablate", false, "also play each model with its own constant action, and on shuffled observations, to test whether it uses its state")
	f.StringVar(&c.Sealed, "sealed", "", "CSV file that records uses of the sealed block: play the block's episodes, once for each set of policies")
	f.IntVar(&c.SealedFirst, "sealed-first", 0, "with --sealed, the block's first episode to play, after those that other policies have played")
	cmd.MarkFlagsMutuallyExclusive("seed", "sealed")
	f.StringArrayVar(&c.URLs, "url", nil, "server to play on, such as ws://127.0.0.1:8765, or k8s+dns://name:port for all servers behind a name (repeat to split the environments)")
	f.StringVar(&files.plot, "plot", "", "PNG file to draw")
	f.StringVar(&files.csv, "csv", "", "CSV file to write, with a row for each policy")
	f.StringVar(&files.episodes, "csv-episodes", "", "CSV file to write, with a row for each episode of each policy")
	return cmd
}

// comparisonFiles holds the paths of the files to write; an empty path writes none.
type comparisonFiles struct{ plot, csv, episodes string }

// write writes the files.
func (f comparisonFiles) write(res *play.Comparison) error {
	for _, file := range []struct {
		path  string
		write func(string) error
	}{
		{f.plot, res.Draw},
		{f.csv, func(path string) error { return cli.WriteTo(path, res.Table().WriteCSV) }},
		{f.episodes, res.WriteEpisodes},
	} {
		if file.path == "" {
			continue
		}
		if err := file.write(file.path); err != nil {
			return err
		}
	}
	return nil
}

// compare runs the comparison, writes the files, and prints the table or JSON. If trained, the result of a
// training, is not nil, the JSON adds the comparison to it. If the comparison is interrupted, compare reports
// the policies that have played, and returns the interrupt.
func compare(cmd *cobra.Command, c play.CompareConfig, files comparisonFiles, trained any) error {
	res, err := play.Compare(cmd.Context(), c)
	if err != nil && (res == nil || len(res.Rows) == 0) {
		return err
	}
	return errors.Join(reportComparison(cmd, res, files, trained), err)
}

func reportComparison(cmd *cobra.Command, res *play.Comparison, files comparisonFiles, trained any) error {
	if err := files.write(res); err != nil {
		return err
	}
	switch {
	case !cli.WantJSON(cmd):
		return res.Print(cmd.OutOrStdout())
	case trained == nil:
		return cli.PrintJSON(cmd, res)
	}
	text, err := json.Marshal(trained)
	if err != nil {
		return err
	}
	var all map[string]any
	dec := json.NewDecoder(bytes.NewReader(text))
	dec.UseNumber() // a float64 cannot hold every seed
	if err := dec.Decode(&all); err != nil {
		return err
	}
	all["comparison"] = res
	return cli.PrintJSON(cmd, all)
}
