package scheduler

import (
	"math"

	"github.com/kubernasium/kubernasium/envs/podsched/kubescore"
	"github.com/kubernasium/kubernasium/kwok/kubeyaml"

	corev1 "k8s.io/api/core/v1"
)

// stock rates the nodes on which the pod fits as kube-scheduler does with its default plugins, but
// for InterPodAffinity: the weighted sum of their scores. Ties go to the first node.
func stock(m *moment) choice {
	var nodes []int32
	for i, ok := range m.mask {
		if ok {
			nodes = append(nodes, int32(i))
		}
	}
	total := make([]int64, len(nodes))
	add := func(weight int64, scores []int64) {
		for k, s := range scores {
			total[k] += weight * s
		}
	}
	each := func(score func(node int32) int64) []int64 {
		scores := make([]int64, len(nodes))
		for k, i := range nodes {
			scores[k] = score(i)
		}
		return scores
	}
	add(kubescore.NodeResourcesFitWeight, each(func(i int32) int64 { return kubescore.LeastAllocated(m.counting(i)...) }))
	if m.pod.stated.MilliCPU != 0 || m.pod.stated.MemoryBytes != 0 {
		add(kubescore.BalancedAllocationWeight, each(func(i int32) int64 { return kubescore.BalancedAllocation(m.stating(i)...) }))
	}
	taints := each(func(i int32) int64 { return m.terms.Taints(m.nodes[i]) })
	kubescore.Normalize(taints, true)
	add(kubescore.TaintTolerationWeight, taints)
	affinity := each(func(i int32) int64 { return m.terms.Affinity(m.nodes[i]) })
	kubescore.Normalize(affinity, false)
	add(kubescore.NodeAffinityWeight, affinity)
	if images := kubeyaml.Images(m.pod.Pod, m.nodes); images != nil {
		add(kubescore.ImageLocalityWeight, each(func(i int32) int64 { return images[i] }))
	}
	if controller(m.pod.Pod) != "" && len(m.pod.Spec.TopologySpreadConstraints) == 0 {
		add(kubescore.PodTopologySpreadWeight, m.spread(nodes))
	}
	c := choice{node: -1, scores: make([]float64, len(m.nodes))}
	for k, i := range nodes {
		c.scores[i] = float64(total[k])
		if c.node < 0 || c.scores[i] > c.scores[c.node] {
			c.node = i
		}
	}
	if c.node >= 0 {
		c.devices, _ = m.state.PickDevices(m.decision.Pod, c.node) // there are enough: it fits
	}
	return c
}

// counting returns CPU and memory of a node with the pod, as NodeResourcesFit's score counts them.
func (m *moment) counting(node int32) []kubescore.Resource {
	n, r := &m.state.Nodes[node], plus(m.counted[node], m.pod.counted)
	return []kubescore.Resource{
		{Requested: r.MilliCPU, Allocatable: n.Allocatable.MilliCPU, Weight: 1}, {Requested: r.MemoryBytes, Allocatable: n.Allocatable.MemoryBytes, Weight: 1},
	}
}

// stating returns them as they are stated.
func (m *moment) stating(node int32) []kubescore.Resource {
	n := &m.state.Nodes[node]
	r := plus(n.Requested, m.pod.stated)
	return []kubescore.Resource{{Requested: r.MilliCPU, Allocatable: n.Allocatable.MilliCPU}, {Requested: r.MemoryBytes, Allocatable: n.Allocatable.MemoryBytes}}
}

// spread returns the scores of PodTopologySpread with its default constraints, over hostnames and
// zones, of a pod that is a replica.
func (m *moment) spread(nodes []int32) []int64 {
	raw := make([]float64, len(nodes))
	for k, i := range nodes {
		raw[k] = kubescore.SpreadTerm(m.siblings[i], len(nodes), kubescore.DefaultHostnameMaxSkew)
	}
	inZone, zones := map[string]int64{}, map[string]bool{}
	for i, n := range m.nodes {
		inZone[n.Labels[corev1.LabelTopologyZone]] += m.siblings[i]
	}
	for _, i := range nodes {
		if zone, ok := m.nodes[i].Labels[corev1.LabelTopologyZone]; ok {
			zones[zone] = true
		}
	}
	scores := make([]int64, len(nodes))
	for k, i := range nodes {
		if zone, ok := m.nodes[i].Labels[corev1.LabelTopologyZone]; ok {
			raw[k] += kubescore.SpreadTerm(inZone[zone], len(zones), kubescore.DefaultZoneMaxSkew)
		}
		scores[k] = int64(math.Round(raw[k]))
	}
	kubescore.NormalizeSpread(scores)
	return scores
}
