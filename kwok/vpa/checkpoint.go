package vpa

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"

	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	utiljson "k8s.io/apimachinery/pkg/util/json"

	env "github.com/kubernasium/kubernasium/envs/vpa"
	"github.com/kubernasium/kubernasium/envs/vpa/recommender"
)

func checkpointName(a *Autoscaler, container string) string { return a.Name + "-" + container }

// save stores what upstream's recommender has learned about an autoscaler's containers, if checkpoints are
// enabled. A Checkpoint is deleted with its Autoscaler.
func (r *Recommender) save(ctx context.Context, a *Autoscaler, one *autoscaler) error {
	for name, c := range one.containers {
		saved := c.live.Checkpoint()
		if saved == nil {
			continue
		}
		status, err := asObject(saved)
		if err != nil {
			return err
		}
		api := r.api.Resource(checkpoints).Namespace(a.Namespace)
		object, err := api.Get(ctx, checkpointName(a, name), metav1.GetOptions{})
		if apierrors.IsNotFound(err) {
			object, err = api.Create(ctx, newCheckpoint(a, name), metav1.CreateOptions{FieldManager: manager})
		}
		if err == nil && !isOf(object, a, name) {
			err = errors.New("it is of another autoscaler or container: rename one of them")
		}
		if err == nil {
			object.Object["status"] = status // replaces all: a patch would keep buckets that are empty now
			_, err = api.UpdateStatus(ctx, object, metav1.UpdateOptions{FieldManager: manager})
		}
		if err != nil {
			return fmt.Errorf("checkpoint %s: %w", checkpointName(a, name), err)
		}
	}
	return nil
}

// isOf reports whether a Checkpoint is of a container of an autoscaler. Its name does not tell, because it joins two names
// that may both have dashes.
func isOf(checkpoint *unstructured.Unstructured, a *Autoscaler, container string) bool {
	of, _, _ := unstructured.NestedString(checkpoint.Object, "spec", "vpaObjectName")
	name, _, _ := unstructured.NestedString(checkpoint.Object, "spec", "containerName")
	return of == a.Name && name == container
}

func newCheckpoint(a *Autoscaler, container string) *unstructured.Unstructured {
	return &unstructured.Unstructured{Object: map[string]any{
		"apiVersion": GroupVersion.String(), "kind": "VerticalPodAutoscalerCheckpoint",
		"metadata": map[string]any{"name": checkpointName(a, container), "ownerReferences": []any{map[string]any{
			"apiVersion": GroupVersion.String(), "kind": "VerticalPodAutoscaler", "name": a.Name, "uid": string(a.UID),
		}}},
		"spec": map[string]any{"vpaObjectName": a.Name, "containerName": container},
	}}
}

func asObject(v any) (map[string]any, error) {
	text, err := json.Marshal(v)
	if err != nil {
		return nil, err
	}
	var object map[string]any
	return object, utiljson.Unmarshal(text, &object)
}

// restore lets a model resume from a Checkpoint, if there is a valid one.
func (r *Recommender) restore(ctx context.Context, a *Autoscaler, container string, live *env.Live) error {
	name := checkpointName(a, container)
	object, err := r.api.Resource(checkpoints).Namespace(a.Namespace).Get(ctx, name, metav1.GetOptions{})
	if apierrors.IsNotFound(err) {
		return nil
	}
	if err != nil {
		return fmt.Errorf("checkpoint %s: %w", name, err)
	}
	if !isOf(object, a, container) {
		r.log.Warn("checkpoint ignored", "name", name, "err", "it is of another autoscaler or container")
		return nil
	}
	text, err := object.MarshalJSON()
	if err != nil {
		return err
	}
	var c struct {
		Status recommender.Checkpoint `json:"status"`
	}
	if err := json.Unmarshal(text, &c); err != nil {
		return fmt.Errorf("checkpoint %s: %w", name, err)
	}
	err = live.Restore(&c.Status)
	if errors.Is(err, recommender.ErrCheckpoint) {
		r.log.Warn("checkpoint ignored", "name", name, "err", err)
		return nil
	}
	return err
}
