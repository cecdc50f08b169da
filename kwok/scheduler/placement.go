package scheduler

import (
	"gonum.org/v1/gonum/stat"

	"github.com/kubernasium/kubernasium/envs/cluster"
)

// A Placement is a pod that the scheduler has bound.
type Placement struct {
	Pod       string // namespace/name
	Node      string
	Index     int     // of the node among all, in the order of their names
	Nodes     int     // that there are
	Imbalance float64 // of the cluster with the pod, in percent: see [Config.Placed]
	Fallback  bool    // kube-scheduler's scores chose, not the policy
}

// placement describes the choice of a node in a moment.
func (m *moment) placement(v verdict) Placement {
	return Placement{
		Pod: m.pod.Namespace + "/" + m.pod.Name, Node: m.nodes[v.node].Name, Index: int(v.node), Nodes: len(m.nodes),
		Imbalance: imbalance(m.state.Nodes, int(v.node), m.state.Pods[m.decision.Pod].Requests), Fallback: v.fallback != "",
	}
}

// imbalance returns the mean of the population standard deviations, over nodes, of the requested
// shares of CPU and of memory, in percent, with further requests on one node.
func imbalance(nodes []cluster.Node, at int, more cluster.Resources) float64 {
	cpu, memory := make([]float64, len(nodes)), make([]float64, len(nodes))
	for i := range nodes {
		n, requested := &nodes[i], nodes[i].Requested
		if i == at {
			requested.MilliCPU += more.MilliCPU
			requested.MemoryBytes += more.MemoryBytes
		}
		cpu[i] = share(requested.MilliCPU, n.Allocatable.MilliCPU)
		memory[i] = share(requested.MemoryBytes, n.Allocatable.MemoryBytes)
	}
	return 100 * (stat.PopStdDev(cpu, nil) + stat.PopStdDev(memory, nil)) / 2
}

// share returns a part of what there is, and 0 of nothing.
func share(part, whole int64) float64 {
	if whole == 0 {
		return 0
	}
	return float64(part) / float64(whole)
}
