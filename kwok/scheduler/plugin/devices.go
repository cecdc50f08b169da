package plugin

import (
	"context"
	"math/bits"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	fwk "k8s.io/kube-scheduler/framework"

	"github.com/kubernasium/kubernasium/kwok/kubeyaml"
	"github.com/kubernasium/kubernasium/kwok/mirror"
)

// nodeDevices holds the free devices of a node at a generation.
type nodeDevices struct {
	generation int64
	mirror.Devices
}

// devicesOf returns the free devices of a node. It reads them once per generation.
func (p *Plugin) devicesOf(n fwk.NodeInfo) (mirror.Devices, error) {
	name, generation := n.Node().Name, p.groups.generation(n)
	if known, ok := p.devices.Load(name); ok && known.(*nodeDevices).generation == generation {
		return known.(*nodeDevices).Devices, nil
	}
	d, err := mirror.DevicesOf(n.Node(), podsOf(n, ""), p.mirror.Reserved)
	if err == nil {
		p.devices.Store(name, &nodeDevices{generation, d})
	}
	return d, err
}

// Reserve records the pod's devices on the node: the policy's choice if it chose this node, or else its choice
// on this node alone, or the first that fit. With one feasible node there is no PreScore.
func (p *Plugin) Reserve(ctx context.Context, state fwk.CycleState, pod *corev1.Pod, node string) *fwk.Status {
	if state.IsPodGroupSchedulingCycle() {
		defer p.groups.change(node)
	}
	if gpus, _, _, err := kubeyaml.GPUs(pod); err != nil || gpus == 0 {
		return nil
	}
	devices, status := p.chooseDevices(ctx, state, pod, node)
	if !status.IsSuccess() {
		return status
	}
	state.Write(devicesKey, &reserved{node, devices})
	for _, m := range p.mirrors() {
		m.Reserve(pod.UID, devices)
	}
	return nil
}

// devicesKey is the key of *reserved in the cycle's state. A pod of a group is reserved twice: in the group's
// cycle, and before it is bound, when the snapshot no longer includes the group's other pods.
const devicesKey = Name + "/devices"

// reserved holds the devices of a pod on a node.
type reserved struct {
	node    string
	devices uint64
}

// Clone implements [fwk.StateData].
func (r *reserved) Clone() fwk.StateData { return r }

// chooseDevices returns the devices that a pod with GPUs takes on a node.
func (p *Plugin) chooseDevices(ctx context.Context, state fwk.CycleState, pod *corev1.Pod, node string) (uint64, *fwk.Status) {
	if r, err := state.Read(devicesKey); err == nil && r.(*reserved).node == node {
		return r.(*reserved).devices, nil
	}
	if d, err := state.Read(Name); err == nil && d.(*decision).node == node {
		return d.(*decision).devices, nil
	}
	if d, err := p.decide(ctx, pod, []string{node}); err == nil {
		return d.devices, nil
	}
	n, err := p.handle.SnapshotSharedLister().NodeInfos().Get(node)
	if err != nil {
		return 0, fwk.AsStatus(err)
	}
	free, err := mirror.DevicesOf(n.Node(), podsOf(n, pod.UID), p.mirror.Reserved)
	if err != nil {
		return 0, fwk.AsStatus(err)
	}
	devices, ok := free.Pick(pod)
	if !ok {
		return 0, fwk.NewStatus(fwk.Unschedulable, "Insufficient GPU")
	}
	return devices, nil
}

// Unreserve releases the devices; the pod is pending again, unless its binding failed because it was deleted or bound
// meanwhile.
func (p *Plugin) Unreserve(_ context.Context, state fwk.CycleState, pod *corev1.Pod, node string) {
	if state.IsPodGroupSchedulingCycle() {
		p.groups.change(node)
	}
	for _, m := range p.mirrors() {
		m.Release(pod.UID)
		m.AddPending(pod)
		// Checked last: of a pod that is deleted after that, the informer's handler removes it.
		if now, err := p.pods.Pods(pod.Namespace).Get(pod.Name); err != nil || now.UID != pod.UID || !isPending(now) {
			m.RemovePending(pod.UID)
		}
	}
}

// Bind binds pods with devices and writes the devices to the binding. DefaultBinder binds other pods.
func (p *Plugin) Bind(ctx context.Context, _ fwk.CycleState, pod *corev1.Pod, node string) *fwk.Status {
	devices := p.mirror.Reserved(pod.UID)
	if devices == 0 {
		return fwk.NewStatus(fwk.Skip)
	}
	var list []int
	for d := devices; d != 0; d &= d - 1 {
		list = append(list, bits.TrailingZeros64(d))
	}
	key, value := kubeyaml.DeviceAnnotation(pod, list)
	b := &corev1.Binding{
		ObjectMeta: metav1.ObjectMeta{Namespace: pod.Namespace, Name: pod.Name, UID: pod.UID, Annotations: map[string]string{key: value}},
		Target:     corev1.ObjectReference{Kind: "Node", Name: node},
	}
	return fwk.AsStatus(p.handle.ClientSet().CoreV1().Pods(pod.Namespace).Bind(ctx, b, metav1.CreateOptions{}))
}
