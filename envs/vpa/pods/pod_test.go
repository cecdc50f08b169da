package pods

import (
	"slices"
	"testing"
	"time"

	"github.com/kubernasium/kubernasium/envs/cluster"
	"github.com/kubernasium/kubernasium/envs/vpa/prices"
)

// TestBackOff: at once, then kubelet's 10 s, doubled up to 5 minutes.
func TestBackOff(t *testing.T) {
	for i, want := range []int{0, 10, 20, 40, 80, 160, 300, 300} {
		if got := backOff(i); got != time.Duration(want)*time.Second {
			t.Errorf("backOff(%d) = %v, want %d s", i, got, want)
		}
	}
	if got := backOff(1 << 40); got != 5*time.Minute {
		t.Errorf("backOff of very many crashes = %v", got)
	}
}

// TestProportional: trunc(limit·target/request), no limit stays none, equal stays equal.
func TestProportional(t *testing.T) {
	for _, tc := range []struct{ limit, request, target, want int64 }{
		{0, 100, 200, 0}, {100, 100, 250, 250}, {1000, 300, 100, 333}, {2000, 1000, 1500, 3000},
		{1 << 40, 1 << 30, 3 << 30, 3 << 40},
	} {
		if got := proportional(tc.limit, tc.request, tc.target); got != tc.want {
			t.Errorf("proportional(%d, %d, %d) = %d, want %d", tc.limit, tc.request, tc.target, got, tc.want)
		}
	}
}

// TestOrder: pods to scale up come first, then larger relative differences.
func TestOrder(t *testing.T) {
	var u Updater
	for i, c := range []candidate{{0, false, 3}, {1, true, 0.5}, {2, false, 5}, {3, true, 2}, {4, true, 2}} {
		c.pod = i
		u.insert(c)
	}
	var got []int
	for _, c := range u.candidates {
		got = append(got, c.pod)
	}
	if want := []int{3, 4, 1, 2, 0}; !slices.Equal(got, want) {
		t.Errorf("order %v, want %v", got, want)
	}
}

// TestCrashLoop: a container whose memory is above its limit throughout is killed once in each
// step in which it comes up, and waits longer and longer.
func TestCrashLoop(t *testing.T) {
	needs := &Timing{Step: time.Minute, Startup: 30 * time.Second, Checkpoint: 10 * time.Minute}
	p := &Pod{Share: 1, Scheduled: true, Began: true, Limits: cluster.Resources{MemoryBytes: 100}, Requests: cluster.Resources{MemoryBytes: 100}}
	var kills []int
	for i := range 20 {
		var s prices.Events
		p.run(needs, time.Duration(i)*time.Minute, cluster.Resources{MilliCPU: 1000, MemoryBytes: 200}, &s)
		if s.OOMs > 0 {
			kills = append(kills, i)
		}
	}
	// Up at 0:00, killed; up 0:30. Killed 1:00; waits 10 s and starts in 30 s: 1:40. Killed 2:00;
	// 20 + 30: 2:50. 3:00; 40 + 30: 4:10, killed then. 80 + 30: 6:00, killed then. 160 + 30:
	// 9:10, killed then. 300 + 30: 14:40, killed then. 300 + 30: 20:10.
	if want := []int{0, 1, 2, 3, 4, 6, 9, 14}; !slices.Equal(kills, want) {
		t.Errorf("killed in steps %v, want %v", kills, want)
	}
}
