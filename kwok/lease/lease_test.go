package lease

import (
	"context"
	"errors"
	"sync/atomic"
	"testing"
	"time"

	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/client-go/kubernetes/fake"
	clienttesting "k8s.io/client-go/testing"
	"k8s.io/client-go/tools/leaderelection"
)

const patience = 2 * time.Minute

func until(t *testing.T, what string, met func() bool) {
	t.Helper()
	for end := time.Now().Add(patience); !met(); time.Sleep(5 * time.Millisecond) {
		if time.Now().After(end) {
			t.Fatalf("after %v not yet: %s", patience, what)
		}
	}
}

// TestHold lets two instances stand: one leads, and the other after its end.
func TestHold(t *testing.T) {
	client := fake.NewClientset()
	var leads atomic.Value
	leads.Store("")
	hold := func(identity string) (stop func()) {
		ctx, cancel := context.WithCancel(t.Context())
		ended := make(chan error, 1)
		l := Lease{Identity: identity, Duration: time.Hour, Renew: 30 * time.Minute, Retry: 10 * time.Millisecond}
		l.SetDefaults("test")
		go func() {
			ended <- Hold(ctx, client, l, NewWatchdog(), func(ctx context.Context) {
				leads.Store(identity)
				<-ctx.Done()
			})
		}()
		return func() {
			cancel()
			if err := <-ended; err != nil {
				t.Errorf("Hold of %s: %v", identity, err)
			}
		}
	}
	stopOne := hold("one")
	until(t, "one leads", func() bool { return leads.Load() == "one" })
	stopTwo := hold("two")
	defer stopTwo()
	stopOne() // gives the lease back, which lasts longer than the test
	until(t, "two leads", func() bool { return leads.Load() == "two" })
	if err := Hold(t.Context(), client, Lease{}, nil, nil); err == nil {
		t.Error("Hold without an identity returned no error")
	}
}

// TestHoldStandsAgain: an instance that could not renew its lease in time stops leading, and leads
// again when it has the lease back.
func TestHoldStandsAgain(t *testing.T) {
	client := fake.NewClientset()
	var away atomic.Bool
	client.PrependReactor("update", "leases", func(clienttesting.Action) (bool, runtime.Object, error) {
		return away.Load(), nil, errors.New("the API server is away")
	})
	ctx, cancel := context.WithCancel(t.Context())
	var led, ended atomic.Int32
	held := make(chan error, 1)
	l := Lease{Identity: "one", Duration: time.Second, Renew: 500 * time.Millisecond, Retry: 10 * time.Millisecond}
	l.SetDefaults("test")
	go func() {
		held <- Hold(ctx, client, l, NewWatchdog(), func(ctx context.Context) {
			led.Add(1)
			<-ctx.Done()
			ended.Add(1)
		})
	}()
	// On a busy machine it may renew the lease too late at any time, and lead once more.
	leads := func() bool { return led.Load() > ended.Load() }
	until(t, "it leads", leads)
	away.Store(true)
	until(t, "it stops", func() bool { return !leads() })
	away.Store(false)
	until(t, "it leads again", leads)
	cancel()
	if err := <-held; err != nil {
		t.Error(err)
	}
}

// TestWatchdog lets a leader hang while it renews: the check fails once the lease has run out.
func TestWatchdog(t *testing.T) {
	client := fake.NewClientset()
	renew := make(chan struct{})
	client.PrependReactor("update", "leases", func(clienttesting.Action) (bool, runtime.Object, error) {
		<-renew
		return false, nil, nil
	})
	watchdog := leaderelection.NewLeaderHealthzAdaptor(0)
	if err := watchdog.Check(nil); err != nil {
		t.Errorf("before the election: %v", err)
	}
	ctx, cancel := context.WithCancel(t.Context())
	ended := make(chan error, 1)
	leads := make(chan struct{})
	l := Lease{Identity: "one", Duration: time.Second, Renew: 500 * time.Millisecond, Retry: 10 * time.Millisecond}
	l.SetDefaults("test")
	go func() {
		ended <- Hold(ctx, client, l, watchdog, func(ctx context.Context) {
			close(leads)
			<-ctx.Done()
		})
	}()
	<-leads
	until(t, "the check fails", func() bool { return watchdog.Check(nil) != nil })
	cancel()
	close(renew)
	if err := <-ended; err != nil {
		t.Error(err)
	}
}
