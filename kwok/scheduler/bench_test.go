package scheduler

import (
	"fmt"
	"testing"

	corev1 "k8s.io/api/core/v1"
)

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
					} else if _, err := s.choose(m); err != nil {
						b.Fatal(err)
					}
				}
			})
		}
	}
}
