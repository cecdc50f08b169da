package plugin

import (
	"iter"
	"math"
	"sync"
	"sync/atomic"

	"gonum.org/v1/gonum/stat"
	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/types"
	fwk "k8s.io/kube-scheduler/framework"

	"github.com/kubernasium/kubernasium/agents/live"
	"github.com/kubernasium/kubernasium/envs/cluster"
	"github.com/kubernasium/kubernasium/kwok/mirror"
)

// snapshot is a snapshot of kube-scheduler as a [mirror.Source].
type snapshot struct {
	infos   []fwk.NodeInfo
	groups  *groups
	without types.UID // a pod to leave out: the cycle of a pod group shows it on its node before its devices are chosen
}

var _ mirror.Source = snapshot{}

// Len implements [mirror.Source].
func (s snapshot) Len() int { return len(s.infos) }

// Node implements [mirror.Source].
func (s snapshot) Node(i int) (*corev1.Node, int64) {
	return s.infos[i].Node(), s.groups.generation(s.infos[i])
}

// Pods implements [mirror.Source].
func (s snapshot) Pods(i int) iter.Seq[*corev1.Pod] { return podsOf(s.infos[i], s.without) }

// podsOf returns the pods of a node except one.
func podsOf(n fwk.NodeInfo, without types.UID) iter.Seq[*corev1.Pod] {
	return func(yield func(*corev1.Pod) bool) {
		for _, info := range n.GetPods() {
			if p := info.GetPod(); p.UID != without && !yield(p) {
				return
			}
		}
	}
}

// groups counts the changes that cycles of pod groups make to nodes of the snapshot. kube-scheduler assumes
// pods of a group on nodes of the snapshot, and forgets them, without a new generation (Snapshot.AssumePod).
type groups struct {
	used    atomic.Bool
	changes sync.Map // by name of the node: *atomic.Int64
}

// generationBits is the number of bits for generations, which kube-scheduler counts from 1.
const generationBits = 44

// change records that pods of a node have changed without a new generation.
func (g *groups) change(node string) {
	n, _ := g.changes.LoadOrStore(node, new(atomic.Int64))
	n.(*atomic.Int64).Add(1)
	g.used.Store(true)
}

func (g *groups) forget(node string) { g.changes.Delete(node) }

// generation returns a number that changes whenever a node's pods change.
func (g *groups) generation(n fwk.NodeInfo) int64 {
	generation := n.GetGeneration()
	if !g.used.Load() {
		return generation
	}
	if c, ok := g.changes.Load(n.Node().Name); ok {
		generation += c.(*atomic.Int64).Load() << generationBits
	}
	return generation
}

// scaleScores scales a choice's scores to 0 … 100. Only the chosen node has 100.
func scaleScores(c live.Choice) []int64 {
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
