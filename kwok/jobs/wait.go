package jobs

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"time"

	batchv1 "k8s.io/api/batch/v1"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/kubernasium/kubernasium/envs/cluster"
)

// Running waits until all pods of the Jobs run and are ready, and returns them by Job. It returns an error if a
// Job fails.
func (s *Space) Running(ctx context.Context, names ...string) (map[string][]*corev1.Pod, error) {
	running := map[string][]*corev1.Pod{}
	err := s.Wait(ctx, func() (string, error) {
		for _, name := range names {
			j := s.Job(name)
			if j == nil {
				return "job " + name + " is not there yet", nil
			}
			if err := failed(j); err != nil {
				return "", err
			}
			var ready []*corev1.Pod
			why := "no pod; does kube-controller-manager run?"
			for _, p := range s.Pods(name) {
				if isReady(p) {
					ready = append(ready, p)
				} else {
					why = waiting(p)
				}
			}
			if len(ready) != int(*j.Spec.Parallelism) {
				return fmt.Sprintf("%d of the %d pods of job %s run: %s", len(ready), *j.Spec.Parallelism, name, why), nil
			}
			running[name] = ready
		}
		return "", nil
	})
	return running, err
}

// Complete waits until the Jobs are complete: the barrier. It returns an error if one fails.
func (s *Space) Complete(ctx context.Context, names ...string) error {
	return s.Wait(ctx, func() (string, error) {
		for _, name := range names {
			j := s.Job(name)
			if j == nil {
				return "", fmt.Errorf("jobs: job %s was deleted before it was complete", name)
			}
			if err := failed(j); err != nil {
				return "", err
			}
			if !slices.ContainsFunc(j.Status.Conditions, func(c batchv1.JobCondition) bool {
				return c.Type == batchv1.JobComplete && c.Status == corev1.ConditionTrue
			}) {
				return fmt.Sprintf("job %s has %d of its %d completions", name, j.Status.Succeeded, *j.Spec.Completions), nil
			}
		}
		return "", nil
	})
}

// Gone waits until the Jobs and their pods no longer exist.
func (s *Space) Gone(ctx context.Context, names ...string) error {
	return s.Wait(ctx, func() (string, error) {
		for _, name := range names {
			if s.Job(name) != nil {
				return "job " + name + " is still there", nil
			}
			if n := len(s.Pods(name)); n > 0 {
				return fmt.Sprintf("%d pods of job %s are still there", n, name), nil
			}
		}
		return "", nil
	})
}

// probeInterval is the interval at which a wait checks that the API server exists; it gives up after maxProbes
// failures.
const (
	probeInterval = 3 * time.Second
	maxProbes     = 2
)

// Wait calls met after every change, until met reports nothing missing or returns an error. Wait fails with
// ErrTimeout after Patience, and with [cluster.ErrUnavailable] when the API server is gone.
func (s *Space) Wait(ctx context.Context, met func() (missing string, err error)) error {
	timer, ticker := time.NewTimer(s.Patience), time.NewTicker(probeInterval)
	defer timer.Stop()
	defer ticker.Stop()
	for probes := 0; ; {
		s.mu.Lock()
		changed := s.changed // read before the call of met, so that no change is missed
		s.mu.Unlock()
		missing, err := met()
		if missing == "" || err != nil {
			return err
		}
		select {
		case <-changed:
		case <-ctx.Done():
			return fmt.Errorf("%s: %w", missing, context.Cause(ctx))
		case <-ticker.C:
			if err = s.probe(ctx); !errors.Is(err, cluster.ErrUnavailable) {
				probes = 0
			} else if probes++; probes == maxProbes {
				return fmt.Errorf("%s: %w", missing, err)
			}
		case <-timer.C:
			return errors.Join(fmt.Errorf("%w: after %v in namespace %s: %s", ErrTimeout, s.Patience, s.namespace, missing), s.watchError())
		}
	}
}

// probe sends the API server a cheap request.
func (s *Space) probe(ctx context.Context) error {
	ctx, cancel := context.WithTimeout(ctx, callTimeout)
	defer cancel()
	_, err := s.client.CoreV1().Namespaces().Get(ctx, s.namespace, metav1.GetOptions{})
	return Unavailable(ctx, err)
}

// failed returns an error if the Job has failed.
func failed(j *batchv1.Job) error {
	for _, c := range j.Status.Conditions {
		if c.Type == batchv1.JobFailed && c.Status == corev1.ConditionTrue {
			return fmt.Errorf("%w: %s: %s: %s", ErrFailed, j.Name, c.Reason, c.Message)
		}
	}
	return nil
}

func isReady(p *corev1.Pod) bool {
	if p.Status.Phase != corev1.PodRunning || p.DeletionTimestamp != nil {
		return false
	}
	for _, c := range p.Status.Conditions {
		if c.Type == corev1.PodReady {
			return c.Status == corev1.ConditionTrue
		}
	}
	return false
}

// waiting returns why a pod does not run.
func waiting(p *corev1.Pod) string {
	for _, c := range p.Status.Conditions {
		if c.Type == corev1.PodScheduled && c.Status == corev1.ConditionFalse {
			return fmt.Sprintf("pod %s has no node: %s", p.Name, c.Message)
		}
	}
	if p.Spec.NodeName == "" {
		return "pod " + p.Name + " has no node; does kube-scheduler run?"
	}
	return fmt.Sprintf("pod %s is %s", p.Name, p.Status.Phase)
}
