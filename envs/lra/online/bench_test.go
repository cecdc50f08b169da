package online_test

import (
	"testing"

	"github.com/kubernasium/kubernasium/envs/envstest"
)

func BenchmarkStep(b *testing.B) {
	b.Run("81 nodes", func(b *testing.B) { envstest.BenchmarkStep(b, id, nil, 1) })
	b.Run("729 nodes", func(b *testing.B) { envstest.BenchmarkStep(b, id, map[string]any{"nodes": 729}, 1) })
}
