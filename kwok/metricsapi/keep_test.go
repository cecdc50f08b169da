package metricsapi

import (
	"context"
	"encoding/json"
	"net/http"
	"net/http/httptest"
	"strings"
	"sync/atomic"
	"testing"
	"time"

	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/client-go/dynamic"
	"k8s.io/client-go/kubernetes"
	"k8s.io/client-go/rest"

	"github.com/kubernasium/kubernasium/kwok/extension"
)

// registry is as much of an API server as registering takes: it knows whether there is an APIService,
// and what the last one that was applied names.
type registry struct {
	registered, applied atomic.Int32
	port                atomic.Int64
	refuses             atomic.Bool  // as an API server refuses a user without a role
	busy                atomic.Int32 // number of requests to answer by 503
}

// ServeHTTP implements [http.Handler].
func (g *registry) ServeHTTP(w http.ResponseWriter, r *http.Request) {
	w.Header().Set("Content-Type", "application/json")
	status := func(code int32, reason metav1.StatusReason) {
		w.WriteHeader(int(code))
		_ = json.NewEncoder(w).Encode(metav1.Status{TypeMeta: metav1.TypeMeta{Kind: "Status", APIVersion: "v1"}, Status: metav1.StatusFailure, Code: code, Reason: reason})
	}
	object := unstructured.Unstructured{Object: map[string]any{"apiVersion": "v1", "kind": "Any", "metadata": map[string]any{"name": "any"}}}
	switch {
	case g.busy.Add(-1) >= 0:
		status(http.StatusServiceUnavailable, metav1.StatusReasonServiceUnavailable)
		return
	case g.refuses.Load():
		status(http.StatusForbidden, metav1.StatusReasonForbidden)
		return
	case r.Method == http.MethodPatch && strings.HasSuffix(r.URL.Path, "/apiservices/"+apiServiceName):
		if err := json.NewDecoder(r.Body).Decode(&object.Object); err != nil {
			status(http.StatusBadRequest, metav1.StatusReasonBadRequest)
			return
		}
		port, _, _ := unstructured.NestedFloat64(object.Object, "spec", "service", "port")
		g.port.Store(int64(port))
		g.registered.Store(1)
		g.applied.Add(1)
	case strings.HasSuffix(r.URL.Path, "/apiservices/"+apiServiceName) && g.registered.Load() == 0:
		status(http.StatusNotFound, metav1.StatusReasonNotFound)
		return
	}
	_ = json.NewEncoder(w).Encode(object.Object)
}

// TestKeep: a registration that is gone, since the server that had replaced it has taken back its own,
// is made again, each time; Keep ends with its context, or with an error that does not pass.
func TestKeep(t *testing.T) {
	api := &registry{}
	server := httptest.NewServer(api)
	defer server.Close()
	rc := &rest.Config{Host: server.URL, QPS: -1}
	s := &Server{config: Config{Host: "localhost"}, client: kubernetes.NewForConfigOrDie(rc), api: dynamic.NewForConfigOrDie(rc), serving: &extension.Server{Port: 4443}}
	ctx, cancel := context.WithCancel(t.Context())
	ended := make(chan error, 1)
	go func() { ended <- s.Keep(ctx) }()
	for again := int32(1); again <= 2; again++ {
		for end := time.Now().Add(time.Minute); api.applied.Load() < again; time.Sleep(10 * time.Millisecond) {
			if time.Now().After(end) {
				t.Fatalf("registered %d times, want %d", api.applied.Load(), again)
			}
		}
		if port := api.port.Load(); port != 4443 {
			t.Errorf("the registration names port %d, want our own", port)
		}
		api.busy.Store(1) // the API server, or what is in front of it, has a short break
		api.registered.Store(0)
	}
	cancel()
	if err := <-ended; err != nil {
		t.Errorf("Keep whose context has ended: %v", err)
	}
	api.busy.Store(0)
	api.refuses.Store(true)
	if err := s.Keep(t.Context()); !apierrors.IsForbidden(err) {
		t.Errorf("Keep that is refused: %v, want the refusal", err)
	}
}
