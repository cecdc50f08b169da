package mirror

import (
	"cmp"
	"slices"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/labels"

	"github.com/kubernasium/kubernasium/envs/cluster"
	"github.com/kubernasium/kubernasium/envs/podsched/topology"
	"github.com/kubernasium/kubernasium/kwok/kubeyaml"
)

// nodeSet holds the mirrored nodes in their order, and an empty cluster of them.
type nodeSet struct {
	nodes []*corev1.Node
	names []string
	index map[string]int32
	state *cluster.State
	racks []int32 // nil unless every node has the label
}

// newNodeSet returns the set of the nodes that match the selector and have CPU and memory, and the skipped
// nodes.
func newNodeSet(all []*corev1.Node, selector labels.Selector) (set *nodeSet, skipped []*corev1.Node) {
	all = slices.SortedFunc(slices.Values(all), func(a, b *corev1.Node) int { return CompareNames(a.Name, b.Name) })
	set = &nodeSet{index: make(map[string]int32, len(all)), state: cluster.NewState()}
	for _, n := range all {
		have, err := kubeyaml.Allocatable(n)
		op := cluster.Op{Kind: cluster.AddNode, Resources: have.Resources, MaxPods: int32(have.MaxPods), GPUs: uint8(have.GPUs)}
		if have.GPUs > 0 {
			op.MilliGPU = cluster.MaxMilliGPU
		}
		if err == nil {
			op.Meta = set.state.Intern(cluster.Meta{Name: n.Name, GPUModel: have.Model})
		}
		if err != nil || have.MaxPods < 1 || !selector.Matches(labels.Set(n.Labels)) || set.state.Apply(&op) != nil { // State.Apply fails for amounts beyond those of any machine
			skipped = append(skipped, n)
			continue
		}
		set.index[n.Name] = int32(len(set.nodes))
		set.nodes, set.names = append(set.nodes, n), append(set.names, n.Name)
	}
	set.racks = topology.NumberRacks(len(set.nodes), func(i int) map[string]string { return set.nodes[i].Labels })
	return set, skipped
}

// CompareNames orders worker-2 before worker-10: shorter names come first, and names of equal length are
// compared as text.
func CompareNames(a, b string) int {
	return cmp.Or(cmp.Compare(len(a), len(b)), cmp.Compare(a, b))
}
