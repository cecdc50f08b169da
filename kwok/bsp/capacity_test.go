package bsp

import (
	"testing"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/resource"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
)

// TestSumMilliCPU: kube-scheduler puts the workers, which tolerate nothing, on no cordoned node and on none with a taint NoSchedule,
// as a control plane's, or NoExecute, as that of a node that is not ready.
func TestSumMilliCPU(t *testing.T) {
	node := func(cpu string, taints ...corev1.Taint) corev1.Node {
		return corev1.Node{
			ObjectMeta: metav1.ObjectMeta{Name: cpu}, Spec: corev1.NodeSpec{Taints: taints},
			Status: corev1.NodeStatus{Allocatable: corev1.ResourceList{corev1.ResourceCPU: resource.MustParse(cpu)}},
		}
	}
	cordoned := node("1000")
	cordoned.Spec.Unschedulable = true
	got := sumMilliCPU([]corev1.Node{
		node("1500m"), node("2"), node("4", corev1.Taint{Key: "old", Effect: corev1.TaintEffectPreferNoSchedule}), cordoned,
		node("100", corev1.Taint{Key: "node-role.kubernetes.io/control-plane", Effect: corev1.TaintEffectNoSchedule}),
		node("10", corev1.Taint{Key: corev1.TaintNodeNotReady, Effect: corev1.TaintEffectNoExecute}),
	})
	if want := int64(1500 + 2000 + 4000); got != want {
		t.Errorf("%d millicores, want %d", got, want)
	}
}
