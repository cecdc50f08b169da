package deploy

import (
	"os"
	"path/filepath"
	"testing"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime/schema"
)

const definitionsEnv = "PROMETHEUS_OPERATOR" // folder of the Prometheus operator's module

// TestServiceMonitor: the definition of the Prometheus operator accepts the object, which names a port of the
// Service and a key of the Secret.
func TestServiceMonitor(t *testing.T) {
	c := openCluster(t)
	folder := os.Getenv(definitionsEnv)
	if folder == "" {
		t.Skipf("needs the Prometheus operator's definitions: `make test-deploy` fetches them and runs this; or set %s to its source", definitionsEnv)
	}
	api := c.define(t, filepath.Join(folder, "example/prometheus-operator-crd/monitoring.coreos.com_servicemonitors.yaml"), "monitoring.coreos.com/v1")
	ns := c.install(t, "server.serviceMonitor.enabled=true", "server.serviceMonitor.labels.release=prometheus")
	monitors := api.Resource(schema.GroupVersionResource{Group: "monitoring.coreos.com", Version: "v1", Resource: "servicemonitors"}).Namespace(ns)
	m, err := monitors.Get(t.Context(), "kubernasium-server", metav1.GetOptions{})
	if err != nil {
		t.Fatal(err)
	}
	if m.GetLabels()["release"] != "prometheus" {
		t.Errorf("labels %v, want that of the values", m.GetLabels())
	}
	endpoints, _, _ := unstructured.NestedSlice(m.Object, "spec", "endpoints")
	endpoint := endpoints[0].(map[string]any)
	service, err := c.client.CoreV1().Services(ns).Get(t.Context(), "kubernasium-server", metav1.GetOptions{})
	if err != nil || service.Spec.Ports[0].Name != endpoint["port"] {
		t.Errorf("endpoint of port %v, Service has %v: %v", endpoint["port"], service.Spec.Ports, err)
	}
	name, _, _ := unstructured.NestedString(endpoint, "authorization", "credentials", "name")
	key, _, _ := unstructured.NestedString(endpoint, "authorization", "credentials", "key")
	if secret, err := c.client.CoreV1().Secrets(ns).Get(t.Context(), name, metav1.GetOptions{}); err != nil || len(secret.Data[key]) == 0 {
		t.Errorf("credentials %s of Secret %s: %v", key, name, err)
	}
}
