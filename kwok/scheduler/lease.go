package scheduler

import (
	"context"
	"errors"
	"fmt"
	"time"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/client-go/tools/leaderelection"
	"k8s.io/client-go/tools/leaderelection/resourcelock"
)

// Lease says how instances of a scheduler agree on the one that binds. Defaults are
// kube-scheduler's.
type Lease struct {
	Namespace string        // default kube-system
	Name      string        // default the scheduler's
	Identity  string        // of this instance; must be unique
	Duration  time.Duration // how long a leader that is not heard of stays one; default 15 s
	Renew     time.Duration // how long the leader tries to renew before it gives up; default 10 s
	Retry     time.Duration // between tries; default 2 s
}

func (l *Lease) setDefaults(name string) {
	if l.Namespace == "" {
		l.Namespace = metav1.NamespaceSystem
	}
	if l.Name == "" {
		l.Name = name
	}
	if l.Duration == 0 {
		l.Duration, l.Renew, l.Retry = 15*time.Second, 10*time.Second, 2*time.Second
	}
}

// elect binds pods whenever this instance holds the lease, until ctx ends. An instance that loses
// the lease stops binding and stands again; one that ends stops binding and gives it back.
func (s *Scheduler) elect(ctx context.Context) error {
	if s.cfg.Lease.Identity == "" {
		return errors.New("scheduler: the lease has no identity")
	}
	for ctx.Err() == nil {
		if err := s.stand(ctx); err != nil {
			return err
		}
	}
	return nil
}

// stand waits for the lease, and binds until it is lost or ctx ends.
func (s *Scheduler) stand(ctx context.Context) error {
	l, leads := s.cfg.Lease, make(chan context.Context, 1)
	elector, err := leaderelection.NewLeaderElector(leaderelection.LeaderElectionConfig{
		Lock: &resourcelock.LeaseLock{
			LeaseMeta: metav1.ObjectMeta{Namespace: l.Namespace, Name: l.Name}, Client: s.client.CoordinationV1(),
			LockConfig: resourcelock.ResourceLockConfig{Identity: l.Identity},
		},
		LeaseDuration: l.Duration, RenewDeadline: l.Renew, RetryPeriod: l.Retry, Name: l.Name, ReleaseOnCancel: true,
		Callbacks: leaderelection.LeaderCallbacks{
			OnStartedLeading: func(lead context.Context) { leads <- lead }, OnStoppedLeading: func() {},
		},
	})
	if err != nil {
		return fmt.Errorf("scheduler: lease %s/%s: %w", l.Namespace, l.Name, err)
	}
	electing, release := context.WithCancel(context.WithoutCancel(ctx)) // outlives the binding, so that the lease is given back after it
	ended := make(chan struct{})
	go func() {
		defer close(ended)
		elector.Run(electing)
	}()
	select {
	case lead := <-leads:
		binding, stop := context.WithCancel(lead)
		context.AfterFunc(ctx, stop)
		s.lead(binding)
		stop()
	case <-ctx.Done():
	case <-ended:
	}
	release()
	<-ended
	return nil
}
