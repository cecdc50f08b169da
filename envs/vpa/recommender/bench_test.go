package recommender_test

import (
	"math/rand/v2"
	"testing"
	"time"

	"github.com/kubernasium/kubernasium/envs/vpa/recommender"
)

// BenchmarkStep adds a sample of each resource and recommends: what a step of a pod costs. The
// usage is spread over most buckets, so that the walk over them is long.
func BenchmarkStep(b *testing.B) {
	r, err := recommender.New(recommender.DefaultConfig())
	if err != nil {
		b.Fatal(err)
	}
	rng := rand.New(rand.NewPCG(1, 2))
	const n = 4096
	var milli, bytes [n]int64
	for i := range n {
		milli[i], bytes[i] = 1+rng.Int64N(64_000), rng.Int64N(1<<36)
	}
	for _, peaks := range []bool{false, true} {
		name := "usual"
		every := time.Minute
		if peaks { // every memory sample is a new window's peak
			name, every = "new_peaks", 25*time.Hour
		}
		b.Run(name, func(b *testing.B) {
			state := r.NewState(0)
			var c recommender.Container
			var rec recommender.Recommendation
			var t time.Duration
			b.ReportAllocs()
			for i := range b.N {
				if i%30_000 == 0 { // within the range of instants
					state.Reset(r, 0)
					c, t = recommender.Container{}, 0
				}
				c.AddCPU(state, t, milli[i%n])
				c.AddMemory(state, t, bytes[i%n])
				state.Recommend(&rec)
				t += every
			}
			b.ReportMetric(float64(b.N)/b.Elapsed().Seconds(), "pod-steps/s")
		})
	}
}
