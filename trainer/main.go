// Command trainer trains, tunes, evaluates, compares and exports agents, and reproduces published
// results.
//
//	go run ./trainer train --algo ppo --env k8s/GangWindow-v0
//
// Run it with --help for its commands and examples.
package main

import (
	"encoding/json"
	"os"

	"github.com/spf13/cobra"

	_ "github.com/kubernasium/kubernasium/envs/all"
	_ "github.com/kubernasium/kubernasium/kwok" // twins of the environments
	"github.com/kubernasium/kubernasium/version"
)

func main() { os.Exit(runProcess(newRoot())) }

// newRoot assembles the command line.
func newRoot() *cobra.Command {
	return newRootOf(append(coreCommands(), newReproduce(), newTune(), newPodsched(trainCommand), newVPA(), newLRA(), newGang(), newKwok())...)
}

// newRootOf returns the command trainer with these commands.
func newRootOf(commands ...*cobra.Command) *cobra.Command {
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
	root.PersistentFlags().Bool("json", false, "print one JSON document on standard output, and nothing else there")
	root.AddCommand(commands...)
	return root
}

// wantJSON reports whether --json was given.
func wantJSON(cmd *cobra.Command) bool {
	v, err := cmd.Flags().GetBool("json")
	return err == nil && v
}

// printJSON writes v as the command's JSON document.
func printJSON(cmd *cobra.Command, v any) error {
	enc := json.NewEncoder(cmd.OutOrStdout())
	enc.SetIndent("", "  ")
	return enc.Encode(v)
}
