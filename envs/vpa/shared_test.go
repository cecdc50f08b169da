package vpa

import (
	"context"
	"math/rand/v2"
	"testing"

	"github.com/kubernasium/kubernasium/envs/cluster"
	"github.com/kubernasium/kubernasium/envs/cluster/sim"
	"github.com/kubernasium/kubernasium/envs/pcg"
	"github.com/kubernasium/kubernasium/envs/vpa/actions"
	"github.com/kubernasium/kubernasium/envs/vpa/pods"
	"github.com/kubernasium/kubernasium/envs/vpa/rules"
)

// amounts returns millicores and GiB as resources.
func amounts(cpu int64, memory float64) cluster.Resources {
	return cluster.Resources{MilliCPU: cpu, MemoryBytes: int64(memory * gib)}
}

// TestNoHarmWithinRequests: whatever the node and its neighbours, a pod with requests and limits of all that it
// ever uses harms nobody and is never killed.
func TestNoHarmWithinRequests(t *testing.T) {
	o := DefaultSharedOptions()
	o.Steps, o.BusyCPU, o.BusyMemory, o.Faults = 300, 1, 0.5, 0
	busy, played := false, 0
	for seed := range uint64(10) {
		src, err := newSharedSource(o)
		if err != nil {
			t.Fatal(err)
		}
		task := newTask(src)
		ctx, c := context.Background(), sim.New()
		if err := task.Begin(ctx, c, rand.New(pcg.New(seed))); err != nil {
			t.Fatal(err)
		}
		most, _ := rules.HindsightMax(t.Context(), task.view(), true)
		want := amounts(most.Target.MilliCPU, 0)
		want.MemoryBytes = most.Target.MemoryBytes
		if free := c.State().Free(0); free.MilliCPU+task.dynamics.Pods[0].Requests.MilliCPU < want.MilliCPU ||
			free.MemoryBytes+task.dynamics.Pods[0].Requests.MemoryBytes < want.MemoryBytes {
			continue
		}
		played++
		killed := 0
		for range o.Steps {
			r := pods.Constant(want)
			r.Limits, r.SetLimits = want, true
			task.Recommend(r)
			if _, err := task.Apply(ctx, c, make([]float32, actions.SeparateSize)); err != nil {
				t.Fatal(err)
			}
			killed += task.dynamics.Last.OOMs
			busy = busy || task.dynamics.Node.Stats.ThrottledCPU > 0
		}
		if sum := task.ledger.Sum; sum.Harm != 0 || killed != 0 || sum.ThrottledCPU > 0 {
			t.Errorf("seed %d: harm %v, %d kills, %v m throttled", seed, sum.Harm, killed, sum.ThrottledCPU)
		}
	}
	if !busy || played < 3 {
		t.Errorf("%d episodes played, neighbours throttled in some: %v; want 3 or more, and true", played, busy)
	}
}

// TestSharedLimits: with equal requests, a limit above the band of the recommended one is resized in place, and one that is
// to go needs an eviction.
func TestSharedLimits(t *testing.T) {
	task := sharedTask(t, func(o *SharedOptions) { o.Workload, o.Faults = "constant", 0 })
	ctx, c := context.Background(), sim.New()
	if err := task.Begin(ctx, c, rand.New(pcg.New(1))); err != nil {
		t.Fatal(err)
	}
	first := task.dynamics.Pods[0]
	for i, tc := range []struct {
		factor             float64 // of the CPU limit at the start; 0 is none
		resizes, evictions int
	}{{1, 0, 0}, {1.09, 0, 0}, {1.5, 1, 0}, {1.25, 0, 0}, {1.1, 1, 0}, {0, 0, 1}, {0, 0, 0}, {1, 1, 0}} {
		r := pods.Constant(first.Requests)
		r.Limits, r.SetLimits = first.Limits, true
		r.Limits.MilliCPU = int64(tc.factor * float64(first.Limits.MilliCPU))
		task.Recommend(r)
		if _, err := task.Apply(ctx, c, make([]float32, actions.SeparateSize)); err != nil {
			t.Fatal(err)
		}
		if got := task.dynamics.Last; got.Resizes != tc.resizes || got.Evictions != tc.evictions {
			t.Errorf("step %d: %d resizes and %d evictions, want %d and %d", i, got.Resizes, got.Evictions, tc.resizes, tc.evictions)
		}
	}
}

// TestRecommendedLimitsInLimitRange: README.md, section Options. Of a LimitRange with the default 2000 m, the greatest
// amount 8000 m and the greatest ratio 2, only 8000 m bounds recommended limits.
func TestRecommendedLimitsInLimitRange(t *testing.T) {
	task := sharedTask(t, func(o *SharedOptions) {
		o.Workload, o.Faults, o.Neighbours, o.NodeCPU, o.NodeMemory = "constant", 0, 0, 64000, 65536
		o.RangeCPU, o.RangeMaxCPU, o.RangeRatio = 2000, 8000, 2
	})
	ctx, c := context.Background(), sim.New()
	if err := task.Begin(ctx, c, rand.New(pcg.New(1))); err != nil {
		t.Fatal(err)
	}
	for _, tc := range []struct{ recommended, want int64 }{{7000, 7000}, {9000, 8000}, {0, 0}} {
		r := pods.Constant(amounts(1000, 16))
		r.Limits, r.SetLimits = amounts(tc.recommended, 32), true
		task.Recommend(r)
		if _, err := task.Apply(ctx, c, make([]float32, actions.SeparateSize)); err != nil {
			t.Fatal(err)
		}
		if p := &task.dynamics.Pods[0]; p.Requests.MilliCPU != 1000 || p.Limits.MilliCPU != tc.want {
			t.Errorf("a recommended limit of %d m: the pod requests %d m with a limit of %d m, want 1000 and %d", tc.recommended, p.Requests.MilliCPU, p.Limits.MilliCPU, tc.want)
		}
	}
}
