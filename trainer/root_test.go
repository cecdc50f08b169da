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
	online, offline := "algorithm: "+strings.Join(algorithms.Names(nil), ", "), "; with --dataset: "+strings.Join(algorithms.OfflineNames(), ", ")
	for command, want := range map[string]string{"train": online + offline + " (default", "tune": online + " (default"} {
		if help := mustExecute(t, command, "--help"); !strings.Contains(help, want) {
			t.Errorf("%s --help does not say %q", command, want)
		}
	}
}
