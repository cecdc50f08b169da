// Package cli holds the common parts of the trainer's commands: the root command, key:value options, JSON
// output, numbers in tables, the progress of several trainings, interrupts, exit statuses, and the folder of
// public data.
package cli

import (
	"github.com/spf13/cobra"

	"github.com/kubernasium/kubernasium/version"
)

// NewRoot returns the command trainer with the given subcommands.
func NewRoot(commands ...*cobra.Command) *cobra.Command {
	root := &cobra.Command{
		Use:           "trainer",
		Short:         "Train, tune, evaluate and compare agents for Kubernetes scheduling",
		SilenceUsage:  true,
		SilenceErrors: true,
		Version:       version.Number,
		Example: `  trainer envs                                            # what there is to play
  trainer train --algo ppo --env k8s/GangWindow-v0        # train, log, evaluate, save
  trainer enjoy --model logs/ppo/k8s-GangWindow-v0_1/best_model.safetensors --fps 5
  trainer eval --model logs/ppo/k8s-GangWindow-v0_1/best_model.safetensors
  trainer compare --env k8s/GangWindow-v0 --model FILE    # beside every baseline
  trainer tune --algo ppo --env classic/CartPole-v1       # search for hyperparameters
  trainer export --model FILE --onnx FILE                 # for other runtimes
  trainer reproduce gang --data ../shared/data/gang       # published tables, to the digit`,
	}
	root.SetVersionTemplate(version.Text("trainer"))
	root.PersistentFlags().Bool("json", false, "print one JSON document, and nothing else, on standard output")
	root.AddCommand(commands...)
	rejectArgs(commands)
	return root
}

// rejectArgs lets the commands that say nothing of positional arguments, and those below them, take none.
func rejectArgs(commands []*cobra.Command) {
	for _, c := range commands {
		if c.Runnable() && c.Args == nil {
			c.Args = cobra.NoArgs
		}
		rejectArgs(c.Commands())
	}
}
