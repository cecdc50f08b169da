// Package all assembles the command line of trainer from the groups of commands. A program of another
// module that registers environments of its own gets the same commands for them:
//
//	func main() { os.Exit(cli.Main(all.New())) }
package all

import (
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

// New returns the root command for the registered environments. Its command serve is the program server, so
// that a Python wheel needs only one program.
func New() *cobra.Command {
	return cli.NewRoot(append(core.Commands(), reproduce.New(), data.New(), tune.New(), podsched.New(core.TrainCommand), vpa.New(), lra.New(), gang.New(), kwok.New(),
		server.New("serve"))...)
}
