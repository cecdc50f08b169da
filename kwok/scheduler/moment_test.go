package scheduler

import (
	"fmt"
	"math/rand/v2"
	"slices"
	"strings"
	"testing"
	"time"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/resource"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/labels"
	"k8s.io/apimachinery/pkg/types"

	"github.com/kubernasium/kubernasium/envs/cluster"
	"github.com/kubernasium/kubernasium/envs/podsched/gpushare"
	"github.com/kubernasium/kubernasium/kwok/kubeyaml"
)

// madeNode returns a node as the API server would show it.
func madeNode(name string, milliCPU, mebi, pods int64) *corev1.Node {
	have := corev1.ResourceList{
		corev1.ResourceCPU: *resource.NewMilliQuantity(milliCPU, resource.DecimalSI), corev1.ResourceMemory: *resource.NewQuantity(mebi<<20, resource.BinarySI),
		corev1.ResourcePods: *resource.NewQuantity(pods, resource.DecimalSI),
	}
	return &corev1.Node{
		ObjectMeta: metav1.ObjectMeta{Name: name, Labels: map[string]string{}, Annotations: map[string]string{"kwok.x-k8s.io/node": "fake"}},
		Status:     corev1.NodeStatus{Allocatable: have, Conditions: []corev1.NodeCondition{{Type: corev1.NodeReady, Status: corev1.ConditionTrue}}},
	}
}

// madePod returns a pod as the API server would show it.
func madePod(name, node string, milliCPU, mebi int64) *corev1.Pod {
	size := corev1.ResourceList{
		corev1.ResourceCPU: *resource.NewMilliQuantity(milliCPU, resource.DecimalSI), corev1.ResourceMemory: *resource.NewQuantity(mebi<<20, resource.BinarySI),
	}
	return &corev1.Pod{
		ObjectMeta: metav1.ObjectMeta{Namespace: "default", Name: name, UID: types.UID(name), Annotations: map[string]string{}},
		Spec: corev1.PodSpec{NodeName: node, SchedulerName: "ours",
			Containers: []corev1.Container{{Name: "main", Image: "a", Resources: corev1.ResourceRequirements{Requests: size}}}},
	}
}

func ownedBy(p *corev1.Pod, name string) {
	yes := true
	p.OwnerReferences = []metav1.OwnerReference{{Kind: "ReplicaSet", Name: name, UID: types.UID(name), Controller: &yes}}
}

func cacheOf(nodes []*corev1.Node, pods []*corev1.Pod) *cache {
	c := newCache(labels.Everything(), false, time.Minute)
	for _, n := range nodes {
		c.setNode(n)
	}
	for _, p := range pods {
		c.setPod(p)
	}
	return c
}

// TestStock compares the fall-back with gpushare.Simulate, which plays kube-scheduler's default plugins
// by code of its own, on random clusters with taints, preferred affinity, zones, images and replicas.
func TestStock(t *testing.T) {
	rng := rand.New(rand.NewPCG(7, 7))
	chosen := map[string]int{}
	for trial := range 200 {
		o := &kubeyaml.Objects{}
		var nodes []*corev1.Node
		var pods []*corev1.Pod
		for i := range 3 + rng.IntN(6) {
			n := madeNode(fmt.Sprintf("n%d", i), 1000*int64(4+rng.IntN(12)), 1024*int64(8+rng.IntN(24)), int64(6+rng.IntN(20)))
			n.Labels["disk"] = []string{"ssd", "hdd"}[rng.IntN(2)]
			if trial%2 == 0 {
				n.Labels[corev1.LabelTopologyZone] = []string{"x", "y"}[i%2]
			}
			if rng.IntN(3) == 0 {
				n.Spec.Taints = []corev1.Taint{{Key: "slow", Effect: corev1.TaintEffectPreferNoSchedule}}
			}
			if rng.IntN(5) == 0 {
				n.Spec.Unschedulable = true
			}
			if rng.IntN(3) == 0 {
				n.Status.Images = []corev1.ContainerImage{{Names: []string{"a:latest"}, SizeBytes: 400 << 20}}
			}
			nodes = append(nodes, n)
		}
		used := make([]int64, len(nodes))
		for i := range rng.IntN(20) {
			k := rng.IntN(len(nodes))
			if used[k]++; used[k] > 3 {
				continue // more than three of these pods may not fit a node
			}
			p := madePod(fmt.Sprintf("p%d", i), nodes[k].Name, int64(100*(1+rng.IntN(10))), int64(256*(1+rng.IntN(8))))
			ownedBy(p, []string{"web", "db"}[rng.IntN(2)])
			if rng.IntN(4) == 0 { // counted with what NodeResourcesFit takes for nothing stated
				p.Spec.Containers[0].Resources.Requests = nil
			}
			pods = append(pods, p)
		}
		pending := madePod("pending", "", int64(100*(1+rng.IntN(20))), int64(256*(1+rng.IntN(16))))
		ownedBy(pending, "web")
		if trial%3 == 0 {
			pending.Spec.Affinity = &corev1.Affinity{NodeAffinity: &corev1.NodeAffinity{PreferredDuringSchedulingIgnoredDuringExecution: []corev1.PreferredSchedulingTerm{
				{Weight: 10, Preference: corev1.NodeSelectorTerm{MatchExpressions: []corev1.NodeSelectorRequirement{{Key: "disk", Operator: corev1.NodeSelectorOpIn, Values: []string{"ssd"}}}}},
			}}}
		}
		if trial%5 == 0 {
			pending.Spec.Tolerations = []corev1.Toleration{{Key: "slow", Operator: corev1.TolerationOpExists}}
		}
		pods = append(pods, pending)
		for i := range nodes {
			o.Nodes = append(o.Nodes, *nodes[i])
		}
		for i := range pods {
			o.Pods = append(o.Pods, *pods[i])
		}
		want := simulated(t, o)
		m, err := cacheOf(nodes, pods).moment(pending, 1, nil)
		if err != nil {
			t.Fatal(err)
		}
		got := ""
		if c := stock(m); c.node >= 0 {
			got = m.nodes[c.node].Name
		}
		if got != want {
			t.Fatalf("trial %d: %q, want %q", trial, got, want)
		}
		chosen[got]++
	}
	if len(chosen) < 4 || chosen[""] > 100 {
		t.Errorf("nodes chosen: %v, want several", chosen)
	}
}

// simulated returns the node of the pod "pending" by gpushare.Simulate; "" is none.
func simulated(t *testing.T, o *kubeyaml.Objects) string {
	t.Helper()
	w, err := o.Workload()
	if err != nil {
		t.Fatal(err)
	}
	profiles := make([]gpushare.Profile, len(w.Schedulers))
	for i := range profiles {
		profiles[i] = gpushare.Profile{Plugins: gpushare.KubePlugins, Devices: "BestFit"}
	}
	r, err := gpushare.Simulate(w.Nodes, w.Pods, profiles, 0)
	if err != nil {
		t.Fatal(err)
	}
	for _, p := range r.Placements {
		if p.Pod == "default/pending" {
			return p.Node
		}
	}
	return ""
}

// TestMoment: nodes in their natural order; what is beyond a node's capacity shows it full; devices
// that pods say, or the first that are free; racks by label; assumptions count, and end.
func TestMoment(t *testing.T) {
	nodes := []*corev1.Node{madeNode("n10", 4000, 8192, 10), madeNode("n2", 4000, 8192, 10), madeNode("n1", 4000, 8192, 2)}
	for i, n := range nodes {
		n.Labels["rack"] = []string{"r1", "r0", "r1"}[i]
		n.Annotations["kubernasium.io/gpus"], n.Annotations["kubernasium.io/milli-gpu"], n.Annotations["kubernasium.io/gpu-model"] = "2", "1000", "T4"
	}
	onGPU := func(p *corev1.Pod, milli, devices string) *corev1.Pod {
		p.Annotations["kubernasium.io/gpus"], p.Annotations["kubernasium.io/milli-gpu"] = "1", milli
		if devices != "" {
			p.Annotations["kubernasium.io/devices"] = devices
		}
		return p
	}
	pods := []*corev1.Pod{
		madePod("too-much", "n1", 6000, 1024), madePod("second", "n1", 0, 0), madePod("third", "n1", 0, 0), // of at most 2
		onGPU(madePod("says", "n2", 1000, 1024), "700", "1"), onGPU(madePod("silent", "n2", 1000, 1024), "600", ""),
		onGPU(madePod("other", "gone", 1000, 1024), "600", ""), // its node is not there
		madePod("waits", "", 1000, 1024), onGPU(madePod("p", "", 1000, 1024), "500", ""),
	}
	c := cacheOf(nodes, pods)
	now := time.Now()
	c.now = func() time.Time { return now }
	m, err := c.moment(pods[7], 1, nil)
	if err != nil {
		t.Fatal(err)
	}
	var names []string
	for _, n := range m.nodes {
		names = append(names, n.Name)
	}
	if !slices.Equal(names, []string{"n1", "n2", "n10"}) || !slices.Equal(m.decision.Racks, []int32{0, 1, 0}) {
		t.Errorf("nodes %v in racks %v, want n1, n2, n10 in 0, 1, 0", names, m.decision.Racks)
	}
	s := m.state
	if n := s.Nodes[0]; n.Requested.MilliCPU != 4000 || n.NumPods != 2 {
		t.Errorf("n1 has %d pods with %d milli-CPU, want it full: 2 and 4000", n.NumPods, n.Requested.MilliCPU)
	}
	if got, want := fmt.Sprint(s.NodeDevices(1)), "[{1000 400} {1000 300}]"; got != want {
		t.Errorf("devices of n2 %s, want %s: the second pod says its device, the third takes the first", got, want)
	}
	// p wants 500 of a device: n1 is full, n2 has 400 and 300 left.
	if !slices.Equal(m.mask, []bool{false, false, true}) || m.refusal(0) != "Too many pods" || m.refusal(1) != "Insufficient GPU" {
		t.Errorf("mask %v, %q, %q", m.mask, m.refusal(0), m.refusal(1))
	}
	if p := s.Pods[m.decision.Pod]; p.GPUs != 1 || p.MilliGPU != 500 || p.Phase != cluster.Pending || len(s.Pods) != 6 {
		t.Errorf("the pod is %+v of %d, want the one of 500 thousandths among 6", p, len(s.Pods))
	}
	// The pod that waits is assumed to go to n10.
	if !c.assume(pods[6], "n10", 0) || c.assume(pods[6], "gone", 0) || c.assume(pods[3], "n10", 0) {
		t.Error("assume: want a pod that waits on a node that is there, and no other")
	}
	if m, err = c.moment(pods[7], 1, nil); err != nil {
		t.Fatal(err)
	}
	if got := m.state.Nodes[2].Requested.MilliCPU; got != 1000 {
		t.Errorf("n10 has %d milli-CPU requested, want the 1000 of the pod that is assumed there", got)
	}
	now = now.Add(2 * time.Minute)
	if m, err = c.moment(pods[7], 1, map[string]bool{"n2": true}); err != nil {
		t.Fatal(err)
	}
	if got := m.state.Nodes[2].Requested.MilliCPU; got != 0 {
		t.Errorf("n10 has %d milli-CPU requested after the assumption's end, want 0", got)
	}
	if want := "0/3 nodes are available: 1 Insufficient GPU, 2 not among the nodes given."; m.reasons() != want {
		t.Errorf("reasons %q, want %q", m.reasons(), want)
	}
	c.setPod(onGPU(madePod("says2", "n2", 1000, 1024), "1000", ""))
	if m, err = c.moment(pods[7], 1, nil); err != nil || !strings.Contains(m.refusal(1), "more GPU than it has") {
		t.Errorf("a node with more on its GPUs than they have: %q, %v", m.refusal(1), err)
	}
}

// TestTurns: priority, then creation, then arrival.
func TestTurns(t *testing.T) {
	now := time.Now()
	order := map[types.UID]turn{
		"late": {0, now.Add(time.Second), 1}, "second": {0, now, 3}, "first": {0, now, 2}, "high": {5, now.Add(time.Minute), 4}, "low": {-1, now, 0},
	}
	q := &turns{order: func(uid types.UID) turn { return order[uid] }}
	for _, uid := range []types.UID{"low", "second", "late", "high", "first"} {
		q.Push(uid)
	}
	var got []types.UID
	for q.Len() > 0 {
		got = append(got, q.Pop())
	}
	if want := []types.UID{"high", "first", "second", "late", "low"}; !slices.Equal(got, want) {
		t.Errorf("turns %v, want %v", got, want)
	}
}

// TestRanked: the choice alone has the highest score, and others theirs in proportion.
func TestRanked(t *testing.T) {
	m := &moment{nodes: []*corev1.Node{madeNode("a", 1, 1, 1), madeNode("b", 1, 1, 1), madeNode("c", 1, 1, 1), madeNode("d", 1, 1, 1)}, mask: []bool{true, true, false, true}}
	for _, tc := range []struct {
		scores []float64
		node   int32
		want   string
	}{
		{[]float64{-2, 3, 9, 0.5}, 1, "map[a:0 b:10 d:5]"}, // 10·(0.5+2)/5
		{[]float64{3, 3, 9, 3}, 0, "map[a:10 b:9 d:9]"},
		{[]float64{3, 3, 9, 1}, 0, "map[a:10 b:9 d:0]"},
	} {
		if got := fmt.Sprint(m.ranked(choice{node: tc.node, scores: tc.scores}, 10)); got != tc.want {
			t.Errorf("ranked(%v) = %s, want %s", tc.scores, got, tc.want)
		}
	}
}
