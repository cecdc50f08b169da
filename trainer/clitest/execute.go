// Package clitest runs command lines in tests, and has environments that break or never end, for the tests
// of commands.
package clitest

import (
	"bytes"
	"context"
	"strings"
	"testing"

	"github.com/spf13/cobra"

	"github.com/kubernasium/kubernasium/trainer/cli"
)

// Execute runs the command line root with args and returns what it prints.
func Execute(t *testing.T, ctx context.Context, root *cobra.Command, args ...string) (stdout, stderr string, err error) {
	t.Helper()
	var out, errOut bytes.Buffer
	root.SetArgs(args)
	root.SetOut(&out)
	root.SetErr(&errOut)
	err = cli.Execute(ctx, root)
	return out.String(), errOut.String(), err
}

// MustExecute runs the command line root with args, which must not fail, and returns its standard
// output.
func MustExecute(t *testing.T, root *cobra.Command, args ...string) string {
	t.Helper()
	out, stderr, err := Execute(t, context.Background(), root, args...)
	if err != nil {
		t.Fatalf("trainer %s: %v\n%s", strings.Join(args, " "), err, stderr)
	}
	return out
}
