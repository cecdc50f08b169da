package example_test

import (
	"math"
	"testing"

	"github.com/kubernasium/kubernasium/envs"
	"github.com/kubernasium/kubernasium/envs/cluster"
	"github.com/kubernasium/kubernasium/envs/envcheck"
	"github.com/kubernasium/kubernasium/envs/envstest"
	_ "github.com/kubernasium/kubernasium/envs/example"
)

const id = "example/Packing-v0"

func TestContract(t *testing.T) {
	for _, opts := range []map[string]any{{}, {"nodes": 2, "pods": 30}, {"nodes": 1, "pods": 1}} {
		envcheck.Run(t, envstest.Spec(t, id), envcheck.Options{Options: opts})
	}
}

func TestInvalidOptions(t *testing.T) {
	envstest.CheckInvalid(t, id, map[string]any{"nodes": 0}, "nodes is 0")
	envstest.CheckInvalid(t, id, map[string]any{"pods": 0}, "pods is 0")
}

func TestGolden(t *testing.T) {
	envstest.Golden(t, "packing", envstest.Sampled(t, envstest.Open(t, id, 1, envs.VecOptions{}), 1))
}

// requests returns the episode's pods, in halves of a core and GiB, by playing it.
func requests(t *testing.T, v *envs.Vec, seed uint64) (cpu, memory []int64) {
	t.Helper()
	envstest.Reset(t, v, seed)
	for {
		pods := v.Env(0).State().Pods
		if len(pods) > len(cpu) {
			r := pods[len(pods)-1].Requests
			cpu, memory = append(cpu, r.MilliCPU/500), append(memory, r.MemoryBytes>>30)
		}
		if envstest.Step(t, v, 0).Done(0) {
			return cpu, memory
		}
	}
}

// fewest returns the fewest nodes for the pods from i on, by trying every node for every pod.
func fewest(cpu, memory []int64, freeCPU, freeMemory []int64) int {
	if len(cpu) == 0 {
		return 0
	}
	best := math.MaxInt32
	for n := range freeCPU {
		if cpu[0] > freeCPU[n] || memory[0] > freeMemory[n] {
			continue
		}
		opened := 0
		if freeCPU[n] == 8 && freeMemory[n] == 8 {
			opened = 1
		}
		freeCPU[n] -= cpu[0]
		freeMemory[n] -= memory[0]
		best = min(best, opened+fewest(cpu[1:], memory[1:], freeCPU, freeMemory))
		freeCPU[n] += cpu[0]
		freeMemory[n] += memory[0]
		if opened == 1 {
			break // empty nodes are alike
		}
	}
	return best
}

// TestBaselinesAgainstOptimum compares the baselines with brute force: neither is better, and first fit
// uses at most 2.7 times as many nodes, and one more (Garey et al., "Resource constrained scheduling as
// generalized bin packing", J. Combinatorial Theory A 21, 1976, for two resources).
func TestBaselinesAgainstOptimum(t *testing.T) {
	v := envstest.Open(t, id, 1, envs.VecOptions{Options: map[string]any{"nodes": 7, "pods": 7}, Autoreset: envs.Disabled})
	for seed := range uint64(20) {
		cpu, memory := requests(t, v, seed)
		free := func() []int64 { return []int64{8, 8, 8, 8, 8, 8, 8} }
		optimum := fewest(cpu, memory, free(), free())
		for _, name := range []string{"first_fit", "best_fit"} {
			b := envstest.Play(t, v, envstest.Policy(t, v, name), seed)
			used := int(envstest.Column(t, v, b, "nodes_used"))
			if used < optimum || name == "first_fit" && float64(used) > 2.7*float64(optimum)+1 {
				t.Errorf("%s, seed %d: %d nodes, the optimum is %d", name, seed, used, optimum)
			}
			if want := -float64(used) / 7; math.Abs(b.EpisodeReturn[0]-want) > 1e-12 {
				t.Errorf("%s, seed %d: return %v, want %v for %d of 7 nodes", name, seed, b.EpisodeReturn[0], want, used)
			}
		}
	}
}

// TestRewardsByHand opens two nodes, at −1/2 each, fills them for nothing, and stops at the first pod that
// fits on neither, at −1.
func TestRewardsByHand(t *testing.T) {
	v := envstest.Open(t, id, 1, envs.VecOptions{Options: map[string]any{"nodes": 2, "pods": 40}, Autoreset: envs.Disabled})
	envstest.Reset(t, v, 3)
	for step, want := range []float64{-0.5, -0.5} {
		if b := envstest.Step(t, v, float32(step)); b.Reward[0] != want {
			t.Errorf("step %d: reward %v, want %v for the first pod of a node", step, b.Reward[0], want)
		}
	}
	for step := 2; ; step++ {
		s := v.Env(0).State()
		pod := int32(len(s.Pods) - 1)
		node, want := int32(0), 0.0
		if !s.Fits(pod, 0) {
			if node = 1; !s.Fits(pod, 1) {
				want = -1
			}
		}
		b := envstest.Step(t, v, float32(node))
		if b.Reward[0] != want {
			t.Fatalf("step %d: reward %v, want %v", step, b.Reward[0], want)
		}
		if want < 0 {
			if p := v.Env(0).State().Pods[pod]; p.Phase != cluster.Pending || envstest.Column(t, v, b, "pending") != 1 {
				t.Errorf("a pod that fits nowhere is %v, %v pending, want Pending and 1", p.Phase, envstest.Column(t, v, b, "pending"))
			}
			return
		}
	}
}

func BenchmarkStep(b *testing.B) { envstest.BenchmarkStep(b, id, nil, 1) }
