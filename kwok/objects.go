package kwok

import (
	"cmp"
	"fmt"
	"maps"
	"math"
	"math/bits"
	"slices"
	"strconv"
	"strings"
	"time"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/resource"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/kubernasium/kubernasium/envs/cluster"
	"github.com/kubernasium/kubernasium/kwok/metricsapi"
	"github.com/kubernasium/kubernasium/kwok/stages"
)

// Labels and annotations of the objects. Amounts have the units of [cluster.Op].
const (
	labelEnvironment = "kubernasium.io/environment" // of namespaces and nodes: the namespace of the environment

	annotationName     = "kubernasium.io/name"      // of nodes: their name in the State
	annotationGPUs     = "kubernasium.io/gpus"      // of nodes: number of devices; of pods: number requested
	annotationMilliGPU = "kubernasium.io/milli-gpu" // of nodes: capacity of each device; of pods: share requested of each
	annotationModel    = "kubernasium.io/gpu-model" // of nodes: model of the devices; of pods: accepted models, joined by commas
	annotationDevices  = "kubernasium.io/devices"   // of bound pods: indices of their devices, joined by commas
	annotationRunTime  = "kubernasium.io/run-time"  // of pods: how long they run by the environment's clock, such as 90s

	// annotationComplete is read by KWOK's stage pod-complete-after: how long the pod runs by KWOK's clock.
	// The Cluster sets it when the pod's duration has passed by the environment's clock.
	annotationComplete = stages.Duration
	completeNow        = "0s"

	// Usage, which KWOK's resource metrics and metrics.k8s.io read.
	annotationUsageCPU    = metricsapi.AnnotationCPU
	annotationUsageMemory = metricsapi.AnnotationMemory
)

const (
	container     = "main"        // of every pod
	schedulerName = "kubernasium" // of pods, so that no other scheduler binds them
	noPodLimit    = math.MaxInt32 // for a node without a limit
)

// A record is the part of an object that is compared: a podRecord or a nodeRecord.
type record any

type podRecord struct {
	Phase                   corev1.PodPhase
	Node                    string
	Requests, Limits, Usage cluster.Resources // usage of a running pod
	GPUs, MilliGPU          int64
	Devices                 string
	RunTime                 string
	Placement               string // node selector, tolerations, GPU models
}

type nodeRecord struct {
	Allocatable    cluster.Resources
	Pods           int64
	GPUs, MilliGPU int64
	Unschedulable  bool
	Ready          bool
	Properties     string // labels, taints, GPU model
}

// wantPod returns the expected record of pod i, or nil if the pod should not exist. Eviction removes a pod from
// the API; so do the deletion of its node, and garbage collection.
func (c *Cluster) wantPod(i int32) record {
	s := c.state
	p := &s.Pods[i]
	r := podRecord{
		Requests: p.Requests, Limits: p.Limits, GPUs: int64(p.GPUs), MilliGPU: int64(p.MilliGPU),
		RunTime: runTime(p.Duration), Devices: deviceList(p.Devices),
	}
	switch p.Phase {
	case cluster.Pending:
		r.Phase = corev1.PodPending
	case cluster.Running:
		r.Phase, r.Usage = corev1.PodRunning, p.Usage
	case cluster.Succeeded:
		r.Phase = corev1.PodSucceeded
	}
	if r.Phase == "" || p.Phase == cluster.Succeeded && s.Nodes[p.Node].Removed {
		return nil
	}
	if p.Node >= 0 {
		r.Node = c.nodeName(p.Node)
	}
	m := s.Meta(p.Meta)
	r.Placement = described(m.NodeSelector, m.Tolerations, strings.Join(m.GPUModels, ","))
	return r
}

// wantNode returns the expected record of node i, or nil if the node should not exist.
func (c *Cluster) wantNode(i int32) record {
	n := &c.state.Nodes[i]
	if n.Removed {
		return nil
	}
	m := c.state.Meta(n.Meta)
	return nodeRecord{
		Allocatable: n.Allocatable, Pods: podLimit(n.MaxPods), GPUs: int64(n.NumDevices), MilliGPU: int64(n.MilliGPU),
		Unschedulable: n.Unschedulable, Ready: true, Properties: described(m.Labels, m.Taints, m.GPUModel),
	}
}

// podOf returns the manifest of pod i in its current state. A running pod is bound when it is created.
func (c *Cluster) podOf(i int32) *corev1.Pod {
	s := c.state
	p := &s.Pods[i]
	m := s.Meta(p.Meta)
	annotations := map[string]string{}
	if p.Duration > 0 {
		annotations[annotationRunTime] = runTime(p.Duration)
	}
	if p.GPUs > 0 {
		annotations[annotationGPUs] = strconv.Itoa(int(p.GPUs))
		annotations[annotationMilliGPU] = strconv.Itoa(int(p.MilliGPU))
	}
	if len(m.GPUModels) > 0 {
		annotations[annotationModel] = strings.Join(m.GPUModels, ",")
	}
	spec := corev1.PodSpec{
		SchedulerName: schedulerName, RestartPolicy: corev1.RestartPolicyNever,
		Containers: []corev1.Container{{Name: container, Image: "kubernasium.io/simulated", Resources: requirements(p)}},
	}
	for _, l := range m.NodeSelector {
		if spec.NodeSelector == nil {
			spec.NodeSelector = map[string]string{}
		}
		spec.NodeSelector[l.Key] = l.Value
	}
	for _, t := range m.Tolerations {
		spec.Tolerations = append(spec.Tolerations, corev1.Toleration{
			Key: t.Key, Operator: corev1.TolerationOperator(t.Operator), Value: t.Value, Effect: corev1.TaintEffect(t.Effect),
		})
	}
	if p.Phase == cluster.Running {
		spec.NodeName = c.nodeName(p.Node)
		if p.Devices != 0 {
			annotations[annotationDevices] = deviceList(p.Devices)
		}
		maps.Copy(annotations, usage(p.Usage))
	}
	return &corev1.Pod{
		ObjectMeta: metav1.ObjectMeta{Name: c.podNames[i], Namespace: c.namespace, Annotations: annotations,
			Labels: map[string]string{labelEnvironment: c.namespace}},
		Spec: spec,
	}
}

// nodeOf returns the manifest of node i.
func (c *Cluster) nodeOf(i int32) *corev1.Node {
	n := &c.state.Nodes[i]
	m := c.state.Meta(n.Meta)
	node := &corev1.Node{ObjectMeta: metav1.ObjectMeta{
		Name: c.nodeName(i), Labels: map[string]string{labelEnvironment: c.namespace},
		Annotations: map[string]string{nodeAnnotation: "fake", annotationName: m.Name},
	}}
	for _, l := range m.Labels {
		node.Labels[l.Key] = l.Value
	}
	for _, t := range m.Taints {
		node.Spec.Taints = append(node.Spec.Taints, corev1.Taint{Key: t.Key, Value: t.Value, Effect: corev1.TaintEffect(t.Effect)})
	}
	if n.NumDevices > 0 {
		node.Annotations[annotationGPUs] = strconv.Itoa(int(n.NumDevices))
		node.Annotations[annotationMilliGPU] = strconv.Itoa(int(n.MilliGPU))
	}
	if m.GPUModel != "" {
		node.Annotations[annotationModel] = m.GPUModel
	}
	amounts := amounts(n.Allocatable)
	amounts[corev1.ResourcePods] = *resource.NewQuantity(podLimit(n.MaxPods), resource.DecimalSI)
	node.Status.Allocatable, node.Status.Capacity = amounts, amounts
	return node
}

func podLimit(most int32) int64 {
	if most == 0 {
		return noPodLimit
	}
	return int64(most)
}

func amounts(r cluster.Resources) corev1.ResourceList {
	return corev1.ResourceList{
		corev1.ResourceCPU:    *resource.NewMilliQuantity(r.MilliCPU, resource.DecimalSI),
		corev1.ResourceMemory: *resource.NewQuantity(r.MemoryBytes, resource.BinarySI),
	}
}

// requirements returns the requests, zeros included, and the limits that are set.
func requirements(p *cluster.Pod) corev1.ResourceRequirements {
	r := corev1.ResourceRequirements{Requests: amounts(p.Requests), Limits: amounts(p.Limits)}
	if p.Limits.MilliCPU == 0 {
		delete(r.Limits, corev1.ResourceCPU)
	}
	if p.Limits.MemoryBytes == 0 {
		delete(r.Limits, corev1.ResourceMemory)
	}
	return r
}

func usage(u cluster.Resources) map[string]string {
	return map[string]string{
		annotationUsageCPU:    resource.NewMilliQuantity(u.MilliCPU, resource.DecimalSI).String(),
		annotationUsageMemory: resource.NewQuantity(u.MemoryBytes, resource.BinarySI).String(),
	}
}

// runTime formats a pod's duration as an annotation, "" for a pod that never completes.
func runTime(d time.Duration) string {
	if d == 0 {
		return ""
	}
	return d.String()
}

// deviceList returns the indices of the bits that are set, joined by commas.
func deviceList(devices uint64) string {
	var list []string
	for b := devices; b != 0; b &= b - 1 {
		list = append(list, strconv.Itoa(bits.TrailingZeros64(b)))
	}
	return strings.Join(list, ",")
}

// havePod returns the record of a pod in the API.
func havePod(p *corev1.Pod) podRecord {
	r := podRecord{Phase: p.Status.Phase, Node: p.Spec.NodeName, Devices: p.Annotations[annotationDevices], RunTime: p.Annotations[annotationRunTime]}
	for i := range p.Spec.Containers {
		res := &p.Spec.Containers[i].Resources
		r.Requests = r.Requests.Plus(listed(res.Requests))
		r.Limits = r.Limits.Plus(listed(res.Limits))
	}
	if r.Phase == corev1.PodRunning {
		r.Usage.MilliCPU = quantity(p.Annotations[annotationUsageCPU]).MilliValue()
		r.Usage.MemoryBytes = quantity(p.Annotations[annotationUsageMemory]).Value()
	}
	r.GPUs, r.MilliGPU = number(p.Annotations[annotationGPUs]), number(p.Annotations[annotationMilliGPU])
	var selector []cluster.Label
	for k, v := range p.Spec.NodeSelector {
		selector = append(selector, cluster.Label{Key: k, Value: v})
	}
	var tolerations []cluster.Toleration
	for _, t := range p.Spec.Tolerations {
		if !strings.HasPrefix(t.Key, "node.kubernetes.io/") { // added by admission
			tolerations = append(tolerations, cluster.Toleration{
				Key: t.Key, Operator: cluster.TolerationOperator(t.Operator), Value: t.Value, Effect: cluster.TaintEffect(t.Effect),
			})
		}
	}
	r.Placement = described(selector, tolerations, p.Annotations[annotationModel])
	return r
}

// haveNode returns the record of a node in the API. It ignores taints that controllers add.
func haveNode(n *corev1.Node) nodeRecord {
	r := nodeRecord{
		Allocatable: listed(n.Status.Allocatable), Pods: n.Status.Allocatable.Pods().Value(), Unschedulable: n.Spec.Unschedulable,
		GPUs: number(n.Annotations[annotationGPUs]), MilliGPU: number(n.Annotations[annotationMilliGPU]),
	}
	for _, cond := range n.Status.Conditions {
		if cond.Type == corev1.NodeReady {
			r.Ready = cond.Status == corev1.ConditionTrue
		}
	}
	var labels []cluster.Label
	for k, v := range n.Labels {
		if k != labelEnvironment {
			labels = append(labels, cluster.Label{Key: k, Value: v})
		}
	}
	var taints []cluster.Taint
	for _, t := range n.Spec.Taints {
		if !strings.HasPrefix(t.Key, "node.kubernetes.io/") {
			taints = append(taints, cluster.Taint{Key: t.Key, Value: t.Value, Effect: cluster.TaintEffect(t.Effect)})
		}
	}
	r.Properties = described(labels, taints, n.Annotations[annotationModel])
	return r
}

func listed(l corev1.ResourceList) cluster.Resources {
	return cluster.Resources{MilliCPU: l.Cpu().MilliValue(), MemoryBytes: l.Memory().Value()}
}

// quantity reads an annotation. Invalid text gives 0, which then differs from the expected amount.
func quantity(text string) *resource.Quantity {
	q, err := resource.ParseQuantity(text)
	if err != nil {
		return &resource.Quantity{}
	}
	return &q
}

func number(text string) int64 {
	n, err := strconv.ParseInt(text, 10, 64)
	if err != nil {
		return 0
	}
	return n
}

// described returns two sets and GPU models as text, to compare them.
func described[A, B any](a []A, b []B, models string) string {
	return fmt.Sprint(sortedBy(a), sortedBy(b), models)
}

// sortedBy returns a copy of a, sorted by the elements' text form.
func sortedBy[E any](a []E) []E {
	a = slices.Clone(a)
	slices.SortFunc(a, func(x, y E) int { return cmp.Compare(fmt.Sprint(x), fmt.Sprint(y)) })
	return a
}
