package gpu

import (
	"fmt"
	"testing"

	"github.com/google/go-cmp/cmp"

	"github.com/kubernasium/kubernasium/envs/envstest"
	"github.com/kubernasium/kubernasium/envs/podsched/gpushare"
	"github.com/kubernasium/kubernasium/envs/podsched/gpuworkload"
)

// TestRun: heuristics played decision by decision in the environment report what Reproduce
// reports of them, which is compared with the published tables.
func TestRun(t *testing.T) {
	nodes := gpuworkload.GenerateNodes()[500:700]
	lines, shapes := "name,cpu_milli,memory_mib,num_gpu,gpu_milli,gpu_spec\n", gpuworkload.Shapes()
	for i := range 400 {
		s := shapes[i*i%len(shapes)]
		lines += fmt.Sprintf("p%04d,%d,%d,%d,%d,%s\n", i, s.MilliCPU, s.MemoryMiB, s.GPUs, s.MilliGPU, s.Models)
	}
	pods := write(t, "pods.csv", lines)
	list, err := gpushare.ReadPods(pods)
	if err != nil {
		t.Fatal(err)
	}
	lines = "sn,cpu_milli,memory_mib,gpu,model\n"
	for _, n := range nodes {
		lines += fmt.Sprintf("%s,%d,%d,%d,%s\n", n.Name, n.MilliCPU, n.MemoryMiB, n.GPUs, n.Model)
	}
	nodeFile := write(t, "nodes.csv", lines)
	for _, policy := range []string{"FGD", "BestFit", "ScarcityFGD", "WeightedFGD"} {
		want, err := gpushare.Reproduce(nodes, list, policy, 45, gpushare.DefaultRatio)
		if err != nil {
			t.Fatal(err)
		}
		v, task := open(t, map[string]any{"nodes": nodeFile, "pods": []string{pods}, "reference_seed": 45, "load_end": gpushare.DefaultRatio})
		envstest.Play(t, v, envstest.Policy(t, v, policy), 0)
		got := task.Run()
		got.Policy, got.Seed = want.Policy, want.Seed
		if d := cmp.Diff(want, got); d != "" {
			t.Errorf("%s (-reproduced +played):\n%s", policy, d)
		}
	}
}
