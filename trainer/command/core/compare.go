package core

import (
	"github.com/spf13/cobra"

	"github.com/kubernasium/kubernasium/trainer/cli"
	"github.com/kubernasium/kubernasium/trainer/play"
)

func newCompare() *cobra.Command {
	var c play.CompareConfig
	var env string
	var kwargs, evalKwargs []string
	cmd := &cobra.Command{
		Use:   "compare",
		Short: "Rank models and baselines on the same held-out episodes",
		Long: `Rank models and baselines on the same held-out episodes.

Every policy plays episodes of the same seeds, so that differences are taken pair by pair.
Oracles know what no agent can: they are bounds, not competitors.`,
		Example: `  trainer compare --env k8s/GangWindow-v0 --episodes 40
  trainer compare --model logs/ppo/k8s-GangWindow-v0_1/best_model.safetensors --plot comparison.png
  trainer compare --env k8s/GangWindow-v0 --baseline dynamic_mpc --baseline static_2 --env-kwargs penalty:45
  trainer compare --env k8s/GangWindow-v0 --env-kwargs split:train            # on the instances of trainings
  trainer compare --model FILE --url ws://127.0.0.1:8765                      # on a server`,
		Args: cobra.NoArgs,
		RunE: func(cmd *cobra.Command, _ []string) error {
			given, err := cli.ParseKwargs("env-kwargs", kwargs)
			if err != nil {
				return err
			}
			evaluate, err := cli.ParseKwargs("eval-env-kwargs", evalKwargs)
			if err != nil {
				return err
			}
			c.Given = cli.MergeKwargs(given, evaluate)
			var id string
			if id, c.Trained, err = play.EnvOf(env, c.Models); err != nil {
				return err
			}
			if c.Spec, err = play.Lookup(cmd.Context(), id, c.URLs); err != nil {
				return err
			}
			return play.CompareAndReport(cmd, c, nil)
		},
	}
	f := cmd.Flags()
	f.StringVar(&env, "env", "", "id of the environment (default: that of the first model)")
	f.StringArrayVar(&kwargs, "env-kwargs", nil, "option key:value of the environment (repeat; default: those of the first model, on held-out instances)")
	f.StringArrayVar(&evalKwargs, "eval-env-kwargs", nil, "further option key:value, as of train; wins over --env-kwargs (repeat)")
	f.StringArrayVar(&c.Models, "model", nil, "model file (repeat)")
	f.StringArrayVar(&c.Baselines, "baseline", nil, "baseline (repeat; default: all, and random actions)")
	f.IntVar(&c.Episodes, "episodes", 40, "held-out episodes")
	f.Uint64Var(&c.Seed, "seed", play.CompareSeed, "random seed of the first episode")
	f.StringArrayVar(&c.URLs, "url", nil, "server to play on, such as ws://127.0.0.1:8765 (repeat to split the environments)")
	f.StringVar(&c.Plot, "plot", "", "PNG file to draw")
	f.StringVar(&c.CSV, "csv", "", "CSV file to write")
	return cmd
}
