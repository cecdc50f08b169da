package podsched

import (
	"context"
	"fmt"
	"path/filepath"
	"testing"

	"github.com/kubernasium/kubernasium/envs"
	"github.com/kubernasium/kubernasium/trainer/play"
)

// BenchmarkNodeScorer is the latency of a decision of the pretrained node scorer, which was
// trained on 64 nodes: from the observation to the action, and with the environment's step too.
// Bound: 2 ms at 1,213 nodes on one core.
func BenchmarkNodeScorer(b *testing.B) {
	path := filepath.Join("..", "..", "..", "models", "pretrained", "k8s-GPUPodScheduling-v0", "ppo.safetensors")
	for _, nodes := range []int{64, 1213} {
		v, err := envs.Make("k8s/GPUPodScheduling-v0", 1, envs.VecOptions{Options: map[string]any{"num_nodes": nodes}, Autoreset: envs.SameStep})
		if err != nil {
			b.Fatal(err)
		}
		defer v.Close()
		m, err := play.ReadModelFor(path, v)
		if err != nil {
			b.Fatal(err)
		}
		defer m.Net.Close()
		seed := uint64(1)
		batch, err := v.Reset(context.Background(), envs.VecResetOptions{Seed: &seed})
		if err != nil {
			b.Fatal(err)
		}
		action := make([]float32, 1)
		act := func(b *testing.B) {
			if err := m.Act(batch, action); err != nil {
				b.Fatal(err)
			}
		}
		b.Run(fmt.Sprintf("act/%d", nodes), func(b *testing.B) {
			b.ReportAllocs()
			for b.Loop() {
				act(b)
			}
		})
		b.Run(fmt.Sprintf("act and step/%d", nodes), func(b *testing.B) {
			b.ReportAllocs()
			for b.Loop() {
				act(b)
				if batch, err = v.Step(context.Background(), action); err != nil {
					b.Fatal(err)
				}
			}
		})
	}
}
