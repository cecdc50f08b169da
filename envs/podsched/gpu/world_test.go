package gpu

import (
	"math/rand/v2"
	"path/filepath"
	"testing"

	"github.com/kubernasium/kubernasium/envs"
	"github.com/kubernasium/kubernasium/envs/cluster"
	"github.com/kubernasium/kubernasium/envs/envstest"
	"github.com/kubernasium/kubernasium/envs/podsched/gpushare"
)

// checkWorld compares the arrays of the task with the cluster's state, which is the truth.
func checkWorld(t *testing.T, task *Task, s *cluster.State) {
	t.Helper()
	b := &task.inventory
	var wasted int64
	for i := range s.Nodes {
		n, bn := &s.Nodes[i], &b.Nodes[i]
		free := s.Free(int32(i))
		if bn.CPU != free.MilliCPU || bn.Memory*gpushare.BytesMiB != free.MemoryBytes || bn.Pods != n.NumPods {
			t.Fatalf("node %d has %d milli-CPU, %d MiB free and %d pods in the arrays, %v and %d in the cluster", i, bn.CPU, bn.Memory, bn.Pods, free, n.NumPods)
		}
		for d, dev := range s.NodeDevices(int32(i)) {
			if f := b.DevicesOf(int32(i))[d]; f != dev.Free {
				t.Fatalf("device %d of node %d has %d free in the arrays, %d in the cluster", d, i, f, dev.Free)
			}
		}
		wasted += b.Frag.Of(bn.CPU, bn.Model, b.SortedOf(int32(i)))
	}
	if wasted != b.Wasted {
		t.Fatalf("n·F is %d, its parts sum to %d", b.Wasted, wasted)
	}
	if task.current < 0 {
		return
	}
	mask := make([]bool, len(s.Nodes))
	s.FitMask(task.current, mask)
	for i, fits := range mask {
		if b.Fits(task.class(task.current), int32(i)) != fits {
			t.Fatalf("pod %d fits node %d: %v in the arrays, %v in the cluster", task.current, i, !fits, fits)
		}
	}
}

func open(tb testing.TB, opts map[string]any) (*envs.Vec, *Task) {
	tb.Helper()
	v := envstest.Open(tb, "k8s/GPUPodScheduling-v0", 1, envs.VecOptions{Options: opts, Autoreset: envs.Disabled})
	return v, v.Env(0).Task().(*Task)
}

var (
	reset = envstest.Reset
	step  = envstest.Step
	write = envstest.TempFile
)

// TestArraysAreTheWorld plays at random, with departures and pods put off too, and compares
// what the task keeps with the cluster after every step.
func TestArraysAreTheWorld(t *testing.T) {
	for name, opts := range map[string]map[string]any{
		"time-free": {"num_nodes": 12, "defer": true, "load_start": 0.3},
		"timed":     {"num_nodes": 6, "defer": true, "dynamics": "timed", "num_pods": 200, "load": 1.5},
	} {
		t.Run(name, func(t *testing.T) {
			v, task := open(t, opts)
			rng := rand.New(rand.NewPCG(1, 2))
			_, act := v.Spaces()
			action := make([]float32, 1)
			for seed := range uint64(3) {
				b := reset(t, v, seed)
				for b.Terminated[0] = false; !b.Terminated[0]; {
					act.Sample(rng, b.Mask, action)
					b = step(t, v, action[0])
					checkWorld(t, task, v.Env(0).State())
				}
			}
		})
	}
}

// TestSamePlacements plays whole traces twice, by Reproduce's simulation and through the
// environment, and compares where every pod went, with its devices.
func TestSamePlacements(t *testing.T) {
	dir := openb(t)
	nodeFile := filepath.Join(dir, "openb_node_list_gpu_node.csv")
	nodes, err := gpushare.ReadNodes(nodeFile)
	if err != nil {
		t.Fatal(err)
	}
	for _, list := range []string{"default", "gpuspec10"} {
		podFile := filepath.Join(dir, "openb_pod_list_"+list+".csv")
		pods, err := gpushare.ReadPods(podFile)
		if err != nil {
			t.Fatal(err)
		}
		for _, p := range gpushare.Policies {
			if p.Name == "Random" || testing.Short() && (p.Name != "FGD" || list != "default") {
				continue // the two draw from different generators
			}
			t.Run(list+" "+p.Name, func(t *testing.T) {
				v, _ := open(t, map[string]any{"nodes": nodeFile, "pods": []string{podFile}, "reference_seed": 43})
				envstest.Play(t, v, envstest.Policy(t, v, p.Name), 0)
				sim, err := gpushare.NewReplay(gpushare.ReferenceWorkload(nodes, pods, 43, gpushare.DefaultRatio), p.Name)
				if err != nil {
					t.Fatal(err)
				}
				s := v.Env(0).State()
				if len(s.Pods) != len(sim.Classes) {
					t.Fatalf("%d pods in the environment, want %d", len(s.Pods), len(sim.Classes))
				}
				for i := range s.Pods {
					node, devices := sim.Next()
					if q := &s.Pods[i]; q.Node != node || q.Devices != devices || (q.Phase == cluster.Running) != (node >= 0) {
						t.Fatalf("pod %d is %v on node %d, devices %b in the environment; node %d, devices %b in the simulation",
							i, q.Phase, q.Node, q.Devices, node, devices)
					}
				}
			})
		}
	}
}

// openb returns the folder of the public trace, or skips the test.
func openb(tb testing.TB) string {
	tb.Helper()
	return envstest.Data(tb, "openb", "openb_node_list_gpu_node.csv")
}
