package trace

import (
	"cmp"
	"encoding/json"
	"fmt"
	"maps"
	"slices"
	"strconv"
	"strings"

	corev1 "k8s.io/api/core/v1"
	schedulingv1 "k8s.io/api/scheduling/v1"
	"k8s.io/apimachinery/pkg/api/resource"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"

	"github.com/kubernasium/kubernasium/envs/dataset/clustertrace"
	"github.com/kubernasium/kubernasium/envs/podsched/kubescore"
	"github.com/kubernasium/kubernasium/kwok/stages"
)

// Annotations from which package kubeyaml reads GPUs.
const (
	annotationGPUs     = "kubernasium.io/gpus"
	annotationMilliGPU = "kubernasium.io/milli-gpu"
	annotationModel    = "kubernasium.io/gpu-model"
)

// nodeObject returns a node for KWOK.
func nodeObject(n *clustertrace.Node) *corev1.Node {
	o := &corev1.Node{
		ObjectMeta: metav1.ObjectMeta{Name: n.Name, Labels: maps.Clone(n.Labels), Annotations: map[string]string{stages.Node: "fake"}},
		Spec:       corev1.NodeSpec{Unschedulable: n.Unschedulable},
	}
	for _, t := range n.Taints {
		o.Spec.Taints = append(o.Spec.Taints, corev1.Taint{Key: t.Key, Value: t.Value, Effect: corev1.TaintEffect(t.Effect)})
	}
	have := amounts(n.MilliCPU, n.MemoryBytes, n.Other)
	have[corev1.ResourcePods] = *resource.NewQuantity(int64(n.Pods), resource.DecimalSI)
	if n.GPUs > 0 {
		o.Annotations[annotationGPUs] = strconv.Itoa(int(n.GPUs))
		o.Annotations[annotationModel] = n.GPUModel
		have["nvidia.com/gpu"] = *resource.NewQuantity(int64(n.GPUs), resource.DecimalSI)
	}
	o.Status.Allocatable, o.Status.Capacity = have, have
	return o
}

func amounts(milliCPU, memory int64, other map[string]int64) corev1.ResourceList {
	all := corev1.ResourceList{
		corev1.ResourceCPU:    *resource.NewMilliQuantity(milliCPU, resource.DecimalSI),
		corev1.ResourceMemory: *resource.NewQuantity(memory, resource.BinarySI),
	}
	for name, n := range other {
		all[resourceName(name)] = *resource.NewQuantity(n, resource.DecimalSI)
	}
	return all
}

// resourceName returns the API's name of a recorded resource. The API server accepts only Kubernetes' own resources
// without a domain, and a recording that hides names has hidden those of other resources with their domains.
func resourceName(name string) corev1.ResourceName {
	if strings.Contains(name, "/") || name == string(corev1.ResourceEphemeralStorage) || isHugePages(name) || strings.HasPrefix(name, "attachable-volumes-") {
		return corev1.ResourceName(name)
	}
	return corev1.ResourceName("kubernasium.io/" + name)
}

func isHugePages(name string) bool { return strings.HasPrefix(name, corev1.ResourceHugePagesPrefix) }

// podObject returns a pending pod for a scheduler. A pod that Replay binds has no scheduling gates, with which the API
// server would not let it be bound.
func podObject(name string, t *clustertrace.Template, scheduler string) (*corev1.Pod, error) {
	o := &corev1.Pod{
		ObjectMeta: metav1.ObjectMeta{Name: name, Namespace: t.Namespace, Labels: maps.Clone(t.Labels), Annotations: map[string]string{}},
		Spec: corev1.PodSpec{
			SchedulerName: scheduler, RestartPolicy: corev1.RestartPolicyNever, TerminationGracePeriodSeconds: new(int64(0)),
			NodeSelector: maps.Clone(t.NodeSelector), PriorityClassName: classOf(t), Containers: containers(t),
		},
	}
	o.Namespace = cmp.Or(o.Namespace, corev1.NamespaceDefault)
	if kind, owner, ok := strings.Cut(t.Owner, "/"); ok {
		// The owner's API group does not exist in the control plane, so that garbage collection, which
		// deletes pods without their owner, ignores the pod. Policies tell controllers apart by their UIDs.
		yes, uid := true, types.UID("replayed/"+o.Namespace+"/"+t.Owner)
		o.OwnerReferences = []metav1.OwnerReference{{APIVersion: "kubernasium.io/v1", Kind: kind, Name: owner, UID: uid, Controller: &yes}}
	}
	for _, tol := range t.Tolerations {
		o.Spec.Tolerations = append(o.Spec.Tolerations, corev1.Toleration{
			Key: tol.Key, Operator: corev1.TolerationOperator(tol.Operator), Value: tol.Value, Effect: corev1.TaintEffect(tol.Effect),
		})
	}
	if scheduler != nobody {
		for _, gate := range t.Gates {
			o.Spec.SchedulingGates = append(o.Spec.SchedulingGates, corev1.PodSchedulingGate{Name: gate})
		}
	}
	if t.GPUs > 0 {
		o.Annotations[annotationGPUs] = strconv.Itoa(int(t.GPUs))
		o.Annotations[annotationMilliGPU] = strconv.Itoa(int(t.MilliGPU))
		if len(t.GPUModels) > 0 {
			o.Annotations[annotationModel] = strings.Join(t.GPUModels, ",")
		}
	}
	return o, affinityOf(&o.Spec, t)
}

// affinityOf adds affinities and topology spread constraints to spec.
func affinityOf(spec *corev1.PodSpec, t *clustertrace.Template) error {
	a := &corev1.Affinity{}
	if t.Required != nil || t.Preferred != nil {
		a.NodeAffinity = &corev1.NodeAffinity{}
	}
	if t.Required != nil {
		required := &corev1.NodeSelector{}
		for i := range t.Required {
			required.NodeSelectorTerms = append(required.NodeSelectorTerms, termObject(&t.Required[i]))
		}
		a.NodeAffinity.RequiredDuringSchedulingIgnoredDuringExecution = required
	}
	for _, p := range t.Preferred {
		a.NodeAffinity.PreferredDuringSchedulingIgnoredDuringExecution = append(a.NodeAffinity.PreferredDuringSchedulingIgnoredDuringExecution,
			corev1.PreferredSchedulingTerm{Weight: p.Weight, Preference: termObject(&p.Term)})
	}
	for _, raw := range []struct {
		what string
		text json.RawMessage
		into any
	}{
		{"pod_affinity", t.PodAffinity, &a.PodAffinity}, {"pod_anti_affinity", t.PodAntiAffinity, &a.PodAntiAffinity},
		{"topology_spread", t.Spread, &spec.TopologySpreadConstraints},
	} {
		if raw.text == nil {
			continue
		}
		if err := json.Unmarshal(raw.text, raw.into); err != nil {
			return fmt.Errorf("%s: %w", raw.what, err)
		}
	}
	if *a != (corev1.Affinity{}) {
		spec.Affinity = a
	}
	return nil
}

func termObject(t *clustertrace.Term) corev1.NodeSelectorTerm {
	list := func(all []clustertrace.Requirement) (out []corev1.NodeSelectorRequirement) {
		for _, r := range all {
			out = append(out, corev1.NodeSelectorRequirement{Key: r.Key, Operator: corev1.NodeSelectorOperator(r.Operator), Values: r.Values})
		}
		return out
	}
	return corev1.NodeSelectorTerm{MatchExpressions: list(t.Labels), MatchFields: list(t.Fields)}
}

// containers returns one container with all requests, and a container without requests for each one that scores
// counted.
func containers(t *clustertrace.Template) []corev1.Container {
	requests := amounts(t.MilliCPU, t.MemoryBytes, t.Other)
	missing := func(name corev1.ResourceName, stated, extra, each int64) int {
		n := int(extra / each)
		if stated == 0 && n > 0 { // the first container is one of them
			delete(requests, name)
			n--
		}
		return n
	}
	cpu := missing(corev1.ResourceCPU, t.MilliCPU, t.ExtraMilliCPU, kubescore.DefaultMilliCPURequest)
	memory := missing(corev1.ResourceMemory, t.MemoryBytes, t.ExtraMemoryBytes, kubescore.DefaultMemoryRequestBytes)
	limits := corev1.ResourceList{}
	for name, q := range requests { // extended resources and huge pages need limits; without others the pod stays resizable
		if strings.Contains(string(name), "/") || isHugePages(string(name)) {
			limits[name] = q
		}
	}
	if t.GPUs > 0 && t.MilliGPU == 1000 {
		whole := *resource.NewQuantity(int64(t.GPUs), resource.DecimalSI)
		requests["nvidia.com/gpu"], limits["nvidia.com/gpu"] = whole, whole
	}
	all := []corev1.Container{{Name: "main", Image: image, Ports: hostPorts(t), Resources: corev1.ResourceRequirements{Requests: requests, Limits: limits}}}
	for i := range max(cpu, memory) {
		zero := amounts(0, 0, nil)
		if i < cpu {
			delete(zero, corev1.ResourceCPU)
		}
		if i < memory {
			delete(zero, corev1.ResourceMemory)
		}
		all = append(all, corev1.Container{Name: fmt.Sprintf("extra-%d", i), Image: image, Resources: corev1.ResourceRequirements{Requests: zero}})
	}
	return all
}

// hostPorts returns the host ports of a template, but none of another program's recording that it cannot read. It returns
// each once: a sidecar and a container may have the same, but one container may not.
//
// Source: AccumulateUniqueHostPorts of the API server's validation.
func hostPorts(t *clustertrace.Template) (all []corev1.ContainerPort) {
	for _, text := range t.HostPorts {
		p, err := clustertrace.ParseHostPort(text)
		if err != nil {
			continue
		}
		port := corev1.ContainerPort{HostPort: int32(p.Port), ContainerPort: int32(p.Port), Protocol: corev1.Protocol(p.Protocol), HostIP: p.Address}
		if !slices.Contains(all, port) {
			all = append(all, port)
		}
	}
	return all
}

const image = "kubernasium.io/simulated"

// classOf returns the priority class that a pod names. The API server rejects a priority without a class, so
// one is created for it.
func classOf(t *clustertrace.Template) string {
	if t.PriorityClass == "" && t.Priority != 0 {
		return fmt.Sprintf("replayed-priority-%d", t.Priority)
	}
	return t.PriorityClass
}

func classObject(c *clustertrace.PriorityClass) *schedulingv1.PriorityClass {
	o := &schedulingv1.PriorityClass{ObjectMeta: metav1.ObjectMeta{Name: c.Name}, Value: c.Value, GlobalDefault: c.GlobalDefault}
	if c.PreemptionPolicy != "" {
		o.PreemptionPolicy = new(corev1.PreemptionPolicy(c.PreemptionPolicy))
	}
	return o
}
