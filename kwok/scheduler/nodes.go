package scheduler

import (
	"cmp"
	"slices"

	corev1 "k8s.io/api/core/v1"

	"github.com/kubernasium/kubernasium/envs/cluster"
	"github.com/kubernasium/kubernasium/envs/podsched/topology"
	"github.com/kubernasium/kubernasium/kwok/kubeyaml"
)

// nodeSet is the nodes that count, in their order, and an empty cluster of them.
type nodeSet struct {
	nodes []*corev1.Node
	index map[string]int32
	state *cluster.State
	racks []int32 // nil unless every node has the label
}

// nodeSet returns the present one.
func (c *cache) nodeSet() *nodeSet {
	if c.base == nil {
		nodes := make([]*corev1.Node, 0, len(c.nodes))
		for _, n := range c.nodes {
			if c.counts(n) {
				nodes = append(nodes, n)
			}
		}
		slices.SortFunc(nodes, func(a, b *corev1.Node) int { return compareNames(a.Name, b.Name) })
		c.base = newNodeSet(nodes)
	}
	return c.base
}

// newNodeSet returns the set of the nodes, without those that have no CPU or memory yet.
func newNodeSet(nodes []*corev1.Node) *nodeSet {
	set := &nodeSet{index: map[string]int32{}, state: cluster.NewState()}
	for _, n := range nodes {
		have, err := kubeyaml.Allocatable(n)
		if err != nil || have.MaxPods < 1 {
			continue
		}
		op := cluster.Op{
			Kind: cluster.AddNode, Meta: set.state.Intern(cluster.Meta{Name: n.Name, GPUModel: have.Model}),
			Resources: have.Resources, MaxPods: int32(have.MaxPods), GPUs: uint8(have.GPUs),
		}
		if have.GPUs > 0 {
			op.MilliGPU = cluster.MaxMilliGPU
		}
		if set.state.Apply(&op) != nil {
			continue // amounts beyond what any machine has
		}
		set.index[n.Name] = int32(len(set.nodes))
		set.nodes = append(set.nodes, n)
	}
	set.racks = racksOf(set.nodes)
	return set
}

// compareNames puts worker-2 before worker-10: names of one length are compared as text, and
// shorter ones come first.
func compareNames(a, b string) int {
	return cmp.Or(cmp.Compare(len(a), len(b)), cmp.Compare(a, b))
}

// racksOf numbers the racks of the nodes by their label; nil if a node has none.
func racksOf(nodes []*corev1.Node) []int32 {
	number, racks := map[string]int32{}, make([]int32, len(nodes))
	for i, n := range nodes {
		name, ok := n.Labels[topology.RackLabel]
		if !ok {
			return nil
		}
		if _, ok := number[name]; !ok {
			number[name] = int32(len(number))
		}
		racks[i] = number[name]
	}
	return racks
}

// notReady reports whether the node says that it is not ready.
func notReady(n *corev1.Node) bool {
	for _, c := range n.Status.Conditions {
		if c.Type == corev1.NodeReady {
			return c.Status != corev1.ConditionTrue
		}
	}
	return false
}
