package filters

import (
	"maps"
	"slices"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/labels"
	corelisters "k8s.io/client-go/listers/core/v1"
	storagelisters "k8s.io/client-go/listers/storage/v1"
	corev1helpers "k8s.io/component-helpers/scheduling/corev1"
	"k8s.io/component-helpers/scheduling/corev1/nodeaffinity"
	"k8s.io/klog/v2"
)

// Why a node is closed to a pod: what [Check.Refusal] returns.
const (
	NoAffinity     = "pod affinity not matched"
	NotApart       = "pod anti-affinity not matched"
	ThereApart     = "anti-affinity of pods that are there"
	NoSpreadLabel  = "without a label of a topology spread constraint"
	TooManyThere   = "topology spread constraint not matched"
	PortTaken      = "host port taken"
	VolumeAffinity = "node affinity of a volume not matched"
	VolumeZone     = "volume in another zone"
	ClaimInUse     = "claim ReadWriteOncePod in use by another pod"
)

// Listers are what a Check asks of the cluster beside nodes and pods.
type Listers struct {
	Namespaces corelisters.NamespaceLister
	Claims     corelisters.PersistentVolumeClaimLister
	Volumes    corelisters.PersistentVolumeLister
	Classes    storagelisters.StorageClassLister
}

// Check answers where one pod may run. It is not safe for concurrent use.
type Check struct {
	pod     *Pod
	listers Listers
	spaces  map[string]labels.Set // labels of namespaces that were looked up

	against map[domain]int // anti-affinity terms of pods there that select the pod, by topology
	near    map[domain]int // its affinity terms, of pods there that all of them select
	apart   map[domain]int // its anti-affinity terms that select pods there
	spread  []spread
	used    map[string][]port                        // host ports by node
	others  map[string]map[corev1.ResourceName]int64 // requests of pods there by node
	volumes []*corev1.PersistentVolume
	single  []string // claims that are for one pod
	inUse   int      // of these, by pods there
}

// domain is the nodes with one value of a label.
type domain struct{ key, value string }

// spread counts the pods that a constraint spreads.
type spread struct {
	constraint
	eligible map[string]string // nodes that count, with their domain
	count    map[string]int    // pods by domain; every domain with a node that counts is there
	self     int               // 1 if the pod counts
	lowest   int               // of count, where known
	known    bool
}

// New returns a Check for a pod on a cluster of these nodes, by name, with no pods yet. The error tells why
// the pod can run nowhere: a volume that is not there, not bound, or not of a kind that is seen to.
func New(p *Pod, nodes map[string]*corev1.Node, l Listers) (*Check, error) {
	c := &Check{
		pod: p, listers: l, spaces: map[string]labels.Set{}, against: map[domain]int{}, near: map[domain]int{}, apart: map[domain]int{},
		used: map[string][]port{}, others: map[string]map[corev1.ResourceName]int64{},
	}
	for _, k := range p.spread {
		c.spread = append(c.spread, c.domains(k, nodes))
	}
	return c, c.bind()
}

// domains returns the empty domains of a constraint.
func (c *Check) domains(k constraint, nodes map[string]*corev1.Node) spread {
	s := spread{constraint: k, eligible: map[string]string{}, count: map[string]int{}}
	if k.selector.Matches(labels.Set(c.pod.Labels)) {
		s.self = 1
	}
	required := nodeaffinity.GetRequiredNodeAffinity(c.pod.Pod)
	for name, n := range nodes {
		if slices.ContainsFunc(c.pod.spread, func(k constraint) bool { _, ok := n.Labels[k.key]; return !ok }) {
			continue
		}
		if k.honor {
			if match, _ := required.Match(n); !match { // as upstream, terms that cannot be read match nothing
				continue
			}
		}
		if k.honorsTaints && !tolerates(c.pod.Pod, n) {
			continue
		}
		s.eligible[name] = n.Labels[k.key]
		s.count[n.Labels[k.key]] += 0
	}
	return s
}

func tolerates(p *corev1.Pod, n *corev1.Node) bool {
	_, untolerated := corev1helpers.FindMatchingUntoleratedTaint(klog.Background(), n.Spec.Taints, p.Spec.Tolerations,
		func(t *corev1.Taint) bool { return t.Effect != corev1.TaintEffectPreferNoSchedule }, false)
	return !untolerated
}

// Minds reports whether it matters to the pod that q is where it is. It costs next to nothing, and spares a
// caller with many pods from looking up their nodes.
func (c *Check) Minds(q *Pod) bool {
	return q.apart != nil || c.pod.Social() || c.pod.ports != nil && q.ports != nil || c.single != nil && q.claims != nil ||
		c.pod.others != nil && q.others != nil
}

// Add takes in that q is on node n, and Remove that it no longer is. Neither is called for the pod itself.
func (c *Check) Add(q *Pod, n *corev1.Node) { c.count(q, n, 1) }

// Remove takes out what Add took in.
func (c *Check) Remove(q *Pod, n *corev1.Node) { c.count(q, n, -1) }

func (c *Check) count(q *Pod, n *corev1.Node, by int) {
	in := func(counts map[domain]int, key string) {
		if value, ok := n.Labels[key]; ok {
			counts[domain{key, value}] += by
		}
	}
	for i := range q.apart {
		if q.apart[i].matches(c.pod.Pod, c.labelsOf) {
			in(c.against, q.apart[i].key)
		}
	}
	for i := range c.pod.apart {
		if c.pod.apart[i].matches(q.Pod, c.labelsOf) {
			in(c.apart, c.pod.apart[i].key)
		}
	}
	if selectsAll(c.pod.affinity, q.Pod, c.labelsOf) {
		for i := range c.pod.affinity {
			in(c.near, c.pod.affinity[i].key)
		}
	}
	c.countSpread(q, n, by)
	c.countPorts(q, n, by)
	c.countOthers(q, n, by)
	for _, k := range q.claims {
		if q.Namespace == c.pod.Namespace && slices.Contains(c.single, k.name) {
			c.inUse += by
		}
	}
}

func selectsAll(terms []term, p *corev1.Pod, labelsOf func(string) labels.Set) bool {
	for i := range terms {
		if !terms[i].matches(p, labelsOf) {
			return false
		}
	}
	return len(terms) > 0
}

// countSpread counts q where a constraint spreads it. Pods that end do not count, and neither does, as in
// kube-scheduler, any pod where the selector is empty.
func (c *Check) countSpread(q *Pod, n *corev1.Node, by int) {
	if q.Namespace != c.pod.Namespace || q.DeletionTimestamp != nil {
		return
	}
	for i := range c.spread {
		s := &c.spread[i]
		if value, ok := s.eligible[n.Name]; ok && !s.selector.Empty() && s.selector.Matches(labels.Set(q.Labels)) {
			s.count[value] += by
			s.known = false
		}
	}
}

func (c *Check) countPorts(q *Pod, n *corev1.Node, by int) {
	if c.pod.ports == nil {
		return
	}
	for _, p := range q.ports {
		if by > 0 {
			c.used[n.Name] = append(c.used[n.Name], p)
		} else if i := slices.Index(c.used[n.Name], p); i >= 0 {
			c.used[n.Name] = slices.Delete(c.used[n.Name], i, i+1)
		}
	}
}

func (c *Check) countOthers(q *Pod, n *corev1.Node, by int) {
	for name := range c.pod.others {
		if amount := q.others[name]; amount > 0 {
			if c.others[n.Name] == nil {
				c.others[n.Name] = map[corev1.ResourceName]int64{}
			}
			c.others[n.Name][name] += int64(by) * amount
		}
	}
}

// labelsOf returns the labels of a namespace; none where it is not known.
func (c *Check) labelsOf(namespace string) labels.Set {
	set, ok := c.spaces[namespace]
	if !ok {
		if ns, err := c.listers.Namespaces.Get(namespace); err == nil {
			set = ns.Labels
		}
		c.spaces[namespace] = set
	}
	return set
}

// Refusal returns why the pod may not run on a node, or "": one of the constants, or "Insufficient" and the
// name of a resource.
func (c *Check) Refusal(n *corev1.Node) string {
	for name, want := range c.pod.others {
		have := n.Status.Allocatable[name]
		if want > have.Value()-c.others[n.Name][name] {
			return "Insufficient " + string(name)
		}
	}
	for _, p := range c.pod.ports {
		if slices.ContainsFunc(c.used[n.Name], p.conflicts) {
			return PortTaken
		}
	}
	if c.inUse > 0 {
		return ClaimInUse
	}
	if why := c.refusalOfVolumes(n); why != "" {
		return why
	}
	if why := c.refusalOfSpread(n); why != "" {
		return why
	}
	return c.refusalOfAffinity(n)
}

func (c *Check) refusalOfSpread(n *corev1.Node) string {
	for i := range c.spread {
		s := &c.spread[i]
		value, ok := n.Labels[s.key]
		if !ok {
			return NoSpreadLabel
		}
		if s.count[value]+s.self-s.least() > s.maxSkew {
			return TooManyThere
		}
	}
	return ""
}

// least returns the number of pods in the domain with the fewest; 0 if there are too few domains.
func (s *spread) least() int {
	if !s.known { // nodes may be as many domains, and each of them asks
		s.lowest, s.known = 0, true
		if len(s.count) >= s.minDomains && len(s.count) > 0 {
			s.lowest = slices.Min(slices.Collect(maps.Values(s.count)))
		}
	}
	return s.lowest
}

func (c *Check) refusalOfAffinity(n *corev1.Node) string {
	met := true
	for i := range c.pod.affinity {
		key := c.pod.affinity[i].key
		value, ok := n.Labels[key]
		if !ok {
			return NoAffinity
		}
		met = met && c.near[domain{key, value}] > 0
	}
	// The first of pods that want to be near each other may run anywhere.
	if !met && (anywhere(c.near) || !selectsAll(c.pod.affinity, c.pod.Pod, c.labelsOf)) {
		return NoAffinity
	}
	for i := range c.pod.apart {
		key := c.pod.apart[i].key
		if value, ok := n.Labels[key]; ok && c.apart[domain{key, value}] > 0 {
			return NotApart
		}
	}
	for at, count := range c.against {
		if value, ok := n.Labels[at.key]; ok && value == at.value && count > 0 {
			return ThereApart
		}
	}
	return ""
}

func anywhere(counts map[domain]int) bool {
	for _, n := range counts {
		if n > 0 {
			return true
		}
	}
	return false
}
