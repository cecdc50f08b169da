package balance_test

import (
	"fmt"
	"strings"
	"testing"
)

// TestLoadsAreReachedExactly: 121 of 220 pods are 55 %, although 0.55·220 is above 121 in binary, and 13440 of 192000
// milliCPU are 7 %.
func TestLoadsAreReachedExactly(t *testing.T) {
	rows := "name,pod_count,cpu_request,mem_request\n" + strings.Repeat("d,1,%[1]s,1Mi\n", 220)
	for _, tc := range []struct {
		option   string
		load     float64
		nodes    int
		cpu      string
		decision int
	}{
		{"pod_load", 0.55, 2, "10m", 121},
		{"cpu_load", 0.07, 3, "420m", 32},
	} {
		opts := map[string]any{"nodes": tc.nodes, "deployments": write(t, "d.csv", fmt.Sprintf(rows, tc.cpu)), "resets": 1,
			"cpu_load": 1.0, "memory_load": 1.0, "pod_load": 1.0}
		opts[tc.option] = tc.load
		v := open(t, 1, opts)
		if b := play(t, v, "RoundRobin", 1); int(b.FinalInfo[5]) != tc.decision {
			t.Errorf("%s %v: the episode ends after %v pods, want %d", tc.option, tc.load, b.FinalInfo[5], tc.decision)
		}
	}
}
