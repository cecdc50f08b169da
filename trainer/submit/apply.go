package submit

import (
	"context"
	"crypto/rand"
	"fmt"
	"io"
	"strings"

	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime/schema"
)

// fieldManager owns the fields that Apply writes.
const fieldManager = "kubernasium-trainer"

// Applied describes the result of Apply.
type Applied struct {
	Kind      string `json:"kind"` // JobSet or Job
	Namespace string `json:"namespace"`
	Name      string `json:"name"`
	Queue     string `json:"queue,omitempty"`
	Created   bool   `json:"created"` // false: the workload existed before
	State     string `json:"state"`   // Running, Suspended, Complete or Failed
}

// Apply applies the manifests of a workload that Complete has completed. It does not change an existing
// workload, but applies missing objects again. A different existing workload is an error, because JobSets and
// Jobs are immutable. Apply generates the servers' token once. The token and the files are deleted with the
// workload; the claim stays.
func (c *Cluster) Apply(ctx context.Context, w *Workload, m *Manifests) (*Applied, error) {
	if err := c.applyClaim(ctx, w, m); err != nil {
		return nil, err
	}
	result, owner, err := c.applyWorkload(ctx, w, m)
	if err != nil {
		return nil, err
	}
	// Pods wait for what they mount, so the owner comes first.
	if m.Files != nil {
		files := m.Files.DeepCopy()
		files.OwnerReferences = owner
		if _, err := c.apply(ctx, configs, w.Namespace, files); err != nil {
			return nil, err
		}
	}
	return result, c.ensureToken(ctx, w, m, owner)
}

func (c *Cluster) applyClaim(ctx context.Context, w *Workload, m *Manifests) error {
	if m.Claim != nil {
		_, err := c.apply(ctx, claims, w.Namespace, m.Claim)
		return err
	}
	_, err := c.client.Resource(claims).Namespace(w.Namespace).Get(ctx, w.Volume.Claim, metav1.GetOptions{})
	if apierrors.IsNotFound(err) {
		return fmt.Errorf("%w: volume.claim %s in namespace %s", ErrNoClaim, w.Volume.Claim, w.Namespace)
	} else if err != nil {
		return fmt.Errorf("get claim %s: %w", w.Volume.Claim, err)
	}
	return nil
}

// applyWorkload creates the JobSet or Job unless it exists, and returns the owner references for its objects.
func (c *Cluster) applyWorkload(ctx context.Context, w *Workload, m *Manifests) (*Applied, []metav1.OwnerReference, error) {
	resource := jobSets
	if m.Job != nil {
		resource = jobs
	}
	live, err := c.client.Resource(resource).Namespace(w.Namespace).Get(ctx, w.Name, metav1.GetOptions{})
	created := apierrors.IsNotFound(err)
	switch {
	case created:
		if live, err = c.apply(ctx, resource, w.Namespace, m.main()); err != nil {
			return nil, nil, err
		}
	case err != nil:
		return nil, nil, fmt.Errorf("get %s %s: %w", resource.Resource, w.Name, err)
	case live.GetDeletionTimestamp() != nil:
		return nil, nil, fmt.Errorf("%w: %s/%s is being deleted: try again when it is gone", ErrOther, resource.Resource, w.Name)
	case live.GetAnnotations()[hashKey] != m.main().GetAnnotations()[hashKey]:
		return nil, nil, fmt.Errorf("%w: %s/%s in namespace %s runs another training or has other settings, and cannot be changed: give yours another name, or delete it (kubectl --namespace %s delete %s %s); its checkpoints stay",
			ErrOther, resource.Resource, w.Name, w.Namespace, w.Namespace, resource.GroupResource(), w.Name)
	}
	owner := metav1.OwnerReference{APIVersion: live.GetAPIVersion(), Kind: live.GetKind(), Name: live.GetName(), UID: live.GetUID()}
	return &Applied{Kind: live.GetKind(), Namespace: w.Namespace, Name: w.Name, Queue: w.Queue, Created: created, State: state(live)}, []metav1.OwnerReference{owner}, nil
}

// ensureToken generates a token for the servers unless the workload has one.
func (c *Cluster) ensureToken(ctx context.Context, w *Workload, m *Manifests, owner []metav1.OwnerReference) error {
	if m.Token == nil {
		return nil
	}
	api := c.client.Resource(secrets).Namespace(w.Namespace)
	live, err := api.Get(ctx, m.Token.Name, metav1.GetOptions{})
	switch {
	case err == nil && len(live.GetOwnerReferences()) == 1 && live.GetOwnerReferences()[0].UID == owner[0].UID:
		return nil
	case err == nil && live.GetLabels()[instanceKey] != w.Name:
		return fmt.Errorf("%w: secret %s in namespace %s is not of this workload: give it another name", ErrOther, m.Token.Name, w.Namespace)
	case err == nil: // of a deleted workload of the same name; the garbage collector will delete it
		uid := live.GetUID()
		if err := api.Delete(ctx, m.Token.Name, metav1.DeleteOptions{Preconditions: &metav1.Preconditions{UID: &uid}}); err != nil && !apierrors.IsNotFound(err) {
			return fmt.Errorf("delete secret %s of an earlier workload: %w", m.Token.Name, err)
		}
	case !apierrors.IsNotFound(err):
		return fmt.Errorf("get secret %s: %w", m.Token.Name, err)
	}
	secret := m.Token.DeepCopy()
	secret.OwnerReferences = owner
	secret.Data = map[string][]byte{tokenKey: []byte(rand.Text())}
	u, err := object(secret)
	if err != nil {
		return err
	}
	if _, err := api.Create(ctx, u, metav1.CreateOptions{FieldManager: fieldManager}); err != nil {
		return fmt.Errorf("create secret %s: %w", m.Token.Name, err)
	}
	return nil
}

// apply applies an object by server-side apply.
func (c *Cluster) apply(ctx context.Context, resource schema.GroupVersionResource, namespace string, o any) (*unstructured.Unstructured, error) {
	u, err := object(o)
	if err != nil {
		return nil, err
	}
	u.SetNamespace(namespace)
	live, err := c.client.Resource(resource).Namespace(namespace).Apply(ctx, u.GetName(), u, metav1.ApplyOptions{FieldManager: fieldManager})
	if missing, ok := err.(apierrors.APIStatus); ok && apierrors.IsNotFound(err) && missing.Status().Details != nil && missing.Status().Details.Kind == "namespaces" {
		return nil, fmt.Errorf("%w: %s: kubectl create namespace %s", ErrNoNamespace, namespace, namespace)
	} else if err != nil {
		return nil, fmt.Errorf("apply %s %s in namespace %s: %w", u.GetKind(), u.GetName(), namespace, err)
	}
	return live, nil
}

// WriteText describes the applied workload, and how to follow it.
func (a *Applied) WriteText(w io.Writer) error {
	verb := "is there already"
	if a.Created {
		verb = "created"
	}
	queue := ""
	if a.Queue != "" {
		queue = ", in queue " + a.Queue
	}
	kind := strings.ToLower(a.Kind)
	_, err := fmt.Fprintf(w, "%s/%s %s in namespace %s%s: %s\n"+
		"  kubectl --namespace %s get %s %s\n"+
		"  kubectl --namespace %s logs --follow --container %s --selector %s=%s,%s=%s\n",
		kind, a.Name, verb, a.Namespace, queue, a.State, a.Namespace, kind, a.Name, a.Namespace, learner, instanceKey, a.Name, roleKey, learner)
	return err
}
