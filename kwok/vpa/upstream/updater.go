package main

import (
	"cmp"
	"context"
	"errors"
	"flag"
	"fmt"
	"maps"
	"os"
	"strings"
	"sync"
	"time"

	"github.com/prometheus/client_golang/prometheus"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/labels"
	"k8s.io/apimachinery/pkg/util/wait"
	"k8s.io/client-go/informers"
	"k8s.io/client-go/kubernetes"
	"k8s.io/client-go/rest"

	"k8s.io/autoscaler/vertical-pod-autoscaler/common"
	"k8s.io/autoscaler/vertical-pod-autoscaler/pkg/admission-controller/resource/pod/patch"
	"k8s.io/autoscaler/vertical-pod-autoscaler/pkg/admission-controller/resource/pod/recommendation"
	types "k8s.io/autoscaler/vertical-pod-autoscaler/pkg/apis/autoscaling.k8s.io/v1"
	clientset "k8s.io/autoscaler/vertical-pod-autoscaler/pkg/client/clientset/versioned"
	"k8s.io/autoscaler/vertical-pod-autoscaler/pkg/features"
	"k8s.io/autoscaler/vertical-pod-autoscaler/pkg/target"
	fetcher "k8s.io/autoscaler/vertical-pod-autoscaler/pkg/target/controller_fetcher"
	"k8s.io/autoscaler/vertical-pod-autoscaler/pkg/updater/config"
	"k8s.io/autoscaler/vertical-pod-autoscaler/pkg/updater/inplace"
	"k8s.io/autoscaler/vertical-pod-autoscaler/pkg/updater/logic"
	"k8s.io/autoscaler/vertical-pod-autoscaler/pkg/updater/priority"
	"k8s.io/autoscaler/vertical-pod-autoscaler/pkg/utils/client"
	"k8s.io/autoscaler/vertical-pod-autoscaler/pkg/utils/limitrange"
	"k8s.io/autoscaler/vertical-pod-autoscaler/pkg/utils/metrics"
	updatermetrics "k8s.io/autoscaler/vertical-pod-autoscaler/pkg/utils/metrics/updater"
	"k8s.io/autoscaler/vertical-pod-autoscaler/pkg/utils/server"
	"k8s.io/autoscaler/vertical-pod-autoscaler/pkg/utils/status"
	vpautil "k8s.io/autoscaler/vertical-pod-autoscaler/pkg/utils/vpa"

	"github.com/kubernasium/kubernasium/kwok/poll"
)

// Settings of caches, as in upstream's programs.
const (
	resyncPeriod   = 10 * time.Minute
	scaleFreshness = 10 * time.Minute
	scaleLifetime  = time.Hour
	scaleJitter    = 1.
	missedLoops    = 5 // intervals without a loop after which /health-check fails
)

// updaterPods selects the pods that the updater considers: bound pods that have not ended.
const updaterPods = "spec.nodeName!=,status.phase!=" + string(corev1.PodSucceeded) + ",status.phase!=" + string(corev1.PodFailed)

// runUpdater runs the updater with upstream's flags, on upstream's timer or in lock-step.
func runUpdater(ctx context.Context, args []string) error {
	stepped := flag.Bool("lock-step", false, "run a loop for each line of stdin, when the caches have what the API server has; answer with a line of JSON")
	os.Args = append(os.Args[:1:1], args...)
	c := config.InitUpdaterFlags()
	updatermetrics.Register()
	rc := common.CreateKubeConfigOrDie(c.CommonFlags.KubeConfig, float32(c.CommonFlags.KubeApiQps), int(c.CommonFlags.KubeApiBurst))
	u, err := newUpdater(ctx, rc, c)
	if err != nil {
		return err
	}
	stop := u.endBoosts(ctx, c.ConcurrentCPUStartupBoostSyncs)
	defer stop()
	if *stepped {
		return lockStep(ctx, os.Stdin, os.Stdout, u.step)
	}
	health := metrics.NewHealthCheck(missedLoops * c.UpdaterInterval)
	server.Initialize(&c.CommonFlags.EnableProfiling, health, &c.Address)
	health.StartMonitoring()
	wait.UntilWithContext(ctx, func(ctx context.Context) {
		loop, cancel := context.WithTimeout(ctx, c.UpdaterInterval)
		defer cancel()
		u.RunOnce(loop)
		health.UpdateLastActivity()
	}, c.UpdaterInterval)
	return nil
}

// An updater is upstream's updater, with the caches and selectors that a step waits for.
type updater struct {
	logic.Updater
	follow   *follower
	selector *probedSelector
	vpas     *clientset.Clientset
}

func newUpdater(ctx context.Context, rc *rest.Config, c *config.UpdaterConfig) (*updater, error) {
	kube, err := kubernetes.NewForConfig(rc)
	if err != nil {
		return nil, err
	}
	vpas, err := clientset.NewForConfig(rc)
	if err != nil {
		return nil, err
	}
	namespace := c.CommonFlags.VpaObjectNamespace
	bare := []informers.SharedInformerOption{informers.WithNamespace(namespace), informers.WithTransform(client.StripManagedFields)}
	factory := informers.NewSharedInformerFactoryWithOptions(kube, resyncPeriod, bare...)
	pods := informers.NewSharedInformerFactoryWithOptions(kube, resyncPeriod,
		append(bare, informers.WithTweakListOptions(func(o *metav1.ListOptions) { o.FieldSelector = updaterPods }))...)
	selector := &probedSelector{VpaTargetSelectorFetcher: target.NewVpaTargetSelectorFetcher(rc, kube, factory, ctx.Done())}
	one, err := assemble(kube, vpas, factory, pods, selector, fetcher.NewControllerFetcher(rc, kube, factory, scaleFreshness, scaleLifetime, scaleJitter, ctx.Done()), c)
	if err != nil {
		return nil, err
	}
	follow, err := newFollower(rc, namespace, factory)
	if err != nil {
		return nil, err
	}
	if err := follow.add(podResource, updaterPods, pods); err != nil {
		return nil, err
	}
	return &updater{Updater: one, follow: follow, selector: selector, vpas: vpas}, errors.Join(synced(ctx, factory), synced(ctx, pods))
}

// assemble returns upstream's updater as c configures it, on two sets of caches: of controllers, and of pods.
func assemble(kube kubernetes.Interface, vpas *clientset.Clientset, factory, pods informers.SharedInformerFactory,
	selector target.VpaTargetSelectorFetcher, controllers fetcher.ControllerFetcher, c *config.UpdaterConfig) (logic.Updater, error) {
	ranges, err := limitrange.NewLimitsRangeCalculator(factory)
	if err != nil {
		return nil, err
	}
	capping := vpautil.NewCappingRecommendationProcessor(ranges)
	return logic.NewUpdater(kube, vpas, factory, pods, c.MinReplicas, c.EvictionRateLimit, c.EvictionRateBurst, c.EvictionToleranceFraction,
		c.UseAdmissionControllerStatus, c.InPlaceSkipDisruptionBudget, c.DefaultUpdateThreshold, c.PodLifetimeUpdateThreshold, c.EvictAfterOOMThreshold,
		c.AdmissionControllerStatusLeaseName,
		cmp.Or(c.AdmissionControllerStatusLeaseNamespace, c.Namespace, status.AdmissionControllerStatusNamespace), c.AdmissionControllerStatusLeaseTimeout,
		capping, priority.NewScalingDirectionPodEvictionAdmission(), selector, controllers, priority.NewProcessor(),
		c.CommonFlags.VpaObjectNamespace, strings.Split(c.CommonFlags.IgnoredVpaObjectNamespaces, ","), calculators(recommendation.NewProvider(ranges, capping)))
}

// calculators returns the patches of an in-place resize: resources, the annotation of the update, and that of
// the boost.
func calculators(p recommendation.Provider) []patch.Calculator {
	return []patch.Calculator{inplace.NewResourceInPlaceUpdatesCalculator(p), inplace.NewInPlaceUpdatedCalculator(), inplace.NewUnboostAnnotationCalculator()}
}

// endBoosts ends CPU startup boosts, if the feature is enabled, until the returned function is called.
func (u *updater) endBoosts(ctx context.Context, workers int) (stop func()) {
	if !features.Enabled(features.CPUStartupBoost) {
		return func() {}
	}
	ctx, cancel := context.WithCancel(ctx)
	var all sync.WaitGroup
	for range workers {
		all.Go(func() { wait.UntilWithContext(ctx, u.RunBoostWorker, time.Second) })
	}
	return func() {
		cancel()
		u.ShutDown()
		all.Wait()
	}
}

// step runs one loop on the current cluster.
func (u *updater) step(ctx context.Context) (Reply, error) {
	evicted, resized := updaterCounts()
	if err := u.follow.wait(ctx); err != nil {
		return Reply{}, err
	}
	if err := u.syncAutoscalers(ctx); err != nil {
		return Reply{}, err
	}
	u.RunOnce(ctx)
	e, r := updaterCounts()
	return Reply{Evicted: e - evicted, Resized: r - resized}, nil
}

// syncAutoscalers returns when the updater's private list of autoscalers is as new as the API server's. A loop
// fetches the selector of each autoscaler that it acts on; without a selector it does nothing.
func (u *updater) syncAutoscalers(ctx context.Context) error {
	for {
		list, err := u.vpas.AutoscalingV1().VerticalPodAutoscalers(u.follow.namespace).List(ctx, metav1.ListOptions{})
		if err != nil {
			return fmt.Errorf("list autoscalers: %w", err)
		}
		want := versions{}
		for i := range list.Items {
			if a := &list.Items[i]; actsOn(a) {
				want[a.UID] = a.ResourceVersion
			}
		}
		if maps.Equal(u.selector.probe(func() { u.RunOnce(ctx) }), want) {
			return nil
		}
		if err := poll.Sleep(ctx, pollInterval); err != nil {
			return fmt.Errorf("the updater's list of autoscalers stays behind: %w", err)
		}
	}
}

// actsOn reports whether a loop considers the pods of an autoscaler.
func actsOn(a *types.VerticalPodAutoscaler) bool {
	mode := vpautil.GetUpdateMode(a)
	return mode != types.UpdateModeOff && mode != types.UpdateModeInitial || vpautil.HasStartupBoost(a)
}

var errProbe = errors.New("a probe of the list of autoscalers")

// probedSelector is upstream's selector fetcher. During a probe it records the autoscalers for which it is
// called.
type probedSelector struct {
	target.VpaTargetSelectorFetcher
	mu    sync.Mutex
	asked versions // nil: no probe
}

func (s *probedSelector) probe(loop func()) versions {
	s.set(versions{})
	loop()
	s.mu.Lock()
	defer s.mu.Unlock()
	asked := s.asked
	s.asked = nil
	return asked
}

func (s *probedSelector) set(v versions) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.asked = v
}

// Fetch implements [target.VpaTargetSelectorFetcher].
func (s *probedSelector) Fetch(ctx context.Context, a *types.VerticalPodAutoscaler) (labels.Selector, error) {
	s.mu.Lock()
	if s.asked != nil {
		s.asked[a.UID] = a.ResourceVersion
		s.mu.Unlock()
		return nil, errProbe
	}
	s.mu.Unlock()
	return s.VpaTargetSelectorFetcher.Fetch(ctx, a)
}

// updaterCounts returns the numbers of evicted and of in-place resized pods in upstream's metrics.
func updaterCounts() (evicted, resized int) {
	families, err := prometheus.DefaultGatherer.Gather()
	if err != nil {
		return 0, 0
	}
	for _, f := range families {
		var into *int
		switch f.GetName() {
		case "vpa_updater_evicted_pods_total":
			into = &evicted
		case "vpa_updater_in_place_updated_pods_total":
			into = &resized
		default:
			continue
		}
		for _, m := range f.GetMetric() {
			*into += int(m.GetCounter().GetValue())
		}
	}
	return evicted, resized
}
