package vpa

import (
	"bufio"
	"strings"
	"testing"

	"github.com/kubernasium/kubernasium/trainer/clitest"
	"github.com/kubernasium/kubernasium/trainer/play"
)

// TestVPAWorkloadHelpPlays runs the commands of the help of vpa workload that need no trace and no
// server, one after the other and short: what they write is what they play.
func TestVPAWorkloadHelpPlays(t *testing.T) {
	dir := t.TempDir()
	played := 0
	for scan := bufio.NewScanner(strings.NewReader(newVPAWorkload().Example)); scan.Scan(); {
		command, _, _ := strings.Cut(scan.Text(), "#")
		if !strings.Contains(command, "DIR") || strings.Contains(command, "--data ") || strings.Contains(command, "--prometheus") || strings.Contains(command, "--config") {
			continue
		}
		args := strings.Fields(strings.ReplaceAll(command, "DIR", dir))[1:]
		if args[0] == "compare" {
			played++
			args = append(args, "--episodes", "2", "--baseline", "static", "--json")
			if c := clitest.Decode[play.Comparison](t, mustExecute(t, args...)); len(c.Rows) != 1 || c.Rows[0].Mean <= 0 {
				t.Errorf("trainer %s: %+v, want a cost", strings.Join(args, " "), c)
			}
			continue
		}
		mustExecute(t, args...)
	}
	if played != 2 {
		t.Errorf("the help plays workloads %d times, want 2: all of them, and one alone", played)
	}
}
