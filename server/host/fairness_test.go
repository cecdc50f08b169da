package host_test

import (
	"context"
	"fmt"
	"slices"
	"sync"
	"testing"
	"time"

	goclient "github.com/kubernasium/kubernasium/clients/go"
	"github.com/kubernasium/kubernasium/envs"
	_ "github.com/kubernasium/kubernasium/envs/podsched/gpu"
	"github.com/kubernasium/kubernasium/server/host/hosttest"
)

// BenchmarkStepBesideRollouts times a step of one CartPole beside sessions that play rollouts of the baseline FGD on
// vectors of 16 environments, and counts the steps of those.
func BenchmarkStepBesideRollouts(b *testing.B) {
	for _, sessions := range []int{0, 1, 16} {
		b.Run(fmt.Sprintf("sessions=%d", sessions), func(b *testing.B) { stepBeside(b, sessions) })
	}
}

func stepBeside(b *testing.B, sessions int) {
	s := hosttest.Start(b)
	ctx, cancel := context.WithCancel(b.Context())
	var wg sync.WaitGroup
	defer wg.Wait()
	defer cancel()
	seed := uint64(1)
	var mu sync.Mutex
	rolled := 0
	var ready sync.WaitGroup
	for range sessions {
		ready.Add(1)
		wg.Go(func() {
			first := sync.OnceFunc(ready.Done)
			defer first()
			v, err := goclient.Dial(ctx, s.Unix, "k8s/GPUPodScheduling-v0", 16, goclient.Options{Reconnect: -1})
			if err != nil {
				b.Error(err)
				return
			}
			defer func() { _ = v.Close() }() // ctx has ended
			if _, err := v.Reset(ctx, envs.VecResetOptions{Seed: &seed}); err != nil {
				b.Error(err)
				return
			}
			first()
			for ctx.Err() == nil {
				_, r, err := v.Baseline("FGD", 0).Rollout(ctx, goclient.RolloutOptions{Steps: 50})
				if err != nil {
					return
				}
				mu.Lock()
				rolled += r.Steps * 16
				mu.Unlock()
			}
		})
	}
	ready.Wait()
	v, err := goclient.Dial(ctx, s.Unix, "classic/CartPole-v1", 1, goclient.Options{})
	if err != nil {
		b.Fatal(err)
	}
	defer func() { _ = v.Close() }()
	if _, err := v.Reset(ctx, envs.VecResetOptions{Seed: &seed}); err != nil {
		b.Fatal(err)
	}
	var took []time.Duration
	begin := time.Now()
	for b.Loop() {
		at := time.Now()
		if _, err := v.Step(ctx, []float32{0}); err != nil {
			b.Fatal(err)
		}
		took = append(took, time.Since(at))
	}
	mu.Lock()
	b.ReportMetric(float64(rolled)/time.Since(begin).Seconds(), "rolled-steps/s")
	mu.Unlock()
	slices.Sort(took)
	for name, q := range map[string]float64{"p50-ms": 0.5, "p99-ms": 0.99, "max-ms": 1} {
		b.ReportMetric(float64(took[int(q*float64(len(took)-1))].Microseconds())/1000, name)
	}
}
