package deploy

import (
	"testing"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
)

// TestFleet: servers behind a headless Service are as many as an autoscaler by sessions wants, within its bounds. An
// upgrade leaves their number to it.
func TestFleet(t *testing.T) {
	c := openCluster(t)
	ns := c.install(t, "server.headless=true", "server.replicas=2", "server.autoscaling.enabled=true", "server.autoscaling.minReplicas=2", "server.autoscaling.sessions=5")
	pods, err := c.client.CoreV1().Services(ns).Get(t.Context(), "kubernasium-server-pods", metav1.GetOptions{})
	if err != nil {
		t.Fatal(err)
	}
	one, err := c.client.CoreV1().Services(ns).Get(t.Context(), "kubernasium-server", metav1.GetOptions{})
	if err != nil {
		t.Fatal(err)
	}
	if pods.Spec.ClusterIP != "None" || pods.Spec.Ports[0].Port != 8765 || pods.Spec.Selector["app.kubernetes.io/component"] != "server" {
		t.Errorf("the Service of the pods is %+v, want a headless one of the servers on 8765", pods.Spec)
	}
	if pods.Labels["app.kubernetes.io/component"] == one.Labels["app.kubernetes.io/component"] {
		t.Error("both Services have the labels by which the ServiceMonitor selects, so that each pod is asked twice")
	}
	h, err := c.client.AutoscalingV2().HorizontalPodAutoscalers(ns).Get(t.Context(), "kubernasium-server", metav1.GetOptions{})
	if err != nil {
		t.Fatal(err)
	}
	m := h.Spec.Metrics[0].Pods
	if h.Spec.ScaleTargetRef.Name != "kubernasium-server" || *h.Spec.MinReplicas != 2 || h.Spec.MaxReplicas != 4 || m.Metric.Name != "kubernasium_sessions" || m.Target.AverageValue.Value() != 5 {
		t.Errorf("autoscaler %+v, want 2 to 4 replicas of the server by 5 sessions", h.Spec)
	}
	scale, err := c.client.AppsV1().Deployments(ns).GetScale(t.Context(), "kubernasium-server", metav1.GetOptions{})
	if err != nil {
		t.Fatal(err)
	}
	scale.Spec.Replicas = 3 // as the autoscaler does
	if _, err := c.client.AppsV1().Deployments(ns).UpdateScale(t.Context(), "kubernasium-server", scale, metav1.UpdateOptions{}); err != nil {
		t.Fatal(err)
	}
	helm(t, "upgrade", "kubernasium", chart, "--kubeconfig", c.Kubeconfig, "--namespace", ns, "--reuse-values", "--set", "server.args={--max-envs=9}")
	d, err := c.client.AppsV1().Deployments(ns).Get(t.Context(), "kubernasium-server", metav1.GetOptions{})
	if err != nil || *d.Spec.Replicas != 3 {
		t.Errorf("%d replicas after an upgrade, %v; want the autoscaler's 3", *d.Spec.Replicas, err)
	}
}
