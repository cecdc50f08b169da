package gang_test

import (
	"testing"

	"github.com/kubernasium/kubernasium/envs/cluster"
)

// TestClockEnds: plans of 1e6 s each take the clock to its end after 2306 of them. The episode continues, and its total
// is that of all plans but the free one, and of supersteps that take less than 1e6 s together.
func TestClockEnds(t *testing.T) {
	const steps = 2400
	v := open(t, 1, map[string]any{"steps": steps, "penalty": 1e6, "horizon": 1, "windows": 1})
	reset(t, v, 1)
	for range steps - 1 {
		step(t, v, 1)
	}
	if now := v.Env(0).State().Now; now != cluster.MaxTime {
		t.Errorf("the clock is at %v, want %v", now, cluster.MaxTime)
	}
	b := step(t, v, 1)
	if total := b.FinalInfo[2]; !b.Truncated[0] || total < (steps-1)*1e6 || total > steps*1e6 {
		t.Errorf("truncated %v with a total of %v s, want true with %v s of plans", b.Truncated[0], total, (steps-1)*1e6)
	}
}
