package deploy

import (
	"context"
	"io"
	"net/http"
	"net/http/httptest"
	"strings"
	"sync/atomic"
	"testing"

	appsv1 "k8s.io/api/apps/v1"
	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/api/resource"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/client-go/dynamic"

	"github.com/kubernasium/kubernasium/kwok/metricsapi"
	"github.com/kubernasium/kubernasium/kwok/vpa"
)

// An application is a Deployment whose pods use something, with autoscalers in its namespace.
type application struct {
	c         *cluster
	namespace string
	api       dynamic.ResourceInterface // of autoscalers
}

var kinds = []string{"Deployment", "ReplicaSet", "StatefulSet", "DaemonSet"} // of targets

// application creates one, with the definitions of autoscalers and metrics.k8s.io.
func (c *cluster) application(t *testing.T) *application {
	t.Helper()
	ctx := t.Context()
	if err := vpa.Install(ctx, c.rest); err != nil {
		t.Fatal(err)
	}
	metrics, err := metricsapi.Start(ctx, metricsapi.Config{REST: c.rest})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		if err := metrics.Close(); err != nil {
			t.Error(err)
		}
	})
	api, err := dynamic.NewForConfig(c.rest)
	if err != nil {
		t.Fatal(err)
	}
	ns := c.namespace(t)
	a := &application{c, ns, api.Resource(vpa.GroupVersion.WithResource("verticalpodautoscalers")).Namespace(ns)}
	yes, no, user, labels := true, false, int64(1000), map[string]string{"app": "web"}
	if _, err := c.client.AppsV1().Deployments(ns).Create(ctx, &appsv1.Deployment{
		ObjectMeta: metav1.ObjectMeta{Name: "web"},
		Spec: appsv1.DeploymentSpec{Selector: &metav1.LabelSelector{MatchLabels: labels}, Template: corev1.PodTemplateSpec{
			ObjectMeta: metav1.ObjectMeta{Labels: labels, Annotations: map[string]string{metricsapi.AnnotationCPU: "300m", metricsapi.AnnotationMemory: "700Mi"}},
			Spec: corev1.PodSpec{
				SecurityContext: &corev1.PodSecurityContext{RunAsNonRoot: &yes, RunAsUser: &user, SeccompProfile: &corev1.SeccompProfile{Type: corev1.SeccompProfileTypeRuntimeDefault}},
				Containers: []corev1.Container{{
					Name: "web", Image: "none",
					Resources:       corev1.ResourceRequirements{Requests: corev1.ResourceList{corev1.ResourceCPU: resource.MustParse("2"), corev1.ResourceMemory: resource.MustParse("4Gi")}},
					SecurityContext: &corev1.SecurityContext{AllowPrivilegeEscalation: &no, Capabilities: &corev1.Capabilities{Drop: []corev1.Capability{"ALL"}}},
				}},
			},
		}},
	}, metav1.CreateOptions{}); err != nil {
		t.Fatal(err)
	}
	eventually(t, "the application runs", func() bool {
		d, err := c.client.AppsV1().Deployments(ns).Get(ctx, "web", metav1.GetOptions{})
		return err == nil && d.Status.AvailableReplicas == 1
	})
	return a
}

// autoscale creates new autoscalers that name the recommender, one of them for the Deployment and the others
// for what is not there.
func (a *application) autoscale(t *testing.T) {
	t.Helper()
	for _, kind := range kinds {
		name := strings.ToLower(kind)
		if err := a.api.Delete(t.Context(), name, metav1.DeleteOptions{}); err != nil && !apierrors.IsNotFound(err) {
			t.Fatal(err)
		}
		if _, err := a.api.Create(t.Context(), &unstructured.Unstructured{Object: map[string]any{
			"apiVersion": vpa.GroupVersion.String(), "kind": "VerticalPodAutoscaler", "metadata": map[string]any{"name": name},
			"spec": map[string]any{
				"targetRef":    map[string]any{"apiVersion": "apps/v1", "kind": kind, "name": "web"},
				"recommenders": []any{map[string]any{"name": "kubernasium"}},
			},
		}}, metav1.CreateOptions{}); err != nil {
			t.Fatal(err)
		}
	}
}

// target returns the CPU that is recommended to the Deployment's container, or nothing.
func (a *application) target(t *testing.T) string {
	t.Helper()
	object, err := a.api.Get(t.Context(), "deployment", metav1.GetOptions{})
	if err != nil {
		t.Fatal(err)
	}
	all, _, _ := unstructured.NestedSlice(object.Object, "status", "recommendation", "containerRecommendations")
	if len(all) == 0 {
		return ""
	}
	cpu, _, _ := unstructured.NestedString(all[0].(map[string]any), "target", "cpu")
	return cpu
}

// TestRecommender: with the arguments, account and rights of the chart, the pretrained model and the
// Kubernetes recommender write recommendations, hold their lease in the release's namespace, and are refused nothing.
func TestRecommender(t *testing.T) {
	c := openCluster(t)
	a := c.application(t)
	var queries atomic.Int64
	prometheus := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		queries.Add(1)
		w.Header().Set("Content-Type", "application/json")
		_, _ = io.WriteString(w, `{"status": "success", "data": {"resultType": "matrix", "result": []}}`) // no history
	}))
	defer prometheus.Close()
	for _, tc := range []struct {
		name string
		set  []string
		cpu  string // target, where it is known
	}{
		{"model", nil, ""},
		// By hand: of 300m, the histogram's bucket of upstream ends at 0.01 (1.05^19 - 1) / 0.05 cores = 305.4m,
		// which is kept as 305m; 15 % more are 350.75m, truncated.
		{"upstream", []string{"recommender.baseline=upstream", "recommender.storage=checkpoint"}, "350m"},
		{"prometheus", []string{"recommender.baseline=upstream", "recommender.storage=prometheus", "recommender.prometheusAddress=" + prometheus.URL}, "350m"},
		{"one namespace", []string{"recommender.namespace=" + a.namespace}, ""},
	} {
		t.Run(tc.name, func(t *testing.T) {
			ns := c.install(t, append(tc.set, "server.enabled=false", "recommender.enabled=true", "recommender.interval=1s")...)
			a.autoscale(t)
			p := c.run(t, ns, "recommender")
			p.wantProbes(t)
			p.eventually(t, "a recommendation", func() bool { return a.target(t) != "" })
			if got := a.target(t); tc.cpu != "" && got != tc.cpu {
				t.Errorf("recommended %s of CPU, want %s", got, tc.cpu)
			}
			lease, err := c.client.CoordinationV1().Leases(ns).Get(t.Context(), "vpa-recommender-kubernasium", metav1.GetOptions{})
			if err != nil || lease.Spec.HolderIdentity == nil || *lease.Spec.HolderIdentity == "" {
				t.Errorf("lease %v, %v; want one that is held", lease, err)
			}
			p.stop()
			if log := p.log.String(); strings.Contains(log, "forbidden") {
				t.Errorf("something was refused:\n%s", log)
			}
		})
	}
	if queries.Load() == 0 {
		t.Error("with storage prometheus nothing asked for history")
	}
}

// TestRecommenderRights: each right of the recommender is needed, and named where it is missing.
func TestRecommenderRights(t *testing.T) {
	c := openCluster(t)
	a := c.application(t)
	ns := c.install(t, "server.enabled=false", "recommender.enabled=true", "recommender.interval=1s", "recommender.baseline=upstream", "recommender.storage=checkpoint")
	c.wantEachRight(t, ns, "recommender", func(t *testing.T) {
		a.autoscale(t)
		checkpoints, err := dynamic.NewForConfig(c.rest)
		if err != nil {
			t.Fatal(err)
		}
		old := checkpoints.Resource(vpa.GroupVersion.WithResource("verticalpodautoscalercheckpoints")).Namespace(a.namespace)
		if err := old.DeleteCollection(t.Context(), metav1.DeleteOptions{}, metav1.ListOptions{}); err != nil {
			t.Fatal(err)
		}
		err = c.client.CoordinationV1().Leases(ns).Delete(context.Background(), "vpa-recommender-kubernasium", metav1.DeleteOptions{})
		if err != nil && !apierrors.IsNotFound(err) {
			t.Fatal(err)
		}
	})
}
