package plugin

import (
	"iter"
	"math"

	"gonum.org/v1/gonum/stat"
	corev1 "k8s.io/api/core/v1"
	fwk "k8s.io/kube-scheduler/framework"

	"github.com/kubernasium/kubernasium/agents/live"
	"github.com/kubernasium/kubernasium/envs/cluster"
	"github.com/kubernasium/kubernasium/kwok/mirror"
)

// snapshot is kube-scheduler's.
type snapshot []fwk.NodeInfo

var _ mirror.Source = snapshot(nil)

// Len implements [mirror.Source].
func (s snapshot) Len() int { return len(s) }

// Node implements [mirror.Source].
func (s snapshot) Node(i int) (*corev1.Node, int64) { return s[i].Node(), s[i].GetGeneration() }

// Pods implements [mirror.Source].
func (s snapshot) Pods(i int) iter.Seq[*corev1.Pod] { return podsOf(s[i]) }

func podsOf(n fwk.NodeInfo) iter.Seq[*corev1.Pod] {
	return func(yield func(*corev1.Pod) bool) {
		for _, info := range n.GetPods() {
			if !yield(info.GetPod()) {
				return
			}
		}
	}
}

// ranked scales a choice's scores to 0 … 100. Only the chosen node has 100.
func ranked(c live.Choice) []int64 {
	low, high := math.Inf(1), math.Inf(-1)
	for _, v := range c.Scores {
		if !math.IsNaN(v) {
			low, high = min(low, v), max(high, v)
		}
	}
	scores := make([]int64, len(c.Scores))
	for i, v := range c.Scores {
		switch {
		case math.IsNaN(v):
		case int32(i) == c.Node:
			scores[i] = fwk.MaxNodeScore
		case high > low:
			scores[i] = min(fwk.MaxNodeScore-1, int64(float64(fwk.MaxNodeScore)*(v-low)/(high-low)))
		default:
			scores[i] = fwk.MaxNodeScore - 1
		}
	}
	return scores
}

// imbalance returns the mean of the population standard deviations, over nodes, of the requested
// shares of CPU and of memory, in percent, with further requests on one node.
func imbalance(nodes []cluster.Node, at int32, more cluster.Resources) float64 {
	cpu, memory := make([]float64, len(nodes)), make([]float64, len(nodes))
	for i := range nodes {
		n, requested := &nodes[i], nodes[i].Requested
		if int32(i) == at {
			requested.MilliCPU += more.MilliCPU
			requested.MemoryBytes += more.MemoryBytes
		}
		cpu[i] = float64(requested.MilliCPU) / float64(max(n.Allocatable.MilliCPU, 1))
		memory[i] = float64(requested.MemoryBytes) / float64(max(n.Allocatable.MemoryBytes, 1))
	}
	return 100 * (stat.PopStdDev(cpu, nil) + stat.PopStdDev(memory, nil)) / 2
}
