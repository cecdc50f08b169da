package kwok

import (
	"testing"

	"github.com/spf13/cobra"

	"github.com/kubernasium/kubernasium/trainer/cli"
	"github.com/kubernasium/kubernasium/trainer/clitest"
	"github.com/kubernasium/kubernasium/trainer/command/core"
	"github.com/kubernasium/kubernasium/trainer/command/lra"
)

func TestMain(m *testing.M) { root.Main(m) }

// root is the command line that the tests run: `lra predict` makes a table of a collected profile.
var root = clitest.Root(func() *cobra.Command {
	return cli.NewRoot(append(core.Commands(), lra.New(), New())...)
})

var execute, mustExecute = root.Execute, root.MustExecute
