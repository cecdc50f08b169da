package vpa_test

import (
	"fmt"
	"strings"
	"testing"
	"time"

	corev1 "k8s.io/api/core/v1"
	policyv1 "k8s.io/api/policy/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/apimachinery/pkg/util/intstr"
	"k8s.io/client-go/dynamic"
	"k8s.io/client-go/kubernetes"
	"k8s.io/client-go/rest"
	"sigs.k8s.io/yaml"

	"github.com/kubernasium/kubernasium/kwok/metricsapi"
	"github.com/kubernasium/kubernasium/kwok/vpa"
)

// world is a namespace with objects of its own.
type world struct {
	*testing.T
	rc        *rest.Config
	client    kubernetes.Interface
	api       dynamic.Interface
	namespace string
}

func newWorld(t *testing.T) *world {
	t.Helper()
	w := &world{T: t, rc: prepare(t)}
	var err error
	if w.client, err = kubernetes.NewForConfig(w.rc); err != nil {
		t.Fatal(err)
	}
	if w.api, err = dynamic.NewForConfig(w.rc); err != nil {
		t.Fatal(err)
	}
	ns, err := w.client.CoreV1().Namespaces().Create(ctx, &corev1.Namespace{ObjectMeta: metav1.ObjectMeta{GenerateName: "vpa-"}}, metav1.CreateOptions{})
	if err != nil {
		t.Fatal(err)
	}
	w.namespace = ns.Name
	w.create("nodes", `
apiVersion: v1
kind: Node
metadata: {name: `+w.namespace+`, annotations: {kwok.x-k8s.io/node: fake}, labels: {world: `+w.namespace+`}}
status: {allocatable: {cpu: 64, memory: 256Gi, pods: 110}, capacity: {cpu: 64, memory: 256Gi, pods: 110}}
`)
	return w
}

func (w *world) resource(plural string) dynamic.ResourceInterface {
	switch plural {
	case "nodes":
		return w.api.Resource(schema.GroupVersionResource{Version: "v1", Resource: plural})
	case "deployments":
		return w.api.Resource(schema.GroupVersionResource{Group: "apps", Version: "v1", Resource: plural}).Namespace(w.namespace)
	}
	return w.api.Resource(vpa.GroupVersion.WithResource(plural)).Namespace(w.namespace)
}

func parse(t *testing.T, text string) *unstructured.Unstructured {
	t.Helper()
	var object map[string]any
	if err := yaml.Unmarshal([]byte(text), &object); err != nil {
		t.Fatal(err)
	}
	return &unstructured.Unstructured{Object: object}
}

func (w *world) create(plural, text string) {
	w.Helper()
	object := parse(w.T, text)
	if _, err := w.resource(plural).Create(ctx, object, metav1.CreateOptions{}); err != nil {
		w.Fatal(err)
	}
	w.Cleanup(func() {
		name := object.GetName()
		if err := w.resource(plural).Delete(ctx, name, metav1.DeleteOptions{}); err != nil {
			w.Error(err)
		}
	})
}

// deploy creates a deployment whose pods have the containers, and waits until they run.
func (w *world) deploy(name string, replicas int, containers ...string) {
	w.Helper()
	w.create("deployments", fmt.Sprintf(`
apiVersion: apps/v1
kind: Deployment
metadata: {name: %[1]s}
spec:
  replicas: %[2]d
  selector: {matchLabels: {app: %[1]s}}
  template:
    metadata: {labels: {app: %[1]s}}
    spec:
      nodeSelector: {world: %[3]s}
      containers: [%[4]s]
`, name, replicas, w.namespace, strings.Join(containers, ", ")))
	w.running(name, replicas)
}

func (w *world) running(name string, n int) []corev1.Pod {
	w.Helper()
	for end := time.Now().Add(patience); ; time.Sleep(20 * time.Millisecond) {
		list, err := w.client.CoreV1().Pods(w.namespace).List(ctx, metav1.ListOptions{LabelSelector: "app=" + name})
		if err != nil {
			w.Fatal(err)
		}
		ready := 0
		for i := range list.Items {
			if p := &list.Items[i]; p.Status.Phase == corev1.PodRunning && p.DeletionTimestamp == nil {
				ready++
			}
		}
		if ready == n && len(list.Items) == n {
			return list.Items
		}
		if time.Now().After(end) {
			w.Fatalf("%d of %d pods of %s run", ready, n, name)
		}
	}
}

// use lets the pods use so much.
func (w *world) use(name string, n int, milli, bytes int64, at time.Time) {
	w.Helper()
	for _, p := range w.running(name, n) {
		if err := metricsapi.SetUsage(ctx, w.client, w.namespace, p.Name, milli, bytes, at); err != nil {
			w.Fatal(err)
		}
	}
}

func autoscalerText(name, spec string) string {
	return "{apiVersion: autoscaling.k8s.io/v1, kind: VerticalPodAutoscaler, metadata: {name: " + name + "}, spec: {" + spec + "}}"
}

func (w *world) autoscaler(name, spec string) {
	w.Helper()
	w.create("verticalpodautoscalers", autoscalerText(name, spec))
}

func (w *world) status(name string) vpa.AutoscalerStatus {
	w.Helper()
	object, err := w.resource("verticalpodautoscalers").Get(ctx, name, metav1.GetOptions{})
	if err != nil {
		w.Fatal(err)
	}
	var a vpa.Autoscaler
	if err := runtime.DefaultUnstructuredConverter.FromUnstructured(object.Object, &a); err != nil {
		w.Fatal(err)
	}
	return a.Status
}

func (w *world) recommender(change func(*vpa.Config)) *vpa.Recommender {
	w.Helper()
	c := vpa.Config{REST: w.rc, Name: "ours", Namespace: w.namespace, Open: baseline(w.T, "upstream")}
	if change != nil {
		change(&c)
	}
	r, err := vpa.New(c)
	if err != nil {
		w.Fatal(err)
	}
	w.Cleanup(func() {
		if err := r.Close(); err != nil {
			w.Error(err)
		}
	})
	return r
}

// upstream starts upstream's updater, and with admission its admission controller, for the namespace.
func (w *world) upstream(admission bool) *vpa.Upstream {
	w.Helper()
	u, err := vpa.StartUpstream(ctx, upstreamConfig(w.T, w.namespace, admission))
	if err != nil {
		w.Fatal(err)
	}
	w.Cleanup(func() {
		if err := u.Close(); err != nil {
			w.Error(err)
		}
	})
	return u
}

func (w *world) step(r *vpa.Recommender) vpa.Report {
	w.Helper()
	report, err := r.Step(ctx)
	if err != nil {
		w.Fatal(err)
	}
	return report
}

// show is a recommendation as text: container, target and lower bound.
func show(s vpa.AutoscalerStatus) string {
	var all []string
	if s.Recommendation != nil {
		for _, c := range s.Recommendation.ContainerRecommendations {
			all = append(all, fmt.Sprintf("%s: %s %s, from %s %s", c.ContainerName, c.Target.Cpu(), c.Target.Memory(), c.LowerBound.Cpu(), c.LowerBound.Memory()))
		}
	}
	for _, c := range s.Conditions {
		if c.Status == corev1.ConditionTrue {
			all = append(all, c.Type)
		}
	}
	return strings.Join(all, "; ")
}

const (
	main   = "{name: main, image: none, resources: {requests: {cpu: 400m, memory: 1Gi}, limits: {cpu: 800m, memory: 2Gi}}}"
	helper = "{name: helper, image: none, resources: {requests: {cpu: 100m, memory: 64Mi}}}"
)

// TestAutoscalers: which autoscalers are served, and what their policies make of the same usage.
func TestAutoscalers(t *testing.T) {
	w := newWorld(t)
	w.deploy("one", 1, main)
	w.deploy("two", 1, main, helper)
	const (
		target = "targetRef: {apiVersion: apps/v1, kind: Deployment, name: one}"
		pair   = "targetRef: {apiVersion: apps/v1, kind: Deployment, name: two}"
		ours   = "recommenders: [{name: ours}], "
	)
	w.autoscaler("another", "recommenders: [{name: theirs}], "+target)
	w.autoscaler("default", target)
	for name, spec := range map[string]string{
		"plain": target, "none": "targetRef: {kind: Deployment, name: absent}", "kind": "targetRef: {kind: CronJob, name: one}", "pair": pair,
		"capped":  target + ", resourcePolicy: {containerPolicies: [{containerName: main, maxAllowed: {cpu: 1}, minAllowed: {memory: 8Gi}}]}",
		"cpu":     target + `, resourcePolicy: {containerPolicies: [{containerName: "*", controlledResources: [cpu]}]}`,
		"partly":  pair + `, resourcePolicy: {containerPolicies: [{containerName: "*", mode: "Off"}, {containerName: main, mode: Auto}]}`,
		"crossed": target + ", resourcePolicy: {containerPolicies: [{containerName: main, minAllowed: {cpu: 2}, maxAllowed: {cpu: 1}}]}",
	} {
		w.autoscaler(name, ours+spec)
	}
	r := w.recommender(nil)
	// Without samples nothing is recommended.
	if got := w.step(r); got != (vpa.Report{Autoscalers: 8, Written: 3}) {
		t.Errorf("without samples %+v, want 8 autoscalers and the status of the three that ask for what is not supported", got)
	}
	w.use("one", 1, 1000, 5000*mib, monday)
	w.use("two", 1, 1000, 5000*mib, monday)
	if got := w.step(r); got != (vpa.Report{Autoscalers: 8, Recommended: 5, Written: 5}) {
		t.Errorf("%+v, want 8 autoscalers, of which 5 are recommended for", got)
	}
	// By hand: 1 core is in bucket 36, which ends at 1.01628 cores, and 15 % more is 1168 m; 5000 MiB
	// likewise are 6117462922 bytes. After one sample lower bounds are the least that there is, 25 m
	// and 250 MiB, half of it for each of two containers.
	for name, want := range map[string]string{
		"another": "", "default": "",
		"plain":   "main: 1168m 6117462922, from 25m 262144k; RecommendationProvided",
		"none":    "ConfigUnsupported",
		"kind":    "ConfigUnsupported",
		"pair":    "helper: 1168m 6117462922, from 12m 131072k; main: 1168m 6117462922, from 12m 131072k; RecommendationProvided",
		"capped":  "main: 1 8589934592, from 25m 8589934592; RecommendationProvided",
		"cpu":     "main: 1168m 0, from 25m 0; RecommendationProvided",
		"partly":  "main: 1168m 6117462922, from 12m 131072k; RecommendationProvided",
		"crossed": "ConfigUnsupported",
	} {
		if got := show(w.status(name)); got != want {
			t.Errorf("%s: %q, want %q", name, got, want)
		}
	}
	// The same samples are looked at once.
	if got := w.step(r); got.Recommended != 0 || got.Written != 0 {
		t.Errorf("without new samples %+v, want nothing recommended", got)
	}
	// One that is no longer for a container has no recommendation for it.
	policy := []byte(`{"spec": {"resourcePolicy": {"containerPolicies": [{"containerName": "helper", "mode": "Off"}]}}}`)
	if _, err := w.resource("verticalpodautoscalers").Patch(ctx, "pair", types.MergePatchType, policy, metav1.PatchOptions{}); err != nil {
		t.Fatal(err)
	}
	w.use("two", 1, 1000, 5000*mib, monday.Add(time.Minute))
	w.step(r)
	// The lower bounds of upstream's own code after a second sample a minute later: the medians, 1168 m
	// and 6117462922 bytes, times (1 + 0.001·1440)^-2, truncated.
	if got, want := show(w.status("pair")), "main: 1168m 6117462922, from 196m 1027523334; RecommendationProvided"; got != want {
		t.Errorf("pair with a policy: %q, want %q", got, want)
	}
}

// TestRestart: a restarted recommender resumes with the samples of the one before, and
// gives new pods what that recommended, before it has seen a sample.
func TestRestart(t *testing.T) {
	w := newWorld(t)
	w.deploy("app", 1, main)
	w.autoscaler("app", "recommenders: [{name: ours}], targetRef: {kind: Deployment, name: app}, updatePolicy: {updateMode: Initial}")
	checkpoints := func(c *vpa.Config) { c.Checkpoints = true }
	for i := range 3 {
		w.use("app", 1, 1000, 5000*mib, monday.Add(time.Duration(i)*time.Minute))
		w.step(w.recommender(checkpoints))
		object, err := w.resource("verticalpodautoscalercheckpoints").Get(ctx, "app-main", metav1.GetOptions{})
		if err != nil {
			t.Fatal(err)
		}
		if n, _, err := unstructured.NestedInt64(object.Object, "status", "totalSamplesCount"); err != nil || n != int64(i+1) {
			t.Errorf("the checkpoint has %d samples, %v; want %d", n, err, i+1)
		}
	}
	r := w.recommender(func(c *vpa.Config) { c.Upstream = w.upstream(true) })
	if got := w.step(r); got.Autoscalers != 1 || got.Evicted+got.Resized != 0 {
		t.Fatalf("%+v, want one autoscaler and no update in mode Initial", got)
	}
	old := w.running("app", 1)[0]
	if err := w.client.CoreV1().Pods(w.namespace).Delete(ctx, old.Name, metav1.DeleteOptions{}); err != nil {
		t.Fatal(err)
	}
	// Target as in TestAutoscalers; the limits were twice the requests.
	got := w.replaced("app", old).Spec.Containers[0].Resources
	if got.Requests.Cpu().MilliValue() != 1168 || got.Requests.Memory().Value() != 6_117_462_922 || got.Limits.Cpu().MilliValue() != 2336 || got.Limits.Memory().Value() != 12_234_925_844 {
		t.Errorf("a new pod has %+v, want 1168m and 6117462922 bytes, and limits twice as much", got)
	}
}

// TestDisruptionBudget: what a PodDisruptionBudget forbids is not evicted, until it is gone.
func TestDisruptionBudget(t *testing.T) {
	w := newWorld(t)
	w.deploy("app", 2, main)
	w.autoscaler("app", "recommenders: [{name: ours}], targetRef: {kind: Deployment, name: app}, updatePolicy: {updateMode: Recreate}")
	two := intstr.FromInt32(2)
	if _, err := w.client.PolicyV1().PodDisruptionBudgets(w.namespace).Create(ctx, &policyv1.PodDisruptionBudget{
		ObjectMeta: metav1.ObjectMeta{Name: "app"},
		Spec:       policyv1.PodDisruptionBudgetSpec{MinAvailable: &two, Selector: &metav1.LabelSelector{MatchLabels: map[string]string{"app": "app"}}},
	}, metav1.CreateOptions{}); err != nil {
		t.Fatal(err)
	}
	r := w.recommender(func(c *vpa.Config) { c.Upstream, c.Open = w.upstream(false), baseline(t, "moving_window") })
	before := w.running("app", 2)
	w.use("app", 2, 700, gib, monday) // the request of 400 m is below the lower bound of 732 m
	if got := w.step(r); got.Recommended != 1 || got.Evicted != 0 {
		t.Errorf("%+v, want a recommendation and no eviction", got)
	}
	after := w.running("app", 2)
	if before[0].UID != after[0].UID || before[1].UID != after[1].UID {
		t.Error("a pod was evicted in spite of its budget")
	}
	if err := w.client.PolicyV1().PodDisruptionBudgets(w.namespace).Delete(ctx, "app", metav1.DeleteOptions{}); err != nil {
		t.Fatal(err)
	}
	w.use("app", 2, 700, gib, monday.Add(time.Minute))
	if got := w.step(r); got.Evicted != 1 { // of two, one at a time
		t.Errorf("without the budget %+v, want an eviction", got)
	}
}

// TestEvictionRequirements: a pod whose target does not change as required is left alone, until
// nothing is required any more.
func TestEvictionRequirements(t *testing.T) {
	w := newWorld(t)
	w.deploy("app", 2, main)
	w.autoscaler("app", "recommenders: [{name: ours}], targetRef: {kind: Deployment, name: app}, "+
		"updatePolicy: {updateMode: Recreate, evictionRequirements: [{resources: [cpu], changeRequirement: TargetLowerThanRequests}]}")
	r := w.recommender(func(c *vpa.Config) { c.Upstream, c.Open = w.upstream(false), baseline(t, "moving_window") })
	w.use("app", 2, 700, gib, monday) // more CPU than the request of 400 m
	if got := w.step(r); got.Recommended != 1 || got.Evicted != 0 {
		t.Errorf("%+v, want a recommendation and no eviction", got)
	}
	policy := []byte(`{"spec": {"updatePolicy": {"evictionRequirements": null}}}`)
	if _, err := w.resource("verticalpodautoscalers").Patch(ctx, "app", types.MergePatchType, policy, metav1.PatchOptions{}); err != nil {
		t.Fatal(err)
	}
	w.use("app", 2, 700, gib, monday.Add(time.Minute))
	if got := w.step(r); got.Evicted != 1 {
		t.Errorf("without requirements %+v, want an eviction", got)
	}
}

// replaced waits until the deployment's one pod is another than the old one, and returns it.
func (w *world) replaced(name string, old corev1.Pod) corev1.Pod {
	w.Helper()
	for end := time.Now().Add(patience); ; time.Sleep(20 * time.Millisecond) {
		p := w.running(name, 1)[0]
		if p.UID != old.UID {
			return p
		}
		if time.Now().After(end) {
			w.Fatalf("pod %s is not replaced", old.Name)
		}
	}
}

// asked is what the pod's first container requests of CPU, its limit, and whether it is boosted.
func asked(p corev1.Pod) string {
	r := p.Spec.Containers[0].Resources
	return fmt.Sprintf("%s of %s, boost %t", r.Requests.Cpu(), r.Limits.Cpu(), p.Annotations["vpaCpuStartupBoost/main"] != "")
}

// TestStartupBoost: a new pod requests more CPU until it has been ready for ten seconds, in which the test looks at it. Then
// it gets what is recommended, or in mode Off what its template says.
func TestStartupBoost(t *testing.T) {
	const boost = "startupBoost: {cpu: {type: Factor, factor: 3, durationSeconds: 10}}"
	for _, tc := range []struct {
		mode, policy string
		boosted, end string
	}{
		// The template has 400m of 800m; the target of 1 core is 1168m (TestAutoscalers).
		{mode: `"Off"`, boosted: "1200m of 2400m, boost true", end: "400m of 800m, boost false"},
		{mode: "Recreate", boosted: "3504m of 7008m, boost true", end: "1168m of 2336m, boost false"},
		{mode: "Initial", policy: ", resourcePolicy: {containerPolicies: [{containerName: main, startupBoost: {cpu: {type: Quantity, quantity: 332m, durationSeconds: 10}}}]}",
			boosted: "1500m of 3, boost true", end: "1168m of 2336m, boost false"},
	} {
		t.Run(tc.mode, func(t *testing.T) {
			w := newWorld(t)
			w.deploy("app", 1, main)
			w.autoscaler("app", "recommenders: [{name: ours}], targetRef: {apiVersion: apps/v1, kind: Deployment, name: app}, updatePolicy: {minReplicas: 1, updateMode: "+tc.mode+"}, "+boost+tc.policy)
			r := w.recommender(func(c *vpa.Config) { c.Upstream = w.upstream(true) })
			first := w.running("app", 1)[0]
			w.use("app", 1, 1000, 5000*mib, monday)
			if got := w.step(r); tc.mode != "Recreate" && got.Evicted+got.Resized != 0 {
				t.Errorf("%+v, want no update in mode %s", got, tc.mode)
			} else if got.Evicted == 0 {
				if err := w.client.CoreV1().Pods(w.namespace).Delete(ctx, first.Name, metav1.DeleteOptions{}); err != nil {
					t.Fatal(err)
				}
			}
			p := w.replaced("app", first)
			if got := asked(p); got != tc.boosted {
				t.Errorf("a new pod requests %s, want %s", got, tc.boosted)
			}
			for end := time.Now().Add(patience); asked(p) != tc.end; p = w.running("app", 1)[0] {
				if time.Now().After(end) {
					t.Fatalf("the pod requests %s, want %s after ten seconds", asked(p), tc.end)
				}
				time.Sleep(20 * time.Millisecond)
			}
			w.use("app", 1, 1000, 5000*mib, monday.Add(time.Minute))
			if got := w.step(r); got.Evicted != 0 {
				t.Errorf("after the boost %+v, want nothing to do", got)
			}
		})
	}
	w := newWorld(t)
	object := &unstructured.Unstructured{Object: map[string]any{
		"apiVersion": "autoscaling.k8s.io/v1", "kind": "VerticalPodAutoscaler", "metadata": map[string]any{"name": "bad"}, "spec": map[string]any{
			"targetRef": map[string]any{"kind": "Deployment", "name": "app"}, "startupBoost": map[string]any{"cpu": map[string]any{"type": "Factor", "quantity": "1"}},
		},
	}}
	if _, err := w.resource("verticalpodautoscalers").Create(ctx, object, metav1.CreateOptions{}); err == nil || !strings.Contains(err.Error(), "a factor is for type Factor") {
		t.Errorf("a boost of type Factor with a quantity: %v, want it refused", err)
	}
}

// TestAdmission: new pods get the target, also after a change of the autoscaler that upstream's webhook has refused.
// Those of an autoscaler that is gone are as their template says.
func TestAdmission(t *testing.T) {
	w := newWorld(t)
	w.deploy("app", 1, main)
	w.autoscaler("other", "recommenders: [{name: ours}], targetRef: {apiVersion: apps/v1, kind: Deployment, name: app}, updatePolicy: {updateMode: \"Off\"}")
	object := parse(t, autoscalerText("app", "recommenders: [{name: ours}], targetRef: {apiVersion: apps/v1, kind: Deployment, name: app}, updatePolicy: {updateMode: Initial}"))
	if _, err := w.resource("verticalpodautoscalers").Create(ctx, object, metav1.CreateOptions{}); err != nil {
		t.Fatal(err)
	}
	r := w.recommender(func(c *vpa.Config) { c.Upstream = w.upstream(true) })
	w.use("app", 1, 1000, 5000*mib, monday)
	w.step(r)
	again := func() corev1.Pod {
		old := w.running("app", 1)[0]
		if err := w.client.CoreV1().Pods(w.namespace).Delete(ctx, old.Name, metav1.DeleteOptions{}); err != nil {
			t.Fatal(err)
		}
		return w.replaced("app", old)
	}
	want := func(when, want string) {
		t.Helper()
		if got := asked(again()); got != want {
			t.Errorf("%s: a new pod requests %s, want %s", when, got, want)
		}
	}
	want("at first", "1168m of 2336m, boost false") // as in TestAutoscalers
	policy := []byte(`{"spec": {"resourcePolicy": {"containerPolicies": [{"containerName": "main", "minAllowed": {"cpu": 2}, "maxAllowed": {"cpu": 1}}]}}}`)
	_, err := w.resource("verticalpodautoscalers").Patch(ctx, "app", types.MergePatchType, policy, metav1.PatchOptions{})
	if err == nil || !strings.Contains(err.Error(), "lower than min") {
		t.Errorf("a policy with a minimum above its maximum: %v, want it refused by the webhook", err)
	}
	want("after a refused change", "1168m of 2336m, boost false")
	if err := w.resource("verticalpodautoscalers").Delete(ctx, "app", metav1.DeleteOptions{}); err != nil {
		t.Fatal(err)
	}
	w.step(r)
	want("without its autoscaler", "400m of 800m, boost false")
}
