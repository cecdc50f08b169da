package kwok

import (
	"context"
	"testing"

	"github.com/spf13/cobra"

	"github.com/kubernasium/kubernasium/trainer/cli"
	"github.com/kubernasium/kubernasium/trainer/clitest"
	"github.com/kubernasium/kubernasium/trainer/command/core"
	"github.com/kubernasium/kubernasium/trainer/command/lra"
)

func TestMain(m *testing.M) { clitest.Main(m, newRoot) }

// newRoot returns the command line that the tests run: `lra predict` makes a table of a collected profile.
func newRoot() *cobra.Command {
	return cli.NewRoot(append(core.Commands(), lra.New(), New())...)
}

func execute(t *testing.T, ctx context.Context, args ...string) (stdout, stderr string, err error) {
	t.Helper()
	return clitest.Execute(t, ctx, newRoot(), args...)
}

func mustExecute(t *testing.T, args ...string) string {
	t.Helper()
	return clitest.MustExecute(t, newRoot(), args...)
}
