// Package metricsapi serves metrics.k8s.io, as metrics-server does, with the usage of simulated pods, and
// records the metrics of any server of this API ([Record]).
//
// Usage comes from the pods' annotations at the time of the request: kwok.x-k8s.io/usage-cpu and usage-memory,
// which KWOK's own metrics read too. Environments and load generators set them step by step, so that a client
// sees the usage of the current step, not an average. The annotation kubernasium.io/usage-time has the time of
// the sample, by default the time of the request. A pod has no metrics if it does not run, lacks these
// annotations, or uses no memory. Each container of a pod uses the annotated amounts, as with KWOK.
package metricsapi

import (
	"context"
	"slices"
	"strings"
	"time"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/resource"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/client-go/kubernetes"
	"k8s.io/metrics/pkg/apis/metrics/v1beta1"
)

// Annotations of pods.
const (
	AnnotationCPU    = "kwok.x-k8s.io/usage-cpu"
	AnnotationMemory = "kwok.x-k8s.io/usage-memory"
	AnnotationTime   = "kubernasium.io/usage-time" // of the sample, in RFC 3339
)

// podMetrics returns the metrics of a pod, and whether it has any.
func podMetrics(p *corev1.Pod, window time.Duration, now time.Time) (v1beta1.PodMetrics, bool) {
	cpu, okCPU := quantity(p, AnnotationCPU)
	memory, okMemory := quantity(p, AnnotationMemory)
	if p.Status.Phase != corev1.PodRunning || !okCPU || !okMemory || memory.IsZero() {
		return v1beta1.PodMetrics{}, false
	}
	m := v1beta1.PodMetrics{
		TypeMeta:   metav1.TypeMeta{APIVersion: v1beta1.SchemeGroupVersion.String(), Kind: "PodMetrics"},
		ObjectMeta: metav1.ObjectMeta{Name: p.Name, Namespace: p.Namespace, Labels: p.Labels, CreationTimestamp: metav1.NewTime(now)},
		Timestamp:  metav1.NewTime(sampled(p, now)), Window: metav1.Duration{Duration: window},
	}
	for i := range p.Spec.Containers {
		m.Containers = append(m.Containers, v1beta1.ContainerMetrics{
			Name: p.Spec.Containers[i].Name, Usage: corev1.ResourceList{corev1.ResourceCPU: cpu, corev1.ResourceMemory: memory},
		})
	}
	return m, true
}

func quantity(p *corev1.Pod, name string) (resource.Quantity, bool) {
	text, ok := p.Annotations[name]
	if !ok {
		return resource.Quantity{}, false
	}
	q, err := resource.ParseQuantity(text)
	return q, err == nil && q.Sign() >= 0
}

// sampled returns the time of the pod's sample.
func sampled(p *corev1.Pod, now time.Time) time.Time {
	if t, err := time.Parse(time.RFC3339, p.Annotations[AnnotationTime]); err == nil {
		return t
	}
	return now
}

// pods returns the metrics of the pods of a namespace, or of all namespaces for "", in name order.
func (s *Server) pods(ctx context.Context, namespace string, o metav1.ListOptions) (*v1beta1.PodMetricsList, error) {
	pods, err := s.client.CoreV1().Pods(namespace).List(ctx, o)
	if err != nil {
		return nil, err
	}
	now := time.Now()
	list := &v1beta1.PodMetricsList{TypeMeta: metav1.TypeMeta{APIVersion: v1beta1.SchemeGroupVersion.String(), Kind: "PodMetricsList"}, Items: []v1beta1.PodMetrics{}}
	for i := range pods.Items {
		if m, ok := podMetrics(&pods.Items[i], s.config.Window, now); ok {
			list.Items = append(list.Items, m)
		}
	}
	slices.SortFunc(list.Items, func(a, b v1beta1.PodMetrics) int {
		return strings.Compare(a.Namespace+"/"+a.Name, b.Namespace+"/"+b.Name)
	})
	return list, nil
}

// nodes returns the metrics of nodes: the sums of their pods' usage, at the time of the latest sample.
func (s *Server) nodes(ctx context.Context, o metav1.ListOptions) (*v1beta1.NodeMetricsList, error) {
	nodes, err := s.client.CoreV1().Nodes().List(ctx, o)
	if err != nil {
		return nil, err
	}
	pods, err := s.client.CoreV1().Pods("").List(ctx, metav1.ListOptions{})
	if err != nil {
		return nil, err
	}
	now := time.Now()
	list := &v1beta1.NodeMetricsList{TypeMeta: metav1.TypeMeta{APIVersion: v1beta1.SchemeGroupVersion.String(), Kind: "NodeMetricsList"}}
	list.Items = make([]v1beta1.NodeMetrics, len(nodes.Items))
	index := map[string]int{}
	for i := range nodes.Items {
		n := &nodes.Items[i]
		index[n.Name] = i
		list.Items[i] = v1beta1.NodeMetrics{
			TypeMeta:   metav1.TypeMeta{APIVersion: v1beta1.SchemeGroupVersion.String(), Kind: "NodeMetrics"},
			ObjectMeta: metav1.ObjectMeta{Name: n.Name, Labels: n.Labels, CreationTimestamp: metav1.NewTime(now)},
			Window:     metav1.Duration{Duration: s.config.Window},
			Usage:      corev1.ResourceList{corev1.ResourceCPU: *resource.NewMilliQuantity(0, resource.DecimalSI), corev1.ResourceMemory: *resource.NewQuantity(0, resource.BinarySI)},
		}
	}
	for i := range pods.Items {
		m, ok := podMetrics(&pods.Items[i], s.config.Window, now)
		k, there := index[pods.Items[i].Spec.NodeName]
		if !ok || !there {
			continue
		}
		n := &list.Items[k]
		for _, c := range m.Containers {
			for name, q := range c.Usage {
				sum := n.Usage[name]
				sum.Add(q)
				n.Usage[name] = sum
			}
		}
		if n.Timestamp.Before(&m.Timestamp) {
			n.Timestamp = m.Timestamp
		}
	}
	for i := range list.Items {
		if list.Items[i].Timestamp.IsZero() {
			list.Items[i].Timestamp = metav1.NewTime(now)
		}
	}
	return list, nil
}

// SetUsage sets a running pod's usage, from a sample at the given time on.
func SetUsage(ctx context.Context, client kubernetes.Interface, namespace, pod string, milliCPU, memoryBytes int64, at time.Time) error {
	return annotate(ctx, client, namespace, pod, map[string]string{
		AnnotationCPU:    resource.NewMilliQuantity(milliCPU, resource.DecimalSI).String(),
		AnnotationMemory: resource.NewQuantity(memoryBytes, resource.BinarySI).String(),
		AnnotationTime:   at.UTC().Format(time.RFC3339),
	})
}
