package kubeyaml

import (
	"fmt"
	"io"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"sigs.k8s.io/yaml"

	"github.com/kubernasium/kubernasium/envs/podsched/gpushare"
)

// AnnotationUnscheduled marks pods of a snapshot that fit no node, as Simon does.
const AnnotationUnscheduled = "simon/pod-unscheduled"

// WriteSnapshot writes the current cluster of a simulation of w as YAML: the Nodes of o, then the Pods of w,
// including the workloads' pods. Placed pods have their node and devices, others neither. [Read] reads the
// snapshot, and its simulation continues as s would.
func WriteSnapshot(out io.Writer, o *Objects, w *Workload, s *gpushare.Simulation) error {
	for i := range o.Nodes {
		n := o.Nodes[i].DeepCopy()
		n.TypeMeta = metav1.TypeMeta{APIVersion: "v1", Kind: "Node"}
		if err := writeDocument(out, n); err != nil {
			return fmt.Errorf("node %s: %w", n.Name, err)
		}
	}
	for i, p := range w.Objects {
		if err := writeDocument(out, snapshotPod(p, w, s, i)); err != nil {
			return fmt.Errorf("pod %s: %w", w.Pods[i].Name, err)
		}
	}
	return nil
}

// snapshotPod returns pod i in its state in s.
func snapshotPod(p *corev1.Pod, w *Workload, s *gpushare.Simulation, i int) *corev1.Pod {
	p = p.DeepCopy()
	p.TypeMeta = metav1.TypeMeta{APIVersion: "v1", Kind: "Pod"}
	if p.Annotations == nil {
		p.Annotations = map[string]string{}
	}
	for _, key := range []string{ownDevices, openbIndex, AnnotationUnscheduled} {
		delete(p.Annotations, key)
	}
	phase, node, devices := s.Pod(i)
	switch phase {
	case gpushare.Placed:
		p.Spec.NodeName, p.Status = w.Nodes[node].Name, corev1.PodStatus{Phase: corev1.PodRunning}
		if len(devices) > 0 {
			key, value := DeviceAnnotation(p, devices)
			p.Annotations[key] = value
		}
	case gpushare.Failed:
		p.Annotations[AnnotationUnscheduled] = "true"
		fallthrough
	default:
		p.Spec.NodeName, p.Status = "", corev1.PodStatus{Phase: corev1.PodPending}
	}
	return p
}

func writeDocument(out io.Writer, object any) error {
	text, err := yaml.Marshal(object)
	if err != nil {
		return err
	}
	_, err = fmt.Fprintf(out, "---\n%s", text)
	return err
}
