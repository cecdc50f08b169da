package scheduler

import (
	"context"
	"errors"
	"fmt"
	"math/bits"
	"time"

	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"

	"github.com/kubernasium/kubernasium/kwok/kubeyaml"
)

// lead places the pods that wait, and those that come, until ctx ends.
func (s *Scheduler) lead(ctx context.Context) {
	s.log.Info("leading", "identity", s.cfg.Lease.Identity)
	s.metrics.leader.Set(1)
	s.leading.Store(true)
	for _, uid := range s.cache.waiting(s.cfg.Name) {
		s.queue.Add(uid)
	}
	wake := context.AfterFunc(ctx, func() { s.queue.Add("") }) // Get knows no context
	defer wake()
	for {
		uid, shut := s.queue.Get()
		if shut || ctx.Err() != nil {
			s.queue.Done(uid)
			break
		}
		s.place(ctx, uid)
		s.queue.Done(uid)
	}
	s.leading.Store(false)
	s.metrics.leader.Set(0)
	s.log.Info("no longer leading", "identity", s.cfg.Lease.Identity)
}

// place tries to place a pod, and says when to try again.
func (s *Scheduler) place(ctx context.Context, uid types.UID) {
	p, waits := s.cache.pod(uid)
	if p == nil || !waits || !s.wants(p) {
		s.queue.Forget(uid)
		return
	}
	// From now on, so that what changes during the attempt leads to another one.
	if rules := s.cache.rules(uid); rules != nil {
		s.mu.Lock()
		s.unfit[uid] = rules
		s.mu.Unlock()
	}
	begin := time.Now()
	result, err := s.attempt(ctx, p)
	if result != resultUnschedulable {
		s.mu.Lock()
		delete(s.unfit, uid)
		s.mu.Unlock()
	}
	s.metrics.attempts.WithLabelValues(result).Inc()
	s.metrics.duration.WithLabelValues(result).Observe(time.Since(begin).Seconds())
	if err == nil {
		s.queue.Forget(uid)
		return
	}
	if ctx.Err() != nil {
		return // whoever leads next tries again
	}
	s.log.Info("not placed", "pod", p.Namespace+"/"+p.Name, "result", result, "err", err)
	if result != resultConflict {
		s.recorder.Eventf(p, nil, corev1.EventTypeWarning, "FailedScheduling", "Scheduling", "%s", err)
	}
	s.queue.AddRateLimited(uid)
}

// attempt places a pod, and returns one of the results of metrics.
func (s *Scheduler) attempt(ctx context.Context, p *corev1.Pod) (result string, err error) {
	if err := unsupported(p); err != nil {
		return resultUnschedulable, err
	}
	m, err := s.cache.moment(p, s.replicas(ctx, p), nil)
	switch {
	case errors.Is(err, errNoNodes):
		return resultUnschedulable, err
	case err != nil:
		return resultError, err
	case m.fitting() == 0:
		return resultUnschedulable, fmt.Errorf("%s%s", m.reasons(), s.preempt(ctx, m))
	}
	v := s.decide(ctx, m)
	if err := ctx.Err(); err != nil {
		return resultError, err
	}
	node := m.nodes[v.node].Name
	if !s.cache.assume(p, node, v.devices) {
		return resultConflict, fmt.Errorf("scheduler: node %s or the pod went, or the pod was bound, during the decision", node)
	}
	if err := s.bind(ctx, m.pod, node, v.devices); err != nil {
		s.cache.forget(p.UID)
		if apierrors.IsConflict(err) || apierrors.IsNotFound(err) {
			return resultConflict, err
		}
		return resultError, err
	}
	if s.cfg.Placed != nil {
		s.cfg.Placed(m.placement(v))
	}
	s.retryHelped(p)
	s.recorder.Eventf(p, nil, corev1.EventTypeNormal, "Scheduled", "Binding", "Successfully assigned %s/%s to %s", p.Namespace, p.Name, node)
	return resultScheduled, nil
}

// Fallbacks returns how many decisions were made by kube-scheduler's scores instead of the policy.
func (s *Scheduler) Fallbacks() int { return int(s.decider.fallen.Load()) }

// decide returns the choice for the moment, and logs why it is not the policy's.
func (s *Scheduler) decide(ctx context.Context, m *moment) verdict {
	v := s.decider.decide(ctx, m)
	if v.fallback != "" {
		s.log.Warn("fell back on kube-scheduler's scores", "pod", m.pod.Namespace+"/"+m.pod.Name, "reason", v.fallback, "err", v.err)
	}
	return v
}

// bind binds a pod to a node by the binding subresource, which carries the devices.
func (s *Scheduler) bind(ctx context.Context, p *podInfo, node string, devices uint64) error {
	ctx, cancel := context.WithTimeout(ctx, bindTimeout)
	defer cancel()
	b := &corev1.Binding{
		ObjectMeta: metav1.ObjectMeta{Namespace: p.Namespace, Name: p.Name, UID: p.UID},
		Target:     corev1.ObjectReference{Kind: "Node", Name: node},
	}
	if devices != 0 {
		var list []int
		for d := devices; d != 0; d &= d - 1 {
			list = append(list, bits.TrailingZeros64(d))
		}
		key, value := kubeyaml.DeviceAnnotation(p.Pod, list)
		b.Annotations = map[string]string{key: value}
	}
	if err := s.client.CoreV1().Pods(p.Namespace).Bind(ctx, b, metav1.CreateOptions{}); err != nil {
		return fmt.Errorf("scheduler: bind %s/%s to %s: %w", p.Namespace, p.Name, node, err)
	}
	return nil
}

// replicas returns how many pods the controller of a pod wants, and 1 where that is not known. A
// controller that the informers do not have yet is asked for.
func (s *Scheduler) replicas(ctx context.Context, p *corev1.Pod) int {
	ref := metav1.GetControllerOf(p)
	if ref == nil {
		return 1
	}
	ctx, cancel := context.WithTimeout(ctx, s.cfg.Budget)
	defer cancel()
	var wanted *int32
	switch ref.Kind {
	case "ReplicaSet":
		r, err := s.replicaSets.ReplicaSets(p.Namespace).Get(ref.Name)
		if err != nil {
			r, err = s.client.AppsV1().ReplicaSets(p.Namespace).Get(ctx, ref.Name, metav1.GetOptions{})
		}
		if err == nil {
			wanted = r.Spec.Replicas
		}
	case "StatefulSet":
		r, err := s.statefulSets.StatefulSets(p.Namespace).Get(ref.Name)
		if err != nil {
			r, err = s.client.AppsV1().StatefulSets(p.Namespace).Get(ctx, ref.Name, metav1.GetOptions{})
		}
		if err == nil {
			wanted = r.Spec.Replicas
		}
	}
	if wanted == nil {
		return 1
	}
	return max(1, int(*wanted))
}

// unsupported returns an error if the pod asks for what this scheduler would not see to.
func unsupported(p *corev1.Pod) error {
	if len(p.Spec.ResourceClaims) > 0 {
		return errors.New("resource claims are not supported by this scheduler: let default-scheduler place the pod, with this one as its extender")
	}
	return nil
}
