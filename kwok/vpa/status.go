package vpa

import (
	"cmp"
	"context"
	"encoding/json"
	"fmt"
	"slices"
	"time"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/equality"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/api/resource"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/types"

	"github.com/kubernasium/kubernasium/envs/cluster"
	env "github.com/kubernasium/kubernasium/envs/vpa"
	"github.com/kubernasium/kubernasium/envs/vpa/pods"
)

const manager = "kubernasium-recommender"

func fromObject(o *unstructured.Unstructured, into any) error {
	return runtime.DefaultUnstructuredConverter.FromUnstructured(o.Object, into)
}

func condition(name string, status corev1.ConditionStatus, reason, message string) Condition {
	return Condition{Type: name, Status: status, Reason: reason, Message: message}
}

// recommendation returns the recommendation for the status, in the order of the containers' names.
func (one *autoscaler) recommendation() *PodRecommendation {
	var p PodRecommendation
	for name, c := range one.containers {
		if !c.given {
			continue
		}
		p.ContainerRecommendations = append(p.ContainerRecommendations, ContainerRecommendation{
			ContainerName: name, Target: c.amounts(c.rec.Target), LowerBound: c.amounts(c.rec.Lower),
			UpperBound: c.amounts(c.rec.Upper), UncappedTarget: c.amounts(c.rec.Uncapped),
		})
	}
	slices.SortFunc(p.ContainerRecommendations, func(a, b ContainerRecommendation) int { return cmp.Compare(a.ContainerName, b.ContainerName) })
	return &p
}

// amounts returns the controlled resources of r.
func (c *container) amounts(r cluster.Resources) corev1.ResourceList {
	l := corev1.ResourceList{}
	if c.policy.cpu {
		l[corev1.ResourceCPU] = *resource.NewMilliQuantity(r.MilliCPU, resource.DecimalSI)
	}
	if c.policy.memory {
		l[corev1.ResourceMemory] = *resource.NewQuantity(r.MemoryBytes, resource.DecimalSI)
	}
	return l
}

// adopted returns the recommendation in a status. Resources that the status lacks have the template's requests.
func adopted(c *ContainerRecommendation, config env.LiveConfig) pods.Recommendation {
	fill := func(l corev1.ResourceList) cluster.Resources {
		r := config.Requests
		if _, ok := l[corev1.ResourceCPU]; ok {
			r.MilliCPU = l.Cpu().MilliValue()
		}
		if _, ok := l[corev1.ResourceMemory]; ok {
			r.MemoryBytes = l.Memory().Value()
		}
		return r
	}
	return pods.Recommendation{Lower: fill(c.LowerBound), Target: fill(c.Target), Upper: fill(c.UpperBound), Uncapped: fill(c.UncappedTarget)}
}

// writeStatus writes recommendation and condition, if they have changed. It sets our other conditions to False.
func (r *Recommender) writeStatus(ctx context.Context, a *Autoscaler, p *PodRecommendation, report *Report, is Condition) error {
	next := AutoscalerStatus{Recommendation: p}
	for _, name := range []string{ConfigUnsupported, NoPodsMatched, RecommendationProvided} {
		old := slices.IndexFunc(a.Status.Conditions, func(c Condition) bool { return c.Type == name })
		c := condition(name, corev1.ConditionFalse, "", "")
		switch {
		case name == is.Type:
			c = is
		case name == RecommendationProvided && p != nil:
			c.Status = corev1.ConditionTrue
		case old < 0:
			continue
		}
		c.LastTransitionTime = metav1.NewTime(time.Now().Truncate(time.Second))
		if old >= 0 && a.Status.Conditions[old].Status == c.Status {
			c.LastTransitionTime = a.Status.Conditions[old].LastTransitionTime
		}
		next.Conditions = append(next.Conditions, c)
	}
	for _, c := range a.Status.Conditions { // conditions of other components
		if c.Type != ConfigUnsupported && c.Type != NoPodsMatched && c.Type != RecommendationProvided {
			next.Conditions = append(next.Conditions, c)
		}
	}
	slices.SortFunc(next.Conditions, func(a, b Condition) int { return cmp.Compare(a.Type, b.Type) })
	if equality.Semantic.DeepEqual(next, a.Status) {
		return nil
	}
	patch, err := json.Marshal(map[string]any{"status": map[string]any{"recommendation": next.Recommendation, "conditions": next.Conditions}})
	if err != nil {
		return err
	}
	_, err = r.api.Resource(autoscalers).Namespace(a.Namespace).Patch(ctx, a.Name, types.MergePatchType, patch, metav1.PatchOptions{FieldManager: manager}, "status")
	if apierrors.IsNotFound(err) {
		return nil // deleted since it was listed
	}
	if err != nil {
		return fmt.Errorf("write status: %w", err)
	}
	report.Written++
	return nil
}
