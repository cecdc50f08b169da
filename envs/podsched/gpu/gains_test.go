package gpu

import (
	"context"
	"math/rand/v2"
	"testing"

	"github.com/kubernasium/kubernasium/envs"
	"github.com/kubernasium/kubernasium/envs/pcg"
	"github.com/kubernasium/kubernasium/envs/podsched/gpushare"
)

// TestEstimateGains compares gains with episodes: in copies of the environment the pod goes to each node, the pods of the
// same future come, and WeightedFGD plays to the end.
func TestEstimateGains(t *testing.T) {
	const futures, seed = 3, 5
	v, task := open(t, map[string]any{"num_nodes": 10})
	different := 0
	for episode := range uint64(4) {
		reset(t, v, episode)
		playTo(t, v, "WeightedFGD", 45)
		if float64(task.arrived) < gpushare.DefaultRollouts.From*float64(task.inventory.Size.MilliGPU) {
			t.Fatal("too early for futures")
		}
		var nodes []int32
		for i := range task.nodes {
			if task.inventory.Fits(task.class(task.current), int32(i)) {
				nodes = append(nodes, int32(i))
			}
		}
		got, err := task.EstimateGains(nodes, futures, seed)
		if err != nil {
			t.Fatal(err)
		}
		want := make([]float64, len(nodes))
		end, rng := int64(task.opts.LoadEnd*float64(task.inventory.Size.MilliGPU)), rand.New(pcg.New(seed))
		for range futures {
			future := task.src.Catalogue.Resample(nil, task.in.Past(task.next), end-task.arrived, rng)
			first := allocated(t, v.Env(0), future, nodes[0])
			for k, node := range nodes {
				want[k] += float64(allocated(t, v.Env(0), future, node)-first) / (futures * gpushare.WholeGPU)
			}
		}
		for k := range nodes {
			if diff := got[k] - want[k]; diff > 1e-9 || diff < -1e-9 {
				t.Errorf("episode %d: node %d gains %v GPUs, %v in copies of the environment", episode, nodes[k], got[k], want[k])
			}
			if got[k] != 0 {
				different++
			}
		}
	}
	if different == 0 {
		t.Error("no node gains anything, so that the test shows nothing")
	}
}

// allocated returns the thousandths of a GPU allocated at the end of a copy of e in which the current pod goes to a node and
// pods of the classes of future come.
func allocated(t *testing.T, e *envs.Env, future []int32, node int32) int64 {
	t.Helper()
	b, err := e.Branch()
	if err != nil {
		t.Fatal(err)
	}
	task := b.Task().(*Task)
	if err := b.Resample(1); err != nil {
		t.Fatal(err)
	}
	pod := task.in.Arrivals[len(task.in.Arrivals)-1]
	task.in.Arrivals = task.in.Arrivals[:task.next]
	for _, class := range future {
		pod.Class = class
		task.in.Arrivals = append(task.in.Arrivals, pod)
	}
	task.defers = make([]uint8, len(task.in.Arrivals))
	weighted, err := weightedFGD(gpushare.DefaultWeights)(task)
	if err != nil {
		t.Fatal(err)
	}
	action := []float32{float32(node)}
	for first := true; b.Running(); first = false {
		if !first {
			if err := weighted(context.Background(), b.State(), false, action); err != nil {
				t.Fatal(err)
			}
		}
		if _, err := b.Step(context.Background(), action); err != nil {
			t.Fatal(err)
		}
	}
	return task.inventory.Used.MilliGPU
}
