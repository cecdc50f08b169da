package mirror

import (
	"fmt"
	"math/rand/v2"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"

	"github.com/kubernasium/kubernasium/agents/live"
	"github.com/kubernasium/kubernasium/envs/podsched/gpushare"
	"github.com/kubernasium/kubernasium/kwok/kubeyaml"
	"github.com/kubernasium/kubernasium/kwok/kwoktest"
)

// gpuCluster returns four nodes with GPUs, one of them closed to all, and more pods than fit.
func gpuCluster(rng *rand.Rand) string {
	var b strings.Builder
	for n := range 4 {
		fmt.Fprintf(&b, "kind: Node\nmetadata: {name: n%d, labels: {alibabacloud.com/gpu-card-model: %s}}\nspec: {unschedulable: %v}\nstatus: {allocatable: {cpu: 32, memory: 64Gi, alibabacloud.com/gpu-count: %d}}\n---\n",
			n, []string{"T4", "P100"}[n%2], n == 2, 2+n)
	}
	for p := range 30 {
		count, milli := 1, 100*(1+rng.IntN(10))
		if rng.IntN(4) == 0 {
			count, milli = 2, 1000
		}
		fmt.Fprintf(&b, "kind: Pod\nmetadata: {name: p%d, annotations: {alibabacloud.com/gpu-count: '%d', alibabacloud.com/gpu-milli: '%d'}}\nspec: {containers: [{name: c, resources: {requests: {cpu: %d, memory: 1Gi}}}]}\n---\n",
			p, count, milli, 1+rng.IntN(4))
	}
	return b.String()
}

// TestSimulatedPolicy: FGD as the baseline of the environment, which sees the simulation as a model does, places as the
// plugin FGD, pod for pod and device for device.
func TestSimulatedPolicy(t *testing.T) {
	for seed := range uint64(5) {
		text := gpuCluster(rand.New(rand.NewPCG(seed, 0)))
		want, err := kwoktest.Simulate(t, text, "FGD", nil)
		if err != nil {
			t.Fatal(err)
		}
		policy, err := live.Open(live.Args{Baseline: "FGD", Env: "k8s/GPUPodScheduling-v0"}, 4)
		if err != nil {
			t.Fatal(err)
		}
		got, err := kwoktest.Simulate(t, text, "FGD", func(o *kubeyaml.Objects, w *kubeyaml.Workload) gpushare.Decider {
			s, err := Simulate(policy, o.Nodes, w.Objects)
			if err != nil {
				t.Fatal(err)
			}
			return s
		})
		if err != nil {
			t.Fatal(err)
		}
		if len(want.Failed) == 0 || len(want.Placements) < 10 {
			t.Fatalf("%d placed and %d failed, want some of each for this test", len(want.Placements), len(want.Failed))
		}
		if d := cmp.Diff(want, got); d != "" {
			t.Errorf("seed %d (-plugin +policy):\n%s", seed, d)
		}
	}
}
