// Package recorded makes workloads of pod scheduling from recordings of clusters: the nodes, and the
package recorded

import (
	"errors"
	"fmt"
	"slices"
	"strconv"
	"strings"
	"time"

	"github.com/kubernasium/kubernasium/envs/cluster"
	"github.com/kubernasium/kubernasium/envs/dataset/clustertrace"
)

// Workload is a recording as a workload of environments. It is read-only.
//
// Its nodes are those that exist for at least half of the recording, each in its last state, always present and never
// cordoned. Its pods are those that may run on one of these nodes, in the order of their creation. It ignores resizes:
// a pod has the requests of its creation.
type Workload struct {
	Nodes    []Node
	Pods     []Pod
	Groups   []Group   // pods of one controller that may run on the same nodes
	NodeSets []NodeSet // sets of nodes that pods may run on
}

// Node is a node of a [Workload].
type Node struct {
	clustertrace.Node
	Unique    string          // its name, with a number if an earlier node has the same name
	SetLabels []cluster.Label // labels of its node sets
}

// Group is the pods of one controller that may run on the same nodes; a pod without a controller is a group of its own.
type Group struct {
	Pods    int   // in the whole recording
	NodeSet int32 // index in Workload.NodeSets
}

// Pod is a pod of a [Workload].
type Pod struct {
	*clustertrace.Template
	Created  time.Duration // since the recording's start; negative for earlier pods
	Duration time.Duration // from its start to its end; 0 if the recording lacks its end
	Group    int32
	Replica  int32         // number of pods of its group created before it
	Started  time.Duration // or was bound; Never if it was not
	Node     int32         // the recorded node, or -1
	Devices  uint64        // the recorded devices
}

// Freed returns when the pod released its resources.
func (p *Pod) Freed() time.Duration {
	if p.Duration == 0 || p.Started == clustertrace.Never {
		return clustertrace.Never
	}
	return p.Started + p.Duration
}

// MeanDuration returns the mean duration of the pods whose end is known, or 0 if there are none.
func (w *Workload) MeanDuration() time.Duration {
	sum, num := 0.0, 0
	for i := range w.Pods {
		if d := w.Pods[i].Duration; d > 0 {
			sum, num = sum+float64(d), num+1
		}
	}
	return time.Duration(sum / float64(max(num, 1)))
}

// NodeSet is a set of nodes that pods may run on.
type NodeSet struct {
	Allowed      []bool          // by node; nil permits all
	NodeSelector []cluster.Label // node selector of the pods, which restricts them to the set; nil with nil Allowed
}

// nodeSetLabel is the prefix of the label keys of node sets.
const nodeSetLabel = "kubernasium.io/rule-"

// Read reads a recording, as far as it goes if it is truncated. A recording without nodes or without pods is an error,
// and so are devices of a pod that its node does not have.
func Read(path string) (*Workload, error) {
	t, err := clustertrace.Load(path)
	if err != nil && !errors.Is(err, clustertrace.ErrCut) {
		return nil, err
	}
	w, err := newWorkload(t)
	if err != nil {
		return nil, fmt.Errorf("recorded: %s: %w", path, err)
	}
	return w, nil
}

// builder makes a Workload.
type builder struct {
	*Workload
	trace  *clustertrace.Trace
	nodeOf map[int32]int32  // by number in the recording
	sets   map[string]int32 // by allowed nodes
	setOf  map[int32]int32  // by template; -1: no node
	setBy  map[string]int32 // by the template's PlacementKey
	groups map[groupKey]int32
}

// groupKey distinguishes groups: by the controller or the pod itself, and the node set.
type groupKey struct {
	owner string
	set   int32
}

func newWorkload(t *clustertrace.Trace) (*Workload, error) {
	b := &builder{
		Workload: &Workload{}, trace: t, nodeOf: map[int32]int32{}, sets: map[string]int32{}, setOf: map[int32]int32{}, setBy: map[string]int32{}, groups: map[groupKey]int32{},
	}
	b.addNodes()
	if len(b.Nodes) == 0 {
		return nil, errors.New("no node is there for half of the recording")
	}
	order := make([]int, len(t.Pods))
	for i := range order {
		order[i] = i
	}
	slices.SortStableFunc(order, func(i, j int) int { return int(max(-1, min(1, t.Pods[i].Created-t.Pods[j].Created))) })
	for _, i := range order {
		if err := b.addPod(&t.Pods[i]); err != nil {
			return nil, err
		}
	}
	if len(b.Pods) == 0 {
		return nil, errors.New("no pod may run on its nodes")
	}
	return b.Workload, nil
}

func (b *builder) addNodes() {
	names := map[string]bool{}
	for i := range b.trace.Nodes {
		n := &b.trace.Nodes[i]
		if min(n.Removed, b.trace.End)-max(n.Added(), 0) < b.trace.End/2 || n.Last().MilliCPU < 1 || n.Last().MemoryBytes < 1 || n.Last().Pods < 1 {
			continue
		}
		info := *n.Last()
		info.Unschedulable, info.NotReady = false, false
		info.Taints = slices.DeleteFunc(slices.Clone(info.Taints), func(t clustertrace.Taint) bool {
			return strings.HasPrefix(t.Key, "node.kubernetes.io/") // temporary conditions
		})
		name := info.Name
		for k := 2; names[name]; k++ { // nodes may have the same name one after the other
			name = fmt.Sprintf("%s-%d", info.Name, k)
		}
		names[name] = true
		b.nodeOf[int32(i)] = int32(len(b.Nodes))
		b.Nodes = append(b.Nodes, Node{Node: info, Unique: name})
	}
}

// addPod adds a pod, unless it may run on no node.
func (b *builder) addPod(life *clustertrace.PodLife) error {
	t := b.trace.Templates[life.Template]
	set := b.nodeSet(life.Template)
	if set < 0 {
		return nil
	}
	p := Pod{Template: t, Created: life.Created, Node: -1, Started: clustertrace.Never}
	if life.Bound != clustertrace.Never {
		if p.Started = life.Started; p.Started == clustertrace.Never {
			p.Started = life.Bound
		}
		if freed := life.Freed(); freed != clustertrace.Never {
			p.Duration = max(freed-p.Started, time.Millisecond)
		}
		if node, ok := b.nodeOf[life.Node]; ok {
			p.Node = node
		}
	}
	for _, d := range life.Devices {
		if p.Node >= 0 && d >= int(b.Nodes[p.Node].GPUs) {
			return fmt.Errorf("pod %s has GPU %d of node %s, which has %d", life.Name, d, b.Nodes[p.Node].Name, b.Nodes[p.Node].GPUs)
		}
		p.Devices |= 1 << d
	}
	p.Group = b.group(t, life, set)
	p.Replica = int32(b.Groups[p.Group].Pods)
	b.Groups[p.Group].Pods++
	b.Pods = append(b.Pods, p)
	return nil
}

// group returns the group of a pod.
func (b *builder) group(t *clustertrace.Template, life *clustertrace.PodLife, set int32) int32 {
	key := groupKey{t.Namespace + "/" + t.Owner, set}
	if t.Owner == "" {
		key.owner += life.Name + "/" + strconv.Itoa(len(b.Pods))
	}
	g, ok := b.groups[key]
	if !ok {
		g = int32(len(b.Groups))
		b.groups[key] = g
		b.Groups = append(b.Groups, Group{NodeSet: set})
	}
	return g
}

// nodeSet returns the index of the node set of a template, or -1 if its pods may run on no node.
func (b *builder) nodeSet(template int32) int32 {
	r, ok := b.setOf[template]
	if !ok {
		t := b.trace.Templates[template]
		key := t.PlacementKey()
		if r, ok = b.setBy[key]; !ok {
			r = b.newNodeSet(t)
			b.setBy[key] = r
		}
		b.setOf[template] = r
	}
	return r
}

// newNodeSet returns the index of the node set for t, and adds the set unless it exists.
func (b *builder) newNodeSet(t *clustertrace.Template) int32 {
	none, all := true, true
	allowed, key := make([]bool, len(b.Nodes)), make([]byte, len(b.Nodes))
	for i := range b.Nodes {
		allowed[i] = t.Admits(&b.Nodes[i].Node)
		key[i] = '0'
		if allowed[i] {
			key[i] = '1'
		}
		none, all = none && !allowed[i], all && allowed[i]
	}
	r, ok := b.sets[string(key)]
	switch {
	case none:
		r = -1
	case !ok:
		r = int32(len(b.NodeSets))
		b.sets[string(key)] = r
		set := NodeSet{}
		if !all {
			label := cluster.Label{Key: nodeSetLabel + strconv.Itoa(int(r)), Value: "yes"}
			set = NodeSet{allowed, []cluster.Label{label}}
			for i := range b.Nodes {
				if allowed[i] {
					b.Nodes[i].SetLabels = append(b.Nodes[i].SetLabels, label)
				}
			}
		}
		b.NodeSets = append(b.NodeSets, set)
	}
	return r
}

// First returns the first pod that was created during the recording, or the number of pods.
func (w *Workload) First() int {
	i, _ := slices.BinarySearchFunc(w.Pods, 0, func(p Pod, at time.Duration) int { return int(max(-1, min(1, p.Created-at))) })
	return i
}
