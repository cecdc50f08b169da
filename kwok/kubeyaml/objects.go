package kubeyaml

import (
	"cmp"
	"encoding/json"
	"errors"
	"fmt"
	"slices"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/labels"
	"k8s.io/apimachinery/pkg/types"

	"github.com/kubernasium/kubernasium/envs/podsched/gpushare"
)

const (
	wholeGPU = 1000
	bytesMiB = 1 << 20
)

// Workload holds the arguments of gpushare.Simulate except the profiles.
type Workload struct {
	Nodes []gpushare.Node
	Pods  []gpushare.Request // by priority, then in the order of the files
	// Objects holds the object of each pod, also of the workloads' pods, with requests that default to limits.
	Objects []*corev1.Pod
	// Schedulers lists the schedulers that the pods name; Request.Profile is an index into it.
	Schedulers []string
	// Types holds the typical future pods, if the objects state them; see SimulationOptions.
	Types []gpushare.Pod
}

// HasGPU reports whether a pod requests a GPU.
func (w *Workload) HasGPU() bool {
	return slices.ContainsFunc(w.Pods, func(p gpushare.Request) bool { return p.GPUs > 0 })
}

// Workload converts the objects for the simulation: its Pods, and the pods of its Deployments, ReplicaSets,
// ReplicationControllers, StatefulSets, Jobs, CronJobs and DaemonSets. It omits pods that have succeeded or
// failed.
func (o *Objects) Workload() (*Workload, error) {
	if len(o.Nodes) == 0 {
		return nil, errors.New("no Node")
	}
	c := converter{objects: o, w: &Workload{Types: o.types}, index: map[string]int{}}
	for i := range o.Nodes {
		n, err := node(&o.Nodes[i])
		if err != nil {
			return nil, fmt.Errorf("node %s: %w", o.Nodes[i].Name, err)
		}
		if _, ok := c.index[n.Name]; ok {
			return nil, fmt.Errorf("node %s is there twice", n.Name)
		}
		c.index[n.Name] = i
		c.nodes = append(c.nodes, &o.Nodes[i])
		c.w.Nodes = append(c.w.Nodes, n)
	}
	pods, err := o.expand()
	if err != nil {
		return nil, err
	}
	order := make([]*corev1.Pod, 0, len(pods))
	for _, p := range pods {
		if active(p) {
			order = append(order, defaulted(p))
		}
	}
	slices.SortStableFunc(order, func(a, b *corev1.Pod) int { return cmp.Compare(priority(b), priority(a)) })
	for _, p := range order {
		if err := c.collect(p); err != nil {
			return nil, fmt.Errorf("pod %s: %w", podName(p), err)
		}
	}
	for _, p := range order {
		r, err := c.pod(p)
		if err != nil {
			return nil, fmt.Errorf("pod %s: %w", podName(p), err)
		}
		c.w.Pods = append(c.w.Pods, r)
	}
	c.w.Objects = order
	return c.w, nil
}

// defaulted returns a copy of p with the API server's defaults: a UID, and requests from limits.
func defaulted(p *corev1.Pod) *corev1.Pod {
	p = p.DeepCopy()
	if p.UID == "" {
		p.UID = types.UID(hash(uidDigits, parent{kind: "Pod", meta: &p.ObjectMeta}, 0))
	}
	for _, containers := range [][]corev1.Container{p.Spec.InitContainers, p.Spec.Containers} {
		for i := range containers {
			r := &containers[i].Resources
			for name, limit := range r.Limits {
				if _, ok := r.Requests[name]; !ok {
					if r.Requests == nil {
						r.Requests = corev1.ResourceList{}
					}
					r.Requests[name] = limit
				}
			}
		}
	}
	return p
}

func priority(p *corev1.Pod) int32 {
	if p.Spec.Priority == nil {
		return 0
	}
	return *p.Spec.Priority
}

func podName(p *corev1.Pod) string {
	return cmp.Or(p.Namespace, corev1.NamespaceDefault) + "/" + p.Name
}

// node reads a node.
func node(n *corev1.Node) (gpushare.Node, error) {
	r, err := Allocatable(n)
	out := gpushare.Node{
		Name: n.Name, MilliCPU: r.Resources.MilliCPU, MemoryMiB: r.Resources.MemoryBytes / bytesMiB,
		MaxPods: r.MaxPods, GPUs: r.GPUs, Model: r.Model,
	}
	if err == nil && out.MemoryMiB == 0 {
		err = errors.New("status.allocatable has no MiB of memory")
	}
	out.MaxPods = cmp.Or(out.MaxPods, -1) // none; the simulation's default is 0
	return out, err
}

// converter turns pods into requests.
type converter struct {
	objects   *Objects
	nodes     []*corev1.Node
	w         *Workload
	index     map[string]int // index of nodes by name
	selectors []counter
	byKey     map[string]int32
}

// counter is a set of pods that a spread constraint counts.
type counter struct {
	namespace, owner string
	selector         labels.Selector
}

func (k *counter) counts(p *corev1.Pod) bool {
	if cmp.Or(p.Namespace, corev1.NamespaceDefault) != k.namespace {
		return false
	}
	if k.selector != nil {
		return k.selector.Matches(labels.Set(p.Labels))
	}
	return owner(p) == k.owner
}

// owner returns the controller of a pod, or "".
func owner(p *corev1.Pod) string {
	if ref := metav1.GetControllerOf(p); ref != nil {
		return ref.Kind + "/" + ref.Name
	}
	return ""
}

// collect adds the counters of a pod's constraints, and rejects constraints that the simulation does not
// support.
func (c *converter) collect(p *corev1.Pod) error {
	if a := p.Spec.Affinity; a != nil && (a.PodAffinity != nil || a.PodAntiAffinity != nil) {
		return errors.New("inter-pod affinity is not simulated")
	}
	ns := cmp.Or(p.Namespace, corev1.NamespaceDefault)
	for _, sc := range p.Spec.TopologySpreadConstraints {
		if sc.WhenUnsatisfiable != corev1.ScheduleAnyway {
			return fmt.Errorf("a topology spread constraint is %s, and only %s is simulated", sc.WhenUnsatisfiable, corev1.ScheduleAnyway)
		}
		sel, err := metav1.LabelSelectorAsSelector(sc.LabelSelector)
		if err != nil {
			return err
		}
		c.counter(ns+" "+sel.String(), counter{namespace: ns, selector: sel})
	}
	if o := owner(p); o != "" && len(p.Spec.TopologySpreadConstraints) == 0 {
		c.counter(ns+" "+o, counter{namespace: ns, owner: o})
	}
	return nil
}

func (c *converter) counter(key string, k counter) {
	if c.byKey == nil {
		c.byKey = map[string]int32{}
	}
	if _, ok := c.byKey[key]; !ok {
		c.byKey[key] = int32(len(c.selectors))
		c.selectors = append(c.selectors, k)
	}
}

// pod reads a pod.
func (c *converter) pod(p *corev1.Pod) (gpushare.Request, error) {
	r := gpushare.Request{Name: podName(p), Node: -1, Profile: c.profile(p)}
	c.requests(p, &r)
	var err error
	if r.GPUs, r.MilliGPU, r.Models, err = GPUs(p); err != nil {
		return r, err
	}
	if p.Spec.NodeName != "" {
		i, ok := c.index[p.Spec.NodeName]
		if !ok {
			return r, fmt.Errorf("is bound to node %q, which is not there", p.Spec.NodeName)
		}
		r.Node = i
		if r.Devices, err = Devices(p); err != nil {
			return r, err
		}
	}
	if err := c.constraints(p, &r); err != nil {
		return r, err
	}
	return r, c.group(&r)
}

// profile returns the index of the scheduler that p names.
func (c *converter) profile(p *corev1.Pod) int {
	name := cmp.Or(p.Spec.SchedulerName, corev1.DefaultSchedulerName)
	i := slices.Index(c.w.Schedulers, name)
	if i < 0 {
		i = len(c.w.Schedulers)
		c.w.Schedulers = append(c.w.Schedulers, name)
	}
	return i
}

// requests reads CPU and memory.
func (c *converter) requests(p *corev1.Pod, r *gpushare.Request) {
	stated, counted := Requests(p)
	r.MilliCPU, r.MemoryMiB = stated.MilliCPU, mebibytes(stated.MemoryBytes)
	r.ExtraMilliCPU, r.ExtraMemoryMiB = counted.MilliCPU-r.MilliCPU, mebibytes(counted.MemoryBytes)-r.MemoryMiB
}

// mebibytes rounds up.
func mebibytes(n int64) int64 { return (n + bytesMiB - 1) / bytesMiB }

// group gives equal keys to pods that the scheduler cannot distinguish.
func (c *converter) group(r *gpushare.Request) error {
	alike := *r
	alike.Name, alike.Node, alike.Devices = "", 0, nil
	key, err := json.Marshal(alike)
	if err != nil {
		return fmt.Errorf("compare with others: %w", err)
	}
	r.Group = string(key)
	return nil
}
