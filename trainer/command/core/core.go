// Package core holds the commands train, eval, compare, enjoy, export, envs, card, learning and record.
package core

import (
	"github.com/spf13/cobra"
)

// Commands returns the commands that train, play and describe.
func Commands() []*cobra.Command {
	train, _ := TrainCommand()
	return []*cobra.Command{train, newEval(), newCompare(), newEnvs(), newEnjoy(), newExport(), newRecord(), newLearning(), newCard()}
}
