// Command trainer trains, tunes, evaluates, compares and exports agents, and reproduces published
// results.
//
//	go run ./trainer train --algo ppo --env k8s/GangWindow-v0
//
// Run it with --help for its commands and examples.
package main

import (
	"os"

	"github.com/spf13/cobra"

	_ "github.com/kubernasium/kubernasium/registry"
	server "github.com/kubernasium/kubernasium/server/command"
	"github.com/kubernasium/kubernasium/trainer/cli"
	"github.com/kubernasium/kubernasium/trainer/command/core"
	"github.com/kubernasium/kubernasium/trainer/command/data"
	"github.com/kubernasium/kubernasium/trainer/command/gang"
	"github.com/kubernasium/kubernasium/trainer/command/kwok"
	"github.com/kubernasium/kubernasium/trainer/command/lra"
	"github.com/kubernasium/kubernasium/trainer/command/podsched"
	"github.com/kubernasium/kubernasium/trainer/command/reproduce"
	"github.com/kubernasium/kubernasium/trainer/command/tune"
	"github.com/kubernasium/kubernasium/trainer/command/vpa"
)

func main() { os.Exit(cli.Main(newRoot())) }

// newRoot assembles the command line. The command serve is the program server, so that a Python wheel holds one program.
func newRoot() *cobra.Command {
	return cli.NewRoot(append(core.Commands(), reproduce.New(), data.New(), tune.New(), podsched.New(core.TrainCommand), vpa.New(), lra.New(), gang.New(), kwok.New(),
		server.New("serve"))...)
}
