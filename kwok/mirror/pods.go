package mirror

import (
	"cmp"
	"fmt"
	"maps"
	"math/bits"
	"slices"
	"strings"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/resource"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"

	"github.com/kubernasium/kubernasium/envs/cluster"
	"github.com/kubernasium/kubernasium/envs/podsched/kubescore"
	"github.com/kubernasium/kubernasium/kwok/kubeyaml"
)

// podInfo is the information about a pod that policies see. It is read once for each version of the object.
type podInfo struct {
	object      *corev1.Pod
	stated      cluster.Resources
	extra       cluster.Resources // amounts that scores count beyond the requests
	gpus, milli int32
	models      string
	devices     uint64 // its devices on its node; 0 if unknown
	reserved    uint64 // equal to devices if only the reservation states them
	controller  types.UID
	unreadable  error
}

// readPod reads a pod. If its GPUs cannot be read, it has none.
func readPod(p *corev1.Pod) *podInfo {
	i := &podInfo{object: p}
	var counted cluster.Resources
	i.stated, counted = kubeyaml.Requests(p)
	i.extra = extraOf(i.stated, counted)
	i.gpus, i.milli, i.models, i.unreadable = kubeyaml.GPUs(p)
	if i.unreadable == nil && i.gpus > 0 && (i.milli < 1 || i.milli > cluster.MaxMilliGPU) {
		i.unreadable = fmt.Errorf("requests %d thousandths of each GPU, want 1 to %d", i.milli, cluster.MaxMilliGPU)
	}
	devices, err := kubeyaml.Devices(p)
	i.unreadable = cmp.Or(i.unreadable, err)
	for _, d := range devices {
		i.devices |= 1 << d
	}
	if i.unreadable != nil {
		i.gpus, i.milli, i.models, i.devices = 0, 0, "", 0
	}
	if ref := metav1.GetControllerOf(p); ref != nil {
		i.controller = ref.UID
	}
	return i
}

// extraOf returns the amounts that policies count for a pod beyond its requests. A pod that requests 0 counts
// as a pod without requests, unlike in kube-scheduler. Otherwise a policy would put any number of them on one
// node.
func extraOf(stated, counted cluster.Resources) (extra cluster.Resources) {
	extra.MilliCPU = max(0, counted.MilliCPU-stated.MilliCPU)
	if counted.MilliCPU == 0 {
		extra.MilliCPU = kubescore.DefaultMilliCPURequest
	}
	extra.MemoryBytes = max(0, counted.MemoryBytes-stated.MemoryBytes)
	if counted.MemoryBytes == 0 {
		extra.MemoryBytes = kubescore.DefaultMemoryRequestBytes
	}
	return extra
}

// same reports whether two versions of a pod are equal to policies.
func (i *podInfo) same(o *podInfo) bool {
	return i.stated == o.stated && i.extra == o.extra && i.gpus == o.gpus && i.milli == o.milli && i.models == o.models &&
		i.devices == o.devices && i.controller == o.controller
}

// byCreation orders pods by creation time, then by name, which is unique in a namespace.
func byCreation(a, b *podInfo) int {
	x, y := a.object, b.object
	return cmp.Or(x.CreationTimestamp.Compare(y.CreationTimestamp.Time), cmp.Compare(x.Namespace, y.Namespace), cmp.Compare(x.Name, y.Name), cmp.Compare(x.UID, y.UID))
}

// append adds a pending pod to the state and sets its index.
func (m *Mirror) append(e *podEntry, requests cluster.Resources, gpus int32) error {
	meta := cluster.Meta{Name: "pod"}
	if e.models != "" && gpus > 0 {
		meta.GPUModels = strings.Split(e.models, "|")
	}
	op := cluster.Op{Kind: cluster.AddPod, Meta: m.state.Intern(meta), Resources: requests, GPUs: uint8(gpus)}
	if gpus > 0 {
		op.MilliGPU = e.milli
	}
	if err := m.state.Apply(&op); err != nil {
		return fmt.Errorf("mirror: pod %s/%s: %w", e.object.Namespace, e.object.Name, err)
	}
	e.index = int32(len(m.state.Pods)) - 1
	m.live++
	return nil
}

// add adds a pod to its node. An overcommitted node appears full.
func (m *Mirror) add(info *podInfo, node int32) error {
	e := &podEntry{podInfo: info, index: -1, node: node}
	uid := info.object.UID
	if err := m.dropPending(uid); err != nil {
		return err
	}
	m.nodes[node].pods[uid], m.pods[uid] = e, e
	m.count(e, 1)
	n := &m.state.Nodes[node]
	if n.NumPods >= n.MaxPods {
		m.nodes[node].ambiguous = true
		return nil
	}
	free := m.state.Free(node)
	requests := cluster.Resources{MilliCPU: min(info.stated.MilliCPU, free.MilliCPU), MemoryBytes: min(info.stated.MemoryBytes, free.MemoryBytes)}
	if requests != info.stated {
		m.nodes[node].ambiguous = true
	}
	if err := m.append(e, requests, info.gpus); err != nil {
		return err
	}
	devices, stated := m.devices(e)
	if !stated {
		m.nodes[node].ambiguous = true
		if devices == 0 { // the devices are overcommitted: add the pod without them
			m.nodes[node].over = true
			m.state.Pods = m.state.Pods[:e.index]
			m.live--
			if err := m.append(e, requests, 0); err != nil {
				return err
			}
		}
	}
	for _, op := range []cluster.Op{
		{Kind: cluster.Bind, Pod: e.index, Node: node, Devices: devices}, {Kind: cluster.SetUsage, Pod: e.index, Resources: requests},
	} {
		if err := m.state.Apply(&op); err != nil {
			return fmt.Errorf("pod %s/%s: %w", info.object.Namespace, info.object.Name, err)
		}
	}
	if info.controller != "" {
		m.siblings[info.controller] = append(m.siblings[info.controller], e.index)
	}
	return nil
}

// devices returns the devices of a pod on its node: those that it states, if they are free, or else the first
// that are, or 0 if there are too few. stated reports whether they are the pod's own.
func (m *Mirror) devices(e *podEntry) (devices uint64, stated bool) {
	if e.gpus == 0 {
		return 0, true
	}
	free := m.state.NodeDevices(e.node)
	stated = bits.OnesCount64(e.podInfo.devices) == int(e.gpus) && e.podInfo.devices>>len(free) == 0
	for d := e.podInfo.devices; stated && d != 0; d &= d - 1 {
		stated = free[bits.TrailingZeros64(d)].Free >= e.milli
	}
	if stated && m.state.Fits(e.index, e.node) {
		return e.podInfo.devices, true
	}
	if !m.state.Fits(e.index, e.node) { // also false for another GPU model
		return 0, false
	}
	devices, _ = m.state.PickDevices(e.index, e.node)
	return devices, false
}

// remove removes a pod from the state.
func (m *Mirror) remove(e *podEntry) error {
	if e.node >= 0 {
		m.count(e, -1)
		if m.pods[e.object.UID] == e {
			delete(m.pods, e.object.UID)
		}
	}
	if e.index < 0 {
		return nil
	}
	if err := m.state.Apply(&cluster.Op{Kind: cluster.Delete, Pod: e.index}); err != nil {
		return err
	}
	m.live--
	if list := m.siblings[e.controller]; e.node >= 0 && e.controller != "" {
		if k := slices.Index(list, e.index); k >= 0 {
			list = slices.Delete(list, k, k+1)
		}
		if m.siblings[e.controller] = list; len(list) == 0 {
			delete(m.siblings, e.controller)
		}
	}
	return nil
}

// count adds, or with sign -1 subtracts, the amounts that scores count beyond requests.
func (m *Mirror) count(e *podEntry, sign int64) {
	if e.extra == (cluster.Resources{}) {
		return
	}
	x := &m.extra[e.node]
	x.MilliCPU += sign * e.extra.MilliCPU
	x.MemoryBytes += sign * e.extra.MemoryBytes
	m.extras += int(sign)
}

// equalNodes reports whether two versions of a node are equal to policies.
func equalNodes(a, b *corev1.Node) bool {
	return maps.Equal(a.Labels, b.Labels) && maps.Equal(a.Annotations, b.Annotations) &&
		equalAmounts(a.Status.Allocatable, b.Status.Allocatable) && equalAmounts(a.Status.Capacity, b.Status.Capacity)
}

func equalAmounts(a, b corev1.ResourceList) bool {
	return maps.EqualFunc(a, b, func(x, y resource.Quantity) bool { return x.Cmp(y) == 0 })
}
