package vpa_test

import (
	"context"
	"errors"
	"net/http"
	"net/http/httptest"
	"sync/atomic"
	"testing"
	"time"

	"k8s.io/client-go/rest"

	"github.com/kubernasium/kubernasium/kwok/health"
	"github.com/kubernasium/kubernasium/kwok/lease"
	"github.com/kubernasium/kubernasium/kwok/vpa"
)

func met(t *testing.T, what string, cond func() bool) {
	t.Helper()
	for end := time.Now().Add(patience); !cond(); time.Sleep(5 * time.Millisecond) {
		if time.Now().After(end) {
			t.Fatalf("after %v not yet: %s", patience, what)
		}
	}
}

// failing returns the names of the checks that do not hold.
func failing(checks []health.Check) map[string]bool {
	names := map[string]bool{}
	for _, c := range checks {
		if c.Err() != nil {
			names[c.Name] = true
		}
	}
	return names
}

// TestChecks runs a recommender on an API server that refuses, answers and hangs.
func TestChecks(t *testing.T) {
	const refuse, answer, hang = 0, 1, 2
	var does atomic.Int32
	end := make(chan struct{})
	srv := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		switch does.Load() {
		case refuse:
			http.Error(w, "not now", http.StatusForbidden)
		case answer:
			w.Header().Set("Content-Type", "application/json")
			_, _ = w.Write([]byte(`{"apiVersion": "autoscaling.k8s.io/v1", "kind": "VerticalPodAutoscalerList", "items": []}`))
		case hang:
			<-end
		}
	}))
	defer srv.Close()
	defer close(end)
	r, err := vpa.New(vpa.Config{REST: &rest.Config{Host: srv.URL, QPS: -1}, Name: "test", Open: func() (vpa.Model, error) { return vpa.Model{}, errors.New("none") }})
	if err != nil {
		t.Fatal(err)
	}
	live, ready := r.Checks()
	if l, s := failing(live), failing(ready); len(l)+len(s) != 0 {
		t.Errorf("while it waits for the lease: not live by %v, not ready by %v; want that all hold", l, s)
	}
	ctx, cancel := context.WithCancel(t.Context())
	ended := make(chan error, 1)
	go func() { ended <- r.Run(ctx, 200*time.Millisecond, nil) }()
	met(t, "not ready while nothing is listed", func() bool { return failing(ready)["autoscalers-listed"] })
	does.Store(answer)
	met(t, "ready", func() bool { return len(failing(ready)) == 0 })
	does.Store(hang)
	met(t, "not live while a look hangs", func() bool { return failing(live)["loop"] && failing(ready)["loop"] })
	cancel()
	if err := <-ended; err != nil {
		t.Error(err)
	}
	if l := failing(live); len(l) != 0 {
		t.Errorf("at the end not live by %v", l)
	}
	// An instance that leads again has listed nothing yet.
	does.Store(refuse)
	ctx, cancel = context.WithCancel(t.Context())
	go func() { ended <- r.Run(ctx, 200*time.Millisecond, nil) }()
	met(t, "not ready after a second start", func() bool { return failing(ready)["autoscalers-listed"] })
	cancel()
	if err := <-ended; err != nil {
		t.Error(err)
	}
}

// TestLead lets two recommenders of one name stand: only one looks at a time.
func TestLead(t *testing.T) {
	rc := prepare(t)
	lead := func(identity string, looks *atomic.Int32) (stop func()) {
		r, err := vpa.New(vpa.Config{REST: rc, Name: "led", Namespace: "nonesuch", Open: func() (vpa.Model, error) { return vpa.Model{}, errors.New("none") }})
		if err != nil {
			t.Fatal(err)
		}
		ctx, cancel := context.WithCancel(ctx)
		ended := make(chan error, 1)
		l := lease.Lease{Identity: identity, Duration: 5 * time.Minute, Renew: 4 * time.Minute, Retry: 50 * time.Millisecond}
		go func() { ended <- r.Lead(ctx, l, 10*time.Millisecond, func(vpa.Report) { looks.Add(1) }) }()
		return func() {
			cancel()
			if err := errors.Join(<-ended, r.Close()); err != nil {
				t.Error(err)
			}
		}
	}
	var one, two atomic.Int32
	stopOne := lead("one", &one)
	met(t, "one looks", func() bool { return one.Load() > 0 })
	stopTwo := lead("two", &two)
	defer stopTwo()
	from := one.Load()
	met(t, "one looks 20 times more", func() bool { return one.Load() > from+20 })
	if two.Load() != 0 {
		t.Errorf("two looked %d times while one held the lease", two.Load())
	}
	stopOne()
	met(t, "two looks", func() bool { return two.Load() > 0 })
}
