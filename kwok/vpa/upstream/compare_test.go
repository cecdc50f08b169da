package main

import (
	"encoding/json"
	"fmt"
	"math/rand/v2"
	"slices"
	"testing"
	"time"

	jsonpatch "gopkg.in/evanphx/json-patch.v4"
	corev1 "k8s.io/api/core/v1"
	apiresource "k8s.io/apimachinery/pkg/api/resource"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/client-go/informers"
	"k8s.io/client-go/kubernetes/fake"

	"k8s.io/autoscaler/vertical-pod-autoscaler/pkg/admission-controller/resource/pod/patch"
	"k8s.io/autoscaler/vertical-pod-autoscaler/pkg/admission-controller/resource/pod/recommendation"
	"k8s.io/autoscaler/vertical-pod-autoscaler/pkg/features"
	"k8s.io/autoscaler/vertical-pod-autoscaler/pkg/updater/config"
	"k8s.io/autoscaler/vertical-pod-autoscaler/pkg/utils/limitrange"
	vpautil "k8s.io/autoscaler/vertical-pod-autoscaler/pkg/utils/vpa"

	"github.com/google/go-cmp/cmp"

	"github.com/kubernasium/kubernasium/envs"
	"github.com/kubernasium/kubernasium/envs/cluster"
	"github.com/kubernasium/kubernasium/envs/vpa"
	"github.com/kubernasium/kubernasium/envs/vpa/pods"
)

const (
	mib        = 1 << 20
	inProgress = "InProgress" // of podCase.resize
)

// group is an autoscaler, a Deployment and its pods.
type group struct {
	mode          string
	replicas      int // that the ReplicaSet wants
	minReplicas   int
	evictAfterOOM time.Duration
	requestsOnly  bool
	requirements  []requirement
	min, max      cluster.Resources // of the policy; 0 is none
	rec           pods.Recommendation
	requests      cluster.Resources // of the template
	limits        cluster.Resources
	pods          []podCase
}

type requirement struct{ resource, change string }

type podCase struct {
	name             string
	requests, limits cluster.Resources
	running          bool
	created          time.Time
	killed           bool
	killedAt         time.Time
	ran              time.Duration
	resize           string // "", or the reason of a resize that waits, or inProgress
}

// draw returns a random group, of those in which the simulator's rules are upstream's ([TestDifferences] has the others).
// Upstream takes the time of its look, which may come minutes after now: no kill is too long ago then, and no pod reaches
// the age of 12 h meanwhile.
func draw(g *rand.Rand, now time.Time) *group {
	modes := []string{pods.ModeOff, pods.ModeInitial, pods.ModeRecreate, pods.ModeRecreate, pods.ModeInPlaceOrRecreate, pods.ModeInPlaceOrRecreate, pods.ModeInPlace}
	amount := func(cpu, memory int64) cluster.Resources {
		return cluster.Resources{MilliCPU: 100 + g.Int64N(cpu), MemoryBytes: mib * (64 + g.Int64N(memory))}
	}
	c := &group{
		mode: modes[g.IntN(len(modes))], minReplicas: 1 + g.IntN(3), evictAfterOOM: time.Duration(10+g.IntN(20)) * time.Minute,
		requestsOnly: g.IntN(4) == 0, requests: amount(4000, 8<<10),
	}
	ratio := int64([]int{0, 1, 2, 4, 8}[g.IntN(5)]) // whole, so that limits in proportion have no remainder
	if c.requestsOnly && ratio == 1 {
		ratio = 2 // the API refuses a resize that changes the QoS class, which the fake does not
	}
	times := func(r cluster.Resources) cluster.Resources {
		return cluster.Resources{MilliCPU: ratio * r.MilliCPU, MemoryBytes: ratio * r.MemoryBytes}
	}
	c.limits = times(c.requests)
	near := func(r cluster.Resources, low, high float64) cluster.Resources {
		return cluster.Resources{
			MilliCPU:    int64(float64(r.MilliCPU) * (low + (high-low)*g.Float64())),
			MemoryBytes: mib * int64(float64(r.MemoryBytes/mib)*(low+(high-low)*g.Float64())), // whole, so that limits are exact
		}
	}
	c.rec.Target = near(c.requests, 0.5, 1.8)
	c.rec.Lower, c.rec.Upper, c.rec.Uncapped = near(c.rec.Target, 0.3, 1), near(c.rec.Target, 1, 2.5), c.rec.Target
	if g.IntN(3) == 0 {
		c.min = near(c.rec.Target, 0.5, 1.2)
	}
	if g.IntN(3) == 0 {
		c.max = near(cluster.Resources{MilliCPU: max(c.rec.Target.MilliCPU, c.min.MilliCPU), MemoryBytes: max(c.rec.Target.MemoryBytes, c.min.MemoryBytes)}, 1, 1.5)
	}
	for g.IntN(3) == 0 {
		c.requirements = append(c.requirements, requirement{[]string{"cpu", "memory"}[g.IntN(2)], []string{"TargetHigherThanRequests", "TargetLowerThanRequests"}[g.IntN(2)]})
	}
	n := 1 + g.IntN(7)
	if g.IntN(3) == 0 {
		n = 1
	}
	c.replicas = n + g.IntN(2)
	for i := range n {
		age := time.Duration(g.Int64N(int64(24 * time.Hour)))
		if young := 12*time.Hour - age; young > 0 && young < 10*time.Minute {
			age -= 10 * time.Minute
		}
		p := podCase{name: fmt.Sprint("pod-", i), requests: c.requests, running: true, created: now.Add(-age)}
		switch g.IntN(3) {
		case 0:
			p.requests = c.rec.Target
		case 1:
			p.requests = near(c.rec.Target, 0.3, 2)
		}
		p.limits = times(p.requests)
		if c.requestsOnly {
			p.limits = c.limits
		}
		switch k := g.IntN(12); {
		case k == 0 && c.mode == pods.ModeRecreate:
			p.running = false
		case k == 1:
			p.killed, p.killedAt, p.ran = true, now.Add(-time.Duration(g.IntN(50))*time.Second), time.Duration(1+g.IntN(40))*time.Minute
		case k == 2 && c.mode == pods.ModeInPlaceOrRecreate:
			p.resize = []string{corev1.PodReasonDeferred, inProgress}[g.IntN(2)]
		case k <= 9 && c.mode == pods.ModeInPlaceOrRecreate && n == 1:
			p.resize = corev1.PodReasonInfeasible
		}
		c.pods = append(c.pods, p)
	}
	if c.mode == pods.ModeInPlace { // one pod, which the budget lets go
		c.pods, c.replicas, c.minReplicas = c.pods[:1], 1, 1
	}
	return c
}

// live returns the simulator's view of the group, with the recommendation in force.
func (c *group) live(t *testing.T, now time.Time) *vpa.Live {
	t.Helper()
	spec, err := envs.Lookup("k8s/VerticalPodAutoscaler-v0")
	if err != nil {
		t.Fatal(err)
	}
	open, err := spec.Open(nil)
	if err != nil {
		t.Fatal(err)
	}
	task, err := open()
	if err != nil {
		t.Fatal(err)
	}
	config := vpa.LiveConfig{
		Requests: c.requests, Limits: c.limits, Min: c.min, Max: c.max, RequestsOnly: c.requestsOnly, Containers: 1,
		Mode: c.mode, MinReplicas: c.minReplicas, EvictAfterOOM: c.evictAfterOOM,
	}
	for _, r := range c.requirements {
		config.Requirements = append(config.Requirements, r.resource+":"+r.change)
	}
	l, err := vpa.NewLive(task, config)
	if err != nil {
		t.Fatal(err)
	}
	l.Adopt(c.rec)
	var shown []vpa.LivePod
	for _, p := range c.pods {
		one := vpa.LivePod{ID: p.name, Requests: p.requests, Limits: p.limits, Scheduled: true, Running: p.running, Serving: p.running, Created: p.created}
		if p.killed {
			one.Restarts, one.OOMKilled, one.Ran = 1, true, p.ran
		}
		switch p.resize {
		case corev1.PodReasonDeferred:
			one.Resize = pods.ResizeDeferred
		case corev1.PodReasonInfeasible:
			one.Resize = pods.ResizeInfeasible
		case inProgress:
			one.Resize = pods.ResizeInProgress
		}
		shown = append(shown, one)
	}
	if err := l.Look(now, c.replicas, shown); err != nil {
		t.Fatal(err)
	}
	return l
}

// simulated returns what the simulator's updater does, one line for each change: pods with equal requests are equal,
// as upstream takes them in any order.
func (c *group) simulated(t *testing.T, l *vpa.Live) (changes []string) {
	t.Helper()
	if err := l.Update(func(u vpa.LiveUpdate) (bool, error) {
		p := c.pods[slices.IndexFunc(c.pods, func(p podCase) bool { return p.name == u.Pod })]
		if u.Evict {
			changes = append(changes, fmt.Sprint("evict ", p.requests))
		} else {
			changes = append(changes, fmt.Sprint("resize ", p.requests, " to ", shown(list(u.Requests), list(u.Limits))))
		}
		return false, nil
	}); err != nil {
		t.Fatal(err)
	}
	slices.Sort(changes)
	return changes
}

// upstream returns what upstream's updater has done, likewise.
func (c *group) upstream(t *testing.T, w *world, kube *fake.Clientset, namespace string) (changes []string) {
	t.Helper()
	for _, p := range c.pods {
		if w.evicted[namespace+"/"+p.name] {
			changes = append(changes, fmt.Sprint("evict ", p.requests))
			continue
		}
		now, err := kube.CoreV1().Pods(namespace).Get(t.Context(), p.name, metav1.GetOptions{})
		if err != nil {
			t.Fatal(err)
		}
		had, has := resources(p.requests, p.limits), now.Spec.Containers[0].Resources
		if is := shown(has.Requests, has.Limits); is != shown(had.Requests, had.Limits) {
			changes = append(changes, fmt.Sprint("resize ", p.requests, " to ", is))
		}
	}
	slices.Sort(changes)
	return changes
}

// updaterConfig has upstream's defaults, and the features on that autoscalers ask for.
func updaterConfig(t *testing.T) *config.UpdaterConfig {
	t.Helper()
	if err := features.MutableFeatureGate.Set("CPUStartupBoost=true,InPlace=true,PerVPAConfig=true"); err != nil {
		t.Fatal(err)
	}
	c := config.DefaultUpdaterConfig()
	c.UseAdmissionControllerStatus = false
	return c
}

// TestUpdater gives random pods and recommendations to upstream's updater and to the simulator's: both evict pods with
// the same requests, and resize such to the same requests and limits.
func TestUpdater(t *testing.T) {
	const groups = 4000
	g, now := rand.New(rand.NewPCG(1, 0)), time.Now()
	w, cases := &world{t: t}, make([]*group, groups)
	for i := range cases {
		cases[i] = draw(g, now)
		w.add(fmt.Sprint("ns-", i), cases[i])
	}
	kube := w.run(updaterConfig(t))
	counts, wrong := map[string]int{}, 0
	for i, c := range cases {
		want := c.upstream(t, w, kube, fmt.Sprint("ns-", i))
		for _, change := range want {
			counts[c.mode+" "+change[:5]]++
		}
		if diff := cmp.Diff(want, c.simulated(t, c.live(t, now))); diff != "" {
			if wrong++; wrong <= 10 {
				t.Errorf("group %d (-upstream +simulator)\n%s%+v", i, diff, c)
			}
		}
	}
	t.Logf("%d of %d groups differ; %v", wrong, groups, counts)
	for _, kind := range []string{"Recreate evict", "InPlaceOrRecreate evict", "InPlaceOrRecreate resiz", "InPlace resiz"} {
		if counts[kind] < 20 {
			t.Errorf("%d times %q, too few to compare", counts[kind], kind)
		}
	}
}

// TestDifferences has by hand where the simulator's rules are not those of upstream 1.8.1: upstream resizes no pending
// pod, has no budget in mode InPlace, acts at once on an OOM kill only for a time, and resizes before it evicts pods
// whose resize has failed. Besides, the simulator computes limits in float64: above 2^53 a byte may be missing.
func TestDifferences(t *testing.T) {
	now := time.Now()
	amount := func(milli, memory int64) cluster.Resources {
		return cluster.Resources{MilliCPU: milli, MemoryBytes: memory * mib}
	}
	some := func(n int, change func(*podCase)) (all []podCase) {
		for i := range n {
			p := podCase{name: fmt.Sprint("pod-", i), requests: amount(500, 512), running: true, created: now.Add(-time.Hour)}
			change(&p)
			all = append(all, p)
		}
		return all
	}
	const evict, resize = "evict 500m CPU and 512Mi memory", "resize 500m CPU and 512Mi memory to 1000 m 1073741824 B of 0 m 0 B"
	for _, tc := range []struct {
		name                string
		mode                string
		lower               cluster.Resources
		pods                []podCase
		upstream, simulated []string
	}{
		{"a pending pod is not resized", pods.ModeInPlaceOrRecreate, amount(800, 800), some(1, func(p *podCase) { p.running = false }), nil, []string{resize}},
		{"mode InPlace has no budget", pods.ModeInPlace, amount(800, 800), some(3, func(*podCase) {}), []string{resize, resize, resize}, []string{resize}},
		{"an OOM kill long ago", pods.ModeRecreate, amount(100, 100), some(1, func(p *podCase) {
			p.killed, p.killedAt, p.ran = true, now.Add(-30*time.Minute), time.Minute
		}), nil, []string{evict}},
		{"resizes come before evictions", pods.ModeInPlaceOrRecreate, amount(800, 800), some(2, func(p *podCase) {
			if p.name == "pod-0" {
				p.resize, p.requests = corev1.PodReasonInfeasible, amount(400, 400)
			}
		}), []string{resize}, []string{"evict 400m CPU and 400Mi memory"}},
	} {
		c := &group{
			mode: tc.mode, replicas: len(tc.pods), minReplicas: 1, evictAfterOOM: 10 * time.Minute, requests: amount(500, 512), pods: tc.pods,
			rec: pods.Recommendation{Lower: tc.lower, Target: amount(1000, 1024), Upper: amount(2000, 2048), Uncapped: amount(1000, 1024)},
		}
		w := &world{t: t}
		w.add("ns", c)
		kube := w.run(updaterConfig(t))
		if diff := cmp.Diff(tc.upstream, c.upstream(t, w, kube, "ns")); diff != "" {
			t.Errorf("%s, upstream (-want +got)\n%s", tc.name, diff)
		}
		if diff := cmp.Diff(tc.simulated, c.simulated(t, c.live(t, now))); diff != "" {
			t.Errorf("%s, simulator (-want +got)\n%s", tc.name, diff)
		}
	}
}

// TestAdmission gives random templates and recommendations to upstream's admission controller and to the simulator's:
// new pods get the same requests and limits.
func TestAdmission(t *testing.T) {
	g, now := rand.New(rand.NewPCG(2, 0)), time.Now()
	ranges, err := limitrange.NewLimitsRangeCalculator(informers.NewSharedInformerFactory(fake.NewSimpleClientset(), resyncPeriod))
	if err != nil {
		t.Fatal(err)
	}
	c := patch.NewResourceUpdatesCalculator(recommendation.NewProvider(ranges, vpautil.NewCappingRecommendationProcessor(ranges)), apiresource.QuantityValue{})
	for i := range 3000 {
		one := draw(g, now)
		if one.mode == pods.ModeOff {
			continue
		}
		pod := (&podCase{name: "new", requests: one.requests, limits: one.limits, created: now}).object("default")
		patches, err := c.CalculatePatches(pod, one.autoscaler("default"))
		if err != nil {
			t.Fatal(err)
		}
		pod.Annotations = map[string]string{"": ""} // where the patch adds upstream's
		got := patched(t, pod, patches)
		l := one.live(t, now)
		target := l.Adopt(one.rec).Target
		if want := shown(got.Requests, got.Limits); want != shown(list(target), list(l.Limits())) {
			t.Errorf("group %d: %s, by upstream %s\n%+v", i, shown(list(target), list(l.Limits())), want, one)
		}
	}
}

// patched returns the resources of the pod's container after a JSON patch.
func patched(t *testing.T, pod *corev1.Pod, patches any) corev1.ResourceRequirements {
	t.Helper()
	text, err := json.Marshal(patches)
	if err != nil {
		t.Fatal(err)
	}
	p, err := jsonpatch.DecodePatch(text)
	if err != nil {
		t.Fatal(err)
	}
	before, err := json.Marshal(pod)
	if err != nil {
		t.Fatal(err)
	}
	after, err := p.Apply(before)
	if err != nil {
		t.Fatalf("%s: %v", text, err)
	}
	var now corev1.Pod
	if err := json.Unmarshal(after, &now); err != nil {
		t.Fatal(err)
	}
	return now.Spec.Containers[0].Resources
}
