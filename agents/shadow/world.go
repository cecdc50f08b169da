package shadow

import (
	"context"
	"fmt"
	"slices"
	"strings"
	"time"

	"github.com/kubernasium/kubernasium/envs"
	"github.com/kubernasium/kubernasium/envs/cluster"
	"github.com/kubernasium/kubernasium/envs/dataset/clustertrace"
	"github.com/kubernasium/kubernasium/envs/podsched/gpushare"
	"github.com/kubernasium/kubernasium/envs/podsched/topology"
)

// world is a simulated cluster with the nodes and pods of a recording, placed as recorded or by a
// policy. Nodes, pods and templates have their numbers in the recording.
type world struct {
	*history
	now   time.Duration
	nodes []node
	pods  []placement
	queue []int32 // waiting pods, in the order in which they are tried

	// The view of policies: the present nodes, and the running and pending pods.
	state   *cluster.State
	order   []int32 // nodes by their index in state
	slots   []int32 // pods by their index in state
	arrived int32   // pods below this number have arrived
	rack    []int32 // racks of state's nodes; nil unless all have one
	sums    sums    // over the nodes
	share   []share // of each node, by number

	owners        map[string]*replicas
	claims        map[string]*clustertrace.Claim // by namespace/name
	budgets       map[string]budget              // by namespace/name
	rejected      map[int32][]bool               // by template: nodes that do not admit it
	freed         int                            // number of changes that may have made room
	lastPass      int                            // freed at the last pass over the whole queue
	fresh         []int32                        // pods queued since then
	unschedulable map[int32]int                  // by template: freed when a pod without claims last fitted no node
	podsByNode    []map[int32]int                // by template: its running pods by node; nil without constraints on other pods
	discouraged   int                            // nodes with a PreferNoSchedule taint
	dependent     int                            // pending pods for which the start of another may make a node feasible

	ends     cluster.Departures // planned ends of pods; stale for displaced pods
	deferred map[int32]int32    // by pod: the template to resize it to

	fragments gpushare.Inventory // of state's nodes; empty without GPUs
	meter     *meter
}

// node is a node with the requests of its pods.
type node struct {
	info      *clustertrace.Node // nil: not present
	index     int32              // in state
	used      cluster.Resources
	gpu       int64             // requested, in thousandths
	pods      int32             // running
	nonDaemon int32             // running pods of no DaemonSet
	hidden    int32             // running pods that state cannot hold; they exclude the node
	extra     cluster.Resources // what scores count beyond requests
	other     map[string]int64
	ports     map[string]int
}

// name returns the name of a node; "" if it is not present.
func (n *node) name() string {
	if n.info == nil {
		return ""
	}
	return n.info.Name
}

// replicas are the present pods of one owner.
type replicas struct {
	running []int32
	present int // running, pending or gated
}

// placement is a pod in a world.
type placement struct {
	phase     phase
	template  int32
	node      int32
	slot      int32 // in state, or -1
	class     int32 // in gpushare's catalogue while it is in fragments, else -1
	devices   uint64
	placed    bool          // it has run
	hidden    bool          // it runs, but state cannot hold it
	since     time.Duration // start of its pending time
	started   time.Duration
	ends      time.Duration         // planned, or never
	remaining time.Duration         // lifetime, if it was displaced; else 0
	bound     [][]clustertrace.Term // nodes of the volumes that were bound when it arrived
}

type phase uint8

const (
	absent phase = iota
	gated        // it has scheduling gates
	waiting
	running
	ended
)

func newWorld(h *history, m *meter) *world {
	w := &world{
		history: h, nodes: make([]node, len(h.nodes)), share: make([]share, len(h.nodes)), pods: make([]placement, len(h.pods)), owners: map[string]*replicas{},
		claims: map[string]*clustertrace.Claim{}, budgets: map[string]budget{}, rejected: map[int32][]bool{}, unschedulable: map[int32]int{}, deferred: map[int32]int32{}, freed: 1, meter: m,
	}
	for i := range w.pods {
		w.pods[i] = placement{template: h.pods[i].template, node: -1, slot: -1, class: -1, ends: never}
	}
	w.state = cluster.NewState()
	if h.interPod {
		w.podsByNode = make([]map[int32]int, len(h.templates))
	}
	return w
}

// template returns the present template of a pod.
func (w *world) template(p int32) *clustertrace.Template { return w.templates[w.pods[p].template] }

// advance moves the clock.
func (w *world) advance(t time.Duration) {
	w.meter.elapse(w, t)
	w.now = max(w.now, t)
	w.state.Now = w.now
}

// decision returns the decision on a pending pod, and cordons excluded nodes in state. ok is false
// if the pod fits no node.
func (w *world) decision(p int32) (d envs.Decision, ok bool) {
	t, q := w.template(p), &w.pods[p]
	rejected, excludes := w.rejectedNodes(q.template), w.interPodFilter(q.template)
	plain := len(t.Other)+len(t.HostPorts)+len(q.bound) == 0
	for i, n := range w.order {
		excluded := rejected[n] || w.nodes[n].hidden > 0 || !plain && w.lacks(p, t, n) || excludes != nil && excludes(n)
		w.state.Nodes[i].Unschedulable = excluded
		ok = ok || !excluded && w.state.Fits(q.slot, int32(i))
	}
	if !ok {
		return d, false
	}
	w.prefer(p)
	d = envs.Decision{
		Pod: q.slot, Replicas: 1, Waited: w.now - w.history.pods[p].created, Racks: w.rack, Extra: w.extras(),
		PodExtra: cluster.Resources{MilliCPU: t.ExtraMilliCPU, MemoryBytes: t.ExtraMemoryBytes},
	}
	if o := w.owners[owner(t)]; o != nil {
		d.Replicas = max(1, o.present)
		for _, r := range o.running {
			if slot := w.pods[r].slot; slot >= 0 {
				d.Siblings = append(d.Siblings, slot)
			}
		}
	}
	return d, true
}

// rejectedNodes reports by node whether it does not admit pods of a template, by taints, selectors and required node
// affinity.
func (w *world) rejectedNodes(template int32) []bool {
	rejected, ok := w.rejected[template]
	if !ok {
		rejected = make([]bool, len(w.nodes))
		for _, n := range w.order {
			rejected[n] = !w.templates[template].Admits(w.nodes[n].info)
		}
		w.rejected[template] = rejected
	}
	return rejected
}

// lacks reports whether a node lacks what state does not model: further resources, host ports, and access to the
// volumes that were bound when the pod arrived.
func (w *world) lacks(p int32, t *clustertrace.Template, n int32) bool {
	node := &w.nodes[n]
	if node.lacks(t) {
		return true
	}
	for _, terms := range w.pods[p].bound {
		if !clustertrace.MatchesAny(terms, node.info) {
			return true
		}
	}
	return false
}

// lacks reports whether further resources or host ports of a template are taken.
func (n *node) lacks(t *clustertrace.Template) bool {
	for name, amount := range t.Other {
		if amount > n.info.Other[name]-n.other[name] {
			return true
		}
	}
	return n.portsTaken(t)
}

// racks numbers the racks of state's nodes; nil unless all nodes have one.
func (w *world) racks() []int32 {
	return topology.NumberRacks(len(w.order), func(i int) map[string]string { return w.nodes[w.order[i]].info.Labels })
}

// extras returns the resources that scores count on state's nodes beyond requests; nil if there are none.
func (w *world) extras() []cluster.Resources {
	if !w.history.extra {
		return nil
	}
	var all []cluster.Resources
	for i, n := range w.order {
		if e := w.nodes[n].extra; e != (cluster.Resources{}) {
			if all == nil {
				all = make([]cluster.Resources, len(w.order))
			}
			all[i] = e
		}
	}
	return all
}

// owner returns namespace and name of the controller of a template's pods; "" if it has none.
func owner(t *clustertrace.Template) string {
	if t.Owner == "" {
		return ""
	}
	return t.Namespace + "/" + t.Owner
}

// setNode adds or updates a node.
func (w *world) setNode(n int32, info *clustertrace.Node) error {
	before := w.nodes[n].info
	w.tally(n, -1)
	w.nodes[n].info = info
	w.tally(n, 1)
	w.discouraged += preferNoSchedule(info) - preferNoSchedule(before)
	w.changed()
	if before != nil && before.MilliCPU == info.MilliCPU && before.MemoryBytes == info.MemoryBytes && before.Pods == info.Pods &&
		before.GPUs == info.GPUs && before.MilliGPU == info.MilliGPU && before.GPUModel == info.GPUModel {
		w.rack = w.racks()
		return nil
	}
	if before == nil {
		w.order = append(w.order, n)
		slices.Sort(w.order)
	}
	return w.rebuild()
}

// dropNode removes a node. Pods that run there keep their node but use no resources.
func (w *world) dropNode(n int32) error {
	w.tally(n, -1)
	w.discouraged -= preferNoSchedule(w.nodes[n].info)
	w.nodes[n] = node{}
	w.order = slices.DeleteFunc(w.order, func(m int32) bool { return m == n })
	w.changed()
	return w.rebuild()
}

// changed records a change of nodes.
func (w *world) changed() {
	clear(w.rejected)
	w.freed++
	w.meter.dirty = true
}

// rebuild makes state from all pods and nodes.
func (w *world) rebuild() error {
	w.state.Reset()
	w.state.Now = w.now
	w.slots = w.slots[:0]
	var nodes []gpushare.Node
	for i, n := range w.order {
		node := &w.nodes[n]
		node.index, node.hidden = int32(i), 0
		op := cluster.Op{
			Kind: cluster.AddNode, Meta: w.state.Intern(cluster.Meta{Name: strings.ToLower(node.info.Name), GPUModel: node.info.GPUModel}),
			Resources: cluster.Resources{MilliCPU: node.info.MilliCPU, MemoryBytes: node.info.MemoryBytes},
			MaxPods:   node.info.Pods, GPUs: uint8(node.info.GPUs), MilliGPU: node.info.MilliGPU,
		}
		if err := w.state.Apply(&op); err != nil {
			return fmt.Errorf("shadow: node %s: %w", node.info.Name, err)
		}
		nodes = append(nodes, gpuNode(node.info))
	}
	if w.history.fragments != nil {
		w.fragments.Reset(nodes, w.catalogue, w.history.fragments)
	}
	w.rack = w.racks()
	for p := range w.pods[:w.arrived] {
		q := &w.pods[p]
		q.slot, q.class, q.hidden = -1, -1, false
		var err error
		switch q.phase {
		case waiting:
			err = w.addPending(int32(p))
		case running:
			err = w.bind(int32(p), q.devices)
		}
		if err != nil {
			return err
		}
	}
	return nil
}

// choose returns the choice of c for pod p, and checks it.
func (w *world) choose(ctx context.Context, c Chooser, p int32, d envs.Decision) (Choice, error) {
	choice, err := c.Choose(ctx, w.state, d)
	if err != nil {
		return choice, fmt.Errorf("pod %s: %w", w.history.pods[p].name, err)
	}
	if !w.state.Fits(d.Pod, choice.Node) {
		return choice, fmt.Errorf("shadow: pod %s: node %d is chosen, which the pod does not fit", w.history.pods[p].name, choice.Node)
	}
	return choice, nil
}
