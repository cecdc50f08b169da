// Package mirror keeps a [cluster.State] equal to the nodes and pods that a Kubernetes scheduler sees, so that
// a policy decides on a running cluster as on a simulated one.
//
// A [Source] lists nodes with their generations. [Mirror.Sync] reads only the nodes that have changed, and
// [Mirror.Ask] adds the pod to place. After any sequence of events a mirror equals a new one.
package mirror

import (
	"cmp"
	"fmt"
	"iter"
	"maps"
	"slices"
	"sync"
	"time"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/labels"
	"k8s.io/apimachinery/pkg/types"

	"github.com/kubernasium/kubernasium/envs"
	"github.com/kubernasium/kubernasium/envs/cluster"
)

// slack is how many ended pods the state may hold beyond the number of live ones before it is rebuilt.
const slack = 4096

// A Source lists nodes and the pods on them. It does not change during [Mirror.Sync].
type Source interface {
	// Len returns the number of nodes.
	Len() int

	// Node returns node i and its generation, which is never 0 and changes whenever the node's pods change.
	Node(i int) (node *corev1.Node, generation int64)

	// Pods returns the pods of node i.
	Pods(i int) iter.Seq[*corev1.Pod]
}

// Mirror is a cluster synchronized with a Source. [New] makes one. Only one goroutine at a time may call Sync
// and Ask; the other methods are safe for concurrent use.
type Mirror struct {
	selector labels.Selector
	set      *nodeSet
	state    *cluster.State
	nodes    []nodeEntry // by index in state
	order    []int32     // by index in the source: index in nodes, or -1 for a node that is skipped
	skipped  []*corev1.Node
	dirty    bool // an error left the state inconsistent: Sync starts from scratch
	live     int  // pods that exist in state

	infos    map[types.UID]*podInfo  // of pods on nodes, as last read
	pods     map[types.UID]*podEntry // on nodes
	siblings map[types.UID][]int32   // by controller: indices of pods on nodes
	extra    []cluster.Resources     // by node: amounts that scores count beyond requests
	extras   int                     // number of pods with such amounts

	mu             sync.Mutex
	reserved       map[types.UID]uint64      // devices of bound pods whose objects do not state them yet
	pendingChanges map[types.UID]*corev1.Pod // changes of pending pods since the last Sync; nil: no longer pending
	pending        map[types.UID]*podEntry   // pending pods in state
}

// nodeEntry describes a node in the mirror.
type nodeEntry struct {
	object     *corev1.Node
	generation int64 // 0: not read yet
	pods       map[types.UID]*podEntry

	// ambiguous: a pod does not state its devices, or does not fit. The node's state then depends on the order
	// of its pods, so that all are added again, in the order of their creation.
	ambiguous bool
	over      bool // its pods request more GPUs than it has
}

// podEntry is a pod in the state.
type podEntry struct {
	*podInfo
	index int32 // in State.Pods; -1: the node was full without it
	node  int32
}

// New returns an empty mirror of the nodes that match the selector; nil selects all nodes.
func New(selector labels.Selector) *Mirror {
	selector = cmp.Or(selector, labels.Everything())
	return &Mirror{selector: selector, dirty: true, infos: map[types.UID]*podInfo{}, reserved: map[types.UID]uint64{}, pendingChanges: map[types.UID]*corev1.Pod{}}
}

// Reserve records the devices that a pod takes on its node, until the pod's object states them or the pod
// leaves the node.
func (m *Mirror) Reserve(uid types.UID, devices uint64) {
	m.mu.Lock()
	defer m.mu.Unlock()
	m.reserved[uid] = devices
}

// Release removes a reservation.
func (m *Mirror) Release(uid types.UID) {
	m.mu.Lock()
	defer m.mu.Unlock()
	delete(m.reserved, uid)
}

// Reserved returns the devices reserved for a pod; 0 is none.
func (m *Mirror) Reserved(uid types.UID) uint64 {
	m.mu.Lock()
	defer m.mu.Unlock()
	return m.reserved[uid]
}

// AddPending adds a pending pod, which policies may look at before its turn.
func (m *Mirror) AddPending(p *corev1.Pod) {
	m.mu.Lock()
	defer m.mu.Unlock()
	m.pendingChanges[p.UID] = p
}

// RemovePending removes a pod that is no longer pending.
func (m *Mirror) RemovePending(uid types.UID) {
	m.mu.Lock()
	defer m.mu.Unlock()
	m.pendingChanges[uid] = nil
}

// Nodes returns the names of the state's nodes in its order, and the index of each. They are immutable: a Sync
// that finds other nodes makes new ones.
func (m *Mirror) Nodes() (names []string, index map[string]int32) { return m.set.names, m.set.index }

// View calls use with the state and the objects of its nodes. use must neither change nor keep them.
func (m *Mirror) View(use func(s *cluster.State, nodes []*corev1.Node)) {
	if m.state == nil {
		return // nothing has been read yet
	}
	nodes := make([]*corev1.Node, len(m.nodes))
	for i := range nodes {
		nodes[i] = m.nodes[i].object
	}
	use(m.state, nodes)
}

// Sync updates the state from the source. After an error the next Sync starts from scratch.
func (m *Mirror) Sync(src Source) error {
	if m.dirty || len(m.state.Pods) > 2*m.live+slack || !m.sameNodes(src) {
		m.restart(src)
	}
	m.dirty = true // reset at the end
	for i, k := range m.order {
		if k < 0 {
			continue
		}
		n, generation := src.Node(i)
		if m.nodes[k].generation == generation {
			continue
		}
		m.nodes[k].object = n
		if err := m.update(k, src.Pods(i)); err != nil {
			return fmt.Errorf("mirror: node %s: %w", n.Name, err)
		}
		m.nodes[k].generation = generation
	}
	if err := m.syncPending(); err != nil {
		return err
	}
	m.dirty = false
	return nil
}

// sameNodes reports whether the source's nodes are those of the state, and equal in all that policies see. It
// updates order.
func (m *Mirror) sameNodes(src Source) bool {
	if src.Len() != len(m.order) {
		return false
	}
	for i, was := range m.order {
		n, _ := src.Node(i)
		if was >= 0 && m.nodes[was].object == n {
			continue
		}
		k, ok := m.set.index[n.Name]
		switch {
		case !ok && slices.ContainsFunc(m.skipped, func(s *corev1.Node) bool { return s == n || s.Name == n.Name && equalNodes(s, n) }):
			k = -1
		case !ok || !equalNodes(m.nodes[k].object, n):
			return false
		}
		m.order[i] = k
	}
	return true
}

// restart resets the state to empty nodes. It keeps the information about pods.
func (m *Mirror) restart(src Source) {
	all := make([]*corev1.Node, src.Len())
	for i := range all {
		all[i], _ = src.Node(i)
	}
	m.set, m.skipped = newNodeSet(all, m.selector)
	m.order = make([]int32, len(all))
	for i, n := range all {
		k, ok := m.set.index[n.Name]
		if !ok {
			k = -1
		}
		m.order[i] = k
	}
	m.state = m.set.state
	m.nodes = make([]nodeEntry, len(m.set.nodes))
	for i, n := range m.set.nodes {
		m.nodes[i] = nodeEntry{object: n, pods: map[types.UID]*podEntry{}}
	}
	m.live, m.extras, m.siblings = 0, 0, map[types.UID][]int32{}
	m.extra = make([]cluster.Resources, len(m.nodes))
	maps.DeleteFunc(m.infos, func(uid types.UID, _ *podInfo) bool { return m.pods[uid] == nil })
	m.pods = map[types.UID]*podEntry{}
	m.mu.Lock()
	defer m.mu.Unlock()
	for uid, e := range m.pending { // add them again
		if _, changed := m.pendingChanges[uid]; !changed {
			m.pendingChanges[uid] = e.object
		}
	}
	m.pending = map[types.UID]*podEntry{}
}

// update sets the pods of a node.
func (m *Mirror) update(node int32, pods iter.Seq[*corev1.Pod]) error {
	n := &m.nodes[node]
	now := make(map[types.UID]*podInfo, len(n.pods)+1)
	for p := range pods {
		now[p.UID] = m.read(p)
	}
	for uid, e := range n.pods {
		info := now[uid]
		if info != nil && info.same(e.podInfo) && !n.ambiguous {
			e.podInfo = info
			continue
		}
		if err := m.remove(e); err != nil {
			return err
		}
		delete(n.pods, uid)
		if info == nil {
			delete(m.infos, uid)
			m.Release(uid)
		}
	}
	return m.addMissing(node, now)
}

// addMissing adds the pods that the node does not have yet.
func (m *Mirror) addMissing(node int32, pods map[types.UID]*podInfo) error {
	n := &m.nodes[node]
	var fresh []*podInfo
	for uid, info := range pods {
		if n.pods[uid] == nil {
			fresh = append(fresh, info)
		}
	}
	slices.SortFunc(fresh, byCreation)
	n.ambiguous, n.over = false, false // it was unambiguous, or is empty
	for _, info := range fresh {
		if err := m.add(info, node); err != nil {
			return err
		}
	}
	if !n.ambiguous || len(fresh) == len(pods) {
		return nil
	}
	for uid, e := range n.pods { // the order matters: add all again
		if err := m.remove(e); err != nil {
			return err
		}
		delete(n.pods, uid)
	}
	return m.addMissing(node, pods)
}

// read returns the information about a pod, and reads it again if the object has changed.
func (m *Mirror) read(p *corev1.Pod) *podInfo {
	devices := m.Reserved(p.UID)
	if had := m.infos[p.UID]; had != nil && had.object == p && had.reserved == devices {
		return had
	}
	info := readPod(p)
	if info.devices == 0 {
		info.devices, info.reserved = devices, devices
	} else if devices != 0 {
		m.Release(p.UID) // the pod's object states them
	}
	m.infos[p.UID] = info
	return info
}

// syncPending adds pods that have become pending, and removes those that no longer are. A pod on a node is not
// pending, whatever the informers report.
func (m *Mirror) syncPending() error {
	m.mu.Lock()
	changes := maps.Clone(m.pendingChanges)
	clear(m.pendingChanges)
	m.mu.Unlock()
	var fresh []*podInfo
	for uid, p := range changes {
		e := m.pending[uid]
		var info *podInfo
		if p != nil && m.pods[uid] == nil {
			info = readPod(p)
		}
		if e != nil && info != nil && info.same(e.podInfo) {
			e.podInfo = info
			continue
		}
		if err := m.dropPending(uid); err != nil {
			return err
		}
		if info != nil && info.unreadable == nil {
			fresh = append(fresh, info)
		}
	}
	slices.SortFunc(fresh, byCreation)
	for _, info := range fresh {
		e := &podEntry{podInfo: info, node: -1}
		if m.append(e, info.stated, info.gpus) == nil { // an error means that the pod requests more than any machine has; policies do not see it
			m.pending[info.object.UID] = e
		}
	}
	return nil
}

// dropPending removes a pending pod from the state.
func (m *Mirror) dropPending(uid types.UID) error {
	e := m.pending[uid]
	if e == nil {
		return nil
	}
	delete(m.pending, uid)
	return m.remove(e)
}

// A Question is a pod to place.
type Question struct {
	Pod      *corev1.Pod
	Open     []string // names of the nodes that may be chosen; the others are cordoned during the question
	Replicas int      // desired number of pods of its controller
	Now      time.Time
}

// Ask calls choose with the state and a description of the pod. choose returns a node of the state and devices;
// Ask returns the node's name. When Ask returns, the state is unchanged. It returns an error of choose as it
// is.
func (m *Mirror) Ask(q Question, choose func(s *cluster.State, d envs.Decision) (node int32, devices uint64, err error)) (name string, devices uint64, err error) {
	info := readPod(q.Pod)
	if info.unreadable != nil {
		return "", 0, fmt.Errorf("mirror: pod %s/%s: %w", q.Pod.Namespace, q.Pod.Name, info.unreadable)
	}
	leave, err := m.cordonAllBut(q.Open, info.gpus > 0)
	defer leave()
	if err != nil {
		return "", 0, err
	}
	d := envs.Decision{
		Siblings: m.siblings[info.controller], Replicas: max(1, q.Replicas), Racks: m.set.racks,
		Waited: max(0, q.Now.Sub(q.Pod.CreationTimestamp.Time)), PodExtra: info.extra,
	}
	if info.controller == "" {
		d.Siblings = nil
	}
	if m.extras > 0 {
		d.Extra = m.extra
	}
	if e := m.pending[q.Pod.UID]; e != nil && e.same(info) {
		d.Pod = e.index
	} else {
		e := &podEntry{podInfo: info, node: -1}
		if err := m.append(e, info.stated, info.gpus); err != nil {
			return "", 0, err
		}
		defer func() { // a pending pod is in no other list
			m.state.Pods = m.state.Pods[:e.index]
			m.live--
		}()
		d.Pod = e.index
	}
	node, devices, err := choose(m.state, d)
	if err != nil {
		return "", 0, err
	}
	return m.set.names[node], devices, nil
}

// cordonAllBut cordons the nodes that are not open and, for a pod with GPUs, those whose devices are
// overcommitted. leave uncordons them.
func (m *Mirror) cordonAllBut(open []string, gpus bool) (leave func(), err error) {
	shut := slices.Repeat([]bool{true}, len(m.nodes))
	for _, name := range open {
		if i, ok := m.set.index[name]; ok {
			shut[i] = gpus && m.nodes[i].over
		}
	}
	for i := range shut {
		if shut[i] && err == nil {
			err = m.state.Apply(&cluster.Op{Kind: cluster.Cordon, Node: int32(i)})
		}
	}
	return func() {
		for i := range m.nodes {
			m.state.Nodes[i].Unschedulable = false
		}
	}, err
}
