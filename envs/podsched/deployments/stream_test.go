package deployments

import (
	"testing"

	"github.com/kubernasium/kubernasium/envs/cluster"
)

// TestLongLifetimes: of pods that run for 32 years in the mean, every tenth would outlast the clock, and more of the hints
// would, half of which are above the lifetime.
func TestLongLifetimes(t *testing.T) {
	in := NewStream(&Config{Nodes: 1, ReplicasMin: 1, ReplicasMax: 1, Lifetime: 1e9, UsageMin: 1, UsageMax: 1, HintError: 1000})
	in.Draw(1)
	long, hinted := 0, 0
	for i := range 1000 {
		p, _ := in.Pod(i)
		if p.Lifetime < 1 || p.Lifetime > cluster.MaxTime || p.Hint < p.Lifetime/1001 || p.Hint > cluster.MaxTime {
			t.Fatalf("pod %d runs for %v by a hint of %v, want both to %v, and the hint at least a thousandth", i, p.Lifetime, p.Hint, cluster.MaxTime)
		}
		if p.Lifetime == cluster.MaxTime {
			long++
		}
		if p.Hint == cluster.MaxTime {
			hinted++
		}
	}
	if long < 50 || long > 150 || hinted < 200 { // exp(-2^61/1e18) of 1000 are 100
		t.Errorf("%d lifetimes and %d hints are as long as the clock, want about 100 and more", long, hinted)
	}
}
