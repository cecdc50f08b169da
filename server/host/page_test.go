package host_test

import (
	"context"
	"io"
	"net/http"
	"testing"

	"github.com/kubernasium/kubernasium/server/host"
	"github.com/kubernasium/kubernasium/server/host/hosttest"
)

// TestPageEndsAtShutdown: Shutdown ends the page's streams before it waits for requests, one of which runs on.
func TestPageEndsAtShutdown(t *testing.T) {
	over := make(chan struct{})
	s := hosttest.Start(t, func(c *host.Config) {
		c.DrainFor = patience
		c.Page = func(http.Handler, func() []host.SessionInfo) (http.Handler, func()) {
			stream := http.HandlerFunc(func(w http.ResponseWriter, _ *http.Request) {
				w.WriteHeader(http.StatusOK)
				if err := http.NewResponseController(w).Flush(); err != nil {
					t.Error(err)
				}
				<-over
			})
			return stream, func() { close(over) }
		}
	})
	req, err := http.NewRequestWithContext(t.Context(), http.MethodGet, s.HTTP+"/", nil)
	if err != nil {
		t.Fatal(err)
	}
	resp, err := (&http.Transport{DisableKeepAlives: true}).RoundTrip(req)
	if err != nil {
		t.Fatal(err)
	}
	defer resp.Body.Close()
	c := dial(t, s.WS)
	c.open()
	c.send("step", "eid", 1, "a", 1)
	<-waiting
	stopped := make(chan error, 1)
	go func() { stopped <- s.Shutdown(context.Background()) }()
	if _, err := io.Copy(io.Discard, resp.Body); err != nil {
		t.Errorf("the page's stream was cut: %v", err)
	}
	select {
	case err := <-stopped:
		t.Fatalf("Shutdown has ended before the running step, so this test shows nothing: %v", err)
	default:
	}
	release <- struct{}{}
	if err := <-stopped; err != nil {
		t.Errorf("Shutdown: %v", err)
	}
}
