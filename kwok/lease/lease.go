// Package lease elects one of several instances of a program: the holder of a Lease object acts.
package lease

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"time"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/client-go/kubernetes"
	"k8s.io/client-go/tools/leaderelection"
	"k8s.io/client-go/tools/leaderelection/resourcelock"
)

// tolerance is the time after its lease expired in which a holder must notice that, as in kube-scheduler.
const tolerance = 20 * time.Second

// Lease configures the election among instances. Defaults are kube-scheduler's.
type Lease struct {
	Namespace string        // default kube-system
	Name      string        // default: see SetDefaults
	Identity  string        // of this instance; must be unique
	Duration  time.Duration // after which a lease that was not renewed expires; default 15 s
	Renew     time.Duration // time in which the leader must renew before it gives up; default 10 s
	Retry     time.Duration // between tries; default 2 s
}

// SetDefaults sets empty fields to their defaults, and an empty Name to name.
func (l *Lease) SetDefaults(name string) {
	l.Namespace = cmp.Or(l.Namespace, metav1.NamespaceSystem)
	l.Name = cmp.Or(l.Name, name)
	if l.Duration == 0 {
		l.Duration, l.Renew, l.Retry = 15*time.Second, 10*time.Second, 2*time.Second
	}
}

// NewWatchdog returns a check that fails if an instance still acts as leader 20 s after its lease expired. Such
// an instance hangs and should be restarted.
func NewWatchdog() *leaderelection.HealthzAdaptor {
	return leaderelection.NewLeaderHealthzAdaptor(tolerance)
}

// Hold calls lead whenever this instance holds the lease, until ctx ends. The context of lead ends when the
// lease is lost or ctx ends. An instance that loses the lease tries again. When ctx ends, Hold releases the
// lease after lead has returned.
func Hold(ctx context.Context, client kubernetes.Interface, l Lease, watchdog *leaderelection.HealthzAdaptor, lead func(context.Context)) error {
	if l.Identity == "" {
		return errors.New("lease: no identity")
	}
	for ctx.Err() == nil {
		if err := campaign(ctx, client, l, watchdog, lead); err != nil {
			return err
		}
	}
	return nil
}

// campaign waits for the lease, and leads until it is lost or ctx ends.
func campaign(ctx context.Context, client kubernetes.Interface, l Lease, watchdog *leaderelection.HealthzAdaptor, lead func(context.Context)) error {
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
	electing, release := context.WithCancel(context.WithoutCancel(ctx)) // outlives lead, so that the lease is released after lead has returned
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
