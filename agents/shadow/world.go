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

// world is a cluster in which the recorded pods are placed in one way or another. Nodes, pods and
// templates have their numbers in the recording.
type world struct {
	*history
	now   time.Duration
	nodes []node
	pods  []placement
	queue []int32 // waiting pods, in the order in which they are tried

	// What policies see: the present nodes, the pods that run on them, and those that wait.
	state *cluster.State
	order []int32 // nodes by their index in state
	who   []int32 // pods by their index in state
	born  int32   // pods below this number have come; the others are still to come
	rack  []int32 // racks of state's nodes; nil if one has none
	sums  sums    // over the nodes
	share []share // of each node, by number

	owners  map[string]*replicas
	claims  map[string]*clustertrace.Claim // by namespace/name
	budgets map[string]guard               // by namespace/name
	refused map[int32][]bool               // by template: nodes that are closed to it by what they are
	freed   int                            // changes that may have made room
	passed  int                            // freed when the whole queue was last tried
	fresh   []int32                        // pods that have come to wait since then
	full    map[int32]int                  // by template: freed when one of it, without claims, fitted nowhere
	where   []map[int32]int                // by template: its running pods by node; nil without rules between pods
	frowned int                            // nodes with a taint PreferNoSchedule
	hopeful int                            // waiting pods to which the start of another may open a node

	ends     endings         // planned ends of pods; those of pods that were displaced are stale
	deferred map[int32]int32 // by pod: the template to resize it to

	fragments gpushare.Inventory // of state's nodes; empty without GPUs
	meter     *meter
}

// node is a node with what its pods ask for.
type node struct {
	info   *clustertrace.Node // nil: it is not there
	index  int32              // in state
	used   cluster.Resources
	gpu    int64             // thousandths
	pods   int32             // that run on it
	own    int32             // of them, those of no DaemonSet
	hidden int32             // of them, those that state cannot hold; they close the node
	extra  cluster.Resources // that scores count beyond requests
	other  map[string]int64
	ports  map[string]int
}

// name returns the name of a node; "" is that of one which is not there.
func (n *node) name() string {
	if n.info == nil {
		return ""
	}
	return n.info.Name
}

// replicas are the present pods of one owner.
type replicas struct {
	running []int32
	present int // running and waiting
}

// placement is a pod in a world.
type placement struct {
	phase    phase
	template int32
	node     int32
	slot     int32 // in state, or -1
	class    int32 // of gpushare's catalogue while it counts in fragments, else -1
	devices  uint64
	placed   bool          // at some time
	hidden   bool          // it runs, and state cannot hold it
	since    time.Duration // when it came to wait
	started  time.Duration
	ends     time.Duration         // planned, or never
	remains  time.Duration         // of its lifetime, if it was displaced; else 0
	bound    [][]clustertrace.Term // nodes of volumes that it had when it came
}

type phase uint8

const (
	absent phase = iota
	gated        // its scheduling gates hold it back
	waiting
	running
	gone
)

func newWorld(h *history, m *meter) *world {
	w := &world{
		history: h, nodes: make([]node, len(h.nodes)), share: make([]share, len(h.nodes)), pods: make([]placement, len(h.pods)), owners: map[string]*replicas{},
		claims: map[string]*clustertrace.Claim{}, budgets: map[string]guard{}, refused: map[int32][]bool{}, full: map[int32]int{}, deferred: map[int32]int32{}, freed: 1, meter: m,
	}
	for i := range w.pods {
		w.pods[i] = placement{template: h.pods[i].template, node: -1, slot: -1, class: -1, ends: never}
	}
	w.state = cluster.NewState()
	if h.ruled {
		w.where = make([]map[int32]int, len(h.templates))
	}
	return w
}

// of returns what a pod asks for at present.
func (w *world) of(p int32) *clustertrace.Template { return w.templates[w.pods[p].template] }

// advance moves the clock.
func (w *world) advance(t time.Duration) {
	w.meter.elapse(w, t)
	w.now = max(w.now, t)
	w.state.Now = w.now
}

// decision returns the decision on a waiting pod. Nodes that are closed to it are cordoned in state.
// ok is false where it fits no node.
func (w *world) decision(p int32) (d envs.Decision, ok bool) {
	t, q := w.of(p), &w.pods[p]
	closed, kept := w.closed(q.template), w.kept(q.template)
	plain := len(t.Other)+len(t.HostPorts)+len(q.bound) == 0
	for i, n := range w.order {
		shut := closed[n] || w.nodes[n].hidden > 0 || !plain && w.lacks(p, t, n) || kept != nil && kept(n)
		w.state.Nodes[i].Unschedulable = shut
		ok = ok || !shut && w.state.Fits(q.slot, int32(i))
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

// closed returns by node whether it is closed to pods of a template by what it is.
func (w *world) closed(template int32) []bool {
	shut, ok := w.refused[template]
	if !ok {
		shut = make([]bool, len(w.nodes))
		for _, n := range w.order {
			shut[n] = !w.templates[template].Admits(w.nodes[n].info)
		}
		w.refused[template] = shut
	}
	return shut
}

// lacks reports whether a node has not what state does not know of: further resources, host ports, and
// the volumes that were bound when the pod came.
func (w *world) lacks(p int32, t *clustertrace.Template, n int32) bool {
	node := &w.nodes[n]
	if node.lacks(t) {
		return true
	}
	for _, terms := range w.pods[p].bound {
		if !clustertrace.Reaches(terms, node.info) {
			return true
		}
	}
	return false
}

// lacks reports whether further resources or host ports that a template asks for are taken.
func (n *node) lacks(t *clustertrace.Template) bool {
	for name, amount := range t.Other {
		if amount > n.info.Other[name]-n.other[name] {
			return true
		}
	}
	return slices.ContainsFunc(t.HostPorts, func(port string) bool { return n.ports[port] > 0 })
}

// racks numbers the racks of state's nodes by their label; nil if one has none.
func (w *world) racks() []int32 {
	number, racks := map[string]int32{}, make([]int32, len(w.order))
	for i, n := range w.order {
		name, ok := w.nodes[n].info.Labels[topology.RackLabel]
		if !ok {
			return nil
		}
		if _, ok := number[name]; !ok {
			number[name] = int32(len(number))
		}
		racks[i] = number[name]
	}
	return racks
}

// extras returns what scores count on state's nodes beyond requests; nil if nothing.
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

// owner names the controller of a template's pods in its namespace; "" is none.
func owner(t *clustertrace.Template) string {
	if t.Owner == "" {
		return ""
	}
	return t.Namespace + "/" + t.Owner
}

// setNode adds a node, or changes it.
func (w *world) setNode(n int32, info *clustertrace.Node) error {
	before := w.nodes[n].info
	w.tally(n, -1)
	w.nodes[n].info = info
	w.tally(n, 1)
	w.frowned += frowns(info) - frowns(before)
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

// dropNode takes a node away. Pods that ran there keep it as a record, but hold nothing.
func (w *world) dropNode(n int32) error {
	w.tally(n, -1)
	w.frowned -= frowns(w.nodes[n].info)
	w.nodes[n] = node{}
	w.order = slices.DeleteFunc(w.order, func(m int32) bool { return m == n })
	w.changed()
	return w.rebuild()
}

// changed notes that nodes are other than they were.
func (w *world) changed() {
	clear(w.refused)
	w.freed++
	w.meter.dirty = true
}

// rebuild makes state from all pods and nodes.
func (w *world) rebuild() error {
	w.state.Reset()
	w.state.Now = w.now
	w.who = w.who[:0]
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
	for p := range w.pods[:w.born] {
		q := &w.pods[p]
		q.slot, q.class, q.hidden = -1, -1, false
		var err error
		switch q.phase {
		case waiting:
			err = w.show(int32(p))
		case running:
			err = w.hold(int32(p), q.devices)
		}
		if err != nil {
			return err
		}
	}
	return nil
}

// chooser chooses nodes; see [Chooser].
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
