package placement_test

import (
	"math/rand/v2"
	"testing"

	"github.com/kubernasium/kubernasium/envs"
	"github.com/kubernasium/kubernasium/envs/envstest"
)

// benchmarkStep plays random nodes, of which few are full, with 8 environments in one goroutine.
func benchmarkStep(b *testing.B, id string, opts map[string]any, levels int) {
	const n = 8
	v, err := envs.NewVec(envstest.Spec(b, id), n, envs.VecOptions{Options: opts, Autoreset: envs.SameStep, Shards: 1})
	if err != nil {
		b.Fatal(err)
	}
	defer v.Close()
	if _, err := v.Reset(ctx, envs.VecResetOptions{}); err != nil {
		b.Fatal(err)
	}
	_, act := v.Spaces()
	rng := rand.New(rand.NewPCG(1, 2))
	actions := make([]float32, 1000*n)
	for i := range actions {
		act.Sample(rng, nil, actions[i:i+1])
	}
	i := 0
	step := func() {
		if _, err := v.Step(ctx, actions[i*n:(i+1)*n]); err != nil {
			b.Fatal(err)
		}
		i = (i + 1) % 1000
	}
	for range 2000 { // until all slices have grown
		step()
	}
	b.ReportAllocs()
	for b.Loop() {
		step()
	}
	b.ReportMetric(n*float64(b.N)/float64(levels)/b.Elapsed().Seconds(), "placements/s")
}

func BenchmarkStep(b *testing.B) {
	b.Run("81 nodes", func(b *testing.B) { benchmarkStep(b, placementID, nil, 1) })
	b.Run("81 nodes, 600 containers, shuffled", func(b *testing.B) {
		benchmarkStep(b, placementID, map[string]any{"containers": 600, "order": "shuffled"}, 1)
	})
	b.Run("729 nodes", func(b *testing.B) {
		benchmarkStep(b, placementID, map[string]any{"nodes": 729, "containers": 2000}, 1)
	})
	b.Run("81 nodes, online", func(b *testing.B) {
		benchmarkStep(b, placementID, map[string]any{"arrivals": "online"}, 1)
	})
	b.Run("27 nodes as 3x3x3", func(b *testing.B) { benchmarkStep(b, subclusterID, nil, 3) })
}
