package vpa

import (
	autoscalingv1 "k8s.io/api/autoscaling/v1"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime/schema"
)

// Group is upstream's API group of the objects.
const Group = "autoscaling.k8s.io"

// GroupVersion is the version of the objects.
var GroupVersion = schema.GroupVersion{Group: Group, Version: "v1"}

var (
	autoscalers = GroupVersion.WithResource("verticalpodautoscalers")
	checkpoints = GroupVersion.WithResource("verticalpodautoscalercheckpoints")
)

// DefaultRecommender is the recommender of autoscalers that name none.
const DefaultRecommender = "default"

// An Autoscaler is a VerticalPodAutoscaler, with the fields of upstream's API that this package reads or
// writes.
type Autoscaler struct {
	metav1.TypeMeta   `json:",inline"`
	metav1.ObjectMeta `json:"metadata"`
	Spec              AutoscalerSpec   `json:"spec"`
	Status            AutoscalerStatus `json:"status,omitzero"`
}

// AutoscalerSpec names the controller to scale, and configures the scaling.
type AutoscalerSpec struct {
	TargetRef      *autoscalingv1.CrossVersionObjectReference `json:"targetRef,omitempty"`
	UpdatePolicy   *UpdatePolicy                              `json:"updatePolicy,omitempty"`
	ResourcePolicy *ResourcePolicy                            `json:"resourcePolicy,omitempty"`
	Recommenders   []Selector                                 `json:"recommenders,omitempty"` // at most one; empty selects the recommender default
}

// Selector names a recommender.
type Selector struct {
	Name string `json:"name"`
}

// UpdatePolicy determines how recommendations are applied.
type UpdatePolicy struct {
	UpdateMode  *string `json:"updateMode,omitempty"`  // Off, Initial, Recreate (default; also Auto), InPlaceOrRecreate, InPlace
	MinReplicas *int32  `json:"minReplicas,omitempty"` // the updater ignores controllers with fewer live pods
}

// ResourcePolicy holds the policies of containers.
type ResourcePolicy struct {
	ContainerPolicies []ContainerPolicy `json:"containerPolicies,omitempty"`
}

// ContainerPolicy limits the recommendations for a container; the name * stands for all other containers.
type ContainerPolicy struct {
	ContainerName       string                 `json:"containerName,omitempty"`
	Mode                *string                `json:"mode,omitempty"` // Auto or Off
	MinAllowed          corev1.ResourceList    `json:"minAllowed,omitempty"`
	MaxAllowed          corev1.ResourceList    `json:"maxAllowed,omitempty"`
	ControlledResources *[]corev1.ResourceName `json:"controlledResources,omitempty"` // default: both
	ControlledValues    *string                `json:"controlledValues,omitempty"`    // RequestsAndLimits (default) or RequestsOnly
}

// AutoscalerStatus is the status that a recommender writes.
type AutoscalerStatus struct {
	Recommendation *PodRecommendation `json:"recommendation,omitempty"`
	Conditions     []Condition        `json:"conditions,omitempty"`
}

// PodRecommendation holds the recommendations for a pod's containers, by name.
type PodRecommendation struct {
	ContainerRecommendations []ContainerRecommendation `json:"containerRecommendations,omitempty"`
}

// ContainerRecommendation holds the recommended requests of a container.
type ContainerRecommendation struct {
	ContainerName  string              `json:"containerName,omitempty"`
	Target         corev1.ResourceList `json:"target"`
	LowerBound     corev1.ResourceList `json:"lowerBound,omitempty"`
	UpperBound     corev1.ResourceList `json:"upperBound,omitempty"`
	UncappedTarget corev1.ResourceList `json:"uncappedTarget,omitempty"`
}

// Types of an Autoscaler's conditions.
const (
	RecommendationProvided = "RecommendationProvided"
	NoPodsMatched          = "NoPodsMatched"
	ConfigUnsupported      = "ConfigUnsupported"
)

// Condition is a state of an Autoscaler.
type Condition struct {
	Type               string                 `json:"type"`
	Status             corev1.ConditionStatus `json:"status"`
	LastTransitionTime metav1.Time            `json:"lastTransitionTime,omitempty"`
	Reason             string                 `json:"reason,omitempty"`
	Message            string                 `json:"message,omitempty"`
}
