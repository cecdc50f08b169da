package scheduler

import (
	"fmt"
	"testing"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
)

// BenchmarkTerms is a moment of a pod with terms about others, among pods with terms.
func BenchmarkTerms(b *testing.B) {
	var nodes []*corev1.Node
	for i := range 1000 {
		n := madeNode(fmt.Sprintf("n%d", i), 64000, 256<<10, 110)
		n.Labels[corev1.LabelHostname], n.Labels[corev1.LabelTopologyZone] = n.Name, fmt.Sprintf("z%d", i%3)
		nodes = append(nodes, n)
	}
	termed := func(name, node string, app int) *corev1.Pod {
		p := madePod(name, node, 500, 1024)
		p.Labels = map[string]string{"app": fmt.Sprint(app)}
		of := &metav1.LabelSelector{MatchLabels: p.Labels}
		p.Spec.Affinity = &corev1.Affinity{PodAntiAffinity: &corev1.PodAntiAffinity{RequiredDuringSchedulingIgnoredDuringExecution: []corev1.PodAffinityTerm{
			{LabelSelector: of, TopologyKey: corev1.LabelHostname},
		}}}
		p.Spec.TopologySpreadConstraints = []corev1.TopologySpreadConstraint{
			{MaxSkew: 1, TopologyKey: corev1.LabelTopologyZone, WhenUnsatisfiable: corev1.DoNotSchedule, LabelSelector: of},
		}
		return p
	}
	var pods []*corev1.Pod
	for i := range 10000 {
		pods = append(pods, termed(fmt.Sprintf("p%d", i), nodes[i%1000].Name, i/10))
	}
	pending := termed("pending", "", 0)
	c := cacheOf(nodes, append(pods, pending))
	b.ReportAllocs()
	for b.Loop() {
		m, err := c.moment(pending, 10, nil)
		if err != nil {
			b.Fatal(err)
		}
		if m.fitting() == 0 {
			b.Fatal(m.reasons())
		}
	}
}

// BenchmarkDecision is a decision from the cache to the chosen node: the moment, and the policy or
// the fall-back. The budget is 100 ms by default.
func BenchmarkDecision(b *testing.B) {
	for _, size := range []struct{ nodes, pods int }{{10, 100}, {100, 1000}, {1000, 10000}} {
		var nodes []*corev1.Node
		var pods []*corev1.Pod
		for i := range size.nodes {
			n := madeNode(fmt.Sprintf("n%d", i), 64000, 256<<10, 110)
			n.Labels["alibabacloud.com/gpu-card-model"], n.Annotations["kubernasium.io/gpus"] = "T4", "2"
			nodes = append(nodes, n)
		}
		for i := range size.pods {
			p := madePod(fmt.Sprintf("p%d", i), nodes[i%size.nodes].Name, 500, 1024)
			ownedBy(p, fmt.Sprintf("web%d", i/10))
			pods = append(pods, p)
		}
		pending := madePod("pending", "", 500, 1024)
		ownedBy(pending, "web0")
		c := cacheOf(nodes, append(pods, pending))
		for _, p := range []struct{ env, rule string }{{balance, "Greedy"}, {"k8s/GPUPodScheduling-v0", "FGD"}, {balance, ""}} {
			name := p.rule
			if name == "" {
				name = "fall-back"
			}
			b.Run(fmt.Sprintf("%s/nodes=%d", name, size.nodes), func(b *testing.B) {
				var s *seat
				if p.rule != "" {
					var err error
					if s, err = (&Policy{Env: lookup(b, p.env), Baseline: p.rule}).open(size.nodes); err != nil {
						b.Fatal(err)
					}
				}
				for b.Loop() {
					m, err := c.moment(pending, 10, nil)
					if err != nil {
						b.Fatal(err)
					}
					if s == nil {
						stock(m)
					} else if _, err := s.choose(b.Context(), m); err != nil {
						b.Fatal(err)
					}
				}
			})
		}
	}
}

// BenchmarkPreemption is the choice of victims for a pod that fits no node, on each of which it may evict some.
func BenchmarkPreemption(b *testing.B) {
	var nodes []*corev1.Node
	var pods []*corev1.Pod
	for i := range 1000 {
		nodes = append(nodes, madeNode(fmt.Sprintf("n%d", i), 5000, 256<<10, 110))
	}
	for i := range 10000 {
		pods = append(pods, ranked(madePod(fmt.Sprintf("p%d", i), nodes[i%1000].Name, 500, 1024), int32(i%7), i))
	}
	pending := ranked(madePod("pending", "", 1000, 1024), 100, 0)
	c := cacheOf(nodes, append(pods, pending))
	m, err := c.moment(pending, 1, nil)
	if err != nil {
		b.Fatal(err)
	}
	for b.Loop() {
		if k, _ := c.preemption(m, nil); k == nil || len(k.victims) != 2 {
			b.Fatalf("%+v, want two pods of 500 m to go for one of 1000 m", k)
		}
	}
}
