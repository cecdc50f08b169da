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
	"k8s.io/client-go/dynamic"
	"k8s.io/client-go/rest"
	"sigs.k8s.io/yaml"
)

//go:embed crds/*.yaml
var definitions embed.FS

const (
	establishTimeout = 30 * time.Second
	pollInterval     = 20 * time.Millisecond
	callTimeout      = 30 * time.Second // of the calls of a step
)

var resourceDefinitions = schema.GroupVersionResource{Group: "apiextensions.k8s.io", Version: "v1", Resource: "customresourcedefinitions"}

// Install installs the definitions of autoscalers and of checkpoints where there are none, and waits
// until they are served. Those that a cluster has are left as they are.
func Install(ctx context.Context, rc *rest.Config) error {
	api, err := dynamic.NewForConfig(rc)
	if err != nil {
		return err
	}
	ctx, cancel := context.WithTimeout(ctx, establishTimeout)
	defer cancel()
	files, err := definitions.ReadDir("crds")
	if err != nil {
		return err
	}
	for _, f := range files {
		text, err := definitions.ReadFile("crds/" + f.Name())
		if err != nil {
			return err
		}
		var object map[string]any
		if err := yaml.Unmarshal(text, &object); err != nil {
			return fmt.Errorf("vpa: %s: %w", f.Name(), err)
		}
		crd := &unstructured.Unstructured{Object: object}
		if _, err := api.Resource(resourceDefinitions).Create(ctx, crd, metav1.CreateOptions{}); err != nil && !apierrors.IsAlreadyExists(err) {
			return fmt.Errorf("vpa: install %s: %w", crd.GetName(), err)
		}
	}
	for _, r := range []schema.GroupVersionResource{autoscalers, checkpoints} {
		for {
			_, err := api.Resource(r).List(ctx, metav1.ListOptions{Limit: 1})
			if err == nil {
				break
			}
			if !apierrors.IsNotFound(err) && ctx.Err() == nil {
				return fmt.Errorf("vpa: list %s: %w", r.Resource, err)
			}
			select {
			case <-ctx.Done():
				return fmt.Errorf("vpa: %s are not served after %v: %w", r.Resource, establishTimeout, err)
			case <-time.After(pollInterval):
			}
		}
	}
	return nil
}
