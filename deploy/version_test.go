package deploy

import (
	"encoding/pem"
	"fmt"
	"net/http"
	"net/http/httptest"
	"net/http/httputil"
	"net/url"
	"strings"
	"testing"

	"k8s.io/client-go/rest"
)

// reporting returns the cluster as one that reports another version of Kubernetes, by a proxy.
func (c *cluster) reporting(t *testing.T, minor int) *cluster {
	t.Helper()
	to, err := url.Parse(c.rest.Host)
	if err != nil {
		t.Fatal(err)
	}
	transport, err := rest.TransportFor(rest.AnonymousClientConfig(c.rest))
	if err != nil {
		t.Fatal(err)
	}
	proxy := httputil.NewSingleHostReverseProxy(to)
	proxy.Transport, proxy.FlushInterval = transport, -1 // watches
	srv := httptest.NewTLSServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		if r.URL.Path == "/version" {
			w.Header().Set("Content-Type", "application/json")
			fmt.Fprintf(w, `{"major": "1", "minor": "%d", "gitVersion": "v1.%d.9"}`, minor, minor)
			return
		}
		proxy.ServeHTTP(w, r)
	}))
	t.Cleanup(func() {
		srv.CloseClientConnections()
		srv.Close()
	})
	other := *c
	other.rest = rest.AnonymousClientConfig(c.rest)
	other.rest.Host, other.rest.CAFile = srv.URL, ""
	other.rest.CAData = pem.EncodeToMemory(&pem.Block{Type: "CERTIFICATE", Bytes: srv.Certificate().Raw})
	return &other
}

// TestVersionWarning: a program that starts on a version which is not supported says so, and which are; on
// one that is, it says nothing.
func TestVersionWarning(t *testing.T) {
	c := openCluster(t)
	c.application(t)
	c.volume(t)
	ns := c.install(t, "server.enabled=false", "recommender.enabled=true", "recommender.interval=1s", "shadow.enabled=true", "scheduler.enabled=true")
	const want = "want 1.36 to 1.37: the API server has v1.35.9"
	for component, works := range map[string]string{"recommender": "leading", "recorder": "recording to", "scheduler": "successfully acquired lease"} {
		t.Run(component, func(t *testing.T) {
			p := c.reporting(t, 35).run(t, ns, component)
			p.eventually(t, "a warning", func() bool { return strings.Contains(p.log.String(), want) })
			p.stop()
			p = c.reporting(t, 37).run(t, ns, component)
			p.eventually(t, "works", func() bool { return strings.Contains(strings.ToLower(p.log.String()), works) })
			p.stop()
			if log := p.log.String(); strings.Contains(log, "unsupported version") {
				t.Errorf("on 1.37:\n%s", log)
			}
		})
	}
}
