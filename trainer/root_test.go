package main

import (
	"strings"
	"testing"

	"github.com/kubernasium/kubernasium/agents/algorithms"
	"github.com/kubernasium/kubernasium/trainer/clitest"
	"github.com/kubernasium/kubernasium/trainer/command/all"
)

func TestMain(m *testing.M) { root.Main(m) }

var root = clitest.Root(all.New)

var execute, mustExecute = root.Execute, root.MustExecute

// TestHelpNamesTheAlgorithms: --help lists the algorithms of the table.
func TestHelpNamesTheAlgorithms(t *testing.T) {
	for _, command := range []string{"train", "tune"} {
		if help, want := mustExecute(t, command, "--help"), "algorithm: "+strings.Join(algorithms.Names(nil), ", ")+" (default"; !strings.Contains(help, want) {
			t.Errorf("%s --help does not say %q", command, want)
		}
	}
}
