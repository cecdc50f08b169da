package balance_test

import (
	"fmt"
	"math"
	"strings"
	"testing"
	"time"

	"github.com/kubernasium/kubernasium/envs/cluster"
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

// TestPhaseWithoutDecision: the pod of the second phase fits no node, and leaves the emptied nodes empty. The first
// phase ends with CPU shares of 50 % and 0 and memory shares of 25 % and 0: deviations 25 and 12.5, mean 18.75; half
// of that over two phases. Pods are 1 and 0, deviation 0.5.
func TestPhaseWithoutDecision(t *testing.T) {
	file := write(t, "d.csv", "name,pod_count,cpu_request,mem_request\nweb,1,32,64Gi\nhuge,1,65,1Gi\n")
	v := open(t, 1, map[string]any{"nodes": 2, "deployments": file, "reset_pods": []any{1, 1}})
	reset(t, v, 1)
	b := step(t, v, 0)
	if end, sd := b.FinalInfo[1], b.FinalInfo[2]; !b.Terminated[0] || math.Abs(end-9.375) > 1e-9 || math.Abs(sd-0.25) > 1e-9 {
		t.Errorf("terminated %v, imbalance_end %v, sd_pods_end %v; want true, 9.375, 0.25", b.Terminated[0], end, sd)
	}
	if now := b.FinalInfo[7]; math.Abs(now-18.75) > 1e-9 {
		t.Errorf("imbalance %v after the last decision, want 18.75", now)
	}
}

// TestClockEnds: with deployments 1e6 s apart the clock ends after 2305 of them, and the episode with it. Where the
// cluster is emptied, the next one comes earlier.
func TestClockEnds(t *testing.T) {
	for name, opts := range map[string]map[string]any{
		"resets":    {"interval": 1e6, "replicas_min": 1, "replicas_max": 1, "resets": 100},
		"lifetimes": {"interval": 1e6, "replicas_min": 1, "replicas_max": 1, "steps": 10_000, "lifetime": 1e6},
	} {
		v := open(t, 1, opts)
		b := play(t, v, "RoundRobin", 1)
		years := time.Duration(b.FinalInfo[5]+b.FinalInfo[6]) * 1e6 * time.Second
		if !b.Terminated[0] || (years-cluster.MaxTime).Abs() > cluster.MaxTime/100 {
			t.Errorf("%s: terminated %v after %v, want true at %v", name, b.Terminated[0], years, cluster.MaxTime)
		}
	}
}
