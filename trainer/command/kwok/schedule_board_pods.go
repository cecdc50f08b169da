package kwok

import (
	"cmp"
	"maps"
	"slices"
	"strings"
	"time"

	corev1 "k8s.io/api/core/v1"

	"github.com/kubernasium/kubernasium/board"
	"github.com/kubernasium/kubernasium/kwok/kubeyaml"
)

// Limits of a node's history.
const (
	keptPods  = 2000 // pods that have left, over all nodes
	shownPods = 200  // pods of one node
)

// leftPod is a pod that has left its node.
type leftPod struct {
	node string
	pod  board.NodePod
}

// leave records that a pod has left its node, because it has ended or was deleted.
func (w *liveCluster) leave(p *corev1.Pod, gone bool) {
	shown, now := showPod(p), time.Now()
	shown.To = &now
	if gone && p.Status.Phase != corev1.PodSucceeded && p.Status.Phase != corev1.PodFailed {
		shown.Phase = "Deleted"
	}
	w.left = append(w.left, leftPod{p.Spec.NodeName, shown})
	if n := len(w.left) - keptPods; n > 0 {
		w.left = slices.Delete(w.left, 0, n)
	}
}

// showPod describes a pod on a node.
func showPod(p *corev1.Pod) board.NodePod {
	requests, _ := kubeyaml.Requests(p)
	shown := board.NodePod{Pod: p.Namespace + "/" + p.Name, Phase: string(p.Status.Phase), MilliCPU: requests.MilliCPU, Memory: requests.MemoryBytes, From: p.CreationTimestamp.Time}
	if gpus, milli, _, err := kubeyaml.GPUs(p); err == nil { // otherwise the scheduler counts none, either
		shown.GPUs = float64(gpus) * float64(milli) / 1000
	}
	for _, c := range p.Status.Conditions {
		if c.Type == corev1.PodScheduled && c.Status == corev1.ConditionTrue {
			shown.From = c.LastTransitionTime.Time
		}
	}
	return shown
}

// PodsOf implements [board.Cluster].
func (w *liveCluster) PodsOf(node string) []board.NodePod {
	w.mu.Lock()
	defer w.mu.Unlock()
	var pods []board.NodePod
	for p := range maps.Values(w.on[node]) {
		pods = append(pods, showPod(p))
	}
	slices.SortFunc(pods, func(a, b board.NodePod) int { return cmp.Or(b.From.Compare(a.From), strings.Compare(a.Pod, b.Pod)) })
	for i := len(w.left) - 1; i >= 0; i-- {
		if w.left[i].node == node {
			pods = append(pods, w.left[i].pod)
		}
	}
	return pods[:min(len(pods), shownPods)]
}
