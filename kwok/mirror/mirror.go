// Package mirror keeps a [cluster.State] equal to the nodes and pods that a scheduler of Kubernetes
// sees, so that a policy decides on a running cluster as on a simulated one.
//
// A [Source] shows nodes with their generations. [Mirror.Sync] reads again only the nodes that have
// changed, and [Mirror.Ask] adds the pod to place. A mirror that has followed any sequence of events
// equals one that is made from scratch.
package mirror

import (
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

// slack is how many ended pods the state may hold beyond the number of present ones before it is made again.
const slack = 4096

// A Source shows nodes and the pods on them. Nothing changes it during [Mirror.Sync].
type Source interface {
	// Len returns the number of nodes.
	Len() int

	// Node returns node i, and a number that differs whenever the node's pods have changed, never 0.
	Node(i int) (node *corev1.Node, generation int64)

	// Pods returns the pods of node i.
	Pods(i int) iter.Seq[*corev1.Pod]
}

// Mirror is a cluster in step with a Source. [New] makes one. Sync and Ask are called by one goroutine
// at a time; the other methods are safe for concurrent use.
type Mirror struct {
	selector labels.Selector
	set      *nodeSet
	state    *cluster.State
	nodes    []nodeEntry // by index in state
	order    []int32     // by index in the source: index in nodes; -1 for a node that does not count
	skipped  []*corev1.Node
	dirty    bool // an error has left the state behind: Sync starts from scratch
	live     int  // pods that are present in state

	infos    map[types.UID]*podInfo  // of pods on nodes, as they were read last
	pods     map[types.UID]*podEntry // on nodes
	siblings map[types.UID][]int32   // by controller: indices of pods on nodes
	extra    []cluster.Resources     // by node: what scores count beyond requests
	extras   int                     // pods with some

	mu       sync.Mutex
	reserved map[types.UID]uint64      // devices of pods that do not show them yet
	awaiting map[types.UID]*corev1.Pod // pods that wait for a node; nil: no longer
	waiting  map[types.UID]*podEntry   // in state
}

// nodeEntry is what the mirror knows of a node.
type nodeEntry struct {
	object     *corev1.Node
	generation int64 // 0: to be read
	pods       map[types.UID]*podEntry

	// unclear: some pod does not say its devices, or does not fit. What is on the node then depends on
	// the order of its pods, so that all are entered again, in the order of their creation.
	unclear bool
	over    bool // its pods have more GPU than it has
}

// podEntry is a pod in the state.
type podEntry struct {
	*podInfo
	index int32 // in State.Pods; -1: the node is full without it
	node  int32
}

// New returns an empty mirror of the nodes that match the selector; nil selects all.
func New(selector labels.Selector) *Mirror {
	if selector == nil {
		selector = labels.Everything()
	}
	return &Mirror{selector: selector, dirty: true, infos: map[types.UID]*podInfo{}, reserved: map[types.UID]uint64{}, awaiting: map[types.UID]*corev1.Pod{}}
}

// Reserve notes the devices that a pod takes on its node, until the pod shows them itself or leaves
// the node.
func (m *Mirror) Reserve(uid types.UID, devices uint64) {
	m.mu.Lock()
	defer m.mu.Unlock()
	m.reserved[uid] = devices
}

// Release forgets a reservation.
func (m *Mirror) Release(uid types.UID) {
	m.mu.Lock()
	defer m.mu.Unlock()
	delete(m.reserved, uid)
}

// Reserved returns the devices that are reserved for a pod; 0 is none.
func (m *Mirror) Reserved(uid types.UID) uint64 {
	m.mu.Lock()
	defer m.mu.Unlock()
	return m.reserved[uid]
}

// Await notes a pod that waits for a node: policies may look at the pods to come.
func (m *Mirror) Await(p *corev1.Pod) {
	m.mu.Lock()
	defer m.mu.Unlock()
	m.awaiting[p.UID] = p
}

// Forget ends Await.
func (m *Mirror) Forget(uid types.UID) {
	m.mu.Lock()
	defer m.mu.Unlock()
	m.awaiting[uid] = nil
}

// Nodes returns the names of the state's nodes in its order, and their indices. Neither changes: after
// a Sync that finds other nodes there are others.
func (m *Mirror) Nodes() (names []string, index map[string]int32) { return m.set.names, m.set.index }

// View calls use with the state and the objects of its nodes, neither of which it may change or keep.
func (m *Mirror) View(use func(s *cluster.State, nodes []*corev1.Node)) {
	if m.state == nil {
		return // nothing was read yet
	}
	nodes := make([]*corev1.Node, len(m.nodes))
	for i := range nodes {
		nodes[i] = m.nodes[i].object
	}
	use(m.state, nodes)
}

// Sync makes the state that of the source. After an error the next Sync starts from scratch.
func (m *Mirror) Sync(src Source) error {
	if m.dirty || len(m.state.Pods) > 2*m.live+slack || !m.sameNodes(src) {
		m.restart(src)
	}
	m.dirty = true // until the end
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
	if err := m.syncWaiting(); err != nil {
		return err
	}
	m.dirty = false
	return nil
}

// sameNodes reports whether the source has the nodes of the state, unchanged in what policies see. It
// brings order up to date.
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
		case !ok && slices.ContainsFunc(m.skipped, func(s *corev1.Node) bool { return s == n || s.Name == n.Name && alike(s, n) }):
			k = -1
		case !ok || !alike(m.nodes[k].object, n):
			return false
		}
		m.order[i] = k
	}
	return true
}

// restart makes the state that of empty nodes. What was read of pods is kept.
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
	for uid, e := range m.waiting { // they are entered again
		if _, changed := m.awaiting[uid]; !changed {
			m.awaiting[uid] = e.object
		}
	}
	m.waiting = map[types.UID]*podEntry{}
}

// update makes the pods of a node those given.
func (m *Mirror) update(node int32, pods iter.Seq[*corev1.Pod]) error {
	n := &m.nodes[node]
	now := make(map[types.UID]*podInfo, len(n.pods)+1)
	for p := range pods {
		now[p.UID] = m.read(p)
	}
	for uid, e := range n.pods {
		info := now[uid]
		if info != nil && info.same(e.podInfo) && !n.unclear {
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
	return m.enter(node, now)
}

// enter adds the pods that the node does not have yet.
func (m *Mirror) enter(node int32, pods map[types.UID]*podInfo) error {
	n := &m.nodes[node]
	var fresh []*podInfo
	for uid, info := range pods {
		if n.pods[uid] == nil {
			fresh = append(fresh, info)
		}
	}
	slices.SortFunc(fresh, byCreation)
	n.unclear, n.over = false, false // it was clear, or is empty
	for _, info := range fresh {
		if err := m.add(info, node); err != nil {
			return err
		}
	}
	if !n.unclear || len(fresh) == len(pods) {
		return nil
	}
	for uid, e := range n.pods { // the order matters: all again
		if err := m.remove(e); err != nil {
			return err
		}
		delete(n.pods, uid)
	}
	return m.enter(node, pods)
}

// read returns what is read of a pod, and reads again if its object is another.
func (m *Mirror) read(p *corev1.Pod) *podInfo {
	devices := m.Reserved(p.UID)
	if had := m.infos[p.UID]; had != nil && had.object == p && had.reserved == devices {
		return had
	}
	info := readPod(p)
	if info.devices == 0 {
		info.devices, info.reserved = devices, devices
	} else if devices != 0 {
		m.Release(p.UID) // the pod shows them
	}
	m.infos[p.UID] = info
	return info
}

// syncWaiting enters the pods that have begun to wait, and removes those that no longer do. What is on
// a node waits no longer, whatever informers say.
func (m *Mirror) syncWaiting() error {
	m.mu.Lock()
	changes := maps.Clone(m.awaiting)
	clear(m.awaiting)
	m.mu.Unlock()
	var fresh []*podInfo
	for uid, p := range changes {
		e := m.waiting[uid]
		var info *podInfo
		if p != nil && m.pods[uid] == nil {
			info = readPod(p)
		}
		if e != nil && info != nil && info.same(e.podInfo) {
			e.podInfo = info
			continue
		}
		if err := m.stopWaiting(uid); err != nil {
			return err
		}
		if info != nil && info.unreadable == nil {
			fresh = append(fresh, info)
		}
	}
	slices.SortFunc(fresh, byCreation)
	for _, info := range fresh {
		e := &podEntry{podInfo: info, node: -1}
		if m.append(e, info.stated, info.gpus) == nil { // else it requests what no machine has, and policies do not see it
			m.waiting[info.object.UID] = e
		}
	}
	return nil
}

// stopWaiting takes a pod that waits out of the state.
func (m *Mirror) stopWaiting(uid types.UID) error {
	e := m.waiting[uid]
	if e == nil {
		return nil
	}
	delete(m.waiting, uid)
	return m.remove(e)
}

// A Question is a pod to place.
type Question struct {
	Pod      *corev1.Pod
	Open     []string // names of the nodes that are open to it; others are cordoned while it is asked
	Replicas int      // pods that its controller wants
	Now      time.Time
}

// Ask describes a pod to choose, which returns a node of the state and devices; the state is as before
// when Ask returns. It returns the node's name. An error of choose is returned as it is.
func (m *Mirror) Ask(q Question, choose func(s *cluster.State, d envs.Decision) (node int32, devices uint64, err error)) (name string, devices uint64, err error) {
	info := readPod(q.Pod)
	if info.unreadable != nil {
		return "", 0, fmt.Errorf("mirror: pod %s/%s: %w", q.Pod.Namespace, q.Pod.Name, info.unreadable)
	}
	leave, err := m.closeAllBut(q.Open, info.gpus > 0)
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
	if e := m.waiting[q.Pod.UID]; e != nil && e.same(info) {
		d.Pod = e.index
	} else {
		e := &podEntry{podInfo: info, node: -1}
		if err := m.append(e, info.stated, info.gpus); err != nil {
			return "", 0, err
		}
		defer func() { // a pending pod is nowhere but here
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

// closeAllBut cordons the nodes that are not open, and for a pod with GPUs those whose devices have more
// than they can; leave ends that.
func (m *Mirror) closeAllBut(open []string, gpus bool) (leave func(), err error) {
	shut := make([]bool, len(m.nodes))
	for i := range shut {
		shut[i] = true
	}
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
