package trace

import (
	"math/rand/v2"
	"testing"

	corev1 "k8s.io/api/core/v1"

	"github.com/kubernasium/kubernasium/kwok/kubeyaml"
)

// TestRefusalIsUpstreams compares, for random pods and nodes, clustertrace's rule with that of package kubeyaml, which
// calls k8s.io/component-helpers.
func TestRefusalIsUpstreams(t *testing.T) {
	rng := rand.New(rand.NewPCG(1, 0))
	keys, values := []string{"a", "b"}, []string{"1", "2", "x"}
	pick := func(of []string) string { return of[rng.IntN(len(of))] }
	refused := 0
	for range 20_000 {
		node := &corev1.Node{}
		node.Name, node.Spec.Unschedulable = pick(values), rng.IntN(8) == 0
		node.Labels = map[string]string{pick(keys): pick(values), pick(keys): pick(values)}
		node.Status.Conditions = []corev1.NodeCondition{{Type: corev1.NodeReady, Status: corev1.ConditionTrue}}
		effects := []corev1.TaintEffect{corev1.TaintEffectNoSchedule, corev1.TaintEffectPreferNoSchedule, corev1.TaintEffectNoExecute, ""}
		if rng.IntN(3) == 0 {
			node.Spec.Taints = []corev1.Taint{{Key: pick(keys), Value: pick(values), Effect: effects[rng.IntN(3)]}}
		}
		pod := &corev1.Pod{}
		for range rng.IntN(3) {
			ops := []corev1.TolerationOperator{"", corev1.TolerationOpEqual, corev1.TolerationOpExists}
			pod.Spec.Tolerations = append(pod.Spec.Tolerations, corev1.Toleration{Key: pick(append(keys, "")), Operator: ops[rng.IntN(3)], Value: pick(values), Effect: effects[rng.IntN(4)]})
		}
		if rng.IntN(4) == 0 {
			pod.Spec.NodeSelector = map[string]string{pick(keys): pick(values)}
		}
		if rng.IntN(2) == 0 {
			required := &corev1.NodeSelector{}
			for range 1 + rng.IntN(2) {
				required.NodeSelectorTerms = append(required.NodeSelectorTerms, randomTerm(rng, pick, keys, values))
			}
			pod.Spec.Affinity = &corev1.Affinity{NodeAffinity: &corev1.NodeAffinity{RequiredDuringSchedulingIgnoredDuringExecution: required}}
		}
		terms, err := kubeyaml.ReadTerms(pod)
		if err != nil {
			t.Fatal(err)
		}
		want, err := terms.Refusal(node)
		if err != nil {
			continue // Gt of no number, which the API server refuses
		}
		spec, err := names{}.template(pod)
		if err != nil {
			t.Fatal(err)
		}
		info, err := names{}.node(node)
		if err != nil {
			t.Fatal(err)
		}
		if got := spec.Refusal(info); (got == "") != (want == "") {
			t.Fatalf("Refusal = %q, upstream %q\npod %+v\nnode %+v", got, want, pod.Spec, node)
		}
		if want != "" {
			refused++
		}
	}
	if refused < 2000 || refused > 18_000 {
		t.Errorf("%d of 20000 were refused, want some of each", refused)
	}
}

func randomTerm(rng *rand.Rand, pick func([]string) string, keys, values []string) corev1.NodeSelectorTerm {
	var t corev1.NodeSelectorTerm
	for range rng.IntN(3) {
		r := corev1.NodeSelectorRequirement{Key: pick(keys)}
		switch rng.IntN(4) {
		case 0:
			r.Operator, r.Values = corev1.NodeSelectorOpIn, []string{pick(values), pick(values)}
		case 1:
			r.Operator, r.Values = corev1.NodeSelectorOpNotIn, []string{pick(values)}
		case 2:
			r.Operator = []corev1.NodeSelectorOperator{corev1.NodeSelectorOpExists, corev1.NodeSelectorOpDoesNotExist}[rng.IntN(2)]
		case 3:
			r.Operator, r.Values = []corev1.NodeSelectorOperator{corev1.NodeSelectorOpGt, corev1.NodeSelectorOpLt}[rng.IntN(2)], []string{pick(values[:2])}
		}
		t.MatchExpressions = append(t.MatchExpressions, r)
	}
	if rng.IntN(4) == 0 {
		t.MatchFields = []corev1.NodeSelectorRequirement{{Key: "metadata.name", Operator: corev1.NodeSelectorOpIn, Values: []string{pick(values)}}}
	}
	return t
}
