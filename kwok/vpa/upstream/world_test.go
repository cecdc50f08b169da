package main

import (
	"context"
	"encoding/json"
	"fmt"
	"net/http"
	"net/http/httptest"
	"testing"

	appsv1 "k8s.io/api/apps/v1"
	autoscalingv1 "k8s.io/api/autoscaling/v1"
	corev1 "k8s.io/api/core/v1"
	policyv1 "k8s.io/api/policy/v1"
	"k8s.io/apimachinery/pkg/api/resource"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/labels"
	"k8s.io/apimachinery/pkg/runtime"
	kubetypes "k8s.io/apimachinery/pkg/types"
	"k8s.io/client-go/informers"
	"k8s.io/client-go/kubernetes/fake"
	"k8s.io/client-go/rest"
	clienttesting "k8s.io/client-go/testing"

	types "k8s.io/autoscaler/vertical-pod-autoscaler/pkg/apis/autoscaling.k8s.io/v1"
	clientset "k8s.io/autoscaler/vertical-pod-autoscaler/pkg/client/clientset/versioned"
	fetcher "k8s.io/autoscaler/vertical-pod-autoscaler/pkg/target/controller_fetcher"
	"k8s.io/autoscaler/vertical-pod-autoscaler/pkg/updater/config"

	"github.com/kubernasium/kubernasium/envs/cluster"
)

// world is a cluster of fakes: upstream's updater runs on it, and what it does is recorded.
type world struct {
	t       *testing.T
	objects []runtime.Object
	vpas    []types.VerticalPodAutoscaler
	evicted map[string]bool // by namespace/name
}

// run lets upstream's updater run one loop.
func (w *world) run(c *config.UpdaterConfig) *fake.Clientset {
	w.t.Helper()
	w.evicted = map[string]bool{}
	ctx, cancel := context.WithCancel(w.t.Context())
	defer cancel()
	kube := fake.NewSimpleClientset(w.objects...)
	kube.PrependReactor("create", "pods/eviction", func(a clienttesting.Action) (bool, runtime.Object, error) {
		e := a.(clienttesting.CreateAction).GetObject().(*policyv1.Eviction)
		w.evicted[e.Namespace+"/"+e.Name] = true
		return true, nil, nil
	})
	factory, pods := informers.NewSharedInformerFactory(kube, resyncPeriod), informers.NewSharedInformerFactory(kube, resyncPeriod)
	apps := factory.Apps().V1()
	apps.ReplicaSets().Informer()
	u, err := assemble(kube, w.client(), factory, pods, selectorStub{}, controllerStub{}, c)
	if err == nil {
		err = synced(ctx, factory)
	}
	if err == nil {
		err = synced(ctx, pods)
	}
	if err != nil {
		w.t.Fatal(err)
	}
	u.RunOnce(ctx)
	return kube
}

// client returns a client of an API server that serves the autoscalers and nothing else.
func (w *world) client() *clientset.Clientset {
	w.t.Helper()
	list := types.VerticalPodAutoscalerList{TypeMeta: metav1.TypeMeta{APIVersion: "autoscaling.k8s.io/v1", Kind: "VerticalPodAutoscalerList"}, ListMeta: metav1.ListMeta{ResourceVersion: "1"}, Items: w.vpas}
	text, err := json.Marshal(&list)
	if err != nil {
		w.t.Fatal(err)
	}
	end := make(chan struct{})
	srv := httptest.NewServer(http.HandlerFunc(func(rw http.ResponseWriter, r *http.Request) {
		rw.Header().Set("Content-Type", "application/json")
		if r.URL.Query().Has("sendInitialEvents") {
			rw.WriteHeader(http.StatusBadRequest) // the caller lists then
			return
		}
		if r.URL.Query().Has("watch") {
			select {
			case <-r.Context().Done():
			case <-end:
			}
			return
		}
		_, _ = rw.Write(text)
	}))
	w.t.Cleanup(srv.Close)
	w.t.Cleanup(func() { close(end) })
	c, err := clientset.NewForConfig(&rest.Config{Host: srv.URL})
	if err != nil {
		w.t.Fatal(err)
	}
	return c
}

// selectorStub selects the pods of the Deployment app.
type selectorStub struct{}

func (selectorStub) Fetch(context.Context, *types.VerticalPodAutoscaler) (labels.Selector, error) {
	return labels.SelectorFromSet(appLabels), nil
}

// controllerStub says that every pod is of the Deployment app of its namespace.
type controllerStub struct{}

func (controllerStub) FindTopMostWellKnownOrScalable(_ context.Context, k *fetcher.ControllerKeyWithAPIVersion) (*fetcher.ControllerKeyWithAPIVersion, error) {
	return &fetcher.ControllerKeyWithAPIVersion{ControllerKey: fetcher.ControllerKey{Namespace: k.Namespace, Kind: "Deployment", Name: "app"}, ApiVersion: "apps/v1"}, nil
}

var appLabels = labels.Set{"app": "app"}

// add adds a case as namespace, with its ReplicaSet, pods and autoscaler.
func (w *world) add(namespace string, c *group) {
	replicas := int32(c.replicas)
	w.objects = append(w.objects, &appsv1.ReplicaSet{ObjectMeta: metav1.ObjectMeta{Namespace: namespace, Name: "app-1"}, Spec: appsv1.ReplicaSetSpec{Replicas: &replicas}})
	for i := range c.pods {
		w.objects = append(w.objects, c.pods[i].object(namespace))
	}
	w.vpas = append(w.vpas, *c.autoscaler(namespace))
}

func (c *group) autoscaler(namespace string) *types.VerticalPodAutoscaler {
	mode, least := types.UpdateMode(c.mode), int32(c.minReplicas)
	values, seconds := types.ContainerControlledValuesRequestsAndLimits, int32(c.evictAfterOOM.Seconds())
	if c.requestsOnly {
		values = types.ContainerControlledValuesRequestsOnly
	}
	a := &types.VerticalPodAutoscaler{
		ObjectMeta: metav1.ObjectMeta{Namespace: namespace, Name: "app", UID: kubetypes.UID(namespace)},
		Spec: types.VerticalPodAutoscalerSpec{
			TargetRef:    &autoscalingv1.CrossVersionObjectReference{APIVersion: "apps/v1", Kind: "Deployment", Name: "app"},
			UpdatePolicy: &types.PodUpdatePolicy{UpdateMode: &mode, MinReplicas: &least, EvictAfterOOMSeconds: &seconds},
			ResourcePolicy: &types.PodResourcePolicy{ContainerPolicies: []types.ContainerResourcePolicy{{
				ContainerName: "main", MinAllowed: list(c.min), MaxAllowed: list(c.max), ControlledValues: &values,
			}}},
		},
		Status: types.VerticalPodAutoscalerStatus{
			Conditions: []types.VerticalPodAutoscalerCondition{{Type: types.RecommendationProvided, Status: corev1.ConditionTrue}},
			Recommendation: &types.RecommendedPodResources{ContainerRecommendations: []types.RecommendedContainerResources{{
				ContainerName: "main", LowerBound: list(c.rec.Lower), Target: list(c.rec.Target), UpperBound: list(c.rec.Upper), UncappedTarget: list(c.rec.Uncapped),
			}}},
		},
	}
	for _, r := range c.requirements {
		a.Spec.UpdatePolicy.EvictionRequirements = append(a.Spec.UpdatePolicy.EvictionRequirements, &types.EvictionRequirement{
			Resources: []corev1.ResourceName{corev1.ResourceName(r.resource)}, ChangeRequirement: types.EvictionChangeRequirement(r.change),
		})
	}
	return a
}

// object returns the pod as the API server would have it.
func (p *podCase) object(namespace string) *corev1.Pod {
	yes := true
	start := metav1.NewTime(p.created)
	pod := &corev1.Pod{
		ObjectMeta: metav1.ObjectMeta{
			Namespace: namespace, Name: p.name, UID: kubetypes.UID(namespace + p.name), Labels: appLabels,
			OwnerReferences: []metav1.OwnerReference{{APIVersion: "apps/v1", Kind: "ReplicaSet", Name: "app-1", Controller: &yes}},
		},
		Spec:   corev1.PodSpec{NodeName: "node", Containers: []corev1.Container{{Name: "main", Resources: resources(p.requests, p.limits)}}},
		Status: corev1.PodStatus{Phase: corev1.PodPending, StartTime: &start},
	}
	if !p.running {
		return pod
	}
	pod.Status.Phase = corev1.PodRunning
	had := resources(p.requests, p.limits)
	status := corev1.ContainerStatus{Name: "main", Ready: true, Resources: &had}
	if p.killed {
		status.RestartCount = 1
		status.LastTerminationState.Terminated = &corev1.ContainerStateTerminated{
			Reason: "OOMKilled", FinishedAt: metav1.NewTime(p.killedAt), StartedAt: metav1.NewTime(p.killedAt.Add(-p.ran)),
		}
	}
	pod.Status.ContainerStatuses = []corev1.ContainerStatus{status}
	if p.resize != "" {
		c := corev1.PodCondition{Type: corev1.PodResizePending, Status: corev1.ConditionTrue, Reason: p.resize}
		if p.resize == inProgress {
			c = corev1.PodCondition{Type: corev1.PodResizeInProgress, Status: corev1.ConditionTrue}
		}
		pod.Status.Conditions = append(pod.Status.Conditions, c)
	}
	return pod
}

func resources(requests, limits cluster.Resources) corev1.ResourceRequirements {
	return corev1.ResourceRequirements{Requests: list(requests), Limits: list(limits)}
}

// list returns the amounts that are not 0.
func list(r cluster.Resources) corev1.ResourceList {
	l := corev1.ResourceList{}
	if r.MilliCPU > 0 {
		l[corev1.ResourceCPU] = *resource.NewMilliQuantity(r.MilliCPU, resource.DecimalSI)
	}
	if r.MemoryBytes > 0 {
		l[corev1.ResourceMemory] = *resource.NewQuantity(r.MemoryBytes, resource.DecimalSI)
	}
	return l
}

func shown(requests, limits corev1.ResourceList) string {
	return fmt.Sprintf("%d m %d B of %d m %d B", requests.Cpu().MilliValue(), requests.Memory().Value(), limits.Cpu().MilliValue(), limits.Memory().Value())
}
