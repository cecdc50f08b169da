// Package recorded makes workloads of pod scheduling from recordings of clusters: the nodes, and the
// pods with their times, requests and the nodes where they may run.
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

// Workload is a recording as environments play it. It is read-only.
//
// Its nodes are those that the recording has for at least half of its length, each as it was last, there all
// the time and never cordoned. Its pods are those that may run on one of them, in the order of their
// creation. Resizes are left out: a pod has the requests of its creation.
type Workload struct {
	Nodes  []Node
	Pods   []Pod
	Groups []Group // of pods that one controller owns and that may run on the same nodes
	Rules  []Rule  // which nodes pods may run on
}

// Node is a node of a [Workload].
type Node struct {
	clustertrace.Node
	Unique string          // its name; of nodes of one name, all but the first have a number
	Rules  []cluster.Label // labels that the rules of pods select it by
}

// Group is pods of one controller that may run on the same nodes; a pod without a controller is one by itself.
type Group struct {
	Pods int   // in the whole recording
	Rule int32 // number in Workload.Rules
}

// Pod is a pod of a [Workload].
type Pod struct {
	*clustertrace.Template
	Created  time.Duration // since the recording's start; negative for what was there before
	Duration time.Duration // from its start to its end; 0 is for ever, as far as the recording knows
	Group    int32
	Replica  int32         // pods of its group that were created before
	Started  time.Duration // or bound; Never if it was not
	Node     int32         // that it was on, or -1
	Devices  uint64        // that it had there
}

// Freed returns when the pod released what it requested.
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

// Rule says where pods may run.
type Rule struct {
	Allowed      []bool          // by node; nil is everywhere
	NodeSelector []cluster.Label // that a pod has so that the cluster's rules say the same; nil with Allowed
}

// ruleLabel is the key of the labels that nodes of a rule have.
const ruleLabel = "kubernasium.io/rule-"

// Read reads a recording. One that is cut is read as far as it goes. Devices of pods beyond their
// node's are an error, as are a recording without nodes or without pods.
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
	nodeOf map[int32]int32 // by number in the recording
	rules  map[string]int32
	ruleOf map[int32]int32  // by template; -1: nowhere
	ruleBy map[string]int32 // by what decides it in a template
	groups map[groupKey]int32
}

// groupKey distinguishes groups: by the controller or the pod itself, and the rule.
type groupKey struct {
	owner string
	rule  int32
}

func newWorkload(t *clustertrace.Trace) (*Workload, error) {
	b := &builder{
		Workload: &Workload{}, trace: t, nodeOf: map[int32]int32{}, rules: map[string]int32{}, ruleOf: map[int32]int32{}, ruleBy: map[string]int32{}, groups: map[groupKey]int32{},
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
			return strings.HasPrefix(t.Key, "node.kubernetes.io/") // conditions, which pass
		})
		name := info.Name
		for k := 2; names[name]; k++ { // of nodes of one name, one after the other
			name = fmt.Sprintf("%s-%d", info.Name, k)
		}
		names[name] = true
		b.nodeOf[int32(i)] = int32(len(b.Nodes))
		b.Nodes = append(b.Nodes, Node{Node: info, Unique: name})
	}
}

// addPod adds a pod that may run on some node.
func (b *builder) addPod(life *clustertrace.PodLife) error {
	t := b.trace.Templates[life.Template]
	rule := b.rule(life.Template)
	if rule < 0 {
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
	p.Group = b.group(t, life, rule)
	p.Replica = int32(b.Groups[p.Group].Pods)
	b.Groups[p.Group].Pods++
	b.Pods = append(b.Pods, p)
	return nil
}

// group returns the group of a pod.
func (b *builder) group(t *clustertrace.Template, life *clustertrace.PodLife, rule int32) int32 {
	key := groupKey{t.Namespace + "/" + t.Owner, rule}
	if t.Owner == "" {
		key.owner += life.Name + "/" + strconv.Itoa(len(b.Pods))
	}
	g, ok := b.groups[key]
	if !ok {
		g = int32(len(b.Groups))
		b.groups[key] = g
		b.Groups = append(b.Groups, Group{Rule: rule})
	}
	return g
}

// rule returns the number of the rule that says where pods of a template may run, or -1 for nowhere.
func (b *builder) rule(template int32) int32 {
	r, ok := b.ruleOf[template]
	if !ok {
		t := b.trace.Templates[template]
		key := t.PlacementKey()
		if r, ok = b.ruleBy[key]; !ok {
			r = b.newRule(t)
			b.ruleBy[key] = r
		}
		b.ruleOf[template] = r
	}
	return r
}

// newRule returns the number of the rule for t, which it adds if no other template has the same.
func (b *builder) newRule(t *clustertrace.Template) int32 {
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
	r, ok := b.rules[string(key)]
	switch {
	case none:
		r = -1
	case !ok:
		r = int32(len(b.Rules))
		b.rules[string(key)] = r
		rule := Rule{}
		if !all {
			label := cluster.Label{Key: ruleLabel + strconv.Itoa(int(r)), Value: "yes"}
			rule = Rule{allowed, []cluster.Label{label}}
			for i := range b.Nodes {
				if allowed[i] {
					b.Nodes[i].Rules = append(b.Nodes[i].Rules, label)
				}
			}
		}
		b.Rules = append(b.Rules, rule)
	}
	return r
}

// First returns the first pod that was created while the recording lasted, or the number of pods.
func (w *Workload) First() int {
	i, _ := slices.BinarySearchFunc(w.Pods, 0, func(p Pod, at time.Duration) int { return int(max(-1, min(1, p.Created-at))) })
	return i
}
