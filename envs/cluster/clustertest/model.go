package clustertest

import (
	"math"
	"slices"
	"strings"
	"time"

	"github.com/kubernasium/kubernasium/envs/cluster"
)

// model is a second, plain implementation of the cluster: it keeps only the fields of ops and
// computes every sum over all pods each time. It shares no code with cluster.State.
type model struct {
	now   time.Duration
	metas []cluster.Meta
	nodes map[int]*mnode
	pods  map[int]*mpod
}

type amount map[string]int64 // "cpu", "memory"

type mnode struct {
	op             cluster.Op
	cordoned, gone bool
}

type mpod struct {
	op                      cluster.Op
	requests, limits, usage amount
	phase                   string
	node                    int
	devices                 map[int]bool
	created, started, ended time.Duration
}

func newModel() *model {
	return &model{nodes: map[int]*mnode{}, pods: map[int]*mpod{}}
}

func (m *model) reset() {
	m.now, m.nodes, m.pods = 0, map[int]*mnode{}, map[int]*mpod{}
}

func amounts(r cluster.Resources) amount {
	return amount{"cpu": r.MilliCPU, "memory": r.MemoryBytes}
}

func (a amount) resources() cluster.Resources {
	return cluster.Resources{MilliCPU: a["cpu"], MemoryBytes: a["memory"]}
}

// inRange reports whether each amount is in [0, 2⁵³].
func (a amount) inRange() bool {
	for _, v := range a {
		if v < 0 || v > 1<<53 {
			return false
		}
	}
	return true
}

// atMost reports whether each amount is at most that of b.
func (a amount) atMost(b amount) bool { return a["cpu"] <= b["cpu"] && a["memory"] <= b["memory"] }

// running calls f for each running pod of the node.
func (m *model) running(node int, f func(p *mpod)) {
	for _, p := range m.pods {
		if p.phase == "Running" && p.node == node {
			f(p)
		}
	}
}

// left returns what the node has left without the pod except, which may be nil.
func (m *model) left(node int, except *mpod) amount {
	a := amounts(m.nodes[node].op.Resources)
	m.running(node, func(p *mpod) {
		if p != except {
			a["cpu"] -= p.requests["cpu"]
			a["memory"] -= p.requests["memory"]
		}
	})
	return a
}

func (m *model) used(node int, except *mpod) amount {
	a := amount{}
	m.running(node, func(p *mpod) {
		if p != except {
			a["cpu"] += p.usage["cpu"]
			a["memory"] += p.usage["memory"]
		}
	})
	return a
}

func (m *model) count(node int) (n int) {
	m.running(node, func(*mpod) { n++ })
	return n
}

func (m *model) deviceFree(node, device int) int32 {
	free := m.nodes[node].op.MilliGPU
	m.running(node, func(p *mpod) {
		if p.devices[device] {
			free -= p.op.MilliGPU
		}
	})
	return free
}

// apply carries out op or returns the sentinel that it fails with.
func (m *model) apply(op cluster.Op) error {
	switch op.Kind {
	case cluster.AddNode, cluster.AddPod:
		return m.add(op)
	case cluster.Cordon, cluster.Uncordon, cluster.RemoveNode:
		n := m.nodes[int(op.Node)]
		if n == nil || n.gone {
			return cluster.ErrNotFound
		}
		if op.Kind == cluster.RemoveNode {
			n.gone = true
			m.running(int(op.Node), func(p *mpod) { m.stop(p, "Failed") })
		} else {
			n.cordoned = op.Kind == cluster.Cordon
		}
		return nil
	case cluster.Bind, cluster.Evict, cluster.Delete, cluster.Resize, cluster.SetUsage:
		p := m.pods[int(op.Pod)]
		if p == nil || p.phase == "Deleted" {
			return cluster.ErrNotFound
		}
		return m.change(p, op)
	}
	return cluster.ErrInvalid
}

func (m *model) add(op cluster.Op) error {
	if op.Meta < 0 || int(op.Meta) >= len(m.metas) {
		return cluster.ErrNotFound
	}
	meta := m.metas[op.Meta]
	badGPU := op.GPUs > 64 || op.GPUs == 0 && op.MilliGPU != 0 ||
		op.GPUs != 0 && !(op.MilliGPU > 0 && op.MilliGPU <= 1000)
	if badGPU || !acceptable(meta) || !amounts(op.Resources).inRange() {
		return cluster.ErrInvalid
	}
	if op.Kind == cluster.AddPod {
		if !sizesOK(op) || op.Duration < 0 || op.Duration > 1<<61 {
			return cluster.ErrInvalid
		}
		m.pods[len(m.pods)] = &mpod{op: op, requests: amounts(op.Resources), limits: amounts(op.Limits),
			phase: "Pending", node: -1, created: m.now}
		return nil
	}
	if op.MaxPods < 0 {
		return cluster.ErrInvalid
	}
	for _, n := range m.nodes {
		if !n.gone && m.metas[n.op.Meta].Name == meta.Name {
			return cluster.ErrConflict
		}
	}
	m.nodes[len(m.nodes)] = &mnode{op: op}
	return nil
}

// sizesOK reports whether requests and limits are in range, and no limit below its request.
func sizesOK(op cluster.Op) bool {
	r, l := amounts(op.Resources), amounts(op.Limits)
	for k, v := range l {
		if v != 0 && v < r[k] {
			return false
		}
	}
	return r.inRange() && l.inRange()
}

func (m *model) change(p *mpod, op cluster.Op) error {
	want := map[cluster.OpKind]string{
		cluster.Bind: "Pending", cluster.Evict: "Running", cluster.Resize: "Pending Running",
		cluster.SetUsage: "Running", cluster.Delete: p.phase,
	}[op.Kind]
	if !strings.Contains(want, p.phase) {
		return cluster.ErrConflict
	}
	switch op.Kind {
	case cluster.Bind:
		return m.bind(p, op)
	case cluster.Evict:
		m.stop(p, "Failed")
	case cluster.Delete:
		m.stop(p, "Deleted")
	case cluster.Resize:
		if !sizesOK(op) {
			return cluster.ErrInvalid
		}
		if p.phase == "Running" && !amounts(op.Resources).atMost(m.left(p.node, p)) {
			return cluster.ErrInsufficient
		}
		p.requests, p.limits = amounts(op.Resources), amounts(op.Limits)
	case cluster.SetUsage:
		sum := m.used(p.node, p)
		sum["cpu"] += op.Resources.MilliCPU
		sum["memory"] += op.Resources.MemoryBytes
		if !amounts(op.Resources).inRange() || !sum.inRange() {
			return cluster.ErrInvalid
		}
		p.usage = amounts(op.Resources)
	}
	return nil
}

func (m *model) bind(p *mpod, op cluster.Op) error {
	if err := m.fits(p, int(op.Node)); err != nil {
		return err
	}
	chosen := map[int]bool{}
	for i := range 64 {
		if op.Devices&(1<<i) != 0 {
			chosen[i] = true
			if i >= int(m.nodes[int(op.Node)].op.GPUs) {
				return cluster.ErrInvalid
			}
		}
	}
	if len(chosen) != int(p.op.GPUs) {
		return cluster.ErrInvalid
	}
	for i := range chosen {
		if m.deviceFree(int(op.Node), i) < p.op.MilliGPU {
			return cluster.ErrInsufficient
		}
	}
	p.phase, p.node, p.devices, p.started = "Running", int(op.Node), chosen, m.now
	return nil
}

// fits returns the sentinel for the reason that the pod does not fit the node, or nil.
func (m *model) fits(p *mpod, node int) error {
	n := m.nodes[node]
	if n == nil || n.gone {
		return cluster.ErrNotFound
	}
	if n.cordoned || !permits(m.metas[n.op.Meta], m.metas[p.op.Meta]) {
		return cluster.ErrUnschedulable
	}
	devices := 0
	for i := range int(n.op.GPUs) {
		if m.deviceFree(node, i) >= p.op.MilliGPU {
			devices++
		}
	}
	if !p.requests.atMost(m.left(node, nil)) || devices < int(p.op.GPUs) ||
		n.op.MaxPods > 0 && m.count(node)+1 > int(n.op.MaxPods) {
		return cluster.ErrInsufficient
	}
	return nil
}

func (m *model) stop(p *mpod, phase string) {
	if p.phase == "Pending" || p.phase == "Running" {
		p.ended = m.now
	}
	p.phase, p.usage = phase, nil
}

// advance completes pods one at a time, the next by time and index each time.
func (m *model) advance(d time.Duration) error {
	if d < 0 || d > 1<<61-m.now {
		return cluster.ErrInvalid
	}
	until := m.now + d
	for {
		next := -1
		for i := range len(m.pods) {
			p := m.pods[i]
			if p.phase != "Running" || p.op.Duration == 0 || p.started+p.op.Duration > until {
				continue
			}
			if next < 0 || p.started+p.op.Duration < m.pods[next].started+m.pods[next].op.Duration {
				next = i
			}
		}
		if next < 0 {
			m.now = until
			return nil
		}
		m.now = m.pods[next].started + m.pods[next].op.Duration
		m.stop(m.pods[next], "Succeeded")
	}
}

// permits reports whether the node's taints, labels and model permit the pod.
func permits(node, pod cluster.Meta) bool {
	for _, taint := range node.Taints {
		tolerated := taint.Effect == "PreferNoSchedule"
		for _, tol := range pod.Tolerations {
			key := tol.Key == "" || tol.Key == taint.Key
			value := tol.Operator == "Exists" || tol.Value == taint.Value
			effect := tol.Effect == "" || tol.Effect == taint.Effect
			tolerated = tolerated || key && value && effect
		}
		if !tolerated {
			return false
		}
	}
	labels := map[string]string{}
	for _, l := range node.Labels {
		labels[l.Key] = l.Value
	}
	for _, l := range pod.NodeSelector {
		if v, ok := labels[l.Key]; !ok || v != l.Value {
			return false
		}
	}
	return len(pod.GPUModels) == 0 || slices.Contains(pod.GPUModels, node.GPUModel)
}

// acceptable reports whether m is valid, among the metadata of metaPool.
func acceptable(m cluster.Meta) bool {
	for _, t := range m.Taints {
		if t.Key == "" || t.Effect == "Never" {
			return false
		}
	}
	for _, t := range m.Tolerations {
		if t.Operator == "Exists" && t.Value != "" || t.Operator != "Exists" && t.Key == "" || t.Operator == "Lt" {
			return false
		}
	}
	return m.Name != "" && m.Name == strings.ToLower(m.Name)
}

// snapshot returns what cluster.State should hold.
func (m *model) snapshot() (nodes []cluster.Node, pods []cluster.Pod, devices []cluster.Device) {
	for i := range len(m.nodes) {
		n := m.nodes[i]
		left := m.left(i, nil)
		node := cluster.Node{
			Allocatable: n.op.Resources, Usage: m.used(i, nil).resources(), Meta: n.op.Meta,
			NumPods: int32(m.count(i)), MaxPods: n.op.MaxPods,
			FirstDevice: int32(len(devices)), NumDevices: int32(n.op.GPUs), MilliGPU: n.op.MilliGPU,
			Unschedulable: n.cordoned, Removed: n.gone,
		}
		node.Requested = cluster.Resources{
			MilliCPU:    n.op.Resources.MilliCPU - left["cpu"],
			MemoryBytes: n.op.Resources.MemoryBytes - left["memory"],
		}
		nodes = append(nodes, node)
		for d := range int(n.op.GPUs) {
			devices = append(devices, cluster.Device{Capacity: n.op.MilliGPU, Free: m.deviceFree(i, d)})
		}
	}
	for i := range len(m.pods) {
		p := m.pods[i]
		var mask uint64
		for d := range p.devices {
			mask += uint64(math.Pow(2, float64(d)))
		}
		pods = append(pods, cluster.Pod{
			Requests: p.requests.resources(), Limits: p.limits.resources(), Usage: p.usage.resources(),
			Devices: mask, Created: p.created, Started: p.started, Ended: p.ended, Duration: p.op.Duration,
			Meta: p.op.Meta, Node: int32(p.node), GPUs: int32(p.op.GPUs), MilliGPU: p.op.MilliGPU,
			Phase: map[string]cluster.Phase{"Pending": cluster.Pending, "Running": cluster.Running,
				"Succeeded": cluster.Succeeded, "Failed": cluster.Failed, "Deleted": cluster.Deleted}[p.phase],
		})
	}
	return nodes, pods, devices
}
