package gpuworkload_test

import (
	"math"
	"testing"
	"time"

	"github.com/kubernasium/kubernasium/envs/podsched/gpushare"
	"github.com/kubernasium/kubernasium/envs/podsched/gpuworkload"
)

// TestPooledWait works an episode by hand. Two nodes of G2 become one with four devices. The three pods of 0.6 GPUs take devices 0
// to 2, and the first ends at 50 s. Then the pod with two whole GPUs, which came at 10 s, starts on devices 0 and 3. They are on different
// nodes. Of two pods of T4, which has one device, the second waits from 65 to 70 s. The pod without a model waits for nothing, but
// counts, and the pods that fit no empty node fail and do not.
func TestPooledWait(t *testing.T) {
	nodes := []gpushare.Node{
		{Name: "a", MilliCPU: 8000, MemoryMiB: 8192, GPUs: 2, Model: "G2"},
		{Name: "b", MilliCPU: 8000, MemoryMiB: 8192, GPUs: 2, Model: "G2"},
		{Name: "c", MilliCPU: 8000, MemoryMiB: 8192, GPUs: 1, Model: "T4"},
	}
	const part, two, one, free, three, cores = 0, 1, 2, 3, 4, 5
	var pods []gpushare.Pod
	for _, s := range []gpushare.Shape{
		part:  {MilliCPU: 1000, MemoryMiB: 1024, GPUs: 1, MilliGPU: 600, Models: "G2"},
		two:   {MilliCPU: 1000, MemoryMiB: 1024, GPUs: 2, MilliGPU: 1000, Models: "G2"},
		one:   {MilliCPU: 1000, MemoryMiB: 1024, GPUs: 1, MilliGPU: 1000, Models: "T4"},
		free:  {MilliCPU: 1000, MemoryMiB: 1024, GPUs: 1, MilliGPU: 1000},
		three: {MilliCPU: 1000, MemoryMiB: 1024, GPUs: 3, MilliGPU: 1000, Models: "G2"},
		cores: {MilliCPU: 12000, MemoryMiB: 1024, GPUs: 1, MilliGPU: 1000, Models: "T4"},
	} {
		pods = append(pods, gpushare.Pod{Shape: s})
	}
	cat, err := gpushare.NewCatalogue(nodes, pods)
	if err != nil {
		t.Fatal(err)
	}
	var cluster gpushare.Inventory
	cluster.Reset(nodes, cat, gpushare.NewFragmenter(nil, 0, &cat.Models))
	const s = time.Second
	wait := gpuworkload.PooledWait(&cluster, cat, []gpuworkload.Arrival{
		{Class: part, Duration: 50 * s}, {Class: part, Duration: 100 * s}, {Class: part, Duration: 100 * s},
		{Class: free, Duration: 1000 * s}, {Class: three, Duration: 10 * s}, {Class: cores, Duration: 10 * s},
		{Class: two, At: 10 * s, Duration: 100 * s}, {Class: one, At: 60 * s, Duration: 10 * s}, {Class: one, At: 65 * s, Duration: 10 * s},
	}, 0)
	if want := (40. + 5) / 7; math.Abs(wait-want) > 1e-9 {
		t.Errorf("pods wait %v s, want %v", wait, want)
	}
	// The first pod never ends, so that the fourth one is given up.
	wait = gpuworkload.PooledWait(&cluster, cat, []gpuworkload.Arrival{
		{Class: one}, {Class: two, Duration: 10 * s}, {Class: two, Duration: 10 * s},
		{Class: one, At: 5 * s, Duration: 10 * s}, {Class: two, At: 6 * s, Duration: 10 * s},
	}, 0)
	if want := 4. / 4; math.Abs(wait-want) > 1e-9 {
		t.Errorf("beside a pod without an end others wait %v s, want %v", wait, want)
	}
	// A pod that runs for 20 s when the episode begins makes the only one that comes wait from 5 to 20 s.
	wait = gpuworkload.PooledWait(&cluster, cat, []gpuworkload.Arrival{{Class: one, Duration: 20 * s}, {Class: one, At: 5 * s, Duration: 10 * s}}, 1)
	if want := 15.; math.Abs(wait-want) > 1e-9 {
		t.Errorf("beside a pod that ran before the pod waits %v s, want %v", wait, want)
	}
}
