package gpu

import (
	"context"
	"fmt"
	"math/rand/v2"
	"testing"

	"github.com/kubernasium/kubernasium/envs"
	"github.com/kubernasium/kubernasium/envs/envstest"
)

// playTo lets a baseline play the first pods of an episode.
func playTo(t *testing.T, v *envs.Vec, baseline string, decisions int) {
	t.Helper()
	p, err := envs.NewPolicies(v, baseline, 0)
	if err != nil {
		t.Fatal(err)
	}
	for range decisions {
		if _, err := p.Step(context.Background()); err != nil {
			t.Fatal(err)
		}
	}
}

// decide returns the node and the devices that a policy chooses now.
func decide(t *testing.T, task *Task, policy envs.Policy) (node float32, devices uint64) {
	t.Helper()
	var action [1]float32
	if err := policy(context.Background(), nil, true, action[:]); err != nil {
		t.Fatal(err)
	}
	devices = task.devices
	task.TakePlan()
	return action[0], devices
}

// rolloutsOf returns the policy of RolloutWeightedFGD that looks ahead from the first pod on.
func rolloutsOf(t *testing.T, v *envs.Vec, nodes, futures int) envs.Policy {
	t.Helper()
	return envstest.Policy(t, v, fmt.Sprintf("%s:nodes=%d,futures=%d,confidence=0,from=0", rolloutName, nodes, futures))
}

// TestRolloutsKnowNoFuture: whatever pods will come, RolloutWeightedFGD decides the same.
func TestRolloutsKnowNoFuture(t *testing.T) {
	v, task := open(t, map[string]any{"num_nodes": 16})
	rng := rand.New(rand.NewPCG(1, 2))
	policy := rolloutsOf(t, v, 4, 3)
	deviations := 0
	for seed := range uint64(6) {
		reset(t, v, seed)
		playTo(t, v, "WeightedFGD", 40)
		weighted, err := task.placer("WeightedFGD")
		if err != nil {
			t.Fatal(err)
		}
		usual, _ := weighted.Choose(task.class(task.current))
		node, devices := decide(t, task, policy)
		if int32(node) != usual {
			deviations++
		}
		for range 5 {
			future := task.in.Arrivals[task.next:]
			for i := range future {
				future[i].Class = int32(rng.IntN(len(task.src.Catalogue.Classes)))
			}
			task.in.Arrivals = task.in.Arrivals[:task.next+rng.IntN(len(future)+1)]
			if n, d := decide(t, task, policy); n != node || d != devices {
				t.Fatalf("seed %d: with another future the pod goes to node %v, devices %b, want %v, %b", seed, n, d, node, devices)
			}
		}
	}
	if deviations == 0 {
		t.Error("no decision deviates from WeightedFGD, so that the test shows nothing")
	}
}

// TestOneNodeTriedIsWeightedFGD: without a second node to try, nothing changes.
func TestOneNodeTriedIsWeightedFGD(t *testing.T) {
	v, task := open(t, map[string]any{"num_nodes": 8})
	policy := rolloutsOf(t, v, 1, 2)
	b := reset(t, v, 3)
	weighted, err := envs.NewPolicies(v, "WeightedFGD", 0)
	if err != nil {
		t.Fatal(err)
	}
	for step := 0; !b.Terminated[0]; step++ {
		node, _ := decide(t, task, policy)
		var action [1]float32
		if err := weighted.Act(context.Background(), action[:]); err != nil {
			t.Fatal(err)
		}
		if node != action[0] {
			t.Fatalf("step %d: node %v, want WeightedFGD's %v", step, node, action[0])
		}
		if b, err = weighted.Step(context.Background()); err != nil {
			t.Fatal(err)
		}
	}
}

// TestFuturesAreOfThePast: futures hold only classes that have arrived, and request as much as is
// missing to the given load, less at most the pod that would pass it.
func TestFuturesAreOfThePast(t *testing.T) {
	v, task := open(t, map[string]any{"num_nodes": 16})
	reset(t, v, 1)
	playTo(t, v, "FGD", 40)
	seen := map[int32]bool{}
	for _, a := range task.in.Arrivals[:task.next] {
		seen[a.Class] = true
	}
	end := int64(1.1 * float64(task.inventory.Size.MilliGPU))
	rng := rand.New(rand.NewPCG(1, 2))
	past := task.in.Past(task.next)
	for range 20 {
		arrived := task.arrived
		for _, class := range task.src.Catalogue.Resample(nil, past, end-arrived, rng) {
			if !seen[class] {
				t.Fatalf("class %d has not arrived", class)
			}
			arrived += task.src.Catalogue.Classes[class].TotalMilliGPU()
		}
		if arrived > end || arrived < end-8000 {
			t.Errorf("a future comes to %d thousandths requested, want %d less at most 8 GPUs", arrived, end)
		}
	}
}

// TestRolloutsRefuse options under which futures or decisions would be others.
func TestRolloutsRefuse(t *testing.T) {
	for _, tc := range []struct {
		parameters string
		opts       map[string]any
	}{
		{"", map[string]any{"dynamics": "timed", "num_pods": 10}},
		{"", map[string]any{"defer": true}},
		{":nodes=0", nil},
		{":futures=0", nil},
		{":confidence=-1", nil},
	} {
		v, _ := open(t, tc.opts)
		if _, err := envs.NewPolicies(v, rolloutName+tc.parameters, 0); err == nil {
			t.Errorf("%s with %v: no error", tc.parameters, tc.opts)
		}
	}
}
