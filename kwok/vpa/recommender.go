// Package vpa is a recommender of vertical pod autoscaling on an API server. VerticalPodAutoscaler objects
// select it by its name.
//
// A policy of the environments k8s/VerticalPodAutoscaler-v0 decides: a trained model or a baseline, such as
// upstream's recommender. Package [github.com/kubernasium/kubernasium/envs/vpa] makes the observations and
// applies the actions with the code of the episodes. This package reads pods and metrics.k8s.io, and writes the
// status. Upstream's updater and admission controller act on the status: the cluster's own, or those of
// [StartUpstream].
package vpa

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"log/slog"
	"slices"
	"strings"
	"time"

	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/client-go/dynamic"
	"k8s.io/client-go/kubernetes"
	"k8s.io/client-go/rest"
	metrics "k8s.io/metrics/pkg/client/clientset/versioned/typed/metrics/v1beta1"

	"github.com/kubernasium/kubernasium/envs"
	env "github.com/kubernasium/kubernasium/envs/vpa"
	"github.com/kubernasium/kubernasium/envs/vpa/pods"
	"github.com/kubernasium/kubernasium/kwok/lease"
	"github.com/kubernasium/kubernasium/kwok/vpa/history"
)

// A Model decides for one container of the pods of one autoscaler.
type Model struct {
	Task   envs.Task // of k8s/VerticalPodAutoscaler-v0 or its discrete variant, for this model only
	Policy env.Policy
	Close  func() error
}

// Config configures a recommender.
type Config struct {
	REST        *rest.Config // of the API server
	Name        string       // name of the recommender: it serves the autoscalers that select it
	Namespace   string       // of the autoscalers; "" is all
	Open        func() (Model, error)
	Upstream    *Upstream // applies the recommendations at the end of each step; nil: other components do
	Checkpoints bool      // store what upstream's recommender has learned, and resume from it after a restart
	// History reads the containers' usage before the first step; nil: none is known. A step that cannot read
	// it makes no recommendations, and the next step retries.
	History func(context.Context) (map[history.Pod]*history.PodHistory, error)
	Log     *slog.Logger // default: none
}

// Report counts the effects of a Step.
type Report struct {
	Autoscalers int `json:"autoscalers"` // that select this recommender
	Recommended int `json:"recommended"` // of these, those with new samples
	Written     int `json:"written"`     // of these, those whose status changed
	Updates
}

// Add adds the counts of another step.
func (r *Report) Add(o Report) {
	r.Autoscalers = max(r.Autoscalers, o.Autoscalers)
	r.Recommended += o.Recommended
	r.Written += o.Written
	r.Evicted += o.Evicted
	r.Resized += o.Resized
}

// A Recommender serves the autoscalers that select it. Only one goroutine may use it.
type Recommender struct {
	config  Config
	client  kubernetes.Interface
	api     dynamic.Interface
	metrics metrics.MetricsV1beta1Interface
	log     *slog.Logger
	known   map[string]*autoscaler // by UID
	past    map[history.Pod]*history.PodHistory
	loop    loop
}

// autoscaler is the state of an Autoscaler.
type autoscaler struct {
	at         time.Time            // time of its last look at samples
	sampled    map[string]time.Time // time of the last sample of each pod, by name
	containers map[string]*container
	seen       bool // exists in this step
}

// container is a container that an autoscaler scales.
type container struct {
	model  Model
	live   *env.Live
	policy containerPolicy
	rec    pods.Recommendation
	given  bool // rec is set
}

// New returns a recommender. It returns an error if the configuration is incomplete.
func New(c Config) (*Recommender, error) {
	if c.Name == "" || c.Open == nil {
		return nil, fmt.Errorf("vpa: recommender %q, want a name and models", c.Name)
	}
	client, err := kubernetes.NewForConfig(c.REST)
	if err != nil {
		return nil, err
	}
	api, err := dynamic.NewForConfig(c.REST)
	if err != nil {
		return nil, err
	}
	m, err := metrics.NewForConfig(c.REST)
	if err != nil {
		return nil, err
	}
	c.Log = cmp.Or(c.Log, slog.New(slog.DiscardHandler))
	return &Recommender{config: c, client: client, api: api, metrics: m, log: c.Log, known: map[string]*autoscaler{},
		loop: loop{watchdog: lease.NewWatchdog()}}, nil
}

// Run makes a Step at once and at each interval until ctx ends. It logs a Step's error; the next Step retries.
func (r *Recommender) Run(ctx context.Context, interval time.Duration, done func(Report)) error {
	ticker := time.NewTicker(interval)
	defer ticker.Stop()
	defer r.loop.end()
	for {
		r.loop.begin(interval)
		report, err := r.Step(ctx)
		if err != nil && ctx.Err() == nil {
			r.log.Error("step", "err", err)
		}
		if done != nil {
			done(report)
		}
		select {
		case <-ctx.Done():
			return nil
		case <-ticker.C:
		}
	}
}

// Step runs one loop. For each autoscaler that selects this recommender and has new samples, it reads the pods,
// recommends and writes the status. Then the updater acts, if it runs in step. An autoscaler's error does not
// affect the others; Step returns all errors together.
func (r *Recommender) Step(ctx context.Context) (Report, error) {
	var report Report
	list, err := r.list(ctx)
	if err != nil {
		return report, err
	}
	if r.config.History != nil && r.past == nil {
		if r.past, err = r.config.History(ctx); err != nil {
			r.past = nil
			return report, fmt.Errorf("vpa: %w", err)
		}
		r.log.Info("history", "pods", len(r.past))
	}
	r.loop.list()
	report.Autoscalers = len(list)
	for _, a := range r.known {
		a.seen = false
	}
	var errs []error
	for i := range list {
		if err := r.serve(ctx, &list[i], &report); err != nil {
			errs = append(errs, fmt.Errorf("vpa: autoscaler %s/%s: %w", list[i].Namespace, list[i].Name, err))
		}
	}
	for uid, a := range r.known {
		if !a.seen {
			errs = append(errs, r.forget(uid))
		}
	}
	if r.config.Upstream != nil {
		report.Updates, err = r.config.Upstream.Step(ctx)
		errs = append(errs, err)
	}
	return report, errors.Join(errs...)
}

// list returns the autoscalers that select this recommender, in name order.
func (r *Recommender) list(ctx context.Context) ([]Autoscaler, error) {
	ctx, cancel := context.WithTimeout(ctx, callTimeout)
	defer cancel()
	objects, err := r.api.Resource(autoscalers).Namespace(r.config.Namespace).List(ctx, metav1.ListOptions{})
	if err != nil {
		return nil, fmt.Errorf("vpa: list autoscalers: %w", err)
	}
	var list []Autoscaler
	for i := range objects.Items {
		var a Autoscaler
		if err := fromObject(&objects.Items[i], &a); err != nil {
			return nil, fmt.Errorf("vpa: autoscaler %s/%s: %w", objects.Items[i].GetNamespace(), objects.Items[i].GetName(), err)
		}
		name := DefaultRecommender
		if len(a.Spec.Recommenders) > 0 {
			name = a.Spec.Recommenders[0].Name
		}
		if name == r.config.Name {
			list = append(list, a)
		}
	}
	slices.SortFunc(list, func(a, b Autoscaler) int {
		return strings.Compare(a.Namespace+"/"+a.Name, b.Namespace+"/"+b.Name)
	})
	return list, nil
}

// serve is the part of a Step for one autoscaler.
func (r *Recommender) serve(ctx context.Context, a *Autoscaler, report *Report) error {
	ctx, cancel := context.WithTimeout(ctx, callTimeout)
	defer cancel()
	uid := string(a.UID)
	one := r.known[uid]
	if one == nil {
		one = &autoscaler{containers: map[string]*container{}}
		r.known[uid] = one
	}
	one.seen = true
	t, err := r.target(ctx, a)
	if errors.Is(err, errUnsupported) || apierrors.IsNotFound(err) {
		return r.writeStatus(ctx, a, nil, report, condition(ConfigUnsupported, corev1.ConditionTrue, "Target", err.Error()))
	}
	if err != nil {
		return err
	}
	if err := r.prepare(ctx, a, one, t); errors.Is(err, errUnsupported) {
		return r.writeStatus(ctx, a, nil, report, condition(ConfigUnsupported, corev1.ConditionTrue, "Policy", err.Error()))
	} else if err != nil {
		return err
	}
	pods, err := r.pods(ctx, a.Namespace, t.selector)
	if err != nil {
		return err
	}
	if len(pods) == 0 {
		return r.writeStatus(ctx, a, a.Status.Recommendation, report, condition(NoPodsMatched, corev1.ConditionTrue, "NoPodsMatched", "no live pod matches the target's selector"))
	}
	used, err := r.usage(ctx, a.Namespace, t.selector)
	if err != nil {
		return err
	}
	if !one.refresh(pods, used) {
		return nil
	}
	if err := r.recommend(a, one, t, pods, used); err != nil {
		return err
	}
	report.Recommended++
	if err := r.writeStatus(ctx, a, one.recommendation(), report, condition(RecommendationProvided, corev1.ConditionTrue, "", "")); err != nil {
		return err
	}
	if r.config.Checkpoints {
		return r.save(ctx, a, one)
	}
	return nil
}

// refresh marks the samples that are new, and reports whether there are any. The clocks of nodes differ, so that it
// compares each pod's samples with one another, as upstream's recommender does.
func (one *autoscaler) refresh(pods []corev1.Pod, used map[string]sample) bool {
	sampled, latest := map[string]time.Time{}, time.Time{}
	for i := range pods {
		name := pods[i].Name
		sampled[name] = one.sampled[name]
		u, ok := used[name]
		if !ok || !u.at.After(one.sampled[name]) {
			continue
		}
		u.fresh = true
		used[name], sampled[name] = u, u.at
		if u.at.After(latest) {
			latest = u.at
		}
	}
	one.sampled = sampled
	if latest.IsZero() {
		return false
	}
	if !latest.After(one.at) { // of a node whose clock is behind
		latest = one.at.Add(time.Nanosecond)
	}
	one.at = latest
	return true
}

// prepare makes the models of an autoscaler's containers, or updates their controller and policy.
func (r *Recommender) prepare(ctx context.Context, a *Autoscaler, one *autoscaler, t *target) error {
	if err := one.drop(a, t); err != nil {
		return err
	}
	for i := range t.template.Spec.Containers {
		c := &t.template.Spec.Containers[i]
		policy := policyOf(a, c.Name)
		if policy.off {
			continue
		}
		config := r.liveConfig(t, c, policy)
		known := one.containers[c.Name]
		if known == nil {
			var err error
			if known, err = r.open(ctx, a, t, c.Name, config); err != nil {
				return err
			}
			one.containers[c.Name] = known
		} else if err := known.live.Configure(config); err != nil {
			return fmt.Errorf("%w: container %s: %w", errUnsupported, c.Name, err)
		}
		known.policy = policy
	}
	return nil
}

// recommend lets the containers' models observe the pods and recommend.
func (r *Recommender) recommend(a *Autoscaler, one *autoscaler, t *target, pods []corev1.Pod, used map[string]sample) error {
	for name, c := range one.containers {
		if err := c.live.Look(one.at, t.replicas, livePods(pods, name, used)); err != nil {
			return err
		}
		var err error
		if c.rec, err = c.live.Next(c.model.Policy); err != nil {
			return err
		}
		c.given = true
		r.log.Info("recommendation", "autoscaler", a.Namespace+"/"+a.Name, "container", name, "cpu_m", c.rec.Target.MilliCPU, "memory_b", c.rec.Target.MemoryBytes)
	}
	return nil
}

// drop closes the models of containers that are no longer scaled.
func (one *autoscaler) drop(a *Autoscaler, t *target) error {
	var errs []error
	for name, c := range one.containers {
		there := slices.ContainsFunc(t.template.Spec.Containers, func(c corev1.Container) bool { return c.Name == name })
		if !there || policyOf(a, name).off {
			delete(one.containers, name)
			errs = append(errs, c.model.Close())
		}
	}
	return errors.Join(errs...)
}

// open makes the model of a container. The model resumes from a checkpoint or a status in the API server, or
// else from the history.
func (r *Recommender) open(ctx context.Context, a *Autoscaler, t *target, name string, config env.LiveConfig) (*container, error) {
	m, err := r.config.Open()
	if err != nil {
		return nil, err
	}
	live, err := env.NewLive(m.Task, config)
	if err != nil {
		return nil, errors.Join(fmt.Errorf("%w: container %s: %w", errUnsupported, name, err), m.Close())
	}
	one := &container{model: m, live: live}
	if old := a.Status.Recommendation; old != nil {
		for i := range old.ContainerRecommendations {
			if c := &old.ContainerRecommendations[i]; c.ContainerName == name {
				one.rec, one.given = live.Adopt(adopted(c, config)), true
			}
		}
	}
	if r.config.Checkpoints {
		err = r.restore(ctx, a, name, live)
	}
	if err = errors.Join(err, r.recall(ctx, a, t, name, live)); err != nil {
		return nil, errors.Join(err, m.Close())
	}
	return one, nil
}

// forget drops an autoscaler that no longer exists.
func (r *Recommender) forget(uid string) error {
	var errs []error
	for _, c := range r.known[uid].containers {
		errs = append(errs, c.model.Close())
	}
	delete(r.known, uid)
	return errors.Join(errs...)
}

// Close closes the models.
func (r *Recommender) Close() error {
	var errs []error
	for uid := range r.known {
		errs = append(errs, r.forget(uid))
	}
	return errors.Join(errs...)
}
