package vpa

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"time"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/labels"

	"github.com/kubernasium/kubernasium/envs/cluster"
	env "github.com/kubernasium/kubernasium/envs/vpa"
	"github.com/kubernasium/kubernasium/envs/vpa/pods"
)

// errUnsupported is wrapped by errors for features that this recommender does not support; the autoscaler's
// status shows them.
var errUnsupported = errors.New("not supported")

// target is the controller that an autoscaler scales.
type target struct {
	template *corev1.PodTemplateSpec
	selector labels.Selector
	replicas int
}

// target returns the controller that an autoscaler names.
func (r *Recommender) target(ctx context.Context, a *Autoscaler) (*target, error) {
	ref := a.Spec.TargetRef
	if ref == nil {
		return nil, fmt.Errorf("%w: no targetRef", errUnsupported)
	}
	apps := r.client.AppsV1()
	var t target
	var selector *metav1.LabelSelector
	replicas := int32(1)
	set := func(template *corev1.PodTemplateSpec, s *metav1.LabelSelector, n *int32) {
		t.template, selector = template, s
		if n != nil {
			replicas = *n
		}
	}
	switch ref.Kind {
	case "Deployment":
		d, err := apps.Deployments(a.Namespace).Get(ctx, ref.Name, metav1.GetOptions{})
		if err != nil {
			return nil, err
		}
		set(&d.Spec.Template, d.Spec.Selector, d.Spec.Replicas)
	case "ReplicaSet":
		s, err := apps.ReplicaSets(a.Namespace).Get(ctx, ref.Name, metav1.GetOptions{})
		if err != nil {
			return nil, err
		}
		set(&s.Spec.Template, s.Spec.Selector, s.Spec.Replicas)
	case "StatefulSet":
		s, err := apps.StatefulSets(a.Namespace).Get(ctx, ref.Name, metav1.GetOptions{})
		if err != nil {
			return nil, err
		}
		set(&s.Spec.Template, s.Spec.Selector, s.Spec.Replicas)
	case "DaemonSet":
		s, err := apps.DaemonSets(a.Namespace).Get(ctx, ref.Name, metav1.GetOptions{})
		if err != nil {
			return nil, err
		}
		set(&s.Spec.Template, s.Spec.Selector, &s.Status.DesiredNumberScheduled)
	default:
		return nil, fmt.Errorf("%w: target of kind %s, want Deployment, ReplicaSet, StatefulSet or DaemonSet", errUnsupported, ref.Kind)
	}
	t.replicas = int(replicas)
	var err error
	if t.selector, err = metav1.LabelSelectorAsSelector(selector); err != nil {
		return nil, fmt.Errorf("%w: selector: %w", errUnsupported, err)
	}
	return &t, nil
}

// pods returns the live pods, the oldest first.
func (r *Recommender) pods(ctx context.Context, namespace string, s labels.Selector) ([]corev1.Pod, error) {
	list, err := r.client.CoreV1().Pods(namespace).List(ctx, metav1.ListOptions{LabelSelector: s.String()})
	if err != nil {
		return nil, err
	}
	pods := slices.DeleteFunc(list.Items, func(p corev1.Pod) bool {
		return p.DeletionTimestamp != nil || p.Status.Phase == corev1.PodSucceeded || p.Status.Phase == corev1.PodFailed
	})
	slices.SortStableFunc(pods, func(a, b corev1.Pod) int { return a.CreationTimestamp.Compare(b.CreationTimestamp.Time) })
	return pods, nil
}

// sample is the usage of a pod's containers.
type sample struct {
	at         time.Time
	fresh      bool // not observed yet
	containers map[string]cluster.Resources
}

// usage returns the latest samples by pod.
func (r *Recommender) usage(ctx context.Context, namespace string, s labels.Selector) (map[string]sample, error) {
	list, err := r.metrics.PodMetricses(namespace).List(ctx, metav1.ListOptions{LabelSelector: s.String()})
	if err != nil {
		return nil, fmt.Errorf("metrics.k8s.io: %w", err)
	}
	used := map[string]sample{}
	for i := range list.Items {
		m := &list.Items[i]
		one := sample{at: m.Timestamp.Time, containers: map[string]cluster.Resources{}}
		for _, c := range m.Containers {
			one.containers[c.Name] = listed(c.Usage)
		}
		used[m.Name] = one
	}
	return used, nil
}

// livePods returns a container of the pods as models observe it.
func livePods(pods []corev1.Pod, name string, used map[string]sample) []env.LivePod {
	var all []env.LivePod
	for i := range pods {
		p := &pods[i]
		one := env.LivePod{ID: string(p.UID), Scheduled: p.Spec.NodeName != "", Running: p.Status.Phase == corev1.PodRunning}
		for k := range p.Spec.Containers {
			if c := &p.Spec.Containers[k]; c.Name == name {
				one.Requests, one.Limits = listed(c.Resources.Requests), listed(c.Resources.Limits)
			}
		}
		for k := range p.Status.ContainerStatuses {
			if s := &p.Status.ContainerStatuses[k]; s.Name == name {
				showStatus(&one, s)
			}
		}
		if u, ok := used[p.Name].containers[name]; ok {
			one.Used, one.Sampled = u, used[p.Name].fresh
		}
		one.Resize = resizing(p)
		all = append(all, one)
	}
	return all
}

// showStatus copies a container's status: its actual resources, whether it is ready, and whether its last end
// was an OOM kill.
func showStatus(one *env.LivePod, s *corev1.ContainerStatus) {
	if s.Resources != nil {
		one.Requests, one.Limits = listed(s.Resources.Requests), listed(s.Resources.Limits)
	}
	one.Serving, one.Restarts = s.Ready, int(s.RestartCount)
	if end := s.LastTerminationState.Terminated; end != nil && end.Reason == "OOMKilled" {
		one.OOMKilled = true
	}
}

// resizing returns the state of an in-place resize.
func resizing(p *corev1.Pod) pods.ResizeState {
	for _, c := range p.Status.Conditions {
		if c.Status != corev1.ConditionTrue {
			continue
		}
		switch {
		case c.Type == corev1.PodResizePending && c.Reason == corev1.PodReasonInfeasible:
			return pods.ResizeInfeasible
		case c.Type == corev1.PodResizePending:
			return pods.ResizeDeferred
		case c.Type == corev1.PodResizeInProgress:
			return pods.ResizeInProgress
		}
	}
	return pods.ResizeNone
}

func listed(l corev1.ResourceList) cluster.Resources {
	return cluster.Resources{MilliCPU: l.Cpu().MilliValue(), MemoryBytes: l.Memory().Value()}
}

// containerPolicy is an autoscaler's policy for a container.
type containerPolicy struct {
	off          bool
	min, max     cluster.Resources
	cpu, memory  bool // resources to recommend
	requestsOnly bool
}

// policyOf returns the policy of a container: the first with its name, or else the last of *, as upstream's
// GetContainerResourcePolicy does.
func policyOf(a *Autoscaler, name string) containerPolicy {
	p := containerPolicy{cpu: true, memory: true}
	if a.Spec.ResourcePolicy == nil {
		return p
	}
	var found *ContainerPolicy
	for i := range a.Spec.ResourcePolicy.ContainerPolicies {
		c := &a.Spec.ResourcePolicy.ContainerPolicies[i]
		if c.ContainerName == name || c.ContainerName == "*" {
			found = c
		}
		if c.ContainerName == name {
			break
		}
	}
	if found == nil {
		return p
	}
	p.off = found.Mode != nil && *found.Mode == "Off"
	p.min, p.max = listed(found.MinAllowed), listed(found.MaxAllowed)
	if found.ControlledResources != nil {
		p.cpu = slices.Contains(*found.ControlledResources, corev1.ResourceCPU)
		p.memory = slices.Contains(*found.ControlledResources, corev1.ResourceMemory)
	}
	p.requestsOnly = found.ControlledValues != nil && *found.ControlledValues == pods.RequestsOnly
	return p
}

// liveConfig describes the controller to a model. A resource that is not controlled keeps the template's
// requests.
func (r *Recommender) liveConfig(t *target, c *corev1.Container, p containerPolicy) env.LiveConfig {
	config := env.LiveConfig{
		Requests: listed(c.Resources.Requests), Limits: listed(c.Resources.Limits), Min: p.min, Max: p.max,
		RequestsOnly: p.requestsOnly, Containers: len(t.template.Spec.Containers),
	}
	if !p.cpu {
		config.Min.MilliCPU = max(config.Requests.MilliCPU, 1)
		config.Max.MilliCPU = config.Min.MilliCPU
	}
	if !p.memory {
		config.Min.MemoryBytes = max(config.Requests.MemoryBytes, 1)
		config.Max.MemoryBytes = config.Min.MemoryBytes
	}
	return config
}
