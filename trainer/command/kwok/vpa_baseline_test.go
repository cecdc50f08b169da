package kwok

import (
	"context"
	"encoding/json"
	"strings"
	"testing"
	"time"

	appsv1 "k8s.io/api/apps/v1"
	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/resource"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/client-go/dynamic"
	"k8s.io/client-go/kubernetes"

	"github.com/kubernasium/kubernasium/envs"
	"github.com/kubernasium/kubernasium/envs/cluster"
	env "github.com/kubernasium/kubernasium/envs/vpa"
	"github.com/kubernasium/kubernasium/envs/vpa/pods"
	"github.com/kubernasium/kubernasium/kwok"
	"github.com/kubernasium/kubernasium/kwok/kwoktest"
	"github.com/kubernasium/kubernasium/kwok/metricsapi"
	"github.com/kubernasium/kubernasium/kwok/vpa"
	"github.com/kubernasium/kubernasium/trainer/play"
)

// vpaWorld is a Deployment of one pod on a control plane of the test's own, with autoscalers.
type vpaWorld struct {
	t      *testing.T
	client kubernetes.Interface
	api    dynamic.Interface
}

func newVPAWorld(t *testing.T) *vpaWorld {
	t.Helper()
	t.Setenv(kwok.KubeconfigVariable, kwoktest.Start(t, "--admission=MutatingAdmissionWebhook").Kubeconfig)
	rc, err := kwok.RESTConfig(t.Context(), kwok.Options{})
	if err != nil {
		t.Fatal(err)
	}
	w := &vpaWorld{t: t}
	if w.client, err = kubernetes.NewForConfig(rc); err != nil {
		t.Fatal(err)
	}
	if w.api, err = dynamic.NewForConfig(rc); err != nil {
		t.Fatal(err)
	}
	if err := vpa.Install(t.Context(), rc); err != nil {
		t.Fatal(err)
	}
	w.deploy()
	return w
}

// deploy creates a node and the Deployment web, waits for its pod, and lets that use 1 core and
// 5000 MiB.
func (w *vpaWorld) deploy() {
	w.t.Helper()
	ctx := w.t.Context()
	size := func(cpu, memory string) corev1.ResourceList {
		return corev1.ResourceList{corev1.ResourceCPU: resource.MustParse(cpu), corev1.ResourceMemory: resource.MustParse(memory)}
	}
	have := size("64", "256Gi")
	have[corev1.ResourcePods] = resource.MustParse("110")
	_, err := w.client.CoreV1().Nodes().Create(ctx, &corev1.Node{
		ObjectMeta: metav1.ObjectMeta{Name: "node-1", Annotations: map[string]string{"kwok.x-k8s.io/node": "fake"}},
		Status:     corev1.NodeStatus{Allocatable: have, Capacity: have},
	}, metav1.CreateOptions{})
	if err != nil {
		w.t.Fatal(err)
	}
	labels := map[string]string{"app": "web"}
	_, err = w.client.AppsV1().Deployments("default").Create(ctx, &appsv1.Deployment{
		ObjectMeta: metav1.ObjectMeta{Name: "web"},
		Spec: appsv1.DeploymentSpec{Selector: &metav1.LabelSelector{MatchLabels: labels}, Template: corev1.PodTemplateSpec{
			ObjectMeta: metav1.ObjectMeta{Labels: labels},
			Spec: corev1.PodSpec{Containers: []corev1.Container{{Name: "main", Image: "none",
				Resources: corev1.ResourceRequirements{Requests: size("400m", "1Gi"), Limits: size("800m", "2Gi")}}}},
		}},
	}, metav1.CreateOptions{})
	if err != nil {
		w.t.Fatal(err)
	}
	p := w.pod()
	if err := metricsapi.SetUsage(ctx, w.client, p.Namespace, p.Name, 1000, 5000<<20, time.Now()); err != nil {
		w.t.Fatal(err)
	}
}

// pod returns the pod of the Deployment when it runs.
func (w *vpaWorld) pod() corev1.Pod {
	w.t.Helper()
	for end := time.Now().Add(2 * time.Minute); ; time.Sleep(50 * time.Millisecond) {
		list, err := w.client.CoreV1().Pods("default").List(w.t.Context(), metav1.ListOptions{LabelSelector: "app=web"})
		if err != nil {
			w.t.Fatal(err)
		}
		if len(list.Items) == 1 && list.Items[0].Status.Phase == corev1.PodRunning {
			return list.Items[0]
		}
		if time.Now().After(end) {
			w.t.Fatalf("the pod of deployment web does not run: %+v", list.Items)
		}
	}
}

// autoscaler creates a VerticalPodAutoscaler of that name, which names the recommender of the same name.
func (w *vpaWorld) autoscaler(name, mode string) {
	w.t.Helper()
	_, err := w.api.Resource(vpa.GroupVersion.WithResource("verticalpodautoscalers")).Namespace("default").Create(w.t.Context(), &unstructured.Unstructured{Object: map[string]any{
		"apiVersion": vpa.GroupVersion.String(), "kind": "VerticalPodAutoscaler", "metadata": map[string]any{"name": name},
		"spec": map[string]any{
			"targetRef":    map[string]any{"apiVersion": "apps/v1", "kind": "Deployment", "name": "web"},
			"recommenders": []any{map[string]any{"name": name}},
			"updatePolicy": map[string]any{"updateMode": mode, "minReplicas": int64(1)},
		},
	}}, metav1.CreateOptions{})
	if err != nil {
		w.t.Fatal(err)
	}
}

// target returns the target that an autoscaler's status has for its container.
func (w *vpaWorld) target(name string) string {
	w.t.Helper()
	a, err := w.api.Resource(vpa.GroupVersion.WithResource("verticalpodautoscalers")).Namespace("default").Get(w.t.Context(), name, metav1.GetOptions{})
	if err != nil {
		w.t.Fatal(err)
	}
	all, _, err := unstructured.NestedSlice(a.Object, "status", "recommendation", "containerRecommendations")
	if err != nil || len(all) != 1 {
		w.t.Errorf("autoscaler %s: status %v, %v; want one container", name, a.Object["status"], err)
		return ""
	}
	cpu, _, _ := unstructured.NestedString(all[0].(map[string]any), "target", "cpu")
	memory, _, _ := unstructured.NestedString(all[0].(map[string]any), "target", "memory")
	return cpu + " " + memory
}

// TestKwokVPABaselines: each baseline that needs no future serves the VerticalPodAutoscaler that
// names it, as `kwok vpa` runs it, on the continuous environment and on the discrete one.
func TestKwokVPABaselines(t *testing.T) {
	w := newVPAWorld(t)
	// By hand. Upstream: 1 core is in bucket 36, which ends at 1.01628 cores, and 15 % more is 1168 m;
	// 5000 MiB likewise are 6117462922 bytes. The moving window: 1.15 times the one sample. static
	// keeps what the template requests.
	want := map[string]string{"upstream": "1168m 6117462922", "moving_window": "1150m 6029312k", "static": "400m 1073741824"}
	for _, id := range []string{vpaEnv, "k8s/VerticalPodAutoscalerDiscrete-v0"} {
		spec, err := envs.Lookup(id)
		if err != nil {
			t.Fatal(err)
		}
		for _, b := range spec.Baselines {
			if b.Clairvoyant {
				continue
			}
			kind := "continuous"
			if id != vpaEnv {
				kind = "discrete"
			}
			name := strings.ReplaceAll(b.Name, "_", "-") + "-" + kind
			w.autoscaler(name, "Off")
			report := w.recommend("--baseline", b.Name, "--env", id, "--recommender-name", name)
			if want := (vpa.Report{Autoscalers: 1, Recommended: 1, Written: 1}); report != want {
				t.Errorf("%s of %s: %+v, want %+v", b.Name, id, report, want)
			}
			got := w.target(name)
			if exact, ok := want[b.Name]; ok && id == vpaEnv && got != exact || got == "" {
				t.Errorf("%s of %s recommends %q, want %q", b.Name, id, got, exact)
			}
		}
	}
}

// TestKwokVPABaselineUpdates: what a baseline recommends reaches the pod, by the updater.
func TestKwokVPABaselineUpdates(t *testing.T) {
	w := newVPAWorld(t)
	w.autoscaler("ours", "InPlaceOrRecreate")
	report := w.recommend("--baseline", "moving_window", "--recommender-name", "ours", "--updater", "--admission", "--storage", "checkpoint", "--min-replicas", "1")
	if report.Recommended != 1 || report.Resized != 1 {
		t.Errorf("%+v, want a recommendation and a pod resized", report)
	}
	requests := w.pod().Spec.Containers[0].Resources.Requests
	if requests.Cpu().MilliValue() != 1150 || requests.Memory().Value() != 6_029_312_000 {
		t.Errorf("the pod requests %v, want 1150m and 6029312000: 1.15 times what it uses", requests)
	}
}

// recommend runs `kwok vpa` for one look.
func (w *vpaWorld) recommend(args ...string) vpa.Report {
	w.t.Helper()
	out, stderr, err := execute(w.t, context.Background(), append([]string{"kwok", "vpa", "--metrics", "--once", "--json"}, args...)...)
	var report vpa.Report
	if err != nil || json.Unmarshal([]byte(out), &report) != nil {
		w.t.Fatalf("kwok vpa %v: %v\n%s%s", args, err, out, stderr)
	}
	return report
}

// TestVPABaselineWithoutEpisode asks the models that `kwok vpa --baseline` opens as the recommender
// does, which resets no environment.
func TestVPABaselineWithoutEpisode(t *testing.T) {
	open, err := openModels(t.Context(), play.Config{Baseline: "moving_window", Env: "k8s/VerticalPodAutoscalerKwok-v0"})
	if err != nil {
		t.Fatal(err)
	}
	for range 2 { // a model for each container
		m, err := open()
		if err != nil {
			t.Fatal(err)
		}
		live, err := env.NewLive(m.Task, env.LiveConfig{
			Requests: cluster.Resources{MilliCPU: 400, MemoryBytes: 1 << 30}, Mode: pods.ModeOff, MinReplicas: 1, Containers: 1,
		})
		if err != nil {
			t.Fatal(err)
		}
		pod := env.LivePod{ID: "web-1", Used: cluster.Resources{MilliCPU: 1000, MemoryBytes: 5000 << 20}, Sampled: true, Scheduled: true, Running: true, Serving: true}
		if err := live.Look(time.Unix(60, 0), 1, []env.LivePod{pod}); err != nil {
			t.Fatal(err)
		}
		// 1.15 times the one sample.
		r, err := live.Next(m.Policy)
		if want := (cluster.Resources{MilliCPU: 1150, MemoryBytes: 6_029_312_000}); err != nil || r.Target != want {
			t.Errorf("moving_window recommends %+v, %v; want %+v", r.Target, err, want)
		}
		if err := m.Close(); err != nil {
			t.Error(err)
		}
	}
}
