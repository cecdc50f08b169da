package shadow

import (
	"errors"
	"fmt"
	"math/bits"
	"slices"

	"github.com/kubernasium/kubernasium/envs/cluster"
	"github.com/kubernasium/kubernasium/envs/dataset/clustertrace"
)

// arrive adds a new pod: gated if it has scheduling gates, otherwise pending.
func (w *world) arrive(p int32) error {
	q, t := &w.pods[p], w.template(p)
	for _, name := range w.history.pods[p].claims {
		if c := w.claims[t.Namespace+"/"+name]; c != nil && len(c.Nodes) > 0 {
			q.bound = append(q.bound, c.Nodes)
		}
	}
	w.arrived = max(w.arrived, p+1)
	w.count(t, 1)
	if len(t.Gates) > 0 {
		q.phase = gated
		return nil
	}
	return w.wait(p)
}

// count adds sign to the number of present pods of t's owner.
func (w *world) count(t *clustertrace.Template, sign int) {
	key := owner(t)
	if key == "" {
		return
	}
	if w.owners[key] == nil {
		w.owners[key] = &replicas{}
	}
	w.owners[key].present += sign
}

// wait adds a pod to the queue and, as pending, to state.
func (w *world) wait(p int32) error {
	q := &w.pods[p]
	q.phase, q.since, q.node, q.devices, q.ends = waiting, w.now, -1, 0, never
	w.enqueue(p)
	return w.addPending(p)
}

// start runs a pod on a node, even if the node has no room for it.
func (w *world) start(p, n int32, devices uint64) error {
	q, t := &w.pods[p], w.template(p)
	if q.phase == waiting {
		w.dequeue(p)
		w.meter.waited(q, w.now)
	}
	if q.phase == absent {
		w.arrived = max(w.arrived, p+1)
		w.count(t, 1)
	}
	q.phase, q.node, q.started, q.placed = running, n, w.now, true
	if key := owner(t); key != "" {
		w.owners[key].running = append(w.owners[key].running, p)
	}
	w.account(p, t, 1)
	if w.dependent > 0 {
		w.freed++
	}
	return w.bind(p, devices)
}

// end ends a pod in any phase.
func (w *world) end(p int32) error {
	q, t := &w.pods[p], w.template(p)
	switch q.phase {
	case absent, ended:
		q.phase = ended
		return nil
	case waiting:
		w.dequeue(p)
		w.meter.waited(q, w.now)
	case running:
		w.release(p)
	}
	if key := owner(t); key != "" {
		w.owners[key].present--
	}
	ran := q.phase == running
	q.phase = ended
	if err := w.drop(p); err != nil {
		return err
	}
	if ran && w.nodes[q.node].hidden > 0 {
		return w.unhide(q.node)
	}
	return nil
}

// unhide adds the hidden pods of node n to state if it has room for them now.
func (w *world) unhide(n int32) error {
	for p := range w.pods[:w.arrived] {
		q := &w.pods[p]
		if q.phase != running || q.node != n || !q.hidden {
			continue
		}
		if err := errors.Join(w.drop(int32(p)), w.bind(int32(p), q.devices)); err != nil {
			return err
		}
	}
	return nil
}

// displace takes a running pod from its node.
func (w *world) displace(p int32) error {
	w.release(p)
	w.pods[p].phase = absent
	return w.drop(p)
}

// release frees the resources of a running pod.
func (w *world) release(p int32) {
	t := w.template(p)
	if o := w.owners[owner(t)]; o != nil {
		o.running = slices.DeleteFunc(o.running, func(r int32) bool { return r == p })
	}
	w.account(p, t, -1)
	w.freed++
}

// resize gives a pod another template. Without force, a running pod is resized only if its node has room. resize
// reports whether the pod was resized.
func (w *world) resize(p, template int32, force bool) (bool, error) {
	q := &w.pods[p]
	from, to := w.template(p), w.templates[template]
	same := func() { q.template = template }
	if q.phase != running {
		if q.phase == waiting {
			w.dequeue(p)
		}
		same()
		if q.phase == waiting {
			w.enqueue(p) // its priority may have changed
			if err := w.drop(p); err != nil {
				return true, err
			}
			return true, w.addPending(p)
		}
		return true, nil
	}
	if n := &w.nodes[q.node]; !force && n.info != nil {
		more := cluster.Resources{MilliCPU: to.MilliCPU - from.MilliCPU, MemoryBytes: to.MemoryBytes - from.MemoryBytes}
		if more.MilliCPU > 0 && n.used.MilliCPU+more.MilliCPU > n.info.MilliCPU || more.MemoryBytes > 0 && n.used.MemoryBytes+more.MemoryBytes > n.info.MemoryBytes {
			return false, nil
		}
	}
	w.account(p, from, -1)
	devices := q.devices
	if err := w.drop(p); err != nil {
		return true, err
	}
	same()
	w.account(p, to, 1)
	w.freed++
	return true, w.bind(p, devices)
}

// account adds (sign 1) a pod's requests to its node, or subtracts (sign -1) them.
func (w *world) account(p int32, t *clustertrace.Template, sign int64) {
	w.meter.dirty = true
	n := &w.nodes[w.pods[p].node]
	if n.info == nil {
		return
	}
	w.tally(w.pods[p].node, -1)
	defer w.tally(w.pods[p].node, 1)
	n.used.MilliCPU += sign * t.MilliCPU
	n.used.MemoryBytes += sign * t.MemoryBytes
	if w.podsByNode != nil {
		w.countPods(w.pods[p].template, w.pods[p].node, int(sign))
	}
	n.gpu += sign * int64(t.GPUs) * int64(t.MilliGPU)
	n.extra.MilliCPU += sign * t.ExtraMilliCPU
	n.extra.MemoryBytes += sign * t.ExtraMemoryBytes
	n.pods += int32(sign)
	if isPlacedBy(t, nil) {
		n.nonDaemon += int32(sign)
	}
	for name, amount := range t.Other {
		if n.other == nil {
			n.other = map[string]int64{}
		}
		n.other[name] += sign * amount
	}
	for _, port := range t.HostPorts {
		if n.ports == nil {
			n.ports = map[string]int{}
		}
		n.ports[port] += int(sign)
	}
}

// addPending adds a pending pod to state.
func (w *world) addPending(p int32) error {
	t := w.template(p)
	op := cluster.Op{
		Kind: cluster.AddPod, Meta: w.state.Intern(cluster.Meta{Name: "pod", GPUModels: t.GPUModels}),
		Resources: cluster.Resources{MilliCPU: t.MilliCPU, MemoryBytes: t.MemoryBytes}, GPUs: uint8(t.GPUs), MilliGPU: t.MilliGPU,
	}
	if err := w.state.Apply(&op); err != nil {
		return fmt.Errorf("shadow: pod %s: %w", w.history.pods[p].name, err)
	}
	w.pods[p].slot = int32(len(w.slots))
	w.slots = append(w.slots, p)
	return nil
}

// bind binds a running pod to its node in state. An overcommitted node appears full. If state cannot hold the pod, for
// lack of devices or pod slots, it is hidden, and its node excluded.
func (w *world) bind(p int32, devices uint64) error {
	q := &w.pods[p]
	n := &w.nodes[q.node]
	if n.info == nil {
		return w.drop(p)
	}
	if q.slot < 0 {
		if err := w.addPending(p); err != nil {
			return err
		}
	}
	shown := &w.state.Nodes[n.index]
	shown.Unschedulable, shown.Requested = false, cluster.Resources{} // the pod runs there, even without room
	devices, ok := w.devices(q.slot, n.index, devices)
	bind := cluster.Op{Kind: cluster.Bind, Pod: q.slot, Node: n.index, Devices: devices}
	if !ok || w.state.Apply(&bind) != nil {
		err := w.drop(p)
		q.hidden = true
		n.hidden++
		w.sync(q.node)
		return err
	}
	usage := cluster.Op{Kind: cluster.SetUsage, Pod: q.slot, Resources: w.state.Pods[q.slot].Requests}
	if err := w.state.Apply(&usage); err != nil {
		return fmt.Errorf("shadow: pod %s: %w", w.history.pods[p].name, err)
	}
	w.sync(q.node)
	q.devices = devices
	if w.history.fragments != nil {
		q.class = w.classes[q.template]
		w.fragments.Place(&w.catalogue.Classes[q.class], n.index, devices)
	}
	return nil
}

// sync sets the requests of a node in state, at most its allocatable. Usage is unknown, and so set to the requests.
func (w *world) sync(n int32) {
	node := &w.nodes[n]
	if node.info == nil {
		return
	}
	shown := &w.state.Nodes[node.index]
	shown.Requested = cluster.Resources{
		MilliCPU: min(node.used.MilliCPU, shown.Allocatable.MilliCPU), MemoryBytes: min(node.used.MemoryBytes, shown.Allocatable.MemoryBytes),
	}
	shown.Usage = shown.Requested
}

// devices returns the GPUs for a pod: the given ones if they are free, otherwise the first that fit.
func (w *world) devices(slot, index int32, given uint64) (uint64, bool) {
	p, free := &w.state.Pods[slot], w.state.NodeDevices(index)
	if p.GPUs == 0 {
		return 0, true
	}
	ok := bits.OnesCount64(given) == int(p.GPUs) && given>>len(free) == 0
	for d := given; ok && d != 0; d &= d - 1 {
		ok = free[bits.TrailingZeros64(d)].Free >= p.MilliGPU
	}
	if ok {
		return given, true
	}
	return w.state.PickDevices(slot, index)
}

// drop removes a pod from state. The last pod takes its index, so that state holds present pods only.
func (w *world) drop(p int32) error {
	q := &w.pods[p]
	if q.hidden {
		w.nodes[q.node].hidden--
		q.hidden = false
		w.sync(q.node)
	}
	if q.slot < 0 {
		return nil
	}
	if q.class >= 0 {
		w.fragments.Remove(&w.catalogue.Classes[q.class], w.nodes[q.node].index, q.devices)
		q.class = -1
	}
	op := cluster.Op{Kind: cluster.Delete, Pod: q.slot}
	if err := w.state.Apply(&op); err != nil {
		return fmt.Errorf("shadow: pod %s: %w", w.history.pods[p].name, err)
	}
	last := len(w.slots) - 1
	moved := w.slots[last]
	w.state.Pods[q.slot], w.slots[q.slot], w.pods[moved].slot = w.state.Pods[last], moved, q.slot
	w.state.Pods, w.slots = w.state.Pods[:last], w.slots[:last]
	q.slot = -1
	if q.node >= 0 {
		w.sync(q.node)
	}
	return nil
}
