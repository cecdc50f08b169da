package scheduler

import (
	"context"
	"net/http"
	"net/http/httptest"
	"strings"
	"testing"
	"time"

	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/client-go/kubernetes/fake"
	clienttesting "k8s.io/client-go/testing"
	"k8s.io/client-go/tools/leaderelection"

	"github.com/kubernasium/kubernasium/kwok/lease"
)

// TestHealth asks /livez and /readyz before the informers have listed, while the scheduler leads,
// while it hangs as a leader, and at its end.
func TestHealth(t *testing.T) {
	client := fake.NewClientset()
	renew := make(chan struct{})
	client.PrependReactor("update", "leases", func(clienttesting.Action) (bool, runtime.Object, error) {
		<-renew
		return false, nil, nil
	})
	s, err := New(client, Config{
		Policy: byBaseline(t, balance, "Greedy", nil), Token: "secret", // which probes do not have
		Lease: lease.Lease{Identity: "one", Duration: time.Second, Renew: 500 * time.Millisecond, Retry: 10 * time.Millisecond},
	})
	if err != nil {
		t.Fatal(err)
	}
	s.watchdog = leaderelection.NewLeaderHealthzAdaptor(0)
	h := s.Handler()
	get := func(path string) (int, string) {
		w := httptest.NewRecorder()
		h.ServeHTTP(w, httptest.NewRequest(http.MethodGet, path, nil))
		return w.Code, w.Body.String()
	}
	want := func(when, path string, status int, text string) {
		t.Helper()
		end := time.Now().Add(patience)
		for {
			code, body := get(path)
			if code == status && strings.Contains(body, text) {
				return
			}
			if time.Now().After(end) {
				t.Fatalf("%s: GET %s: %d %q, want %d and %q", when, path, code, body, status, text)
			}
			time.Sleep(5 * time.Millisecond)
		}
	}
	want("before Run", "/livez", 200, "ok")
	want("before Run", "/readyz", 500, "[-]informer-sync failed")
	ctx, cancel := context.WithCancel(t.Context())
	ended := make(chan error, 1)
	go func() { ended <- s.Run(ctx) }()
	want("listed", "/readyz?verbose", 200, "[+]informer-sync ok")
	want("hanging", "/livez", 500, "[-]leaderElection failed")
	want("hanging", "/readyz", 500, "[-]leaderElection failed")
	cancel()
	want("ending", "/readyz", 500, "[-]shutdown failed")
	close(renew)
	if err := <-ended; err != nil {
		t.Error(err)
	}
}
