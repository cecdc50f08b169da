package main

import (
	"context"
	"strings"
	"testing"

	"github.com/kubernasium/kubernasium/agents/algorithms"
	"github.com/kubernasium/kubernasium/trainer/clitest"
)

func TestMain(m *testing.M) { clitest.Main(m, newRoot) }

func execute(t *testing.T, ctx context.Context, args ...string) (stdout, stderr string, err error) {
	t.Helper()
	return clitest.Execute(t, ctx, newRoot(), args...)
}

func mustExecute(t *testing.T, args ...string) string {
	t.Helper()
	return clitest.MustExecute(t, newRoot(), args...)
}

// TestHelpNamesTheAlgorithms: --help lists the algorithms of the table.
func TestHelpNamesTheAlgorithms(t *testing.T) {
	for _, command := range []string{"train", "tune"} {
		if help, want := mustExecute(t, command, "--help"), "algorithm: "+strings.Join(algorithms.Names(nil), ", ")+" (default"; !strings.Contains(help, want) {
			t.Errorf("%s --help does not say %q", command, want)
		}
	}
}
