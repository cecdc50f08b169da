package mirror

import (
	"iter"
	"slices"
	"strings"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/types"

	"github.com/kubernasium/kubernasium/envs/cluster"
)

// Devices describes the free shares of a node's GPUs. It is immutable.
type Devices struct {
	free  []cluster.Device
	model string
	over  bool
}

// DevicesOf returns the shares of a node's GPUs that its pods leave free; reserved is [Mirror.Reserved].
func DevicesOf(n *corev1.Node, pods iter.Seq[*corev1.Pod], reserved func(types.UID) uint64) (Devices, error) {
	m := New(nil)
	for p := range pods {
		if devices := reserved(p.UID); devices != 0 {
			m.Reserve(p.UID, devices)
		}
	}
	if err := m.Sync(single{n, pods}); err != nil || len(m.nodes) == 0 {
		return Devices{}, err
	}
	return Devices{free: m.state.NodeDevices(0), model: m.state.Meta(m.state.Nodes[0].Meta).GPUModel, over: m.nodes[0].over}, nil
}

// Pick returns as many fitting devices as the pod requests, those with the lowest indices; ok is false if there
// are too few. A pod without GPUs gets none.
func (d Devices) Pick(p *corev1.Pod) (devices uint64, ok bool) {
	info := readPod(p)
	left := info.gpus
	if info.unreadable != nil || left > 0 && (d.over || info.models != "" && !slices.Contains(strings.Split(info.models, "|"), d.model)) {
		return 0, false
	}
	for i, device := range d.free {
		if left > 0 && device.Free >= info.milli {
			devices |= 1 << i
			left--
		}
	}
	if left > 0 {
		return 0, false
	}
	return devices, true
}

// single is a Source of one node.
type single struct {
	node *corev1.Node
	pods iter.Seq[*corev1.Pod]
}

func (s single) Len() int                       { return 1 }
func (s single) Node(int) (*corev1.Node, int64) { return s.node, 1 }
func (s single) Pods(int) iter.Seq[*corev1.Pod] { return s.pods }
