package vpa_test

import (
	"net/http/httptest"
	"testing"
	"time"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	metrics "k8s.io/metrics/pkg/client/clientset/versioned/typed/metrics/v1beta1"

	"github.com/kubernasium/kubernasium/envs/cluster"
	"github.com/kubernasium/kubernasium/kwok/load"
	"github.com/kubernasium/kubernasium/kwok/vpa"
)

// TestLoadLoop is the earlier project's loop in lock-step: the utilisation server hands out targets,
// the pods' usage becomes what they say, metrics.k8s.io shows it, the recommender writes what
// upstream's algorithm gives for it, and pods are resized.
func TestLoadLoop(t *testing.T) {
	w := newWorld(t)
	w.deploy("app", 2, "{name: main, image: none, resources: {requests: {cpu: 200m, memory: 400Mi}}}")
	w.autoscaler("app", "recommenders: [{name: ours}], targetRef: {kind: Deployment, name: app}, updatePolicy: {updateMode: InPlaceOrRecreate}")
	r := w.recommender(func(c *vpa.Config) { c.Upstream = w.upstream(false) })
	targets := []load.Target{{RAM: 400, CPU: 200}, {RAM: 900, CPU: 700}, {RAM: 2500, CPU: 900}, {RAM: 5000, CPU: 1500}}
	server, err := load.NewServer(load.Config{}, map[string][]load.Target{load.All: targets})
	if err != nil {
		t.Fatal(err)
	}
	http := httptest.NewServer(server.Handler())
	defer http.Close()
	now := monday.Add(time.Minute)
	pods, err := load.StartSimulated(load.SimulatedConfig{Client: w.client, Server: http.URL, Namespace: w.namespace, Selector: "app=app", Now: func() time.Time { return now }})
	if err != nil {
		t.Fatal(err)
	}
	defer func() {
		if err := pods.Close(); err != nil {
			t.Error(err)
		}
	}()
	api, err := metrics.NewForConfig(w.rc)
	if err != nil {
		t.Fatal(err)
	}
	want := newOracle(t)
	var total vpa.Report
	for i, target := range targets {
		if n, err := pods.Sync(ctx); err != nil || n != 2 {
			t.Fatalf("step %d: %d pods run, %v; want 2", i, n, err)
		}
		if i > 0 {
			now = now.Add(time.Minute)
			if st := server.Step(ctx, 1); st.Step != i || len(st.Pods) != 2 || st.Pods[w.running("app", 2)[0].Name] != (load.PodStatus{Target: target}) {
				t.Fatalf("step %d: %+v, want two pods that have taken %+v", i, st, target)
			}
		}
		used := cluster.Resources{MilliCPU: target.CPU, MemoryBytes: target.RAM * mib}
		list, err := api.PodMetricses(w.namespace).List(ctx, metav1.ListOptions{})
		if err != nil || len(list.Items) != 2 {
			t.Fatalf("step %d: metrics of %d pods, %v; want 2", i, len(list.Items), err)
		}
		var users []vpa.DemoPod
		for _, m := range list.Items {
			if u := m.Containers[0].Usage; u.Cpu().MilliValue() != used.MilliCPU || u.Memory().Value() != used.MemoryBytes {
				t.Errorf("step %d: pod %s uses %v, want %+v", i, m.Name, u, used)
			}
			users = append(users, vpa.DemoPod{Name: m.Name})
		}
		one := w.step(r)
		total.Add(one)
		rec := want.after(i, used, users)
		if got := w.status("app").Recommendation.ContainerRecommendations[0]; !sameList(got.Target, rec.Target) || !sameList(got.LowerBound, rec.LowerBound) {
			t.Errorf("step %d: %+v, want %+v", i, got, rec)
		}
		resized := 0
		for _, p := range w.running("app", 2) {
			if sameList(p.Spec.Containers[0].Resources.Requests, rec.Target) {
				resized++
			}
		}
		if one.Resized > 0 && resized == 0 {
			t.Errorf("step %d: no pod requests the target that %d were resized to", i, one.Resized)
		}
	}
	if total.Recommended != 4 || total.Resized < 2 || total.Evicted != 0 {
		t.Errorf("%+v, want 4 recommendations, 2 resizes or more, and no eviction", total)
	}
	t.Logf("%+v", total)
}
