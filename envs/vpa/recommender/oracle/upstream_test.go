package oracle

import (
	"context"
	"encoding/json"
	"fmt"
	"testing"
	"time"

	autoscalingv1 "k8s.io/api/autoscaling/v1"
	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/resource"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/labels"
	"k8s.io/apimachinery/pkg/types"
	vpatypes "k8s.io/autoscaler/vertical-pod-autoscaler/pkg/apis/autoscaling.k8s.io/v1"
	vpaapi "k8s.io/autoscaler/vertical-pod-autoscaler/pkg/client/clientset/versioned/typed/autoscaling.k8s.io/v1"
	"k8s.io/autoscaler/vertical-pod-autoscaler/pkg/recommender/checkpoint"
	"k8s.io/autoscaler/vertical-pod-autoscaler/pkg/recommender/logic"
	"k8s.io/autoscaler/vertical-pod-autoscaler/pkg/recommender/model"
	"k8s.io/autoscaler/vertical-pod-autoscaler/pkg/recommender/routines"
	controllerfetcher "k8s.io/autoscaler/vertical-pod-autoscaler/pkg/target/controller_fetcher"

	"github.com/kubernasium/kubernasium/envs/vpa/recommender"
)

const (
	namespace = "default"
	vpaName   = "vpa"
)

// upstream is the recommender of kubernetes/autoscaler without its connection to a cluster: its
// model, estimators, post-processors and writer of checkpoints.
type upstream struct {
	t           *testing.T
	cluster     model.ClusterState
	object      *vpatypes.VerticalPodAutoscaler
	recommender logic.PodResourceRecommender
	format      logic.RecommendationFormat
	processors  []routines.RecommendationPostProcessor
	containers  []string
}

// newUpstream returns upstream's recommender for pods of the given containers.
func newUpstream(t *testing.T, c recommender.Config, p recommender.Policy, pods int, containers []string) *upstream {
	model.InitializeAggregationsConfig(model.NewAggregationsConfig(
		c.MemoryInterval, int64(c.MemoryIntervalCount), c.Memory.HalfLife, c.CPU.HalfLife, c.OOMBumpUpRatio, c.OOMMinBumpUpBytes))
	u := &upstream{
		t: t,
		recommender: logic.CreatePodResourceRecommender(logic.RecommendationConfig{
			SafetyMarginFraction:       c.MarginFraction,
			PodMinCPUMillicores:        c.MinCPUMillicores,
			PodMinMemoryMb:             c.MinMemoryMB,
			LowerBoundCPUPercentile:    c.CPU.LowerPercentile,
			TargetCPUPercentile:        c.CPU.TargetPercentile,
			UpperBoundCPUPercentile:    c.CPU.UpperPercentile,
			ConfidenceIntervalCPU:      c.CPU.ConfidenceInterval,
			LowerBoundMemoryPercentile: c.Memory.LowerPercentile,
			TargetMemoryPercentile:     c.Memory.TargetPercentile,
			UpperBoundMemoryPercentile: c.Memory.UpperPercentile,
			ConfidenceIntervalMemory:   c.Memory.ConfidenceInterval,
		}),
		format: logic.RecommendationFormat{RoundCPUMillicores: int(c.RoundCPUMillicores), RoundMemoryBytes: int(c.RoundMemoryBytes)},
		processors: []routines.RecommendationPostProcessor{
			&routines.IntegerCPUPostProcessor{},
			routines.NewCappingRecommendationProcessor(quantities(p.GlobalMaxAllowed)),
		},
		containers: containers,
	}
	policy := vpatypes.ContainerResourcePolicy{
		ContainerName: "*",
		MinAllowed:    quantities(p.MinAllowed),
		MaxAllowed:    quantities(p.MaxAllowed),
	}
	u.object = &vpatypes.VerticalPodAutoscaler{
		ObjectMeta: metav1.ObjectMeta{Namespace: namespace, Name: vpaName, Annotations: map[string]string{}},
		Spec: vpatypes.VerticalPodAutoscalerSpec{
			TargetRef:      &autoscalingv1.CrossVersionObjectReference{Kind: "Deployment", Name: "test"},
			ResourcePolicy: &vpatypes.PodResourcePolicy{ContainerPolicies: []vpatypes.ContainerResourcePolicy{policy}},
		},
	}
	if p.IntegerCPU {
		for _, name := range containers {
			u.object.Annotations["vpa-post-processor.kubernetes.io/"+name+"_integerCPU"] = "true"
		}
	}
	u.restart(pods, nil)
	return u
}

func quantities(a recommender.Amounts) corev1.ResourceList {
	list := corev1.ResourceList{}
	if a.MilliCPU != 0 {
		list[corev1.ResourceCPU] = *resource.NewMilliQuantity(a.MilliCPU, resource.DecimalSI)
	}
	if a.MemoryBytes != 0 {
		list[corev1.ResourceMemory] = *resource.NewQuantity(a.MemoryBytes, resource.BinarySI)
	}
	return list
}

// restart forgets everything but the checkpoints, by container.
func (u *upstream) restart(pods int, checkpoints map[string]*vpatypes.VerticalPodAutoscalerCheckpointStatus) {
	u.t.Helper()
	u.cluster = model.NewClusterState(0)
	selector, err := labels.Parse("app=test")
	if err != nil {
		u.t.Fatal(err)
	}
	if err := u.cluster.AddOrUpdateVpa(u.object, selector); err != nil {
		u.t.Fatal(err)
	}
	for name, c := range checkpoints {
		state := model.NewAggregateContainerState()
		if err := state.LoadFromCheckpoint(c); err != nil {
			u.t.Fatal(err)
		}
		u.vpa().ContainersInitialAggregateState[name] = state
	}
	for pod := range pods {
		u.addPod(pod)
	}
}

func (u *upstream) vpa() *model.Vpa {
	return u.cluster.VPAs()[model.VpaID{Namespace: namespace, VpaName: vpaName}]
}

func podID(pod int) model.PodID {
	return model.PodID{Namespace: namespace, PodName: fmt.Sprint("pod-", pod)}
}

func (u *upstream) container(pod, container int) model.ContainerID {
	return model.ContainerID{PodID: podID(pod), ContainerName: u.containers[container]}
}

func (u *upstream) addPod(pod int) {
	u.t.Helper()
	u.cluster.AddOrUpdatePod(podID(pod), labels.Set{"app": "test"}, corev1.PodRunning)
	for i := range u.containers {
		if err := u.cluster.AddOrUpdateContainer(u.container(pod, i), nil); err != nil {
			u.t.Fatal(err)
		}
	}
}

// replacePod deletes a pod and creates it again: its containers' windows are new, the history
// stays.
func (u *upstream) replacePod(pod int) {
	u.cluster.DeletePod(podID(pod))
	u.addPod(pod)
}

func (u *upstream) add(pod, container int, t time.Duration, name model.ResourceName, usage int64) bool {
	return u.cluster.AddSample(&model.ContainerUsageSampleWithKey{
		ContainerUsageSample: model.ContainerUsageSample{
			MeasureStart: time.Unix(0, int64(t)), Usage: model.ResourceAmount(usage), Resource: name,
		},
		Container: u.container(pod, container),
	}) == nil
}

func (u *upstream) recordOOM(pod, container int, t time.Duration, request int64) bool {
	return u.cluster.RecordOOM(u.container(pod, container), time.Unix(0, int64(t)), model.ResourceAmount(request)) == nil
}

type noController struct{}

func (noController) FindTopMostWellKnownOrScalable(context.Context, *controllerfetcher.ControllerKeyWithAPIVersion) (*controllerfetcher.ControllerKeyWithAPIVersion, error) {
	return nil, nil
}

// collect drops expired states.
func (u *upstream) collect(now time.Duration) {
	u.cluster.RateLimitedGarbageCollectAggregateCollectionStates(context.Background(), time.Unix(0, int64(now)), noController{})
}

// recommend returns the recommendation of every container that has one.
func (u *upstream) recommend() map[string]recommender.Recommendation {
	pod := u.recommender.GetRecommendedPodResources(routines.GetContainerNameToAggregateStateMap(u.vpa()))
	list := logic.MapToListOfRecommendedContainerResources(pod, u.format)
	for _, p := range u.processors {
		list = p.Process(u.object, list)
	}
	out := map[string]recommender.Recommendation{}
	for _, c := range list.ContainerRecommendations {
		out[c.ContainerName] = recommender.Recommendation{
			Bounds:         recommender.Bounds{Lower: amounts(c.LowerBound), Target: amounts(c.Target), Upper: amounts(c.UpperBound)},
			UncappedTarget: amounts(c.UncappedTarget),
		}
	}
	return out
}

func amounts(list corev1.ResourceList) recommender.Amounts {
	return recommender.Amounts{MilliCPU: list.Cpu().MilliValue(), MemoryBytes: list.Memory().Value()}
}

// checkpoints returns what upstream's writer would store, as JSON, by container.
func (u *upstream) checkpoints() map[string]json.RawMessage {
	client := &recordingClient{stored: map[string]json.RawMessage{}}
	checkpoint.NewCheckpointWriter(u.cluster, client).StoreCheckpoints(context.Background(), 1)
	return client.stored
}

// A recordingClient keeps the status of checkpoints that are patched.
type recordingClient struct {
	vpaapi.VerticalPodAutoscalerCheckpointInterface
	stored map[string]json.RawMessage
}

func (c *recordingClient) VerticalPodAutoscalerCheckpoints(string) vpaapi.VerticalPodAutoscalerCheckpointInterface {
	return c
}

func (c *recordingClient) Patch(_ context.Context, name string, _ types.PatchType, data []byte, _ metav1.PatchOptions, _ ...string) (*vpatypes.VerticalPodAutoscalerCheckpoint, error) {
	var patches []struct{ Value json.RawMessage }
	if err := json.Unmarshal(data, &patches); err != nil {
		return nil, err
	}
	c.stored[name[len(vpaName)+1:]] = patches[0].Value
	return nil, nil
}
