package schedulerconfig_test

import (
	"bytes"
	"encoding/json"
	"fmt"
	"io"
	"maps"
	"net/http"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"time"

	corev1 "k8s.io/api/core/v1"
	resourcev1 "k8s.io/api/resource/v1"
	schedulingv1 "k8s.io/api/scheduling/v1"
	storagev1 "k8s.io/api/storage/v1"
	"k8s.io/apimachinery/pkg/api/resource"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/kubernasium/kubernasium/agents/live"
	"github.com/kubernasium/kubernasium/envs/envstest"
	"github.com/kubernasium/kubernasium/kwok/schedulerconfig"
	"github.com/kubernasium/kubernasium/kwok/scorer"
)

const gpuEnv = "k8s/GPUPodScheduling-v0"

func profile(name string, args live.Args, change ...func(*schedulerconfig.Args)) schedulerconfig.Profile {
	a := schedulerconfig.Args{Args: args}
	a.Budget.Duration = patience // a busy machine is no reason to fall back
	for _, f := range change {
		f(&a)
	}
	return schedulerconfig.Profile{Name: name, Args: a}
}

func order(o string) func(*schedulerconfig.Args) {
	return func(a *schedulerconfig.Args) { a.Order = o }
}

// TestPlugin runs kube-scheduler with the plugin in the control plane: what users take for granted holds
// beside the policy.
func TestPlugin(t *testing.T) {
	greedy := live.Args{Baseline: "Greedy"}
	w := start(t,
		profile("respect", greedy), profile("policy", greedy, order(schedulerconfig.OrderPolicy)), profile("tiebreak", live.Args{Baseline: "MostAllocated"}, order(schedulerconfig.OrderTiebreak)),
		profile("late", greedy, func(a *schedulerconfig.Args) { a.Budget.Duration = time.Nanosecond }),
		profile("gpus", live.Args{Baseline: "BestFit", Env: gpuEnv}),
		profile("model", live.Args{Model: pretrained(t, "k8s-PodBalance-v0/ppo")}),
	)
	for _, tc := range []struct {
		name string
		test func(t *testing.T, r *room)
	}{
		{"preferred affinity", testAffinity}, {"PreferNoSchedule", testPreferNoSchedule}, {"soft spread", testSoftSpread}, {"tiebreak", testTiebreak},
		{"budget", testBudget}, {"preemption", testPreemption}, {"PodScheduled", testPodScheduled}, {"GPUs", testGPUs}, {"one feasible node", testOneNode},
		{"no requests", testNoRequests}, {"volume of the first consumer", testVolume}, {"claim of a device", testClaim}, {"slices of a GPU", testMIG}, {"score", testScore}, {"resize", testResize},
	} {
		t.Run(tc.name, func(t *testing.T) { tc.test(t, w.room(t)) })
	}
}

func pretrained(t testing.TB, name string) string {
	t.Helper()
	path, err := filepath.Abs(filepath.Join("..", "..", "models", "pretrained", name+".safetensors"))
	if err != nil {
		t.Fatal(err)
	}
	return path
}

// spread places pods one after the other and counts them by node.
func (r *room) spread(n int, scheduler, cpu, memory string, change ...func(*corev1.Pod)) map[string]int {
	r.t.Helper()
	on := map[string]int{}
	for i := range n {
		name := fmt.Sprintf("%s-%d", scheduler, i)
		r.pod(name, scheduler, cpu, memory, change...)
		on[r.placed(name)]++
	}
	return on
}

func check(t *testing.T, what string, got, want map[string]int) {
	t.Helper()
	if !maps.Equal(got, want) {
		t.Errorf("%s: pods by node %v, want %v", what, got, want)
	}
}

// testAffinity: pods that prefer a zone go there, unless the policy comes first: Greedy evens out.
func testAffinity(t *testing.T, r *room) {
	r.node("a", "16", "64Gi", func(n *corev1.Node) { n.Labels["zone"] = "x" })
	r.node("b", "16", "64Gi")
	prefer := func(p *corev1.Pod) {
		p.Spec.Affinity = &corev1.Affinity{NodeAffinity: &corev1.NodeAffinity{PreferredDuringSchedulingIgnoredDuringExecution: []corev1.PreferredSchedulingTerm{{
			Weight: 1, Preference: corev1.NodeSelectorTerm{MatchExpressions: []corev1.NodeSelectorRequirement{{Key: "zone", Operator: corev1.NodeSelectorOpIn, Values: []string{"x"}}}},
		}}}}
	}
	check(t, "respect", r.spread(6, "respect", "1", "4Gi", prefer), map[string]int{"a": 6})
	check(t, "policy", r.spread(6, "policy", "1", "4Gi", prefer), map[string]int{"b": 6}) // 6 are on a
}

func testPreferNoSchedule(t *testing.T, r *room) {
	r.node("a", "16", "64Gi", func(n *corev1.Node) {
		n.Spec.Taints = []corev1.Taint{{Key: "slow", Effect: corev1.TaintEffectPreferNoSchedule}}
	})
	r.node("b", "16", "64Gi")
	check(t, "respect", r.spread(4, "respect", "1", "4Gi"), map[string]int{"b": 4})
	check(t, "policy", r.spread(4, "policy", "1", "4Gi"), map[string]int{"a": 4}) // 4 are on b
}

// testSoftSpread: on nodes of 32 and 8 cores Greedy would put four of five pods on the larger.
func testSoftSpread(t *testing.T, r *room) {
	r.node("a", "32", "128Gi")
	r.node("b", "8", "32Gi")
	soft := func(p *corev1.Pod) {
		p.Spec.TopologySpreadConstraints = []corev1.TopologySpreadConstraint{{
			MaxSkew: 1, TopologyKey: corev1.LabelHostname, WhenUnsatisfiable: corev1.ScheduleAnyway, LabelSelector: &metav1.LabelSelector{MatchLabels: map[string]string{"app": "a"}},
		}}
	}
	check(t, "respect", r.spread(6, "respect", "1", "4Gi", soft), map[string]int{"a": 3, "b": 3})
}

// testTiebreak: kube-scheduler's scores put pods apart; of two nodes that are as good MostAllocated
// takes the first.
func testTiebreak(t *testing.T, r *room) {
	r.node("a", "16", "64Gi")
	r.node("b", "16", "64Gi")
	check(t, "tiebreak", r.spread(4, "tiebreak", "2", "8Gi"), map[string]int{"a": 2, "b": 2})
}

// testBudget: where the policy is late, kube-scheduler's own scores decide.
func testBudget(t *testing.T, r *room) {
	r.node("a", "16", "64Gi")
	r.node("b", "16", "64Gi")
	check(t, "late", r.spread(4, "late", "2", "8Gi"), map[string]int{"a": 2, "b": 2})
	if got := r.metric(`kubernasium_decisions_total{profile="late",result="timeout"}`); got != 4 {
		t.Errorf("%v decisions counted as late, want 4", got)
	}
	if got := r.metric(`kubernasium_decisions_total{profile="late",result="policy"}`); got != 0 {
		t.Errorf("%v decisions counted as the policy's, want 0", got)
	}
}

// testPreemption: a pod of high priority evicts one of low priority, and takes its node.
func testPreemption(t *testing.T, r *room) {
	r.node("a", "4", "16Gi")
	class := &schedulingv1.PriorityClass{ObjectMeta: metav1.ObjectMeta{GenerateName: "high-"}, Value: 1000}
	class, err := r.client.SchedulingV1().PriorityClasses().Create(t.Context(), class, metav1.CreateOptions{})
	if err != nil {
		t.Fatal(err)
	}
	check(t, "low", r.spread(4, "respect", "1", "4Gi"), map[string]int{"a": 4})
	r.pod("high", "respect", "2", "8Gi", func(p *corev1.Pod) { p.Spec.PriorityClassName = class.Name })
	if node := r.placed("high"); node != "a" {
		t.Errorf("the pod of high priority is on %q, want a", node)
	}
	list, err := r.client.CoreV1().Pods(r.namespace).List(t.Context(), metav1.ListOptions{})
	if err != nil {
		t.Fatal(err)
	}
	left := 0
	for i := range list.Items {
		if list.Items[i].DeletionTimestamp == nil {
			left++
		}
	}
	if left != 3 {
		t.Errorf("%d pods are left, want 2 of 4 and the preemptor", left)
	}
}

// testPodScheduled: a pod that fits nowhere has the condition for which cluster autoscalers wait.
func testPodScheduled(t *testing.T, r *room) {
	r.node("a", "4", "16Gi")
	r.pod("large", "respect", "40", "16Gi")
	r.until("PodScheduled is False", func() bool {
		return slices.ContainsFunc(r.get("large").Status.Conditions, func(c corev1.PodCondition) bool {
			return c.Type == corev1.PodScheduled && c.Status == corev1.ConditionFalse && c.Reason == corev1.PodReasonUnschedulable && strings.Contains(c.Message, "Insufficient cpu")
		})
	})
}

func gpu(p *corev1.Pod, count, milli string) {
	p.Annotations["alibabacloud.com/gpu-count"], p.Annotations["alibabacloud.com/gpu-milli"] = count, milli
}

func gpuNode(gpus string) func(*corev1.Node) {
	return func(n *corev1.Node) {
		n.Status.Allocatable["nvidia.com/gpu"], n.Status.Capacity["nvidia.com/gpu"] = resource.MustParse(gpus), resource.MustParse(gpus)
	}
}

// testGPUs: shares of devices are packed, whole devices are kept apart, and what fits no device waits.
func testGPUs(t *testing.T, r *room) {
	r.node("a", "64", "256Gi", gpuNode("2"))
	r.node("b", "64", "256Gi", gpuNode("4"))
	for i, want := range []struct{ count, milli, node, devices string }{
		{"1", "600", "a", "0"}, {"1", "400", "a", "0"}, // best fit fills the device
		{"4", "1000", "b", "0-1-2-3"}, {"1", "1000", "a", "1"},
	} {
		name := fmt.Sprintf("p%d", i)
		r.pod(name, "gpus", "1", "1Gi", func(p *corev1.Pod) { gpu(p, want.count, want.milli) })
		node := r.placed(name)
		if got := r.get(name).Annotations["alibabacloud.com/gpu-index"]; node != want.node || got != want.devices {
			t.Errorf("pod %d of %s × %s is on %s with devices %q, want %s with %q", i, want.count, want.milli, node, got, want.node, want.devices)
		}
	}
	r.pod("more", "gpus", "1", "1Gi", func(p *corev1.Pod) { gpu(p, "1", "100") })
	r.until("the pod that fits no device says so", func() bool {
		return slices.ContainsFunc(r.get("more").Status.Conditions, func(c corev1.PodCondition) bool {
			return c.Type == corev1.PodScheduled && strings.Contains(c.Message, "2 Insufficient GPU")
		})
	})
	if err := r.client.CoreV1().Pods(r.namespace).Delete(t.Context(), "p1", metav1.DeleteOptions{GracePeriodSeconds: new(int64)}); err != nil {
		t.Fatal(err)
	}
	if node := r.placed("more"); node != "a" {
		t.Errorf("the pod is on %s, want a, where a share has become free", node)
	}
}

// testOneNode: with one feasible node kube-scheduler asks for no scores; devices are chosen all the same.
func testOneNode(t *testing.T, r *room) {
	r.node("a", "64", "256Gi", gpuNode("2"))
	for i, want := range []string{"0", "0", "1"} {
		name := fmt.Sprintf("p%d", i)
		r.pod(name, "gpus", "1", "1Gi", func(p *corev1.Pod) { gpu(p, "1", "500") })
		r.placed(name)
		if got := r.get(name).Annotations["alibabacloud.com/gpu-index"]; got != want {
			t.Errorf("pod %d has device %q, want %s", i, got, want)
		}
	}
}

// testNoRequests: pods that request nothing are put apart.
func testNoRequests(t *testing.T, r *room) {
	r.node("a", "16", "64Gi")
	r.node("b", "16", "64Gi")
	check(t, "respect", r.spread(6, "respect", "", ""), map[string]int{"a": 3, "b": 3})
}

// testVolume: a claim that waits for its first consumer is bound with the pod, where the volume is.
func testVolume(t *testing.T, r *room) {
	r.node("a", "16", "64Gi")
	b := r.node("b", "16", "64Gi")
	r.pod("fills", "respect", "8", "32Gi", func(p *corev1.Pod) { p.Spec.NodeSelector[corev1.LabelHostname] = b })
	r.placed("fills") // Greedy would choose a
	waits, class := storagev1.VolumeBindingWaitForFirstConsumer, r.namespace
	if _, err := r.client.StorageV1().StorageClasses().Create(t.Context(), &storagev1.StorageClass{
		ObjectMeta: metav1.ObjectMeta{Name: class}, Provisioner: "kubernetes.io/no-provisioner", VolumeBindingMode: &waits,
	}, metav1.CreateOptions{}); err != nil {
		t.Fatal(err)
	}
	size := corev1.ResourceList{corev1.ResourceStorage: resource.MustParse("1Gi")}
	if _, err := r.client.CoreV1().PersistentVolumes().Create(t.Context(), &corev1.PersistentVolume{
		ObjectMeta: metav1.ObjectMeta{Name: r.namespace},
		Spec: corev1.PersistentVolumeSpec{
			Capacity: size, AccessModes: []corev1.PersistentVolumeAccessMode{corev1.ReadWriteOnce}, StorageClassName: class, PersistentVolumeReclaimPolicy: corev1.PersistentVolumeReclaimRetain,
			PersistentVolumeSource: corev1.PersistentVolumeSource{Local: &corev1.LocalVolumeSource{Path: "/data"}},
			NodeAffinity: &corev1.VolumeNodeAffinity{Required: &corev1.NodeSelector{NodeSelectorTerms: []corev1.NodeSelectorTerm{{
				MatchExpressions: []corev1.NodeSelectorRequirement{{Key: corev1.LabelHostname, Operator: corev1.NodeSelectorOpIn, Values: []string{b}}},
			}}}},
		},
	}, metav1.CreateOptions{}); err != nil {
		t.Fatal(err)
	}
	if _, err := r.client.CoreV1().PersistentVolumeClaims(r.namespace).Create(t.Context(), &corev1.PersistentVolumeClaim{
		ObjectMeta: metav1.ObjectMeta{Name: "data"},
		Spec: corev1.PersistentVolumeClaimSpec{StorageClassName: &class, AccessModes: []corev1.PersistentVolumeAccessMode{corev1.ReadWriteOnce},
			Resources: corev1.VolumeResourceRequirements{Requests: size}},
	}, metav1.CreateOptions{}); err != nil {
		t.Fatal(err)
	}
	r.pod("consumer", "respect", "1", "1Gi", func(p *corev1.Pod) {
		p.Spec.Volumes = []corev1.Volume{{Name: "data", VolumeSource: corev1.VolumeSource{PersistentVolumeClaim: &corev1.PersistentVolumeClaimVolumeSource{ClaimName: "data"}}}}
	})
	if node := r.placed("consumer"); node != "b" {
		t.Errorf("the consumer is on %s, want b, where the volume is", node)
	}
	claim, err := r.client.CoreV1().PersistentVolumeClaims(r.namespace).Get(t.Context(), "data", metav1.GetOptions{})
	if err != nil || claim.Spec.VolumeName != r.namespace {
		t.Errorf("claim of volume %q, %v, want %s", claim.Spec.VolumeName, err, r.namespace)
	}
}

// testClaim: dynamic resource allocation. The device of a claim is on node b, which the policy would not
// choose.
func testClaim(t *testing.T, r *room) {
	r.node("a", "16", "64Gi")
	b := r.node("b", "16", "64Gi")
	r.pod("fills", "respect", "8", "32Gi", func(p *corev1.Pod) { p.Spec.NodeSelector[corev1.LabelHostname] = b })
	r.placed("fills")
	driver := "driver.kubernasium.io"
	api := r.client.ResourceV1()
	if _, err := api.DeviceClasses().Create(t.Context(), &resourcev1.DeviceClass{ObjectMeta: metav1.ObjectMeta{Name: r.namespace}}, metav1.CreateOptions{}); err != nil {
		t.Fatal(err)
	}
	slice := &resourcev1.ResourceSlice{
		ObjectMeta: metav1.ObjectMeta{Name: r.namespace},
		Spec:       resourcev1.ResourceSliceSpec{Driver: driver, NodeName: &b, Pool: resourcev1.ResourcePool{Name: b, ResourceSliceCount: 1}, Devices: []resourcev1.Device{{Name: "one"}}},
	}
	if _, err := api.ResourceSlices().Create(t.Context(), slice, metav1.CreateOptions{}); err != nil {
		t.Fatal(err)
	}
	claim := &resourcev1.ResourceClaim{
		ObjectMeta: metav1.ObjectMeta{Name: "device"},
		Spec: resourcev1.ResourceClaimSpec{Devices: resourcev1.DeviceClaim{Requests: []resourcev1.DeviceRequest{{
			Name: "one", Exactly: &resourcev1.ExactDeviceRequest{DeviceClassName: r.namespace, AllocationMode: resourcev1.DeviceAllocationModeExactCount, Count: 1},
		}}}},
	}
	if _, err := api.ResourceClaims(r.namespace).Create(t.Context(), claim, metav1.CreateOptions{}); err != nil {
		t.Fatal(err)
	}
	name := "device"
	r.pod("consumer", "respect", "1", "1Gi", func(p *corev1.Pod) {
		p.Spec.ResourceClaims = []corev1.PodResourceClaim{{Name: "device", ResourceClaimName: &name}}
	})
	if node := r.placed("consumer"); node != "b" {
		t.Errorf("the consumer is on %s, want b, where the device is", node)
	}
	got, err := api.ResourceClaims(r.namespace).Get(t.Context(), "device", metav1.GetOptions{})
	if err != nil || got.Status.Allocation == nil {
		t.Errorf("the claim is not allocated: %v", err)
	}
}

// testScore: POST /score is a dry run; with reserve the next answer counts the pod.
func testScore(t *testing.T, r *room) {
	r.node("a", "16", "64Gi")
	r.node("b", "16", "64Gi")
	nodes, err := r.client.CoreV1().Nodes().List(t.Context(), metav1.ListOptions{LabelSelector: labelTest + "=" + r.namespace})
	if err != nil {
		t.Fatal(err)
	}
	ask := func(name string, reserve bool) map[string]int64 {
		t.Helper()
		p := r.pod(name, "nobody", "2", "8Gi")
		body, err := json.Marshal(scorer.Request{Pod: p, Nodes: nodes.Items, Reserve: reserve})
		if err != nil {
			t.Fatal(err)
		}
		resp, err := http.Post(r.url+"/score", "application/json", bytes.NewReader(body))
		if err != nil {
			t.Fatal(err)
		}
		defer resp.Body.Close()
		text, err := io.ReadAll(resp.Body)
		if err != nil {
			t.Fatal(err)
		}
		var reply scorer.Reply
		if err := json.Unmarshal(text, &reply); err != nil || resp.StatusCode != http.StatusOK || len(reply.Scores) != 2 {
			t.Fatalf("status %s: %s, %v", resp.Status, text, err)
		}
		short := map[string]int64{}
		for node, s := range reply.Scores {
			short[strings.TrimPrefix(node, r.namespace+".")] = s
		}
		return short
	}
	for i, tc := range []struct {
		reserve bool
		best    string
	}{{false, "a"}, {true, "a"}, {false, "b"}, {false, "b"}} {
		scores := ask(fmt.Sprintf("p%d", i), tc.reserve)
		for node, s := range scores {
			if (s == 100) != (node == tc.best) {
				t.Errorf("request %d: scores %v, want 100 of %s alone", i, scores, tc.best)
			}
		}
	}
	resp, err := http.Post(r.url+"/score", "application/json", strings.NewReader("{}"))
	if err != nil {
		t.Fatal(err)
	}
	if _ = resp.Body.Close(); resp.StatusCode != http.StatusBadRequest {
		t.Errorf("status %s of a request without a pod, want 400", resp.Status)
	}
}

// testResize: a model places pods; it sees an in-place resize: with 8 cores on b instead of 1 it takes a.
func testResize(t *testing.T, r *room) {
	r.node("a", "16", "64Gi")
	b := r.node("b", "16", "64Gi")
	r.pod("grows", "policy", "1", "4Gi", func(p *corev1.Pod) { p.Spec.NodeSelector[corev1.LabelHostname] = b })
	r.placed("grows")
	r.pod("first", "policy", "2", "8Gi")
	if node := r.placed("first"); node != "a" {
		t.Fatalf("the first pod is on %s, want a", node)
	}
	patch := `{"spec":{"containers":[{"name":"main","resources":{"requests":{"cpu":"8","memory":"32Gi"}}}]}}`
	if _, err := r.client.CoreV1().Pods(r.namespace).Patch(t.Context(), "grows", "application/strategic-merge-patch+json", []byte(patch), metav1.PatchOptions{}, "resize"); err != nil {
		t.Fatal(err)
	}
	time.Sleep(200 * time.Millisecond) // until kube-scheduler's watch shows it
	check(t, "model", r.spread(2, "policy", "2", "8Gi"), map[string]int{"a": 2})
	check(t, "model", r.spread(2, "model", "1", "4Gi"), map[string]int{"a": 2}) // 6 cores are taken there
}

// TestReload: a model file that changes is read again; one whose checksum is wrong leaves the model.
func TestReload(t *testing.T) {
	path := filepath.Join(t.TempDir(), "model.safetensors")
	replace := func(change func([]byte)) {
		t.Helper()
		b, err := os.ReadFile(pretrained(t, "k8s-PodBalance-v0/ppo"))
		if err != nil {
			t.Fatal(err)
		}
		change(b)
		envstest.Write(t, path+".new", string(b))
		if err := os.Rename(path+".new", path); err != nil {
			t.Fatal(err)
		}
	}
	replace(func([]byte) {})
	w := start(t, profile("model", live.Args{Model: path}, func(a *schedulerconfig.Args) { a.ReloadEvery.Duration = 50 * time.Millisecond }))
	r := w.room(t)
	r.node("a", "16", "64Gi")
	r.node("b", "16", "64Gi")
	reloads := func(result string, want func(n float64) bool) {
		t.Helper()
		r.until("reloads: "+result, func() bool { return want(r.metric(`kubernasium_model_reloads_total{result="` + result + `"}`)) })
	}
	place := func(name string) {
		t.Helper()
		r.pod(name, "model", "1", "4Gi")
		r.placed(name)
	}
	some := func(n float64) bool { return n > 0 }
	place("before")
	replace(func(b []byte) { b[len(b)-3] ^= 1 })
	reloads("error", some)
	place("with-the-old")
	if got := r.metric(`kubernasium_model_reloads_total{result="ok"}`); got != 0 {
		t.Errorf("%v models reloaded, want none: the file is corrupt", got)
	}
	replace(func([]byte) {})
	reloads("ok", some)
	place("with-the-new")
	if got := r.metric(`kubernasium_decisions_total{profile="model",result="policy"}`); got != 3 {
		t.Errorf("%v decisions of the model, want 3", got)
	}
}
