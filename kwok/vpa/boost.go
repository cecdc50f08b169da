package vpa

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"strings"
	"time"

	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"

	"github.com/kubernasium/kubernasium/envs/cluster"
	env "github.com/kubernasium/kubernasium/envs/vpa"
)

// boostPrefix stands before a container's name in the annotation of a pod whose CPU is raised while it starts;
// the value is what the container requested before. It is upstream's, so that either updater takes the boost
// back.
const boostPrefix = "vpaCpuStartupBoost/"

// Types of a boost.
const (
	BoostFactor   = "Factor"
	BoostQuantity = "Quantity"
)

// check returns an error if the boost does not say by how much. None is none.
func (b *CPUBoost) check() error {
	switch {
	case b == nil:
	case b.Type == BoostFactor && (b.Factor == nil || *b.Factor < 1):
		return errors.New("startupBoost of type Factor without a factor of 1 at least")
	case b.Type == BoostQuantity && (b.Quantity == nil || b.Quantity.Sign() < 0):
		return errors.New("startupBoost of type Quantity without a quantity")
	case b.Type != BoostFactor && b.Type != BoostQuantity:
		return fmt.Errorf("startupBoost of type %q, want Factor or Quantity", b.Type)
	}
	return nil
}

// lasting returns the boost of a container's policy, which lasts as long as the autoscaler's unless it says otherwise.
func (b *CPUBoost) lasting(general *CPUBoost) *CPUBoost {
	if b == nil || b.DurationSeconds != nil || general == nil {
		return b
	}
	own := *b
	own.DurationSeconds = general.DurationSeconds
	return &own
}

// raise returns the requests and limits of a container that is to get those of next: CPU is boosted, and a limit
// of CPU follows in the proportion of the template's. With requestsOnly limits stay, and the request stays below
// them. A container without a request of CPU is left as it is.
func (b *CPUBoost) raise(next, template *corev1.ResourceRequirements, requestsOnly bool) (requests, limits corev1.ResourceList) {
	base := next.Requests.Cpu().MilliValue()
	if base == 0 {
		return next.Requests, next.Limits
	}
	var to int64
	if b.Type == BoostFactor {
		to = min(base, cluster.MaxAmount/int64(*b.Factor)) * int64(*b.Factor)
	} else {
		to = cluster.MaxAmount
		if b.Quantity.CmpInt64(cluster.MaxAmount/1000) < 0 { // MilliValue of more may be 0
			to = min(min(base, cluster.MaxAmount)+b.Quantity.MilliValue(), cluster.MaxAmount)
		}
	}
	limit := next.Limits.Cpu().MilliValue()
	switch had, asked := template.Limits.Cpu().MilliValue(), template.Requests.Cpu().MilliValue(); {
	case limit == 0:
	case requestsOnly && to > limit:
		to = max(limit-1, 1) // below it, so that the QoS class stays
	case requestsOnly:
	case had == 0:
		limit = max(limit, to)
	case asked == 0 || had == asked:
		limit = to
	default:
		limit = max(to, int64(min(float64(had)*float64(to)/float64(asked), float64(cluster.MaxAmount))))
	}
	return merged(next.Requests, amounts(cluster.Resources{MilliCPU: to})), merged(next.Limits, amounts(cluster.Resources{MilliCPU: limit}))
}

// original is what a container requested before the boost.
type original struct {
	Requests corev1.ResourceList `json:"requests"`
	Limits   corev1.ResourceList `json:"limits"`
}

// originals returns the value of the annotation of a container.
func originals(c *corev1.Container) string {
	both := func(of corev1.ResourceList) corev1.ResourceList {
		l := corev1.ResourceList{}
		for _, name := range []corev1.ResourceName{corev1.ResourceCPU, corev1.ResourceMemory} {
			if q, ok := of[name]; ok {
				l[name] = q
			}
		}
		return l
	}
	text, err := json.Marshal(original{both(c.Resources.Requests), both(c.Resources.Limits)})
	if err != nil {
		panic(err) // quantities are text
	}
	return string(text)
}

// boosted reports whether the CPU of one of the pod's containers is raised.
func boosted(p *corev1.Pod) bool {
	for key := range p.Annotations {
		if strings.HasPrefix(key, boostPrefix) {
			return true
		}
	}
	return false
}

// unboost takes the boost of containers back whose pod has been ready for long enough: as a part of the updater,
// and in every mode. at is the time of the last samples, which is the time of a simulation.
func (r *Recommender) unboost(ctx context.Context, a *Autoscaler, one *autoscaler, pods []corev1.Pod, at time.Time, report *Report) error {
	if !r.config.Updater || r.config.SimulatedTime && at.IsZero() {
		return nil
	}
	var errs []error
	was := one.ready
	one.ready = map[types.UID]time.Time{}
	for i := range pods {
		p := &pods[i]
		since := readySince(p)
		if !boosted(p) || since.IsZero() {
			continue
		}
		now := time.Now()
		if r.config.SimulatedTime {
			now, since = at, at
			if before, ok := was[p.UID]; ok {
				since = before
			}
		}
		one.ready[p.UID] = since
		if state, _ := resizing(p); state != env.ResizeNone {
			continue
		}
		errs = append(errs, r.unboostPod(ctx, a, one, p, now.Sub(since), report))
	}
	return errors.Join(errs...)
}

// readySince returns since when the pod is ready; zero is not.
func readySince(p *corev1.Pod) time.Time {
	for _, c := range p.Status.Conditions {
		if c.Type == corev1.PodReady && c.Status == corev1.ConditionTrue {
			return c.LastTransitionTime.Time
		}
	}
	return time.Time{}
}

// unboostPod resizes the containers whose boost is over, and then takes their annotations away.
func (r *Recommender) unboostPod(ctx context.Context, a *Autoscaler, one *autoscaler, p *corev1.Pod, ready time.Duration, report *Report) error {
	over := map[string]any{}
	for i := range p.Spec.Containers {
		name := p.Spec.Containers[i].Name
		text, ok := p.Annotations[boostPrefix+name]
		if !ok || !policyOf(a, name).boost.over(ready) {
			continue
		}
		back, err := one.unboosted(name, text)
		if err != nil {
			return fmt.Errorf("annotation %s of pod %s: %w", boostPrefix+name, p.Name, err)
		}
		refused, err := r.resize(ctx, p, name, back)
		if err != nil {
			return err
		}
		if refused {
			r.log.Warn("the API refuses to take a startup boost back", "pod", p.Namespace+"/"+p.Name, "container", name)
			continue
		}
		over[boostPrefix+name] = nil
	}
	if len(over) == 0 {
		return nil
	}
	patch, err := json.Marshal(map[string]any{"metadata": map[string]any{"uid": p.UID, "annotations": over}})
	if err != nil {
		return err
	}
	if _, err := r.client.CoreV1().Pods(p.Namespace).Patch(ctx, p.Name, types.MergePatchType, patch, metav1.PatchOptions{FieldManager: manager}); err != nil {
		if apierrors.IsNotFound(err) || apierrors.IsConflict(err) {
			return nil // it is gone
		}
		return fmt.Errorf("take the boost of pod %s back: %w", p.Name, err)
	}
	report.Unboosted++
	r.log.Info("startup boost taken back", "pod", p.Namespace+"/"+p.Name, "ready", ready)
	return nil
}

// over reports whether the boost of a pod that has been ready for so long is over. One that the autoscaler no
// longer asks for is.
func (b *CPUBoost) over(ready time.Duration) bool {
	return b == nil || b.DurationSeconds == nil || *b.DurationSeconds == 0 || ready > time.Duration(*b.DurationSeconds)*time.Second
}

// unboosted returns what a container gets after its boost: the recommendation, or else what it requested before.
func (one *autoscaler) unboosted(name, before string) (env.LiveUpdate, error) {
	if c := one.containers[name]; c != nil && c.given && c.live.Admits() {
		return env.LiveUpdate{Requests: c.rec.Target, Limits: c.live.Limits()}, nil
	}
	var was original
	if err := json.Unmarshal([]byte(before), &was); err != nil {
		return env.LiveUpdate{}, fmt.Errorf("%q, want requests and limits as JSON: %w", before, err)
	}
	return env.LiveUpdate{Requests: listed(was.Requests), Limits: listed(was.Limits)}, nil
}
