// Package lease lets one of several instances of a program act: the one that holds a Lease object.
package lease

import (
	"context"
	"errors"
	"fmt"
	"time"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/client-go/kubernetes"
	"k8s.io/client-go/tools/leaderelection"
	"k8s.io/client-go/tools/leaderelection/resourcelock"
)

// tolerance is how long a holder may fail to notice that its lease has expired, as in
// kube-scheduler.
const tolerance = 20 * time.Second

// Lease configures the election among instances. Defaults are kube-scheduler's.
type Lease struct {
	Namespace string        // default kube-system
	Name      string        // default: see SetDefaults
	Identity  string        // of this instance; must be unique
	Duration  time.Duration // of a lease without renewal; default 15 s
	Renew     time.Duration // how long the leader tries to renew before it gives up; default 10 s
	Retry     time.Duration // between tries; default 2 s
}

// SetDefaults sets zero fields to their defaults, and the lease's name to name.
func (l *Lease) SetDefaults(name string) {
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

// NewWatchdog returns a check that fails when an instance acts as leader although its lease expired
// 20 s ago or more: it hangs, and should be restarted.
func NewWatchdog() *leaderelection.HealthzAdaptor {
	return leaderelection.NewLeaderHealthzAdaptor(tolerance)
}

// Hold calls lead whenever this instance holds the lease, until ctx ends. The context of lead ends
// when the lease is lost or ctx ends. An instance that loses the lease tries again. At the end it
// releases the lease after lead has returned.
func Hold(ctx context.Context, client kubernetes.Interface, l Lease, watchdog *leaderelection.HealthzAdaptor, lead func(context.Context)) error {
	if l.Identity == "" {
		return errors.New("lease: no identity")
	}
	for ctx.Err() == nil {
		if err := stand(ctx, client, l, watchdog, lead); err != nil {
			return err
		}
	}
	return nil
}

// stand waits for the lease, and leads until it is lost or ctx ends.
func stand(ctx context.Context, client kubernetes.Interface, l Lease, watchdog *leaderelection.HealthzAdaptor, lead func(context.Context)) error {
	leads := make(chan context.Context, 1)
	elector, err := leaderelection.NewLeaderElector(leaderelection.LeaderElectionConfig{
		Lock: &resourcelock.LeaseLock{
			LeaseMeta: metav1.ObjectMeta{Namespace: l.Namespace, Name: l.Name}, Client: client.CoordinationV1(),
			LockConfig: resourcelock.ResourceLockConfig{Identity: l.Identity},
		},
		LeaseDuration: l.Duration, RenewDeadline: l.Renew, RetryPeriod: l.Retry, Name: l.Name, ReleaseOnCancel: true,
		Callbacks: leaderelection.LeaderCallbacks{
			OnStartedLeading: func(lead context.Context) { leads <- lead }, OnStoppedLeading: func() {},
		},
	})
	if err != nil {
		return fmt.Errorf("lease: %s/%s: %w", l.Namespace, l.Name, err)
	}
	watchdog.SetLeaderElection(elector)
	electing, release := context.WithCancel(context.WithoutCancel(ctx)) // outlives the leading, so that the lease is given back after it
	ended := make(chan struct{})
	go func() {
		defer close(ended)
		elector.Run(electing)
	}()
	select {
	case leading := <-leads:
		leading, stop := context.WithCancel(leading)
		context.AfterFunc(ctx, stop)
		lead(leading)
		stop()
	case <-ctx.Done():
	case <-ended:
	}
	release()
	<-ended
	return nil
}
