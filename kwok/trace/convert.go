package trace

import (
	"encoding/json"
	"fmt"
	"slices"
	"strings"

	corev1 "k8s.io/api/core/v1"
	policyv1 "k8s.io/api/policy/v1"
	schedulingv1 "k8s.io/api/scheduling/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	resourcehelper "k8s.io/component-helpers/resource"

	"github.com/kubernasium/kubernasium/envs/cluster"
	"github.com/kubernasium/kubernasium/envs/dataset/clustertrace"
	"github.com/kubernasium/kubernasium/kwok/kubeyaml"
)

// node converts a node. A node without CPU or memory yet gets no resources.
func (n names) node(node *corev1.Node) (*clustertrace.Node, error) {
	out := &clustertrace.Node{
		Name: n.hash(node.Name), Labels: n.labels(node.Labels), Unschedulable: node.Spec.Unschedulable, NotReady: true,
	}
	for _, t := range node.Spec.Taints {
		out.Taints = append(out.Taints, clustertrace.Taint{Key: n.key(t.Key), Value: n.value(t.Value), Effect: string(t.Effect)})
	}
	for _, c := range node.Status.Conditions {
		if c.Type == corev1.NodeReady {
			out.NotReady = c.Status != corev1.ConditionTrue
		}
	}
	if len(node.Status.Allocatable) == 0 && len(node.Status.Capacity) == 0 {
		return out, nil
	}
	have, err := kubeyaml.Allocatable(node)
	if err != nil {
		return out, fmt.Errorf("node %s: %w", node.Name, err)
	}
	out.MilliCPU, out.MemoryBytes, out.Pods, out.GPUs, out.GPUModel = have.MilliCPU, have.MemoryBytes, int32(have.MaxPods), int32(have.GPUs), have.Model
	if have.GPUs > 0 {
		out.MilliGPU = cluster.MaxMilliGPU
	}
	out.Other = n.resources(others(node.Status.Allocatable))
	return out, nil
}

// counted lists the resources that have fields of their own.
var counted = []corev1.ResourceName{
	corev1.ResourceCPU, corev1.ResourceMemory, corev1.ResourcePods, "nvidia.com/gpu", "alibabacloud.com/gpu-count", "alibabacloud.com/gpu-milli",
}

func others(all corev1.ResourceList) map[string]int64 {
	out := map[string]int64{}
	for name, q := range all {
		if !slices.Contains(counted, name) && q.Value() > 0 {
			out[string(name)] = q.Value()
		}
	}
	return out
}

// template converts what a pod requests.
func (n names) template(p *corev1.Pod) (*clustertrace.Template, error) {
	stated, scored := kubeyaml.Requests(p)
	gpus, milli, models, err := kubeyaml.GPUs(p)
	if err != nil {
		return nil, err
	}
	t := &clustertrace.Template{
		Namespace: n.hash(p.Namespace), Owner: n.owner(metav1.GetControllerOf(p)), Labels: n.templateLabels(p.Labels),
		Scheduler: n.scheduler(p.Spec.SchedulerName), PriorityClass: n.class(p.Spec.PriorityClassName),
		MilliCPU: stated.MilliCPU, MemoryBytes: stated.MemoryBytes,
		ExtraMilliCPU: scored.MilliCPU - stated.MilliCPU, ExtraMemoryBytes: scored.MemoryBytes - stated.MemoryBytes,
		Other: n.resources(others(resourcehelper.PodRequests(p, resourcehelper.PodResourcesOptions{UseStatusResources: true}))),
		GPUs:  gpus, MilliGPU: milli, NodeSelector: n.labels(p.Spec.NodeSelector),
	}
	if models != "" {
		t.GPUModels = strings.Split(models, "|")
	}
	if p.Spec.Priority != nil {
		t.Priority = *p.Spec.Priority
	}
	if v := p.Spec.PreemptionPolicy; v != nil && *v == corev1.PreemptNever {
		t.PreemptionPolicy = string(*v)
	}
	for _, tol := range p.Spec.Tolerations {
		t.Tolerations = append(t.Tolerations, clustertrace.Toleration{
			Key: n.key(tol.Key), Operator: string(tol.Operator), Value: n.value(tol.Value), Effect: string(tol.Effect),
		})
	}
	for i, c := range slices.Concat(p.Spec.InitContainers, p.Spec.Containers) {
		if i < len(p.Spec.InitContainers) && (c.RestartPolicy == nil || *c.RestartPolicy != corev1.ContainerRestartPolicyAlways) {
			continue // only sidecars run beside the containers
		}
		for _, port := range c.Ports {
			if port.HostPort > 0 {
				t.HostPorts = append(t.HostPorts, clustertrace.HostPort{Protocol: string(port.Protocol), Address: port.HostIP, Port: uint16(port.HostPort)}.String())
			}
		}
	}
	for _, gate := range p.Spec.SchedulingGates {
		t.Gates = append(t.Gates, n.key(gate.Name))
	}
	n.affinity(t, p)
	return t, nil
}

// affinity adds affinities and topology spread constraints.
func (n names) affinity(t *clustertrace.Template, p *corev1.Pod) {
	raw := func(v any) json.RawMessage { // API types always marshal
		text, _ := json.Marshal(v)
		return text
	}
	if a := p.Spec.Affinity.DeepCopy(); a != nil {
		if na := a.NodeAffinity; na != nil {
			t.Required = n.terms(na.RequiredDuringSchedulingIgnoredDuringExecution)
			for _, pref := range na.PreferredDuringSchedulingIgnoredDuringExecution {
				t.Preferred = append(t.Preferred, clustertrace.Preference{Weight: pref.Weight, Term: n.term(&pref.Preference)})
			}
		}
		if pa := a.PodAffinity; pa != nil {
			n.affinityTerms(pa.RequiredDuringSchedulingIgnoredDuringExecution, pa.PreferredDuringSchedulingIgnoredDuringExecution)
			t.PodAffinity = raw(pa)
		}
		if pa := a.PodAntiAffinity; pa != nil {
			n.affinityTerms(pa.RequiredDuringSchedulingIgnoredDuringExecution, pa.PreferredDuringSchedulingIgnoredDuringExecution)
			t.PodAntiAffinity = raw(pa)
		}
	}
	if len(p.Spec.TopologySpreadConstraints) > 0 {
		var all []corev1.TopologySpreadConstraint
		for _, c := range p.Spec.TopologySpreadConstraints {
			c := *c.DeepCopy()
			n.selector(c.LabelSelector)
			c.TopologyKey, c.MatchLabelKeys = n.key(c.TopologyKey), mapped(c.MatchLabelKeys, n.key)
			all = append(all, c)
		}
		t.Spread = raw(all)
	}
}

// claims returns the persistent volume claims that a pod names.
func (n names) claims(p *corev1.Pod) []string {
	var all []string
	for i := range p.Spec.Volumes {
		switch v := &p.Spec.Volumes[i]; {
		case v.PersistentVolumeClaim != nil:
			all = append(all, n.hash(v.PersistentVolumeClaim.ClaimName))
		case v.Ephemeral != nil:
			all = append(all, n.hash(p.Name+"-"+v.Name))
		}
	}
	return all
}

// claim converts a claim; volume is the volume that it is bound to, or nil.
func (n names) claim(c *corev1.PersistentVolumeClaim, volume *corev1.PersistentVolume) *clustertrace.Claim {
	out := &clustertrace.Claim{Namespace: n.hash(c.Namespace), Name: n.hash(c.Name), Volume: n.hash(c.Spec.VolumeName)}
	if c.Spec.StorageClassName != nil {
		out.StorageClass = n.hash(*c.Spec.StorageClassName)
	}
	size := c.Spec.Resources.Requests[corev1.ResourceStorage]
	out.Bytes = size.Value()
	if volume != nil && volume.Spec.NodeAffinity != nil {
		out.Nodes = n.terms(volume.Spec.NodeAffinity.Required)
	}
	return out
}

func (n names) priorityClass(c *schedulingv1.PriorityClass) *clustertrace.PriorityClass {
	out := &clustertrace.PriorityClass{Name: n.class(c.Name), Value: c.Value, GlobalDefault: c.GlobalDefault}
	if c.PreemptionPolicy != nil {
		out.PreemptionPolicy = string(*c.PreemptionPolicy)
	}
	return out
}

// budget converts a disruption budget. Its selector is the API's, in the fields of a recording.
func (n names) budget(o *policyv1.PodDisruptionBudget) *clustertrace.Budget {
	out := &clustertrace.Budget{Namespace: n.hash(o.Namespace), Name: n.hash(o.Name)}
	if v := o.Spec.MinAvailable; v != nil {
		out.MinAvailable = v.String()
	}
	if v := o.Spec.MaxUnavailable; v != nil {
		out.MaxUnavailable = v.String()
	}
	if o.Spec.Selector == nil {
		return out
	}
	selector := o.Spec.Selector.DeepCopy()
	n.selector(selector)
	out.Selector = &clustertrace.Selector{MatchLabels: selector.MatchLabels}
	for _, r := range selector.MatchExpressions {
		out.Selector.MatchExpressions = append(out.Selector.MatchExpressions, clustertrace.Requirement{Key: r.Key, Operator: string(r.Operator), Values: r.Values})
	}
	return out
}
