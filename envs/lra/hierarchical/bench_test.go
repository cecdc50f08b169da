package hierarchical_test

import (
	"testing"

	"github.com/kubernasium/kubernasium/envs/envstest"
)

func BenchmarkStep(b *testing.B) {
	b.Run("81 nodes in 3 sub-clusters, greedy", func(b *testing.B) { envstest.BenchmarkStep(b, id, nil, 1) })
}
