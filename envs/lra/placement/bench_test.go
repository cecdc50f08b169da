package placement_test

import (
	"testing"

	"github.com/kubernasium/kubernasium/envs/envstest"
)

func BenchmarkStep(b *testing.B) {
	b.Run("81 nodes", func(b *testing.B) { envstest.BenchmarkStep(b, placementID, nil, 1) })
	b.Run("81 nodes, 600 containers, shuffled", func(b *testing.B) {
		envstest.BenchmarkStep(b, placementID, map[string]any{"containers": 600, "order": "shuffled"}, 1)
	})
	b.Run("729 nodes", func(b *testing.B) {
		envstest.BenchmarkStep(b, placementID, map[string]any{"nodes": 729, "containers": 2000}, 1)
	})
	b.Run("81 nodes, online", func(b *testing.B) {
		envstest.BenchmarkStep(b, placementID, map[string]any{"arrivals": "online"}, 1)
	})
	b.Run("27 nodes as 3x3x3", func(b *testing.B) { envstest.BenchmarkStep(b, subclusterID, nil, 3) })
}
