package profile

import (
	"context"
	"errors"
	"fmt"
	"os"
	"strings"
	"sync"
	"sync/atomic"
	"testing"

	corev1 "k8s.io/api/core/v1"

	"github.com/kubernasium/kubernasium/envs/envstest"
	"github.com/kubernasium/kubernasium/envs/lra"
)

// logged is a law that writes down each measurement when it ends.
type logged struct {
	Law
	path string
	mu   sync.Mutex
}

func (l *logged) Measure(ctx context.Context, c lra.Counts, try int, containers []Container) ([]Answer, error) {
	l.mu.Lock()
	defer l.mu.Unlock()
	f, err := os.OpenFile(l.path, os.O_CREATE|os.O_APPEND|os.O_WRONLY, 0o600)
	if err != nil {
		return nil, err
	}
	defer f.Close()
	if _, err := fmt.Fprintln(f, c, try); err != nil {
		return nil, err
	}
	return l.Law.Measure(ctx, c, try, containers)
}

func (l *logged) lines(t *testing.T) []string {
	t.Helper()
	return strings.Split(strings.TrimSpace(envstest.Read(t, l.path)), "\n")
}

// endless is a law that keeps loading after so many measurements.
type endless struct {
	logged
	after int64
	begun atomic.Int64
}

func (l *endless) Measure(ctx context.Context, c lra.Counts, try int, containers []Container) ([]Answer, error) {
	if l.begun.Add(1) > l.after {
		<-ctx.Done()
		return nil, ctx.Err()
	}
	return l.logged.Measure(ctx, c, try, containers)
}

// flaky fails the first two times at one combination, and always at another.
type flaky struct {
	Law
	mu    sync.Mutex
	tries map[lra.Counts]int
	never bool // two of Redis
	first bool // Redis alone
}

func (f *flaky) Measure(ctx context.Context, c lra.Counts, try int, containers []Container) ([]Answer, error) {
	f.mu.Lock()
	defer f.mu.Unlock()
	f.tries[c]++
	if c == (lra.Counts{1, 1}) && f.tries[c] < attempts || f.never && c == (lra.Counts{2}) || f.first && c == (lra.Counts{1}) {
		return nil, errors.New("the clients gave up")
	}
	return f.Law.Measure(ctx, c, try, containers)
}

// inspector looks at what was launched when it is asked to load it.
type inspector struct {
	Law
	t     *testing.T
	pods  func(namespace string) []corev1.Pod
	mu    sync.Mutex
	nodes map[string]bool
}

func (l *inspector) Measure(ctx context.Context, c lra.Counts, try int, containers []Container) ([]Answer, error) {
	l.mu.Lock()
	defer l.mu.Unlock()
	if len(containers) != c.Total() {
		l.t.Errorf("%v: %d containers, want %d", c, len(containers), c.Total())
	}
	onNode := map[string]int{} // by application
	for _, p := range l.pods(containers[0].Namespace) {
		if p.Spec.NodeName == containers[0].Node {
			onNode[p.Labels[labelApp]]++
		}
	}
	for a, n := range c {
		if onNode[lra.Apps[a]] != n {
			l.t.Errorf("%v: %d pods of %s on the node, want %d", c, onNode[lra.Apps[a]], lra.Apps[a], n)
		}
	}
	for _, of := range containers {
		l.nodes[of.Node] = true
		for _, p := range l.pods(of.Namespace) {
			if p.Name != of.Pod {
				continue
			}
			image := map[bool]string{true: "example.com/redis:7", false: "kubernasium.io/simulated"}[of.App == "redis"]
			if p.Status.Phase != corev1.PodRunning || p.Labels[labelApp] != of.App || p.Spec.Containers[0].Image != image || p.Status.PodIP != of.Address {
				l.t.Errorf("%v: container %+v is pod %s of image %s, %s", c, of, p.Labels[labelApp], p.Spec.Containers[0].Image, p.Status.Phase)
			}
		}
	}
	return l.Law.Measure(ctx, c, try, containers)
}
