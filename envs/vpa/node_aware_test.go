package vpa

import (
	"context"
	"math"
	"math/rand/v2"
	"testing"

	"github.com/kubernasium/kubernasium/envs/cluster/sim"
	"github.com/kubernasium/kubernasium/envs/pcg"
)

// TestNodeAwareStopsLeaks: of pods whose usage is constant but for faults, node_aware evicts those that leak before they reach
// a limit. quantile_tuned lets them be killed. Seeds of training.
func TestNodeAwareStopsLeaks(t *testing.T) {
	killed, evicted, cost := map[string]int{}, map[string]int{}, map[string]float64{}
	for _, name := range []string{"quantile_tuned", "node_aware"} {
		for seed := range uint64(8) {
			task := sharedTask(t, func(o *SharedOptions) { o.Workload, o.Faults = "constant", 4 })
			c := playSeed(t, task, byName(t, "k8s/VerticalPodAutoscaler-v1", name, task), seed)
			killed[name] += task.ledger.Sum.OOMs
			evicted[name] += task.ledger.Sum.Evictions
			cost[name] += c.Slack + c.Overrun + c.Change + c.Harm
		}
	}
	if killed["node_aware"] != 0 || killed["quantile_tuned"] < 8 || evicted["node_aware"] < killed["quantile_tuned"] {
		t.Errorf("kills %v, evictions %v; want none by node_aware, which evicts instead, and 8 or more by quantile_tuned", killed, evicted)
	}
	if cost["node_aware"] > 0.8*cost["quantile_tuned"] {
		t.Errorf("costs %v, want a fifth less", cost)
	}
}

// TestViewOfTheNode: a view has the node's size, and the CPU and memory that all pods used of it in the last step.
func TestViewOfTheNode(t *testing.T) {
	task := sharedTask(t, func(o *SharedOptions) { o.Neighbours = 3 })
	ctx, c := context.Background(), sim.New()
	if err := task.Begin(ctx, c, rand.New(pcg.New(1))); err != nil {
		t.Fatal(err)
	}
	for range 3 {
		if _, err := task.Apply(ctx, c, []float32{0, 0, 0, 0}); err != nil {
			t.Fatal(err)
		}
		s := task.dynamics.Node
		cpu, mem := task.dynamics.Pods[0].Used.MilliCPU, task.dynamics.Pods[0].Used.MemoryBytes
		for i := range s.Pods {
			cpu, mem = cpu+s.Pods[i].Used.MilliCPU, mem+s.Pods[i].Used.MemoryBytes
		}
		want := [2]float64{float64(cpu) / float64(s.Drawn.Capacity.MilliCPU), float64(mem) / float64(s.Drawn.Capacity.MemoryBytes)}
		view := task.view()
		got := view.Load
		if view.Node != s.Drawn.Capacity || math.Abs(got[0]-want[0]) > 1e-9 || math.Abs(got[1]-want[1]) > 1e-9 || want[0] == 0 {
			t.Errorf("node %+v with load %v, want %+v and %v", view.Node, got, s.Drawn.Capacity, want)
		}
	}
}
