// Package core holds the commands train, eval, compare, enjoy, export, envs, card, learning, record and board.
package core

import (
	"github.com/spf13/cobra"

	"github.com/kubernasium/kubernasium/trainer/cli"
	"github.com/kubernasium/kubernasium/trainer/play"
)

// Commands returns the commands that train, play and describe.
func Commands() []*cobra.Command {
	train, _ := TrainCommand()
	return []*cobra.Command{train, newEval(), newCompare(), newEnvs(), newEnjoy(), newExport(), newRecord(), newLearning(), newCard(), newBoard()}
}

// addPolicyFlags adds the flags that select a policy and an environment. The returned function checks the
// parsed flags and merges the options.
func addPolicyFlags(cmd *cobra.Command, c *play.Config) func() error {
	var kwargs, evalKwargs map[string]any
	f := cmd.Flags()
	f.StringVar(&c.Model, "model", "", "model file")
	f.StringVar(&c.Baseline, "baseline", "", "baseline, or random")
	f.StringVar(&c.Env, "env", "", "id of the environment (default: the model's)")
	cli.KwargsVar(f, &kwargs, "env-kwargs", "option key:value of the environment (repeat; default: the model's, on held-out instances)")
	cli.KwargsVar(f, &evalKwargs, "eval-env-kwargs", "further option key:value, as of train; overrides --env-kwargs (repeat)")
	return func() error {
		c.EnvKwargs = cli.MergeKwargs(kwargs, evalKwargs)
		return c.Check()
	}
}
