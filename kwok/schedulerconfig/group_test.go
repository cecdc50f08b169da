package schedulerconfig_test

import (
	"fmt"
	"maps"
	"slices"
	"testing"

	corev1 "k8s.io/api/core/v1"
	schedulingv1alpha2 "k8s.io/api/scheduling/v1alpha2"
	"k8s.io/apimachinery/pkg/api/resource"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/kubernasium/kubernasium/agents/live"
	"github.com/kubernasium/kubernasium/kwok/schedulerconfig"
)

// slice is the resource that NVIDIA's device plugin has for slices of a GPU, with MIG strategy mixed.
const slice = "nvidia.com/mig-1g.5gb"

// testMIG: slices of GPUs are further resources, which kube-scheduler's filters count. The policy chooses among the
// nodes that have one left.
func testMIG(t *testing.T, r *room) {
	with := func(n string) func(*corev1.Node) {
		return func(node *corev1.Node) {
			node.Status.Allocatable[slice], node.Status.Capacity[slice] = resource.MustParse(n), resource.MustParse(n)
		}
	}
	r.node("a", "16", "64Gi", with("1"))
	r.node("b", "16", "64Gi", with("3"))
	r.node("c", "16", "64Gi")
	one := func(p *corev1.Pod) {
		list := amounts("1", "4Gi")
		list[slice] = resource.MustParse("1")
		p.Spec.Containers[0].Resources = corev1.ResourceRequirements{Requests: list, Limits: list}
	}
	// Greedy evens out, and c has no slice: a and b in turn, until a has none left.
	check(t, "policy", r.spread(4, "policy", "1", "4Gi", one), map[string]int{"a": 1, "b": 3})
	r.pod("fifth", "policy", "1", "4Gi", one)
	r.refused("fifth", "Insufficient "+slice)
	check(t, "policy", r.spread(1, "respect", "1", "4Gi"), map[string]int{"c": 1}) // which is empty
}

// TestPodGroups: pods of a PodGroup (scheduling.k8s.io/v1alpha2, feature gates GenericWorkload and GangScheduling, alpha in
// Kubernetes 1.36) are placed all or none. kube-scheduler decides on all of them within one snapshot, in which
// the policy sees those that came before.
func TestPodGroups(t *testing.T) {
	gates := "--feature-gates=GenericWorkload=true,GangScheduling=true"
	w := startWith(t, []string{
		"--extra=kube-apiserver:" + gates, "--extra=kube-apiserver:--runtime-config=scheduling.k8s.io/v1alpha2=true", "--extra=kube-scheduler:" + gates,
	},
		profile("policy", live.Args{Baseline: "Greedy"}, order(schedulerconfig.OrderPolicy)), profile("gpus", live.Args{Baseline: "BestFit", Env: gpuEnv}))
	for name, test := range map[string]func(*testing.T, *room){"spread": testGroupSpread, "all or none": testGroupAllOrNone, "GPUs": testGroupGPUs} {
		t.Run(name, func(t *testing.T) { test(t, w.room(t)) })
	}
}

// group creates a PodGroup of n pods, which are placed together.
func (r *room) group(name, scheduler string, n int, cpu, memory string, change ...func(*corev1.Pod)) (pods []string) {
	r.t.Helper()
	g := &schedulingv1alpha2.PodGroup{ObjectMeta: metav1.ObjectMeta{Name: name}}
	g.Spec.SchedulingPolicy.Gang = &schedulingv1alpha2.GangSchedulingPolicy{MinCount: int32(n)}
	if _, err := r.client.SchedulingV1alpha2().PodGroups(r.namespace).Create(r.t.Context(), g, metav1.CreateOptions{}); err != nil {
		r.t.Fatal(err)
	}
	change = append(slices.Clone(change), func(p *corev1.Pod) { p.Spec.SchedulingGroup = &corev1.PodSchedulingGroup{PodGroupName: &name} })
	for i := range n {
		pods = append(pods, fmt.Sprintf("%s-%d", name, i))
		r.pod(pods[i], scheduler, cpu, memory, change...)
	}
	return pods
}

// placedAll waits until all pods have nodes, and counts them by node.
func (r *room) placedAll(pods []string) map[string]int {
	r.t.Helper()
	on := map[string]int{}
	for _, name := range pods {
		on[r.placed(name)]++
	}
	return on
}

// testGroupSpread: Greedy evens out the pods of one group. If it did not see those of the same cycle, all would go to a.
func testGroupSpread(t *testing.T, r *room) {
	r.node("a", "16", "64Gi")
	r.node("b", "16", "64Gi")
	check(t, "group", r.placedAll(r.group("even", "policy", 4, "1", "4Gi")), map[string]int{"a": 2, "b": 2})
	check(t, "next", r.placedAll(r.group("again", "policy", 6, "1", "4Gi")), map[string]int{"a": 3, "b": 3})
}

// testGroupAllOrNone: two of three pods would fit; none is placed until another node has room for the third.
func testGroupAllOrNone(t *testing.T, r *room) {
	r.node("a", "4", "16Gi")
	pods := r.group("gang", "policy", 3, "2", "8Gi")
	for _, name := range pods {
		r.refused(name, "")
	}
	for _, name := range pods {
		if node := r.get(name).Spec.NodeName; node != "" {
			t.Errorf("pod %s is on %s, before all have room", name, node)
		}
	}
	r.node("b", "4", "16Gi")
	check(t, "gang", r.placedAll(pods), map[string]int{"a": 2, "b": 1})
}

// testGroupGPUs: pods of a group get GPUs of their own, and shares of one GPU together.
func testGroupGPUs(t *testing.T, r *room) {
	r.node("a", "64", "256Gi", gpuNode("3"))
	devices := func(pods []string) map[string]int {
		of := map[string]int{}
		for _, name := range pods {
			r.placed(name)
			of[r.get(name).Annotations["alibabacloud.com/gpu-index"]]++
		}
		return of
	}
	whole := devices(r.group("whole", "gpus", 2, "1", "1Gi", func(p *corev1.Pod) { gpu(p, "1", "1000") }))
	if want := map[string]int{"0": 1, "1": 1}; !maps.Equal(whole, want) {
		t.Errorf("pods by device %v, want %v", whole, want)
	}
	shares := devices(r.group("shares", "gpus", 2, "1", "1Gi", func(p *corev1.Pod) { gpu(p, "1", "500") }))
	if want := map[string]int{"2": 2}; !maps.Equal(shares, want) {
		t.Errorf("pods by device %v, want %v", shares, want)
	}
	none := r.group("none", "gpus", 1, "1", "1Gi", func(p *corev1.Pod) { gpu(p, "1", "100") })
	r.refused(none[0], "Insufficient GPU")
}
