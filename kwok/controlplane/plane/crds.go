package plane

import (
	"context"
	"errors"
	"fmt"
	"maps"
	"slices"
	"time"

	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/client-go/dynamic"
	"k8s.io/client-go/rest"
	"sigs.k8s.io/kwok/kustomize/crd"
	"sigs.k8s.io/kwok/pkg/apis/v1alpha1"
	"sigs.k8s.io/kwok/pkg/client/clientset/versioned"
	"sigs.k8s.io/kwok/pkg/kwok/server"
	"sigs.k8s.io/yaml"

	"github.com/kubernasium/kubernasium/kwok/poll"
)

// definitions holds the CRDs of KWOK's kinds that configure the kubelet's answers.
var definitions = map[string][]byte{
	v1alpha1.LogsKind: crd.Logs, v1alpha1.ClusterLogsKind: crd.ClusterLogs,
	v1alpha1.ExecKind: crd.Exec, v1alpha1.ClusterExecKind: crd.ClusterExec,
	v1alpha1.AttachKind: crd.Attach, v1alpha1.ClusterAttachKind: crd.ClusterAttach,
	v1alpha1.PortForwardKind: crd.PortForward, v1alpha1.ClusterPortForwardKind: crd.ClusterPortForward,
}

// CRDs returns the kinds that Config.CRDs may list.
func CRDs() []string { return slices.Sorted(maps.Keys(definitions)) }

const establishedTimeout = time.Minute

var customResources = schema.GroupVersionResource{Group: "apiextensions.k8s.io", Version: "v1", Resource: "customresourcedefinitions"}

// newKubelet creates the CRDs, and returns a kubelet that answers from objects of these kinds. It watches them
// until ctx ends.
func newKubelet(ctx context.Context, rc *rest.Config, kinds []string) (kubelet, error) {
	plain := rest.CopyConfig(rc)
	plain.ContentConfig = rest.ContentConfig{} // these are JSON
	api, err := dynamic.NewForConfig(plain)
	if err != nil {
		return kubelet{}, err
	}
	for _, kind := range kinds {
		if err := define(ctx, api, definitions[kind]); err != nil {
			return kubelet{}, fmt.Errorf("define %s: %w", kind, err)
		}
	}
	client, err := versioned.NewForConfig(plain)
	if err != nil {
		return kubelet{}, err
	}
	s, err := server.NewServer(server.Config{TypedKwokClient: client, EnableCRDs: kinds})
	if err != nil {
		return kubelet{}, err
	}
	return kubelet{kwok: s, crds: kinds}, s.InstallCRD(ctx)
}

// define creates a CRD, unless a kept state already has it, and waits until objects can be created.
func define(ctx context.Context, api dynamic.Interface, text []byte) error {
	ctx, cancel := context.WithTimeoutCause(ctx, establishedTimeout, errors.New("not established"))
	defer cancel()
	object := &unstructured.Unstructured{}
	if err := yaml.Unmarshal(text, &object.Object); err != nil {
		return err
	}
	all := api.Resource(customResources)
	if _, err := all.Create(ctx, object, metav1.CreateOptions{}); err != nil && !apierrors.IsAlreadyExists(err) {
		return err
	}
	for {
		found, err := all.Get(ctx, object.GetName(), metav1.GetOptions{})
		if err != nil {
			return err
		}
		conditions, _, _ := unstructured.NestedSlice(found.Object, "status", "conditions")
		if slices.ContainsFunc(conditions, func(c any) bool {
			one, _ := c.(map[string]any)
			return one["type"] == "Established" && one["status"] == "True"
		}) {
			return nil
		}
		if poll.Sleep(ctx, pollReady) != nil {
			return context.Cause(ctx)
		}
	}
}
