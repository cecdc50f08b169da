package gpu

import (
	"fmt"
	"slices"

	"github.com/kubernasium/kubernasium/envs"
)

var _ envs.FeatureNamer = (*Task)(nil)

// Names of the elements of an observation, by their indices.
var (
	nodeNames = func() (names [numPlainFeatures + numScoreFeatures]string) {
		for i, name := range map[int]string{
			nodeCPU: "free_cpu", nodeMemory: "free_memory", nodeGPU: "free_gpu",
			nodeCPUSize: "free_cpu_of_128_cores", nodeMemorySize: "free_memory_of_1_tib", nodeGPUSize: "free_gpu_of_8",
			nodePods: "pods", nodeFrag: "fragmentation",
			nodeFits: "fits", nodeCPUTaken: "cpu_taken", nodeGPUTaken: "gpu_taken", nodeLeft: "device_left",
			nodePressure: "model_pressure", nodeSupply: "model_supply",
			nodeGain: "fragmentation_gain", nodeFGD: "score_fgd", nodeBestFit: "score_best_fit",
		} {
			names[i] = name
		}
		for i := range maxNodeGPUs {
			names[nodeDevices+i] = fmt.Sprintf("free_device_%d", i)
		}
		return names
	}()
	podNames = [numPodFeatures]string{
		podCPU: "cpu", podMemory: "memory", podGPUs: "gpus", podMilliGPU: "milli_gpu", podShares: "shares_gpu",
		podWithoutGPU: "without_gpu", podConstrained: "constrained", podAccessible: "accessible_gpus",
		podFitting: "fitting_nodes", podDeferred: "deferred", podWaited: "hours_waited",
		clusterArrived: "cluster_gpus_requested", clusterAlloc: "cluster_gpus_allocated",
		clusterFrag: "cluster_fragmentation", clusterCPU: "cluster_cpu_allocated",
		clusterMemory: "cluster_memory_allocated", clusterQueue: "cluster_queue",
		outlookCPUOnly: "outlook_without_gpu", outlookSharing: "outlook_shares_gpu", outlookBound: "outlook_constrained",
	}
)

// wholeNames are the names of the columns of option whole_gpus.
var wholeNames = [numWholeFeatures]string{wholeFree: "whole_gpus", wholeAfter: "whole_gpus_after", wholeSupply: "model_supply_of_whole_gpus"}

// Features implements [envs.FeatureNamer].
func (t *Task) Features() []envs.Features {
	nodes, pod := nodeNames[:numPlainFeatures], podNames[:]
	if t.opts.Scores {
		nodes = nodeNames[:]
	}
	if t.opts.WholeGPUs {
		nodes, pod = slices.Concat(nodes, wholeNames[:]), slices.Clone(pod)
		for _, kind := range wholeKinds {
			pod = append(pod, kind.name)
		}
		pod = append(pod, "cluster_whole_gpus")
	}
	f := []envs.Features{
		{Part: "nodes", Row: "node", Names: nodes},
		{Part: "pod", Names: pod},
	}
	if t.opts.Edges == EdgesModel {
		f = append(f, envs.Features{Part: "edges", Row: "edge", Names: []string{"source", "target"}},
			envs.Features{Part: "edge_mask", Row: "edge", Names: []string{"exists"}})
	}
	return f
}
