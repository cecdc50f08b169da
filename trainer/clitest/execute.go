// Package clitest runs command lines in tests, and registers environments that fail or never end, for the tests
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

// Root makes the command line that the tests of a package run.
type Root func() *cobra.Command

// Execute runs the command line with args and returns its output.
func (r Root) Execute(t *testing.T, ctx context.Context, args ...string) (stdout, stderr string, err error) {
	t.Helper()
	var out, errOut bytes.Buffer
	root := r()
	root.SetArgs(args)
	root.SetOut(&out)
	root.SetErr(&errOut)
	err = cli.Execute(ctx, root)
	return out.String(), errOut.String(), err
}

// MustExecute runs the command line with args, which must not fail, and returns its standard output.
func (r Root) MustExecute(t *testing.T, args ...string) string {
	t.Helper()
	out, stderr, err := r.Execute(t, context.Background(), args...)
	if err != nil {
		t.Fatalf("trainer %s: %v\n%s", strings.Join(args, " "), err, stderr)
	}
	return out
}
