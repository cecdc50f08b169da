package deployments

import "github.com/kubernasium/kubernasium/envs"

// MostPods bounds the pods of an episode of phases. A phase ends when the nodes have perNode pods each or, with equal
// nodes and pods, when the pods request the part cpuLoad of the CPU. A recording is played once in each phase. Given
// ends replace these bounds.
func (c *Config) MostPods(phases int, perNode, cpuLoad float64, ends []int) int {
	if c.Recorded != nil {
		return phases * len(c.Recorded.Pods)
	}
	if len(ends) > 0 {
		pods := c.ReplicasMax
		for _, n := range ends {
			pods += n
		}
		return pods
	}
	if !c.MixedNodes && !c.MixedPods && c.MemoryHeavy == 0 && c.File == nil {
		perNode = min(perNode, cpuLoad*float64(equalNode.MilliCPU/equalPod.MilliCPU))
	}
	return phases * (int(perNode*float64(c.Nodes)) + c.ReplicasMax)
}

// PodBytes estimates the memory of n pods in the stream.
func (c *Config) PodBytes(n int) int64 { return envs.SliceSize[Pod](n) }
