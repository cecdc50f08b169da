package scheduler

import (
	"cmp"
	"fmt"
	"maps"
	"slices"
	"strconv"
	"sync"
	"time"

	corev1 "k8s.io/api/core/v1"
	apiequality "k8s.io/apimachinery/pkg/api/equality"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/labels"
	"k8s.io/apimachinery/pkg/types"

	"github.com/kubernasium/kubernasium/envs/cluster"
	"github.com/kubernasium/kubernasium/envs/podsched/kubescore"
	"github.com/kubernasium/kubernasium/kwok"
	"github.com/kubernasium/kubernasium/kwok/filters"
	"github.com/kubernasium/kubernasium/kwok/kubeyaml"
)

// cache is what the informers show, with the placements that they do not show yet: a pod is
// assumed to be on its node from the decision on.
type cache struct {
	selector       labels.Selector // of nodes that count
	allowRealNodes bool
	listers        filters.Listers
	assumeFor      time.Duration
	now            func() time.Time

	mu    sync.Mutex
	nodes map[string]*corev1.Node // all: pods on those that do not count have their terms too
	pods  map[types.UID]*podInfo
	seq   uint64   // of pods without a resource version
	base  *nodeSet // nil when nodes have changed
}

// podInfo is a pod with what is read of it once.
type podInfo struct {
	*corev1.Pod
	seq             uint64 // of its arrival; see arrival
	stated, counted cluster.Resources
	gpus, milli     int32
	models          string
	rules           *filters.Pod
	unreadable      error

	told  bool // the informers have shown it; else it is known from a request
	going bool // it ends, or is evicted, which the informers may not show yet

	node    string    // that it is bound to, or assumed to be; "" is none
	devices uint64    // that it is known to have there
	until   time.Time // when the assumption ends; zero: the API server says so
}

func newCache(selector labels.Selector, allowRealNodes bool, assumeFor time.Duration) *cache {
	return &cache{
		selector: selector, allowRealNodes: allowRealNodes, assumeFor: assumeFor, now: time.Now,
		nodes: map[string]*corev1.Node{}, pods: map[types.UID]*podInfo{},
	}
}

// readPod reads a pod.
func readPod(p *corev1.Pod) *podInfo {
	i := &podInfo{Pod: p, node: p.Spec.NodeName, going: p.DeletionTimestamp != nil}
	i.stated, i.counted = kubeyaml.Requests(p)
	i.gpus, i.milli, i.models, i.unreadable = kubeyaml.GPUs(p)
	devices, err := kubeyaml.Devices(p)
	var invalid error
	if i.rules, invalid = filters.Read(p); invalid != nil {
		i.rules, i.unreadable = &filters.Pod{Pod: p}, invalid
	}
	switch {
	case i.unreadable != nil:
	case i.gpus > 0 && (i.milli < 1 || i.milli > cluster.MaxMilliGPU):
		i.unreadable = fmt.Errorf("requests %d thousandths of each GPU, want 1 to %d", i.milli, cluster.MaxMilliGPU)
	default:
		i.unreadable = err
	}
	for _, d := range devices {
		i.devices |= 1 << d
	}
	return i
}

// extra returns what policies count for the pod beyond its requests. A pod that states 0 counts as one
// that states nothing, unlike to kube-scheduler: else a policy would put any number of them on one node.
func (i *podInfo) extra() (extra cluster.Resources) {
	extra.MilliCPU = max(0, i.counted.MilliCPU-i.stated.MilliCPU)
	if i.counted.MilliCPU == 0 {
		extra.MilliCPU = kubescore.DefaultMilliCPURequest
	}
	extra.MemoryBytes = max(0, i.counted.MemoryBytes-i.stated.MemoryBytes)
	if i.counted.MemoryBytes == 0 {
		extra.MemoryBytes = kubescore.DefaultMemoryRequestBytes
	}
	return extra
}

func (i *podInfo) priority() int32 {
	if i.Spec.Priority == nil {
		return 0
	}
	return *i.Spec.Priority
}

func ended(p *corev1.Pod) bool {
	return p.Status.Phase == corev1.PodSucceeded || p.Status.Phase == corev1.PodFailed
}

// setNode enters what the API server says of a node, and reports whether something has changed
// that matters: a heartbeat does not.
func (c *cache) setNode(n *corev1.Node) (changed bool) {
	c.mu.Lock()
	defer c.mu.Unlock()
	if old := c.nodes[n.Name]; old != nil && alike(old, n) {
		return false
	}
	c.nodes[n.Name], c.base = n, nil
	return true
}

// counts reports whether pods are to be placed on the node.
func (c *cache) counts(n *corev1.Node) bool {
	return c.selector.Matches(labels.Set(n.Labels)) && (c.allowRealNodes || kwok.Simulated(n))
}

// alike reports whether two states of a node are the same to every pod.
func alike(a, b *corev1.Node) bool {
	same := apiequality.Semantic.DeepEqual
	return notReady(a) == notReady(b) && maps.Equal(a.Labels, b.Labels) && maps.Equal(a.Annotations, b.Annotations) && same(a.Spec, b.Spec) &&
		same(a.Status.Allocatable, b.Status.Allocatable) && same(a.Status.Capacity, b.Status.Capacity) && same(a.Status.Images, b.Status.Images)
}

func (c *cache) deleteNode(name string) {
	c.mu.Lock()
	defer c.mu.Unlock()
	delete(c.nodes, name)
	c.base = nil
}

// knows reports whether all of the nodes are known, and ready.
func (c *cache) knows(nodes []string) bool {
	c.mu.Lock()
	defer c.mu.Unlock()
	return !slices.ContainsFunc(nodes, func(name string) bool {
		n := c.nodes[name]
		return n == nil || notReady(n)
	})
}

// setPod enters what the API server says of a pod, and reports what of it may matter to the terms of others: that
// it has a node now, or other labels on its node. An assumption stays until it says a node.
func (c *cache) setPod(p *corev1.Pod) (placed, relabelled bool) {
	c.mu.Lock()
	defer c.mu.Unlock()
	if ended(p) {
		delete(c.pods, p.UID)
		return false, false
	}
	i, old := readPod(p), c.pods[p.UID]
	i.told = true
	if old == nil {
		i.seq = c.arrival(p)
	} else {
		i.seq, i.going = old.seq, i.going || old.going
		switch {
		case i.node == "":
			i.node, i.devices, i.until = old.node, old.devices, old.until
		case i.node == old.node && i.devices == 0:
			i.devices = old.devices
		}
	}
	c.pods[p.UID] = i
	placed = i.node != "" && (old == nil || old.node != i.node)
	return placed, i.node != "" && old != nil && !maps.Equal(old.Labels, i.Labels)
}

// rules returns what of the pod matters to package filters; nil if it is gone.
func (c *cache) rules(uid types.UID) *filters.Pod {
	c.mu.Lock()
	defer c.mu.Unlock()
	if i := c.pods[uid]; i != nil {
		return i.rules
	}
	return nil
}

// arrival returns a number by which pods that are seen for the first time are ordered: the resource
// version, which of a pod that nobody has changed tells when it was created. Informers give their
// first list in no order.
func (c *cache) arrival(p *corev1.Pod) uint64 {
	if version, err := strconv.ParseUint(p.ResourceVersion, 10, 64); err == nil {
		return version
	}
	c.seq++
	return c.seq
}

func (c *cache) deletePod(uid types.UID) {
	c.mu.Lock()
	defer c.mu.Unlock()
	delete(c.pods, uid)
}

// assume notes that a pod goes to a node. It returns false if the node or the pod is gone, or the
// pod is bound already.
func (c *cache) assume(p *corev1.Pod, node string, devices uint64) bool {
	c.mu.Lock()
	defer c.mu.Unlock()
	i := c.pods[p.UID]
	if _, ok := c.nodes[node]; !ok || i == nil || i.Spec.NodeName != "" {
		return false
	}
	i.node, i.devices, i.until = node, devices, c.now().Add(c.assumeFor)
	return true
}

// assumeAsked is assume for a pod of a request, which the informers may not have shown yet.
func (c *cache) assumeAsked(p *corev1.Pod, node string, devices uint64) {
	c.mu.Lock()
	if i := c.pods[p.UID]; i == nil || !i.told {
		i := readPod(p)
		i.seq = c.arrival(p)
		c.pods[p.UID] = i
	}
	c.mu.Unlock()
	c.assume(p, node, devices)
}

// evicted notes that the eviction of a pod was granted. Its budget may show that before the pod does.
func (c *cache) evicted(uid types.UID) {
	c.mu.Lock()
	defer c.mu.Unlock()
	if i := c.pods[uid]; i != nil {
		i.going = true
	}
}

// forget takes an assumption back.
func (c *cache) forget(uid types.UID) {
	c.mu.Lock()
	defer c.mu.Unlock()
	if i := c.pods[uid]; i != nil && i.Spec.NodeName == "" {
		i.node, i.devices, i.until = "", 0, time.Time{}
	}
}

// pod returns the present pod, which must not be changed, and whether it waits for a node.
func (c *cache) pod(uid types.UID) (p *corev1.Pod, waits bool) {
	c.mu.Lock()
	defer c.mu.Unlock()
	i := c.pods[uid]
	if i == nil {
		return nil, false
	}
	c.expire(i)
	return i.Pod, i.node == ""
}

func (c *cache) expire(i *podInfo) {
	if !i.until.IsZero() && c.now().After(i.until) {
		i.node, i.devices, i.until = "", 0, time.Time{}
		if !i.told {
			delete(c.pods, i.UID)
		}
	}
}

// order returns what decides when the pod has its turn.
func (c *cache) order(uid types.UID) turn {
	c.mu.Lock()
	defer c.mu.Unlock()
	i := c.pods[uid]
	if i == nil {
		return turn{}
	}
	return turn{priority: i.priority(), created: i.CreationTimestamp.Time, seq: i.seq}
}

// waiting returns the pods of a scheduler that wait for a node, in the order of their arrival.
func (c *cache) waiting(scheduler string) []types.UID {
	c.mu.Lock()
	defer c.mu.Unlock()
	var all []types.UID
	for _, i := range c.sorted() {
		if i.node == "" && i.Spec.SchedulerName == scheduler {
			all = append(all, i.UID)
		}
	}
	return all
}

// sorted returns the pods in the order of their arrival.
func (c *cache) sorted() []*podInfo {
	all := make([]*podInfo, 0, len(c.pods))
	for _, i := range c.pods {
		if c.expire(i); i.told || i.node != "" {
			all = append(all, i)
		}
	}
	slices.SortFunc(all, func(a, b *podInfo) int { return cmp.Compare(a.seq, b.seq) })
	return all
}

// controller returns the UID of the pod's controller, or "".
func controller(p *corev1.Pod) types.UID {
	if ref := metav1.GetControllerOf(p); ref != nil {
		return ref.UID
	}
	return ""
}
