package vpa

import (
	"fmt"
	"testing"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/resource"
)

// TestRaise has requests and limits of CPU by hand. The first three are cases of upstream's own test of its
// admission controller (resource_updates_test.go, v1.8.1).
func TestRaise(t *testing.T) {
	factor := func(n int32) *CPUBoost { return &CPUBoost{Type: BoostFactor, Factor: &n} }
	quantity := func(q string) *CPUBoost {
		v := resource.MustParse(q)
		return &CPUBoost{Type: BoostQuantity, Quantity: &v}
	}
	cpu := func(request, limit string) *corev1.ResourceRequirements {
		r := &corev1.ResourceRequirements{}
		if request != "" {
			r.Requests = corev1.ResourceList{corev1.ResourceCPU: resource.MustParse(request)}
		}
		if limit != "" {
			r.Limits = corev1.ResourceList{corev1.ResourceCPU: resource.MustParse(limit)}
		}
		return r
	}
	for _, tc := range []struct {
		name           string
		boost          *CPUBoost
		next, template *corev1.ResourceRequirements
		requestsOnly   bool
		want           string
	}{
		{"twice the target, the limit follows", factor(2), cpu("100m", "100m"), cpu("1m", "1m"), false, "200m 200m"},
		{"a quantity on top", quantity("500m"), cpu("100m", "100m"), cpu("1m", "1m"), false, "600m 600m"},
		{"without a limit", factor(2), cpu("100m", ""), cpu("1m", ""), false, "200m 0"},
		{"no target: the template's request", factor(3), cpu("400m", "800m"), cpu("400m", "800m"), false, "1200m 2400m"},
		{"the proportion of the template, truncated: 1000·2000/300", factor(2), cpu("1", "3333m"), cpu("300m", "1000m"), false, "2 6666m"},
		{"requests only, within the limit", factor(2), cpu("300m", "800m"), cpu("400m", "800m"), true, "600m 800m"},
		{"requests only, a millicore below the limit", factor(3), cpu("300m", "800m"), cpu("400m", "800m"), true, "799m 800m"},
		{"a limit that only the model has set", factor(4), cpu("300m", "800m"), cpu("300m", ""), false, "1200m 1200m"},
		{"nothing requested", factor(2), cpu("", ""), cpu("", ""), false, "0 0"},
		// cluster.MaxAmount is 2^53 millicores.
		{"a quantity to which nothing can be added", quantity("9223372036854775"), cpu("1", "2"), cpu("1", "2"), false, "9007199254740992m 9007199254740992m"},
		{"a quantity whose millicores are no int64", quantity("9E"), cpu("1", ""), cpu("1", ""), false, "9007199254740992m 0"},
		{"1 changes nothing", factor(1), cpu("250m", "500m"), cpu("250m", "500m"), false, "250m 500m"},
	} {
		requests, limits := tc.boost.raise(tc.next, tc.template, tc.requestsOnly)
		if got := fmt.Sprintf("%s %s", requests.Cpu(), limits.Cpu()); got != tc.want {
			t.Errorf("%s: %s, want %s", tc.name, got, tc.want)
		}
	}
	for _, b := range []*CPUBoost{{}, {Type: BoostFactor}, factor(0), {Type: BoostQuantity}, quantity("-1"), {Type: "Twice"}} {
		if b.check() == nil {
			t.Errorf("%+v is accepted", b)
		}
	}
}

// TestBoostOf: a container's policy has the say, but for a duration that it leaves out, as upstream's
// GetExpiredStartupCPUBoostAnnotations has it.
func TestBoostOf(t *testing.T) {
	n := func(v int32) *int32 { return &v }
	boost := func(factor int32, seconds *int32) *StartupBoost {
		return &StartupBoost{CPU: &CPUBoost{Type: BoostFactor, Factor: &factor, DurationSeconds: seconds}}
	}
	for _, tc := range []struct {
		name         string
		general, own *StartupBoost
		want         string
	}{
		{"the autoscaler's", boost(2, n(60)), nil, "2 for 60 s"},
		{"the policy's", boost(2, n(60)), boost(3, n(30)), "3 for 30 s"},
		{"for as long as the autoscaler's", boost(2, n(60)), boost(3, nil), "3 for 60 s"},
		{"for no time", boost(2, n(60)), boost(3, n(0)), "3 for 0 s"},
		{"the policy's alone", nil, boost(3, nil), "3"},
		{"none", boost(2, n(60)), &StartupBoost{}, "none"},
	} {
		a := &Autoscaler{Spec: AutoscalerSpec{StartupBoost: tc.general, ResourcePolicy: &ResourcePolicy{ContainerPolicies: []ContainerPolicy{{ContainerName: "main", StartupBoost: tc.own}}}}}
		got := "none"
		if b := policyOf(a, "main").boost; b != nil {
			got = fmt.Sprint(*b.Factor)
			if b.DurationSeconds != nil {
				got += fmt.Sprintf(" for %d s", *b.DurationSeconds)
			}
		}
		if got != tc.want {
			t.Errorf("%s: %s, want %s", tc.name, got, tc.want)
		}
	}
}
