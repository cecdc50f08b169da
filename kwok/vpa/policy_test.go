package vpa

import (
	"testing"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/resource"
)

// TestPolicyOf: as for upstream's GetContainerResourcePolicy, of several policies the first with a container's name counts,
// or else the last of *.
func TestPolicyOf(t *testing.T) {
	policy := func(name string, cores int64) ContainerPolicy {
		return ContainerPolicy{ContainerName: name, MaxAllowed: corev1.ResourceList{corev1.ResourceCPU: *resource.NewQuantity(cores, resource.DecimalSI)}}
	}
	var a Autoscaler
	a.Spec.ResourcePolicy = &ResourcePolicy{ContainerPolicies: []ContainerPolicy{
		policy("*", 1), policy("web", 2), policy("*", 3), policy("web", 4), policy("*", 5),
	}}
	for name, cores := range map[string]int64{"web": 2, "other": 5} {
		if got := policyOf(&a, name).max.MilliCPU; got != 1000*cores {
			t.Errorf("policy of %s allows %d millicores, want %d", name, got, 1000*cores)
		}
	}
}
