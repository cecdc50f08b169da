package vpa

import (
	"context"
	"embed"
	"fmt"
	"time"

	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/client-go/discovery"
	"k8s.io/client-go/dynamic"
	"k8s.io/client-go/kubernetes"
	"k8s.io/client-go/rest"
	"sigs.k8s.io/yaml"

	"github.com/kubernasium/kubernasium/kwok/poll"
)

//go:embed crds/*.yaml
var definitions embed.FS

const (
	establishTimeout = 30 * time.Second
	pollInterval     = 20 * time.Millisecond
	callTimeout      = 30 * time.Second // timeout of a step's calls
)

var resourceDefinitions = schema.GroupVersionResource{Group: "apiextensions.k8s.io", Version: "v1", Resource: "customresourcedefinitions"}

// Install installs the CRDs of autoscalers and checkpoints unless the API server serves them, and waits until
// it does. It leaves existing CRDs unchanged, and then needs no right to create any.
func Install(ctx context.Context, rc *rest.Config) error {
	client, err := kubernetes.NewForConfig(rc)
	if err != nil {
		return err
	}
	ctx, cancel := context.WithTimeout(ctx, establishTimeout)
	defer cancel()
	if ok, err := served(client.Discovery()); ok || err != nil {
		return err
	}
	api, err := dynamic.NewForConfig(rc)
	if err != nil {
		return err
	}
	files, err := definitions.ReadDir("crds")
	if err != nil {
		return err
	}
	for _, f := range files {
		if err := create(ctx, api, "crds/"+f.Name()); err != nil {
			return err
		}
	}
	for {
		if ok, err := served(client.Discovery()); ok || err != nil {
			return err
		}
		if poll.Sleep(ctx, pollInterval) != nil {
			return fmt.Errorf("vpa: %s are not served after %v", GroupVersion, establishTimeout)
		}
	}
}

// create creates the CRD in an embedded file, unless it exists.
func create(ctx context.Context, api dynamic.Interface, file string) error {
	text, err := definitions.ReadFile(file)
	if err != nil {
		return err
	}
	var object map[string]any
	if err := yaml.Unmarshal(text, &object); err != nil {
		return fmt.Errorf("vpa: %s: %w", file, err)
	}
	crd := &unstructured.Unstructured{Object: object}
	if _, err := api.Resource(resourceDefinitions).Create(ctx, crd, metav1.CreateOptions{}); err != nil && !apierrors.IsAlreadyExists(err) {
		return fmt.Errorf("vpa: install %s: %w", crd.GetName(), err)
	}
	return nil
}

// served reports whether the API server has autoscalers and checkpoints. Every account may ask.
func served(c discovery.DiscoveryInterface) (bool, error) {
	list, err := c.ServerResourcesForGroupVersion(GroupVersion.String())
	if apierrors.IsNotFound(err) {
		return false, nil
	}
	if err != nil {
		return false, fmt.Errorf("vpa: resources of %s: %w", GroupVersion, err)
	}
	missing := map[string]bool{autoscalers.Resource: true, checkpoints.Resource: true}
	for _, r := range list.APIResources {
		delete(missing, r.Name)
	}
	return len(missing) == 0, nil
}
