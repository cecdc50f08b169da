package clustertest

import (
	"strings"
	"testing"

	"github.com/kubernasium/kubernasium/envs/cluster"
	"github.com/kubernasium/kubernasium/envs/cluster/sim"
)

func TestOptions(t *testing.T) {
	made := 0
	Run(t, func(*testing.T) cluster.Cluster { made++; return sim.New() }, Episodes(3), Ops(20))
	if want := len(scripts()) + 8; made != want {
		t.Errorf("Run asked for %d clusters, want %d", made, want)
	}
}

// TestScriptsAreComplete checks that the scripts play each kind of op both ways and want each
// sentinel.
func TestScriptsAreComplete(t *testing.T) {
	played, failed, wanted := map[string]bool{}, map[string]bool{}, map[string]bool{}
	for _, s := range scripts() {
		if !strings.HasPrefix(s.text, "# Worked by hand.") {
			t.Errorf("script %s does not say where its states come from", s.name)
		}
		for line := range strings.Lines(s.text) {
			line, sentinel, fails := strings.Cut(strings.TrimSuffix(line, "\n"), " -> ")
			verb, _, _ := strings.Cut(line, " ")
			if fails {
				failed[verb], wanted[sentinel] = true, true
			} else {
				played[verb] = true
			}
		}
	}
	for k := cluster.AddNode; k <= cluster.SetUsage; k++ {
		if !played[k.String()] || !failed[k.String()] {
			t.Errorf("%v: played %v, failed %v in the scripts, want both", k, played[k.String()], failed[k.String()])
		}
	}
	for name := range sentinels {
		if !wanted[name] {
			t.Errorf("no script wants %s", name)
		}
	}
}
