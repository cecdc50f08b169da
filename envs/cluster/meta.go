package cluster

import (
	"cmp"
	"encoding/binary"
	"fmt"
	"maps"
	"slices"
	"sync/atomic"
)

// Label is one label of a node, or one requirement of a pod's node selector.
type Label struct{ Key, Value string }

// TaintEffect says what a taint does to pods that do not tolerate it.
type TaintEffect string

// The effects of taints, as in Kubernetes. Taints never change while a node exists, so that
// NoExecute keeps a pod off exactly as NoSchedule does; PreferNoSchedule keeps no pod off.
const (
	NoSchedule       TaintEffect = "NoSchedule"
	PreferNoSchedule TaintEffect = "PreferNoSchedule"
	NoExecute        TaintEffect = "NoExecute"
)

// Taint repels from its node each pod that does not tolerate it.
type Taint struct {
	Key, Value string
	Effect     TaintEffect
}

// TolerationOperator says how a [Toleration] compares values; empty means TolerationEqual.
type TolerationOperator string

// The operators of tolerations, as in Kubernetes.
const (
	TolerationExists TolerationOperator = "Exists" // any value
	TolerationEqual  TolerationOperator = "Equal"  // the same value
)

// Toleration lets a pod onto nodes with the taints that it matches.
type Toleration struct {
	Key      string // empty matches every key, and then Operator must be TolerationExists
	Operator TolerationOperator
	Value    string
	Effect   TaintEffect // empty matches every effect
}

// Tolerates reports whether t matches the taint.
//
// Source: Toleration.ToleratesTaint of k8s.io/api/core/v1.
func (t *Toleration) Tolerates(taint *Taint) bool {
	if t.Effect != "" && t.Effect != taint.Effect || t.Key != "" && t.Key != taint.Key {
		return false
	}
	switch t.Operator {
	case "", TolerationEqual:
		return t.Value == taint.Value
	case TolerationExists:
		return true
	}
	return false
}

// Meta is the metadata of nodes and pods. It gives their names and decides which pods are permitted
// on which nodes. The [State] keeps it in a table, where nodes and pods with equal metadata share
// one entry. Keys of labels are unique; of equal keys the last counts.
type Meta struct {
	Name         string       // a node's name; the name of pod i is Name-i. A DNS-1123 subdomain
	Labels       []Label      `json:",omitempty"` // of a node
	Taints       []Taint      `json:",omitempty"` // of a node
	GPUModel     string       `json:",omitempty"` // of a node's devices
	NodeSelector []Label      `json:",omitempty"` // of a pod: labels that its node must have
	Tolerations  []Toleration `json:",omitempty"` // of a pod
	GPUModels    []string     `json:",omitempty"` // of a pod: its node's GPUModel must be one of these; empty is any
}

// refuses returns why a pod with metadata p may not be on a node with metadata n, or "".
func (n *Meta) refuses(p *Meta) string {
	for i := range n.Taints {
		t := &n.Taints[i]
		if t.Effect == PreferNoSchedule {
			continue
		}
		if !slices.ContainsFunc(p.Tolerations, func(tol Toleration) bool { return tol.Tolerates(t) }) {
			return fmt.Sprintf("taint %s=%s:%s is not tolerated", t.Key, t.Value, t.Effect)
		}
	}
	for _, want := range p.NodeSelector {
		if !slices.Contains(n.Labels, want) {
			return fmt.Sprintf("the node selector wants label %s=%s", want.Key, want.Value)
		}
	}
	if len(p.GPUModels) > 0 && !slices.Contains(p.GPUModels, n.GPUModel) {
		return fmt.Sprintf("GPU model %q is none of %q", n.GPUModel, p.GPUModels)
	}
	return ""
}

// maxName is the greatest number of bytes in a name: Kubernetes' 253, less "-" and the index of a
// pod.
const maxName = 253 - len("-2147483647")

// invalid returns why an API server would reject m, or "". It does not check the syntax of labels.
func (m *Meta) invalid() string {
	if !isSubdomain(m.Name) || len(m.Name) > maxName {
		return fmt.Sprintf("name %q is not a DNS-1123 subdomain of at most %d bytes", m.Name, maxName)
	}
	for _, t := range m.Taints {
		if t.Key == "" || t.Effect == "" || !validEffect(t.Effect) {
			return fmt.Sprintf("taint %s=%s:%s wants a key and NoSchedule, PreferNoSchedule or NoExecute", t.Key, t.Value, t.Effect)
		}
	}
	for _, t := range m.Tolerations {
		switch {
		case !validEffect(t.Effect):
			return fmt.Sprintf("toleration of %q has effect %q, want NoSchedule, PreferNoSchedule, NoExecute or none", t.Key, t.Effect)
		case t.Operator == TolerationExists:
			if t.Value != "" {
				return fmt.Sprintf("toleration of %q has operator Exists and value %q, want no value", t.Key, t.Value)
			}
		case t.Operator != "" && t.Operator != TolerationEqual:
			return fmt.Sprintf("toleration of %q has operator %q, want Exists or Equal", t.Key, t.Operator)
		case t.Key == "":
			return "toleration without a key has operator Equal, want Exists"
		}
	}
	return ""
}

func validEffect(e TaintEffect) bool {
	return e == "" || e == NoSchedule || e == PreferNoSchedule || e == NoExecute
}

// isSubdomain reports whether s is labels of [a-z0-9-], joined by dots, that begin and end
// with a letter or digit.
func isSubdomain(s string) bool {
	prev := byte('.')
	for i := range len(s) {
		switch c := s[i]; {
		case 'a' <= c && c <= 'z' || '0' <= c && c <= '9':
		case c == '-' && prev != '.':
		case c == '.' && prev != '.' && prev != '-':
		default:
			return false
		}
		prev = s[i]
	}
	return prev != '.' && prev != '-'
}

// tables is the metadata of a State. States that were cloned from one another share it until
// one of them interns something new; once shared it is never written again.
type tables struct {
	shared  atomic.Bool
	metas   []Meta
	classes []classes // of metas[i]
	names   []int32   // of metas[i]: a number for its name
	invalid []string  // of metas[i]: why ops may not name it, or ""

	// Metadata with the same effect on permission is one class, so that the table of permissions
	// stays small even if every node has its own name.
	permitted   []bool // [pod class * stride + node class]
	stride      int
	podClasses  []int32 // an example of each class: index in metas
	nodeClasses []int32

	indexOf, nameOf, podClassOf, nodeClassOf map[string]int32
}

type classes struct{ pod, node int32 }

func newTables() *tables {
	return &tables{
		indexOf: map[string]int32{}, nameOf: map[string]int32{},
		podClassOf: map[string]int32{}, nodeClassOf: map[string]int32{},
	}
}

// clone returns a copy for writing. It shares the content of each Meta, which never changes.
func (t *tables) clone() *tables {
	return &tables{
		metas: slices.Clone(t.metas), classes: slices.Clone(t.classes),
		names: slices.Clone(t.names), invalid: slices.Clone(t.invalid),
		permitted: slices.Clone(t.permitted), stride: t.stride,
		podClasses: slices.Clone(t.podClasses), nodeClasses: slices.Clone(t.nodeClasses),
		indexOf: maps.Clone(t.indexOf), nameOf: maps.Clone(t.nameOf),
		podClassOf: maps.Clone(t.podClassOf), nodeClassOf: maps.Clone(t.nodeClassOf),
	}
}

// permits reports whether a pod with metadata p may be on a node with metadata n.
func (t *tables) permits(p, n int32) bool {
	return t.permitted[int(t.classes[p].pod)*t.stride+int(t.classes[n].node)]
}

// row returns whether a pod with metadata p may be on a node, by the node's class.
func (t *tables) row(p int32) []bool {
	return t.permitted[int(t.classes[p].pod)*t.stride:][:t.stride]
}

// add appends m, which must be in canonical form and not yet there.
func (t *tables) add(m *Meta, key string) int32 {
	i := int32(len(t.metas))
	t.metas = append(t.metas, *m)
	t.indexOf[key] = i
	t.invalid = append(t.invalid, m.invalid())
	t.names = append(t.names, number(t.nameOf, m.Name))
	c := classes{number(t.podClassOf, string(m.appendPodKey(nil))), number(t.nodeClassOf, string(m.appendNodeKey(nil)))}
	t.classes = append(t.classes, c)
	if int(c.node) == len(t.nodeClasses) {
		t.nodeClasses = append(t.nodeClasses, i)
		if len(t.nodeClasses) > t.stride {
			t.widen(max(8, 2*t.stride))
		}
		for pc, p := range t.podClasses {
			t.permitted[pc*t.stride+int(c.node)] = m.refuses(&t.metas[p]) == ""
		}
	}
	if int(c.pod) == len(t.podClasses) {
		t.podClasses = append(t.podClasses, i)
		row := len(t.permitted)
		t.permitted = append(t.permitted, make([]bool, t.stride)...)
		for nc, n := range t.nodeClasses {
			t.permitted[row+nc] = t.metas[n].refuses(m) == ""
		}
	}
	return i
}

// widen gives each row of permitted room for stride node classes.
func (t *tables) widen(stride int) {
	wide := make([]bool, len(t.podClasses)*stride)
	for pc := range t.podClasses {
		copy(wide[pc*stride:], t.permitted[pc*t.stride:(pc+1)*t.stride])
	}
	t.permitted, t.stride = wide, stride
}

// number returns the number of key; a new key gets the next free one.
func number(m map[string]int32, key string) int32 {
	i, ok := m[key]
	if !ok {
		i = int32(len(m))
		m[key] = i
	}
	return i
}

// Intern returns the index of m in the table of metadata. It enters a copy of m if there is no
// equal entry, so equal content has equal indices. The order of labels, taints, tolerations and
// models does not matter. Entries stay for the life of the State, through Reset too. Intern accepts
// everything; an op that names metadata which Kubernetes would reject is [ErrInvalid]. Intern
// allocates nothing if m is in sorted order and has an entry.
func (s *State) Intern(m Meta) int32 {
	if !m.isCanonical() {
		m = m.canonical()
	}
	s.scratch = m.appendNodeKey(m.appendPodKey(appendString(s.scratch[:0], m.Name)))
	if i, ok := s.tab.indexOf[string(s.scratch)]; ok {
		return i
	}
	if s.tab.shared.Load() {
		s.tab = s.tab.clone()
	}
	m = m.canonical() // a copy: the caller keeps its slices
	return s.tab.add(&m, string(s.scratch))
}

// Meta returns entry i of the table of metadata, in sorted order. Its slices must not be
// changed. Meta panics if there is no such entry.
func (s *State) Meta(i int32) Meta { return s.tab.metas[i] }

// NumMetas returns the number of entries in the table of metadata.
func (s *State) NumMetas() int { return len(s.tab.metas) }

func (m *Meta) appendPodKey(b []byte) []byte {
	b = appendLabels(b, m.NodeSelector)
	b = binary.AppendUvarint(b, uint64(len(m.Tolerations)))
	for i := range m.Tolerations {
		t := &m.Tolerations[i]
		b = appendString(appendString(appendString(appendString(b, t.Key), string(t.Operator)), t.Value), string(t.Effect))
	}
	b = binary.AppendUvarint(b, uint64(len(m.GPUModels)))
	for _, g := range m.GPUModels {
		b = appendString(b, g)
	}
	return b
}

func (m *Meta) appendNodeKey(b []byte) []byte {
	b = appendLabels(b, m.Labels)
	b = binary.AppendUvarint(b, uint64(len(m.Taints)))
	for i := range m.Taints {
		t := &m.Taints[i]
		b = appendString(appendString(appendString(b, t.Key), t.Value), string(t.Effect))
	}
	return appendString(b, m.GPUModel)
}

func appendLabels(b []byte, labels []Label) []byte {
	b = binary.AppendUvarint(b, uint64(len(labels)))
	for i := range labels {
		b = appendString(appendString(b, labels[i].Key), labels[i].Value)
	}
	return b
}

func appendString(b []byte, s string) []byte {
	return append(binary.AppendUvarint(b, uint64(len(s))), s...)
}

// canonical returns a copy of m that shares no memory with it, sorted and without repeats.
func (m *Meta) canonical() Meta {
	return Meta{
		Name: m.Name, GPUModel: m.GPUModel,
		Labels: canonicalLabels(m.Labels), NodeSelector: canonicalLabels(m.NodeSelector),
		Taints: sorted(m.Taints, compareTaints), Tolerations: sorted(m.Tolerations, compareTolerations),
		GPUModels: sorted(m.GPUModels, cmp.Compare[string]),
	}
}

func (m *Meta) isCanonical() bool {
	return strictly(m.Labels, compareKeys) && strictly(m.NodeSelector, compareKeys) &&
		strictly(m.Taints, compareTaints) && strictly(m.Tolerations, compareTolerations) &&
		strictly(m.GPUModels, cmp.Compare[string])
}

func strictly[E any](a []E, compare func(a, b E) int) bool {
	for i := 1; i < len(a); i++ {
		if compare(a[i-1], a[i]) >= 0 {
			return false
		}
	}
	return true
}

func sorted[E comparable](a []E, compare func(a, b E) int) []E {
	if len(a) == 0 {
		return nil
	}
	a = slices.Clone(a)
	slices.SortFunc(a, compare)
	return slices.Compact(a)
}

// canonicalLabels keeps the last of equal keys, as a map would.
func canonicalLabels(labels []Label) []Label {
	if len(labels) == 0 {
		return nil
	}
	a := slices.Clone(labels)
	slices.Reverse(a)
	slices.SortStableFunc(a, compareKeys)
	return slices.CompactFunc(a, func(a, b Label) bool { return a.Key == b.Key })
}

func compareKeys(a, b Label) int { return cmp.Compare(a.Key, b.Key) }

func compareTaints(a, b Taint) int {
	return cmp.Or(cmp.Compare(a.Key, b.Key), cmp.Compare(a.Effect, b.Effect), cmp.Compare(a.Value, b.Value))
}

func compareTolerations(a, b Toleration) int {
	return cmp.Or(cmp.Compare(a.Key, b.Key), cmp.Compare(a.Operator, b.Operator),
		cmp.Compare(a.Value, b.Value), cmp.Compare(a.Effect, b.Effect))
}
