package balance

import (
	"math"

	"github.com/kubernasium/kubernasium/envs/cluster"
	"github.com/kubernasium/kubernasium/envs/podsched/kubescore"
)

// resources returns CPU and memory of node i as plugins see them, with the current pod on it:
// requested, or counted as NodeResourcesFit counts them.
func (t *Task) resources(s *cluster.State, i int, counted bool) (cpu, memory kubescore.Resource) {
	capacity, r := t.in.Nodes[i], plus(s.Nodes[i].Requested, t.spec.Requests)
	if counted {
		r = plus(r, plus(t.extra[i], t.spec.Extra))
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

// kube scores as kube-scheduler does. The pods are of a ReplicaSet and ask for nothing but
// resources, and the nodes have no taints, images or zones, so that TaintToleration,
// NodeAffinity, InterPodAffinity and ImageLocality are equal on all nodes and left out, and the
// default constraints of PodTopologySpread come down to that over hostnames.
type kube struct {
	rackSpread bool
	nodes      []int   // permitted
	spread     []int64 // their scores of PodTopologySpread
	total      []int64 // their final scores
	seenRack   []bool
}

func newKube(rackSpread bool) chooser {
	k := &kube{rackSpread: rackSpread}
	return func(t *Task, s *cluster.State, mask []bool) int {
		k.score(t, s, mask)
		best := 0
		for j, v := range k.total {
			if v > k.total[best] {
				best = j
			}
		}
		return k.nodes[best]
	}
}

// score scores the nodes permitted.
func (k *kube) score(t *Task, s *cluster.State, mask []bool) {
	k.permit(mask)
	k.spreadScores(t)
	kubescore.NormalizeSpread(k.spread)
	for j, i := range k.nodes {
		total := kubescore.PodTopologySpreadWeight*k.spread[j] + kubescore.NodeResourcesFitWeight*leastAllocated(t, s, i)
		if t.spec.Requests != (cluster.Resources{}) { // of a pod without requests kube-scheduler skips the plugin
			total += kubescore.BalancedAllocationWeight * balancedAllocation(t, s, i)
		}
		k.total = append(k.total, total)
	}
}

// permit sets the nodes permitted, without scores.
func (k *kube) permit(mask []bool) {
	k.nodes, k.spread, k.total = k.nodes[:0], k.spread[:0], k.total[:0]
	for i, ok := range mask {
		if ok {
			k.nodes = append(k.nodes, i)
		}
	}
}

// spreadScores writes the raw scores of PodTopologySpread. Constraints that a pod states
// replace the default ones.
func (k *kube) spreadScores(t *Task) {
	racks := 0
	if k.rackSpread {
		if len(k.seenRack) != len(t.onRack) {
			k.seenRack = make([]bool, len(t.onRack))
		}
		clear(k.seenRack)
		for _, i := range k.nodes {
			if r := t.rackOf[i]; !k.seenRack[r] {
				k.seenRack[r] = true
				racks++
			}
		}
	}
	for _, i := range k.nodes {
		raw := kubescore.SpreadTerm(int64(t.onNode[i]), len(k.nodes), kubescore.DefaultHostnameMaxSkew)
		if k.rackSpread {
			raw = kubescore.SpreadTerm(int64(t.onRack[t.rackOf[i]]), racks, rackMaxSkew)
		}
		k.spread = append(k.spread, int64(math.Round(raw)))
	}
}
