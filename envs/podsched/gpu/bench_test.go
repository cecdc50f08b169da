package gpu

import (
	"context"
	"fmt"
	"testing"

	"github.com/kubernasium/kubernasium/envs"
)

// BenchmarkDecision is one decision with mask and observation, the action that of FGD's score
// as the observation shows it. Resets are part of it.
func BenchmarkDecision(b *testing.B) {
	for _, nodes := range []int{64, 256, 1213} {
		for _, scores := range []bool{true, false} {
			b.Run(fmt.Sprintf("nodes=%d/scores=%v", nodes, scores), func(b *testing.B) {
				v, err := envs.Make("k8s/GPUPodScheduling-v0", 1, envs.VecOptions{
					Options: map[string]any{"num_nodes": nodes, "scores": scores}, Autoreset: envs.SameStep,
				})
				if err != nil {
					b.Fatal(err)
				}
				defer v.Close()
				batch := reset(b, v, 1)
				action := []float32{0}
				ctx := context.Background()
				b.ReportAllocs()
				start := 0
				for b.Loop() {
					for k := range nodes { // the first that fits, from a place that moves
						if i := (start + k) % nodes; batch.Mask[i] {
							action[0] = float32(i)
							break
						}
					}
					start += 7
					if batch, err = v.Step(ctx, action); err != nil {
						b.Fatal(err)
					}
				}
			})
		}
	}
}
