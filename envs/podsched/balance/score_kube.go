package balance

import (
	"context"
	"slices"

	"github.com/kubernasium/kubernasium/envs/cluster"
	"github.com/kubernasium/kubernasium/envs/podsched/kubescore"
)

// resources returns CPU and memory of node i as plugins see them, with the current pod: requested, or counted as
// NodeResourcesFit counts them.
func (t *Task) resources(s *cluster.State, i int, counted bool) (cpu, memory kubescore.Resource) {
	capacity, r := t.in.Nodes[i], s.Nodes[i].Requested.Plus(t.spec.Requests)
	if counted {
		r = r.Plus(t.extra[i]).Plus(t.spec.Extra)
	}
	return kubescore.Resource{Requested: r.MilliCPU, Allocatable: capacity.MilliCPU, Weight: 1},
		kubescore.Resource{Requested: r.MemoryBytes, Allocatable: capacity.MemoryBytes, Weight: 1}
}

func leastAllocated(t *Task, s *cluster.State, i int) int64 {
	cpu, memory := t.resources(s, i, true)
	return kubescore.LeastAllocated(cpu, memory)
}

func mostAllocated(t *Task, s *cluster.State, i int) int64 {
	cpu, memory := t.resources(s, i, true)
	return kubescore.MostAllocated(cpu, memory)
}

func balancedAllocation(t *Task, s *cluster.State, i int) int64 {
	cpu, memory := t.resources(s, i, false)
	return kubescore.BalancedAllocation(cpu, memory)
}

// rackMaxSkew is the maxSkew of the constraint of KubeRackSpread.
const rackMaxSkew = 1

// kube scores as kube-scheduler does. The pods are of a ReplicaSet and only request resources, and the nodes have no
// taints, images or zones. So it omits TaintToleration, NodeAffinity, InterPodAffinity and ImageLocality, whose scores
// are equal on all nodes, and the default constraints of PodTopologySpread reduce to the one over hostnames.
type kube struct {
	rackSpread bool
	nodes      []int   // permitted nodes
	spread     []int64 // their scores of PodTopologySpread
	total      []int64 // their final scores
}

func newKube(rackSpread bool) chooser {
	k := &kube{rackSpread: rackSpread}
	return func(_ context.Context, t *Task, s *cluster.State, mask []bool) int {
		k.score(t, s, mask)
		return k.nodes[slices.Index(k.total, slices.Max(k.total))]
	}
}

// score scores the permitted nodes.
func (k *kube) score(t *Task, s *cluster.State, mask []bool) {
	k.spreadScores(t, mask)
	k.total = k.total[:0]
	for j, i := range k.nodes {
		cpu, memory := t.resources(s, i, false)
		total := kubescore.PodTopologySpreadWeight * k.spread[j]
		if t.spec.Requests != (cluster.Resources{}) { // kube-scheduler skips the plugin for a pod without requests
			total += kubescore.BalancedAllocationWeight * kubescore.BalancedAllocation(cpu, memory)
		}
		extra := t.extra[i].Plus(t.spec.Extra)
		cpu.Requested, memory.Requested = cpu.Requested+extra.MilliCPU, memory.Requested+extra.MemoryBytes
		k.total = append(k.total, total+kubescore.NodeResourcesFitWeight*kubescore.LeastAllocated(cpu, memory))
	}
}

// spreadScores sets the permitted nodes and their scores of PodTopologySpread. A pod's own constraints replace the
// default ones.
func (k *kube) spreadScores(t *Task, mask []bool) {
	k.nodes = k.nodes[:0]
	for i, ok := range mask {
		if ok {
			k.nodes = append(k.nodes, i)
		}
	}
	if k.rackSpread {
		k.spread = kubescore.Spread(k.spread[:0], k.nodes, t.onRack, t.rackOf, rackMaxSkew)
	} else {
		k.spread = kubescore.Spread(k.spread[:0], k.nodes, t.onNode, nil, kubescore.DefaultHostnameMaxSkew)
	}
}
