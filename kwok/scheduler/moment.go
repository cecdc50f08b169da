package scheduler

import (
	"errors"
	"fmt"
	"maps"
	"math/bits"
	"slices"
	"strings"

	corev1 "k8s.io/api/core/v1"

	"github.com/kubernasium/kubernasium/envs"
	"github.com/kubernasium/kubernasium/envs/cluster"
	"github.com/kubernasium/kubernasium/kwok/filters"
	"github.com/kubernasium/kubernasium/kwok/kubeyaml"
)

// moment is a pod to place and the cluster as it then is. Nothing changes it.
type moment struct {
	pod      *podInfo
	nodes    []*corev1.Node
	index    map[string]int32 // of nodes by name
	state    *cluster.State   // closed nodes are cordoned
	decision envs.Decision
	closed   []string            // by node: why it is closed to the pod, or ""
	counted  []cluster.Resources // by node: requests of its pods as NodeResourcesFit's score counts them
	siblings []int64             // by node: pods of the same controller
	terms    *kubeyaml.Terms
	check    *filters.Check            // nil where kube-scheduler has filtered the nodes
	expected map[string][]*filters.Pod // by node: pods that are nominated for it and matter to the check
	barred   string                    // why it is closed on every node, or ""
	mask     []bool                    // nodes on which the pod fits
}

// errNoNodes says that there is no node for any pod.
var errNoNodes = errors.New("scheduler: no node: the cluster has none that is KWOK's and matches the node selector")

// moment returns the present one for a pod, of whose controller so many pods are wanted. Nodes
// that are not among those given are closed: kube-scheduler has filtered them. nil gives all, and
// what depends on other pods and on volumes is looked at.
func (c *cache) moment(p *corev1.Pod, replicas int, given map[string]bool) (*moment, error) {
	c.mu.Lock()
	defer c.mu.Unlock()
	return c.present(p, replicas, given)
}

// present is moment with the cache locked.
func (c *cache) present(p *corev1.Pod, replicas int, given map[string]bool) (*moment, error) {
	set := c.nodeSet()
	if len(set.nodes) == 0 {
		return nil, errNoNodes
	}
	pods := c.sorted()
	for _, i := range pods {
		metaOf(set.state, i, i.gpus) // before it is cloned: clones share the table until one enters something
	}
	terms, err := kubeyaml.ReadTerms(p)
	if err != nil {
		return nil, fmt.Errorf("scheduler: pod %s/%s: %w", p.Namespace, p.Name, err)
	}
	pod := c.pods[p.UID]
	if pod == nil || pod.Pod != p {
		pod = readPod(p) // of a request, which may know it before the informers do, and better
	}
	m := newMoment(set, pod)
	m.terms = terms
	m.decision = envs.Decision{Pod: -1, Replicas: replicas, Racks: set.racks, Waited: max(0, c.now().Sub(p.CreationTimestamp.Time))}
	if m.pod.unreadable != nil {
		return nil, fmt.Errorf("scheduler: pod %s/%s: %w", p.Namespace, p.Name, m.pod.unreadable)
	}
	if given == nil {
		if m.check, err = filters.New(m.pod.rules, c.nodes, c.listers); err != nil {
			m.barred = err.Error()
		}
	}
	for _, i := range pods {
		if err := m.add(i); err != nil {
			return nil, err
		}
		if m.check != nil && i.UID != m.pod.UID && m.check.Minds(i.rules) {
			if n, ok := c.nodes[m.where(i)]; ok {
				m.tell(i, n)
			}
		}
	}
	if m.decision.Pod < 0 {
		if err := m.addPending(m.pod); err != nil {
			return nil, err
		}
	}
	return m, m.close(given)
}

// newMoment returns one of a pod and empty nodes.
func newMoment(set *nodeSet, pod *podInfo) *moment {
	n := len(set.nodes)
	return &moment{
		pod: pod, nodes: set.nodes, index: set.index, state: set.state.Clone(), decision: envs.Decision{Pod: -1},
		closed: make([]string, n), counted: make([]cluster.Resources, n), siblings: make([]int64, n), mask: make([]bool, n),
	}
}

// where returns the node of which another pod has a part that the one to place cannot have, or "": its own node, or
// that which is being emptied for it by preemption, unless the pod to place has the higher priority.
func (m *moment) where(i *podInfo) string {
	if i.node == "" && i.Status.NominatedNodeName != "" && i.priority() >= m.pod.priority() {
		return i.Status.NominatedNodeName
	}
	return i.node
}

// add enters a pod of the cache.
func (m *moment) add(i *podInfo) error {
	node := m.where(i)
	switch {
	case i.UID == m.pod.UID:
		return m.addPending(m.pod)
	case node != "":
		if node, ok := m.index[node]; ok {
			return m.addBound(i, node)
		}
	case i.Spec.SchedulerName == m.pod.Spec.SchedulerName && i.unreadable == nil:
		return m.addPending(i)
	}
	return nil
}

func (m *moment) addPending(i *podInfo) error {
	if i.UID == m.pod.UID {
		m.decision.Pod, m.decision.PodExtra = int32(len(m.state.Pods)), i.extra()
	}
	op := podOp(m.state, i, i.stated, i.gpus)
	if err := m.state.Apply(&op); err != nil {
		return fmt.Errorf("scheduler: pod %s/%s: %w", i.Namespace, i.Name, err)
	}
	return nil
}

// metaOf enters what pods have beside amounts.
func metaOf(s *cluster.State, i *podInfo, gpus int32) int32 {
	meta := cluster.Meta{Name: "pod"}
	if i.models != "" && gpus > 0 {
		meta.GPUModels = strings.Split(i.models, "|")
	}
	return s.Intern(meta)
}

func podOp(s *cluster.State, i *podInfo, requests cluster.Resources, gpus int32) cluster.Op {
	op := cluster.Op{Kind: cluster.AddPod, Meta: metaOf(s, i, gpus), Resources: requests, GPUs: uint8(gpus)}
	if gpus > 0 {
		op.MilliGPU = i.milli
	}
	return op
}

// addBound enters a pod on its node. A node with more on it than it has shows as full.
func (m *moment) addBound(i *podInfo, node int32) error {
	n := &m.state.Nodes[node]
	m.counted[node] = plus(m.counted[node], i.counted)
	m.countExtra(i, node)
	sibling := controller(i.Pod) != "" && controller(i.Pod) == controller(m.pod.Pod)
	if sibling {
		m.siblings[node]++
	}
	if n.NumPods >= n.MaxPods {
		return nil
	}
	free := m.state.Free(node)
	requests := cluster.Resources{MilliCPU: min(i.stated.MilliCPU, free.MilliCPU), MemoryBytes: min(i.stated.MemoryBytes, free.MemoryBytes)}
	pod, gpus := int32(len(m.state.Pods)), i.gpus
	if i.unreadable != nil {
		gpus = 0
	}
	op := podOp(m.state, i, requests, gpus)
	if err := m.state.Apply(&op); err != nil {
		return fmt.Errorf("scheduler: pod %s/%s: %w", i.Namespace, i.Name, err)
	}
	devices, ok := m.devicesOf(i, pod, node)
	if !ok || gpus > 0 && !m.state.Fits(pod, node) {
		m.closed[node] = "its pods have more GPU than it has"
		for _, op := range []cluster.Op{{Kind: cluster.Delete, Pod: pod}, podOp(m.state, i, requests, 0)} {
			if err := m.state.Apply(&op); err != nil {
				return fmt.Errorf("scheduler: pod %s/%s: %w", i.Namespace, i.Name, err)
			}
		}
		pod, devices = pod+1, 0
	}
	for _, op := range []cluster.Op{
		{Kind: cluster.Bind, Pod: pod, Node: node, Devices: devices}, {Kind: cluster.SetUsage, Pod: pod, Resources: requests},
	} {
		if err := m.state.Apply(&op); err != nil {
			return fmt.Errorf("scheduler: pod %s/%s on node %s: %w", i.Namespace, i.Name, i.node, err)
		}
	}
	if sibling {
		m.decision.Siblings = append(m.decision.Siblings, pod)
	}
	return nil
}

// countExtra notes what scores count for a pod on a node beyond its requests.
func (m *moment) countExtra(i *podInfo, node int32) {
	extra := i.extra()
	if extra == (cluster.Resources{}) {
		return
	}
	if m.decision.Extra == nil {
		m.decision.Extra = make([]cluster.Resources, len(m.nodes))
	}
	m.decision.Extra[node] = plus(m.decision.Extra[node], extra)
}

// devicesOf returns the devices that a bound pod has: those that it says, where they are free, and
// else the first that are.
func (m *moment) devicesOf(i *podInfo, pod, node int32) (devices uint64, ok bool) {
	p, free := &m.state.Pods[pod], m.state.NodeDevices(node)
	if p.GPUs == 0 {
		return 0, true
	}
	told := i.devices
	ok = bits.OnesCount64(told) == int(p.GPUs) && told>>len(free) == 0
	for d := told; ok && d != 0; d &= d - 1 {
		ok = free[bits.TrailingZeros64(d)].Free >= p.MilliGPU
	}
	if ok {
		return told, true
	}
	return m.state.PickDevices(pod, node)
}

// close closes the nodes that are not for the pod, and sees where it fits.
func (m *moment) close(given map[string]bool) error {
	for i, n := range m.nodes {
		why, err := m.terms.Refusal(n)
		switch {
		case err != nil:
			return fmt.Errorf("scheduler: pod %s/%s: %w", m.pod.Namespace, m.pod.Name, err)
		case m.closed[i] != "":
		case why != "":
			m.closed[i] = why
		case notReady(n):
			m.closed[i] = "node not ready"
		case given != nil && !given[n.Name]:
			m.closed[i] = "not among the nodes given"
		case m.barred != "":
			m.closed[i] = m.barred
		case m.check != nil:
			m.closed[i] = m.checked(n)
		}
		if m.closed[i] == "" {
			continue
		}
		op := cluster.Op{Kind: cluster.Cordon, Node: int32(i)}
		if err := m.state.Apply(&op); err != nil {
			return err
		}
	}
	m.state.FitMask(m.decision.Pod, m.mask)
	return nil
}

// tell tells the check of a pod on a node. One that is nominated for it is kept for checked.
func (m *moment) tell(i *podInfo, n *corev1.Node) {
	if i.node != "" {
		m.check.Add(i.rules, n)
		return
	}
	if m.expected == nil {
		m.expected = map[string][]*filters.Pod{}
	}
	m.expected[n.Name] = append(m.expected[n.Name], i.rules)
}

// checked returns what the check says of a node. What pods that preempt will have there is kept for them, but they may
// still go elsewhere: no term is met by them.
func (m *moment) checked(n *corev1.Node) string {
	why, expected := m.check.Refusal(n), m.expected[n.Name]
	if why != "" || expected == nil {
		return why
	}
	for _, p := range expected {
		m.check.Add(p, n)
	}
	why = m.check.Refusal(n)
	for _, p := range expected {
		m.check.Remove(p, n)
	}
	return why
}

// fitting returns the number of nodes on which the pod fits.
func (m *moment) fitting() (count int) {
	for _, ok := range m.mask {
		if ok {
			count++
		}
	}
	return count
}

// refusal returns why the pod does not fit a node, in kube-scheduler's words, or "".
func (m *moment) refusal(node int32) string {
	if m.mask[node] {
		return ""
	}
	if m.closed[node] != "" {
		return m.closed[node]
	}
	n, free, want := &m.state.Nodes[node], m.state.Free(node), m.pod.stated
	switch {
	case n.NumPods >= n.MaxPods:
		return "Too many pods"
	case want.MilliCPU > free.MilliCPU:
		return "Insufficient cpu"
	case want.MemoryBytes > free.MemoryBytes:
		return "Insufficient memory"
	case m.pod.models != "" && !slices.Contains(strings.Split(m.pod.models, "|"), m.state.Meta(n.Meta).GPUModel):
		return "another GPU model"
	}
	return "Insufficient GPU"
}

// reasons says why the pod fits no node, as kube-scheduler words it.
func (m *moment) reasons() string {
	counts := map[string]int{}
	for i := range m.nodes {
		counts[m.refusal(int32(i))]++
	}
	var parts []string
	for _, why := range slices.Sorted(maps.Keys(counts)) {
		parts = append(parts, fmt.Sprintf("%d %s", counts[why], why))
	}
	return fmt.Sprintf("0/%d nodes are available: %s.", len(m.nodes), strings.Join(parts, ", "))
}

func plus(a, b cluster.Resources) cluster.Resources {
	return cluster.Resources{MilliCPU: a.MilliCPU + b.MilliCPU, MemoryBytes: a.MemoryBytes + b.MemoryBytes}
}
