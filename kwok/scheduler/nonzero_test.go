package scheduler

import (
	"fmt"
	"testing"

	corev1 "k8s.io/api/core/v1"

	"github.com/kubernasium/kubernasium/kwok/kwoktest"
)

// bare takes the requests off a pod's containers.
func bare(p *corev1.Pod) {
	for i := range p.Spec.Containers {
		p.Spec.Containers[i].Resources.Requests = nil
	}
}

// TestBarePods: policies spread pods that request nothing, as kube-scheduler's non-zero requests
// do, and those that request 0 likewise. A container without requests counts beside one with some.
func TestBarePods(t *testing.T) {
	for name, change := range map[string]func(*corev1.Pod){"none": bare, "zero": func(*corev1.Pod) {}} {
		for _, policy := range []*Policy{byBaseline(t, balance, "Greedy", nil), byBaseline(t, balance, "KubeDefault", nil), byAgent(t, emptier)} {
			var pods []*corev1.Pod
			for i := range 60 {
				p := madePod(fmt.Sprintf("p%02d", i), "", 0, 0)
				change(p)
				pods = append(pods, p)
			}
			c := cacheOf([]*corev1.Node{madeNode("a", 8000, 32768, 110), madeNode("b", 8000, 32768, 110), madeNode("c", 8000, 32768, 110)}, pods)
			on := placeAll(t, c, policy, pods)
			if on["a"] != 20 || on["b"] != 20 || on["c"] != 20 {
				t.Errorf("%s places 60 pods (requests: %s) as %v, want 20 on each node", policy.Name, name, on)
			}
		}
	}
	// By hand: a pod of 100 m and 200 Mi with a bare sidecar counts as two bare pods, so that of
	// four bare ones three go to the other node.
	sized := madePod("sized", "a", 100, 200)
	sized.Spec.Containers = append(sized.Spec.Containers, corev1.Container{Name: "sidecar", Image: "a"})
	pods := []*corev1.Pod{sized}
	for i := range 4 {
		p := madePod(fmt.Sprintf("p%d", i), "", 100, 200)
		bare(p)
		pods = append(pods, p)
	}
	c := cacheOf([]*corev1.Node{madeNode("a", 8000, 16000, 110), madeNode("b", 8000, 16000, 110)}, pods)
	if on := placeAll(t, c, byBaseline(t, balance, "Greedy", nil), pods[1:]); on["a"] != 1 || on["b"] != 3 {
		t.Errorf("Greedy places four pods beside one with a sidecar as %v, want 1 on a and 3 on b", on)
	}
}

// TestBareGPUPods: k8s/GPUPodScheduling-v0's rules after kube-scheduler's plugins count alike.
func TestBareGPUPods(t *testing.T) {
	for policy, want := range map[string]int{"KubeResources": 20, "KubeDefault": 20, "MostAllocated": 60} {
		var pods []*corev1.Pod
		for i := range 60 {
			p := madePod(fmt.Sprintf("p%02d", i), "", 0, 0)
			bare(p)
			pods = append(pods, p)
		}
		var nodes []*corev1.Node
		for _, name := range []string{"a", "b", "c"} {
			n := madeNode(name, 8000, 32768, 110)
			n.Annotations["kubernasium.io/gpus"], n.Annotations["kubernasium.io/milli-gpu"], n.Annotations["kubernasium.io/gpu-model"] = "1", "1000", "T4"
			nodes = append(nodes, n)
		}
		on := placeAll(t, cacheOf(nodes, pods), byBaseline(t, "k8s/GPUPodScheduling-v0", policy, nil), pods)
		if on["a"] != want {
			t.Errorf("%s places %v, want %d on a", policy, on, want)
		}
	}
}

// emptier prefers nodes of less requested CPU and memory, the first columns of a node.
func emptier(_ int, row []float32) float32 { return -row[0] - row[1] }

// placeAll lets the policy place the pods one after another, each assumed where it goes, and
// returns the number on each node.
func placeAll(t *testing.T, c *cache, p *Policy, pods []*corev1.Pod) map[string]int {
	t.Helper()
	seats, on := map[int]*seat{}, map[string]int{}
	for _, pod := range pods {
		m, err := c.moment(pod, 1, nil)
		if err != nil {
			t.Fatal(err)
		}
		s := seats[len(m.nodes)]
		if s == nil {
			if s, err = p.open(len(m.nodes)); err != nil {
				t.Fatal(err)
			}
			seats[len(m.nodes)] = s
		}
		choice, err := s.choose(ctx, m)
		if err != nil {
			t.Fatal(err)
		}
		name := m.nodes[choice.node].Name
		if !c.assume(pod, name, choice.devices) {
			t.Fatalf("pod %s cannot be assumed on %s", pod.Name, name)
		}
		on[name]++
	}
	return on
}

// TestBarePodsOnAPIServer: Greedy as scheduler of an API server spreads pods that request nothing.
func TestBarePodsOnAPIServer(t *testing.T) {
	w := newWorld(t, kwoktest.Shared(t))
	for _, name := range []string{"a", "b", "c"} {
		w.node(name, "8", "32Gi", 110)
	}
	c := w.config(byBaseline(t, balance, "Greedy", nil))
	s, _ := w.run(c)
	w.known(s)
	on := map[string]int{}
	for i := range 12 {
		p := w.create(w.pod(fmt.Sprintf("p%d", i), c.Name, "1", "1Gi", bare))
		on[w.placed(p.Name)]++
	}
	if on["a"] != 4 || on["b"] != 4 || on["c"] != 4 {
		t.Errorf("Greedy places 12 pods without requests as %v, want 4 on each node", on)
	}
}
