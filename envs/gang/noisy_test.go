package gang_test

import (
	"fmt"
	"strings"
	"testing"

	"github.com/kubernasium/kubernasium/envs/envstest"
)

// TestNoisyProfile: measurements that fall steeply lie on a cubic with zeros near 2000, 4000 and 8000 millicores, which
// is negative at the 3000 that each of eight equal tasks has. No superstep takes less than no time.
func TestNoisyProfile(t *testing.T) {
	var csv strings.Builder
	csv.WriteString("Task Name,Workload Size,CPU Shares,Duration\n")
	for task := range 8 {
		for _, size := range []int{0, 50, 100, 200} {
			for share, duration := range map[int]float64{1000: 100, 2000: 0.001, 4000: 0.001, 8000: 0.001} {
				fmt.Fprintf(&csv, "task%d,%d,%d,%v\n", task, size, share, duration)
			}
		}
	}
	v := open(t, 1, map[string]any{"profile": envstest.TempFile(t, "p.csv", csv.String()), "steps": 3})
	reset(t, v, 1)
	for i, want := range []float64{-1, -0.15, 0} { // 100 s at 1000 millicores; a plan of 15 s and then no time at 3000
		if b := step(t, v, []float32{0, 1, 0}[i]); b.Reward[0] != want {
			t.Errorf("step %d: reward %v, want %v", i, b.Reward[0], want)
		}
	}
}
