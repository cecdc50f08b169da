package vpa

import (
	"context"
	"encoding/json"
	"fmt"

	corev1 "k8s.io/api/core/v1"
	policyv1 "k8s.io/api/policy/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/api/resource"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"

	"github.com/kubernasium/kubernasium/envs/cluster"
	env "github.com/kubernasium/kubernasium/envs/vpa"
)

// update lets the updater act on an autoscaler's pods. Where several containers are recommended
// for, it leaves the pods alone: its rules are for one.
func (r *Recommender) update(ctx context.Context, a *Autoscaler, one *autoscaler, pods []corev1.Pod, report *Report) error {
	if len(one.containers) != 1 {
		r.log.Warn("the updater acts on pods with one container", "autoscaler", a.Namespace+"/"+a.Name, "containers", len(one.containers))
		return nil
	}
	for name, c := range one.containers {
		if err := c.live.Update(func(u env.LiveUpdate) (bool, error) {
			for i := range pods {
				if string(pods[i].UID) == u.Pod {
					return r.change(ctx, &pods[i], name, u, report)
				}
			}
			return false, nil // not reached: the models have looked at these pods
		}); err != nil {
			return err
		}
	}
	return nil
}

// change evicts or resizes a pod, and reports whether the API refuses that.
func (r *Recommender) change(ctx context.Context, p *corev1.Pod, container string, u env.LiveUpdate, report *Report) (refused bool, err error) {
	if u.Evict {
		refused, err = r.evict(ctx, p)
		if err == nil && !refused {
			report.Evicted++
		}
	} else {
		refused, err = r.resize(ctx, p, container, u)
		if err == nil && !refused {
			report.Resized++
		}
	}
	if err == nil {
		r.log.Info("update", "pod", p.Namespace+"/"+p.Name, "evict", u.Evict, "refused", refused)
	}
	return refused, err
}

// evict goes through the eviction API, so that disruption budgets hold. A pod that is gone counts
// as evicted.
func (r *Recommender) evict(ctx context.Context, p *corev1.Pod) (refused bool, err error) {
	err = r.client.CoreV1().Pods(p.Namespace).EvictV1(ctx, &policyv1.Eviction{
		ObjectMeta:    metav1.ObjectMeta{Name: p.Name, Namespace: p.Namespace},
		DeleteOptions: &metav1.DeleteOptions{Preconditions: &metav1.Preconditions{UID: &p.UID}},
	})
	switch {
	case err == nil || apierrors.IsNotFound(err) || apierrors.IsConflict(err):
		return false, nil
	case apierrors.IsTooManyRequests(err):
		return true, nil
	}
	return false, fmt.Errorf("evict pod %s: %w", p.Name, err)
}

// resize changes a container in place. The API refuses what would change the pod's QoS class, and
// what its node can never hold.
func (r *Recommender) resize(ctx context.Context, p *corev1.Pod, container string, u env.LiveUpdate) (refused bool, err error) {
	patch, err := json.Marshal(map[string]any{"spec": map[string]any{"containers": []any{map[string]any{
		"name": container, "resources": corev1.ResourceRequirements{Requests: amounts(u.Requests), Limits: amounts(u.Limits)},
	}}}})
	if err != nil {
		return false, err
	}
	_, err = r.client.CoreV1().Pods(p.Namespace).Patch(ctx, p.Name, types.StrategicMergePatchType, patch, metav1.PatchOptions{FieldManager: manager}, "resize")
	switch {
	case err == nil || apierrors.IsNotFound(err):
		return false, nil
	case apierrors.IsInvalid(err) || apierrors.IsForbidden(err):
		return true, nil
	}
	return false, fmt.Errorf("resize pod %s: %w", p.Name, err)
}

// amounts returns the resources that are not 0.
func amounts(r cluster.Resources) corev1.ResourceList {
	l := corev1.ResourceList{}
	if r.MilliCPU > 0 {
		l[corev1.ResourceCPU] = *resource.NewMilliQuantity(r.MilliCPU, resource.DecimalSI)
	}
	if r.MemoryBytes > 0 {
		l[corev1.ResourceMemory] = *resource.NewQuantity(r.MemoryBytes, resource.BinarySI)
	}
	return l
}
