package data

import (
	"testing"

	"github.com/spf13/cobra"

	"github.com/kubernasium/kubernasium/trainer/cli"
	"github.com/kubernasium/kubernasium/trainer/clitest"
)

func TestMain(m *testing.M) { root.Main(m) }

// root is the command line that the tests run.
var root = clitest.Root(func() *cobra.Command { return cli.NewRoot(New()) })

var execute, mustExecute = root.Execute, root.MustExecute
