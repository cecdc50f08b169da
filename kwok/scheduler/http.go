package scheduler

import (
	"crypto/sha256"
	"crypto/subtle"
	"encoding/json"
	"errors"
	"fmt"
	"net/http"
	"strconv"
	"strings"

	"github.com/prometheus/client_golang/prometheus/promhttp"

	"github.com/kubernasium/kubernasium/kwok/health"
)

// maxBody bounds a request: 5,000 Nodes of a few KiB each, as JSON.
const maxBody = 32 << 20

// Handler returns the HTTP endpoints: GET /livez, /readyz, /healthz and /metrics; POST /filter and /prioritize of a
// scheduler extender, which is told of nodes by name (nodeCacheCapable) or in full; and POST /score.
// /livez fails when this instance takes itself for the leader although its lease has run out; /readyz
// until the informers have listed nodes and pods, too, and when the scheduler ends. An instance that
// waits for the lease is ready, as kube-scheduler's.
// With a Token all but these three want it, as a bearer token or as the password of basic
// authentication, which an extender's URL can hold.
//
// A request that cannot be answered has the body {"error": "..."} and the status 400 if it is
// malformed, 401 without the token, 413 if it is too large, 422 if it can be read but not be
// decided, and 503 until the informers have listed nodes and pods.
func (s *Scheduler) Handler() http.Handler {
	mux := http.NewServeMux()
	leads := health.Check{Name: s.watchdog.Name(), Err: func() error { return s.watchdog.Check(nil) }}
	health.Register(mux, []health.Check{leads}, []health.Check{leads, {Name: "shutdown", Err: s.runs}, {Name: "informer-sync", Err: s.listedAll}})
	mux.HandleFunc("GET /healthz", func(w http.ResponseWriter, _ *http.Request) {
		status, text := http.StatusOK, "ok"
		if !s.watches() {
			status, text = http.StatusServiceUnavailable, "nodes and pods are not listed yet"
		}
		w.Header().Set("Content-Type", "text/plain; charset=utf-8")
		w.WriteHeader(status)
		_, _ = w.Write([]byte(text + "\n")) // the client may be gone
	})
	mux.Handle("GET /metrics", s.authorized(promhttp.HandlerFor(s.metrics.registry, promhttp.HandlerOpts{})))
	for path, answer := range map[string]func(w http.ResponseWriter, r *http.Request) (any, error){
		"/filter": s.filter, "/prioritize": s.prioritize, "/score": s.score,
	} {
		mux.Handle("POST "+path, s.authorized(s.endpoint(path, answer)))
	}
	return mux
}

// listedAll returns an error until the informers have listed nodes and pods.
func (s *Scheduler) listedAll() error {
	if !s.watches() {
		return health.ErrUnsynced
	}
	return nil
}

// runs returns an error once Run is to end.
func (s *Scheduler) runs() error {
	if s.ending.Load() {
		return errors.New("the scheduler is ending")
	}
	return nil
}

// httpError is an error with a status.
type httpError struct {
	status int
	err    error
}

func (e *httpError) Error() string { return e.err.Error() }
func (e *httpError) Unwrap() error { return e.err }

func refuse(status int, format string, args ...any) error {
	return &httpError{status, fmt.Errorf("scheduler: "+format, args...)}
}

// endpoint answers with what answer returns, as JSON.
func (s *Scheduler) endpoint(path string, answer func(w http.ResponseWriter, r *http.Request) (any, error)) http.Handler {
	return http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		r.Body = http.MaxBytesReader(w, r.Body, maxBody)
		var reply any
		err := refuse(http.StatusServiceUnavailable, "nodes and pods are not listed yet")
		if s.watches() {
			reply, err = answer(w, r)
		}
		status := http.StatusOK
		if err != nil {
			status = http.StatusUnprocessableEntity
			var h *httpError
			if errors.As(err, &h) {
				status = h.status
			}
			s.log.Warn("request", "path", path, "status", status, "err", err)
			reply = map[string]string{"error": err.Error()}
		}
		s.metrics.requests.WithLabelValues(path, strconv.Itoa(status)).Inc()
		w.Header().Set("Content-Type", "application/json")
		w.WriteHeader(status)
		_ = json.NewEncoder(w).Encode(reply) // the client may be gone
	})
}

// read decodes a request's body.
func read(r *http.Request, into any) error {
	err := json.NewDecoder(r.Body).Decode(into)
	var large *http.MaxBytesError
	switch {
	case errors.As(err, &large):
		return refuse(http.StatusRequestEntityTooLarge, "the body has more than %d bytes", large.Limit)
	case err != nil:
		return refuse(http.StatusBadRequest, "the body: %w", err)
	}
	return nil
}

// authorized lets requests with the token through.
func (s *Scheduler) authorized(next http.Handler) http.Handler {
	return http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		given, bearer := strings.CutPrefix(r.Header.Get("Authorization"), "Bearer ")
		if !bearer {
			_, given, _ = r.BasicAuth()
		}
		// Hashes have one length, so that the comparison takes the same time for every token.
		a, b := sha256.Sum256([]byte(given)), sha256.Sum256([]byte(s.cfg.Token))
		if s.cfg.Token != "" && subtle.ConstantTimeCompare(a[:], b[:]) != 1 {
			w.Header().Set("WWW-Authenticate", "Bearer")
			w.Header().Set("Content-Type", "application/json")
			w.WriteHeader(http.StatusUnauthorized)
			_ = json.NewEncoder(w).Encode(map[string]string{"error": "a bearer token is needed"}) // the client may be gone
			return
		}
		next.ServeHTTP(w, r)
	})
}
