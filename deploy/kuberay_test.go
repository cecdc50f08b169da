package deploy

import (
	"context"
	"os"
	"path/filepath"
	"strings"
	"testing"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/client-go/dynamic"
	"sigs.k8s.io/yaml"

	"github.com/kubernasium/kubernasium/envs/envstest"
)

const kuberayEnv = "KUBERAY" // folder of KubeRay's module

// documents reads the objects of a file.
func documents(t *testing.T, path string) []*unstructured.Unstructured {
	t.Helper()
	text := envstest.Read(t, path)
	var out []*unstructured.Unstructured
	for doc := range strings.SplitSeq(text, "\n---\n") {
		u := &unstructured.Unstructured{}
		if err := yaml.Unmarshal([]byte(doc), &u.Object); err != nil {
			t.Fatalf("%s: %v", path, err)
		}
		out = append(out, u)
	}
	return out
}

// define creates the definition in a file until the test ends, waits until its group and version are served, and
// returns a client of objects of all kinds.
func (c *cluster) define(t *testing.T, path, groupVersion string) dynamic.Interface {
	t.Helper()
	api, err := dynamic.NewForConfig(c.rest)
	if err != nil {
		t.Fatal(err)
	}
	definitions := api.Resource(schema.GroupVersionResource{Group: "apiextensions.k8s.io", Version: "v1", Resource: "customresourcedefinitions"})
	crd := documents(t, path)[0]
	if _, err := definitions.Create(t.Context(), crd, metav1.CreateOptions{FieldValidation: metav1.FieldValidationStrict}); err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		if err := definitions.Delete(context.Background(), crd.GetName(), metav1.DeleteOptions{}); err != nil {
			t.Error(err)
		}
	})
	eventually(t, groupVersion+" is served", func() bool {
		_, err := c.client.Discovery().ServerResourcesForGroupVersion(groupVersion)
		return err == nil
	})
	return api
}

// TestKubeRay: KubeRay's definition accepts the RayJob, without unknown fields, and all that it names is there: the chart's
// Service and Secret, and the ConfigMap with its script.
func TestKubeRay(t *testing.T) {
	c := openCluster(t)
	folder := os.Getenv(kuberayEnv)
	if folder == "" {
		t.Skipf("needs KubeRay's definitions: `make test-deploy` fetches them and runs this; or set %s to the source of its ray-operator", kuberayEnv)
	}
	api := c.define(t, filepath.Join(folder, "config/crd/bases/ray.io_rayjobs.yaml"), "ray.io/v1")
	ns := c.install(t, "server.headless=true")
	objects := documents(t, "kuberay.yaml")
	strict := metav1.CreateOptions{FieldValidation: metav1.FieldValidationStrict}
	kinds := map[string]schema.GroupVersionResource{
		"ConfigMap": {Version: "v1", Resource: "configmaps"},
		"RayJob":    {Group: "ray.io", Version: "v1", Resource: "rayjobs"},
	}
	for _, o := range objects {
		if _, err := api.Resource(kinds[o.GetKind()]).Namespace(ns).Create(t.Context(), o, strict); err != nil {
			t.Errorf("%s: %v", o.GetKind(), err)
		}
	}
	config, job := objects[0], objects[1]

	var env struct {
		Vars map[string]string `json:"env_vars"`
	}
	text, _, _ := unstructured.NestedString(job.Object, "spec", "runtimeEnvYAML")
	if err := yaml.UnmarshalStrict([]byte(strings.Replace(text, "pip:", "#", 1)), &env); err != nil {
		t.Fatal(err)
	}
	service, err := c.client.CoreV1().Services(ns).Get(t.Context(), "kubernasium-server-pods", metav1.GetOptions{})
	if err != nil || service.Spec.Ports[0].Port != 8765 || env.Vars["KUBERNASIUM_URL"] != "k8s+dns://"+service.Name+":8765" {
		t.Errorf("KUBERNASIUM_URL is %q, the headless Service has %v: %v", env.Vars["KUBERNASIUM_URL"], service.Spec.Ports, err)
	}
	script, _, _ := unstructured.NestedString(config.Object, "data", "train.py")
	if entry, _, _ := unstructured.NestedString(job.Object, "spec", "entrypoint"); script == "" || entry != "python /training/train.py" {
		t.Errorf("entrypoint %q, and a script of %d bytes", entry, len(script))
	}
	groups, _, _ := unstructured.NestedSlice(job.Object, "spec", "rayClusterSpec", "workerGroupSpecs")
	head, _, _ := unstructured.NestedMap(job.Object, "spec", "rayClusterSpec", "headGroupSpec")
	for _, group := range append(groups, any(head)) {
		containers, _, _ := unstructured.NestedSlice(group.(map[string]any), "template", "spec", "containers")
		variables, _, _ := unstructured.NestedSlice(containers[0].(map[string]any), "env")
		name, _, _ := unstructured.NestedString(variables[0].(map[string]any), "valueFrom", "secretKeyRef", "name")
		key, _, _ := unstructured.NestedString(variables[0].(map[string]any), "valueFrom", "secretKeyRef", "key")
		if secret, err := c.client.CoreV1().Secrets(ns).Get(t.Context(), name, metav1.GetOptions{}); err != nil || len(secret.Data[key]) == 0 {
			t.Errorf("token %s of Secret %s: %v", key, name, err)
		}
	}
}
