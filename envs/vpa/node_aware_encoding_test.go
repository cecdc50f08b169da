package vpa

import (
	"context"
	"math"
	"math/rand/v2"
	"slices"
	"testing"

	"github.com/kubernasium/kubernasium/envs"
	"github.com/kubernasium/kubernasium/envs/cluster"
	"github.com/kubernasium/kubernasium/envs/cluster/sim"
	"github.com/kubernasium/kubernasium/envs/pcg"
	"github.com/kubernasium/kubernasium/envs/vpa/prices"
)

// correcting returns a task of encoding node_aware without faults.
func correcting(t *testing.T, workload string) *Task {
	t.Helper()
	return sharedTask(t, func(o *SharedOptions) {
		o.Workload, o.Faults, o.Hold, o.Encoding = workload, 0, 5, EncodingNodeAware
	})
}

// always returns the policy that always acts alike.
func always(elements ...float32) envs.Policy {
	return func(_ context.Context, _ *cluster.State, _ bool, action []float32) error {
		copy(action, elements)
		return nil
	}
}

// TestKeepAndRestart: an action that keeps whatever is within a factor of four resizes less than half as often as
// zeros, and one that restarts evicts a pod in each decision.
func TestKeepAndRestart(t *testing.T) {
	played := func(elements ...float32) (prices.Events, int) {
		task := correcting(t, "sinusoidal")
		playSeed(t, task, always(elements...), 1)
		return task.ledger.Sum, task.MaxEpisodeSteps()
	}
	zeros, most := played(0, 0, 0, 0, 0, 0, 0)
	if kept, _ := played(0, 1, 0, 0, 1, 0, 0); 2*kept.Resizes > zeros.Resizes || kept.Evictions > zeros.Evictions {
		t.Errorf("%d resizes and %d evictions with kept requests, %d and %d without", kept.Resizes, kept.Evictions, zeros.Resizes, zeros.Evictions)
	}
	if got, _ := played(0, 0, 0, 0, 0, 0, 1); got.Evictions > most || got.Evictions < most/2 {
		t.Errorf("%d evictions in %d decisions that restart the pod", got.Evictions, most)
	}
}

// TestRestartsInARow: in steps of one action each, an action that restarts evicts the pod once. Repeated, it leaves the new
// pod without a CPU limit, as README.md says of element 6; zeros restore the limit in place.
func TestRestartsInARow(t *testing.T) {
	task := sharedTask(t, func(o *SharedOptions) {
		o.Workload, o.Faults, o.Neighbours, o.Encoding = "constant", 0, 0, EncodingNodeAware
	})
	ctx, c := context.Background(), sim.New()
	if err := task.Begin(ctx, c, rand.New(pcg.New(1))); err != nil {
		t.Fatal(err)
	}
	for i, tc := range []struct {
		restart   float32
		evictions int
		limited   bool
	}{{1, 1, false}, {1, 0, false}, {1, 0, false}, {0.5, 0, true}, {1, 1, false}} {
		if _, err := task.Apply(ctx, c, []float32{0, 0, 0, 0, 0, 0, tc.restart}); err != nil {
			t.Fatal(err)
		}
		if got, limited := task.dynamics.Last.Evictions, task.dynamics.Pods[0].Limits.MilliCPU > 0; got != tc.evictions || limited != tc.limited {
			t.Errorf("step %d: %d evictions, a CPU limit: %v; want %d, %v", i, got, limited, tc.evictions, tc.limited)
		}
	}
}

// TestAwareObservation: a pod of constant usage requests that, so that all amounts over its request are 1 and their
// elements 0; the limits are 1.2 and 1.5 times the peak. The jumps of a workload of two levels are those of its series.
func TestAwareObservation(t *testing.T) {
	begin := func(workload string) (*Task, []float32) {
		task := correcting(t, workload)
		ctx, c := context.Background(), sim.New()
		if err := task.Begin(ctx, c, rand.New(pcg.New(3))); err != nil {
			t.Fatal(err)
		}
		for range 4 {
			if _, err := task.Apply(ctx, c, make([]float32, 7)); err != nil {
				t.Fatal(err)
			}
		}
		space, _ := task.Spaces()
		obs := make([]float32, space.Size())
		task.Observe(c.State(), obs, nil)
		return task, obs
	}
	task, obs := begin("constant")
	names := task.Features()[0].Names
	if len(names) != len(obs) {
		t.Fatalf("%d names of %d elements", len(names), len(obs))
	}
	at := func(obs []float32, name string) float64 {
		i := slices.Index(names, name)
		if i < 0 {
			t.Fatalf("no element %s", name)
		}
		return float64(obs[i])
	}
	for name, want := range map[string]float64{
		"cpu_mean_3_min_over_base": 0, "cpu_yesterday_60_min_over_base": 0, "memory_30_min_ago_over_base": 0, "memory_roughness": 0,
		"cpu_base_limit_over_base": math.Log2(1.2) / 2, "memory_base_limit_over_base": math.Log2(1.5) / 2,
		"cpu_since_jump": 1, "cpu_before_jump": 0, "cpu_until_jump": 1,
	} {
		if got := at(obs, name); math.Abs(got-want) > 2e-3 {
			t.Errorf("%s is %v, want %v", name, got, want)
		}
	}
	task, obs = begin("low_high")
	var jumps []int
	seen := task.Seen()
	for i := 1; i < len(seen); i++ {
		if seen[i].MilliCPU != seen[i-1].MilliCPU {
			jumps = append(jumps, i)
		}
	}
	if len(jumps) < 2 {
		t.Fatalf("%d jumps", len(jumps))
	}
	last := jumps[len(jumps)-1]
	since, before := len(seen)-1-last, last-jumps[len(jumps)-2]
	for name, want := range map[string]float64{
		"cpu_since_jump": math.Min(math.Log2(float64(since+1))/10, 1), "cpu_before_jump": math.Min(math.Log2(float64(before+1))/10, 1),
		"cpu_until_jump": math.Min(math.Max(float64(before-since)/30, -1), 1),
	} {
		if got := at(obs, name); math.Abs(got-want) > 1e-6 {
			t.Errorf("%s is %v, want %v", name, got, want)
		}
	}
}
