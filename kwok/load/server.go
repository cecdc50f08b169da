// Package load makes pods use the CPU and memory of a workload, step by step. A utilisation server sends each
// registered stress pod its next target. The stress pod applies it with stress-ng, or for a simulated pod by
// annotations.
//
// # Routes of the server
//
//	GET  /metrics/HOSTNAME/   registers a pod; the reply is its target of the current step
//	GET  /status              step, length and pods
//	PUT  /workloads           {"HOSTNAME": [{"ram": MiB, "cpu": millicores}, ...]}; * is for all others
//	POST /step                advances by one step, and replies when every pod has applied its target
//	POST /reset               back to step 0, likewise
//
// A target is {"ram": MiB, "cpu": millicores}. The server sends it by GET /?ram=MiB&cpu=m to
// http://HOSTNAME.vpa.svc, or to PORT and PATH at the pod's own address if the pod registered with
// ?port=PORT&path=PATH. Requests advance the steps or, with Config.Every, the clock does from the first
// registration on. After its last step a workload starts over.
//
// # Source
//
// The first route, the targets and the way to send them come from an earlier project
// (github.com/saeid93/smart-vpa). There only the clock advances the steps, and all pods share one workload.
package load

import (
	"cmp"
	"context"
	"crypto/subtle"
	"encoding/json"
	"errors"
	"fmt"
	"maps"
	"net"
	"net/http"
	"net/url"
	"slices"
	"strconv"
	"strings"
	"sync"
	"time"
)

// Target is the usage that a pod should reach.
type Target struct {
	RAM int64 `json:"ram"` // MiB
	CPU int64 `json:"cpu"` // millicores
}

const (
	// All names the workload of pods without a workload of their own.
	All = "*"

	replyTimeout = 3 * time.Second // timeout of a pod's reply to a target
	maxFailures  = 3               // consecutive failures after which the server drops a pod
	maxBody      = 64 << 20        // maximum size of workloads in bytes
	maxTarget    = 1 << 30         // maximum in MiB and millicores
	inFlight     = 32              // pods called at the same time
)

// Config configures a Server.
type Config struct {
	PodURL string        // URL of pods that register without a port; {hostname} stands for their name; default http://{hostname}.vpa.svc
	Token  string        // bearer token of requests that change something; "" needs none
	Every  time.Duration // interval of steps; 0: only POST /step
}

// A Server sends targets to pods. It is safe for concurrent use.
type Server struct {
	config Config
	client *http.Client

	stepping sync.Mutex // allows one step at a time
	mu       sync.Mutex
	work     map[string][]Target
	at       int
	pods     map[string]*registered
	begun    chan struct{} // closed by the first registration
	once     sync.Once
}

// registered is a registered pod.
type registered struct {
	url      string
	failures int
}

// PodStatus is a pod's last target and the pod's answer.
type PodStatus struct {
	Target
	Error string `json:"error,omitempty"` // error of the pod
}

// Status is the reply to a step.
type Status struct {
	Step  int                  `json:"step"`
	Steps int                  `json:"steps"` // steps of the longest workload
	Pods  map[string]PodStatus `json:"pods"`
}

// NewServer returns a server of the workloads.
func NewServer(c Config, work map[string][]Target) (*Server, error) {
	c.PodURL = cmp.Or(c.PodURL, "http://{hostname}.vpa.svc")
	s := &Server{config: c, client: newClient(replyTimeout), pods: map[string]*registered{}, begun: make(chan struct{})}
	return s, s.SetWorkloads(work)
}

// newClient returns a client that keeps no connections open, because pods come and go.
func newClient(timeout time.Duration) *http.Client {
	return &http.Client{Timeout: timeout, Transport: &http.Transport{DisableKeepAlives: true}}
}

// SetWorkloads replaces the workloads and returns to step 0. Pods get their targets at the next step or reset.
// It returns an error for an empty workload or a target out of range.
func (s *Server) SetWorkloads(work map[string][]Target) error {
	for name, all := range work {
		if len(all) == 0 {
			return fmt.Errorf("load: the workload of %q is empty", name)
		}
		for i, t := range all {
			if t.RAM < 0 || t.CPU < 0 || t.RAM > maxTarget || t.CPU > maxTarget {
				return fmt.Errorf("load: workload of %q, step %d: %d MiB and %d millicores, want 0 to %d", name, i, t.RAM, t.CPU, maxTarget)
			}
		}
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	s.work, s.at = maps.Clone(work), 0
	return nil
}

// target returns a pod's current target, and false if there is no workload for the pod.
func (s *Server) target(name string) (Target, bool) {
	all, ok := s.work[name]
	if !ok {
		all, ok = s.work[All]
	}
	if !ok {
		return Target{}, false
	}
	return all[s.at%len(all)], true
}

// Run makes a step at each interval of Config.Every, from the first registration until ctx ends. Without an
// interval it only waits for ctx.
func (s *Server) Run(ctx context.Context) {
	select {
	case <-ctx.Done():
		return
	case <-s.begun:
	}
	if s.config.Every <= 0 {
		<-ctx.Done()
		return
	}
	ticker := time.NewTicker(s.config.Every)
	defer ticker.Stop()
	for {
		select {
		case <-ctx.Done():
			return
		case <-ticker.C:
			s.Step(ctx, 1)
		}
	}
}

// Step advances by a number of steps and sends every pod its target; 0 sends the current targets again. It
// returns when all pods have replied or failed. A failing pod delays the others by at most its own timeout. The
// server drops a pod when the pod reports that it is gone, or after its third failure.
func (s *Server) Step(ctx context.Context, by int) Status {
	s.stepping.Lock()
	defer s.stepping.Unlock()
	s.mu.Lock()
	s.at += by
	s.mu.Unlock()
	return s.send(ctx)
}

// Reset returns to step 0, and sends every pod its target.
func (s *Server) Reset(ctx context.Context) Status {
	s.stepping.Lock()
	defer s.stepping.Unlock()
	s.mu.Lock()
	s.at = 0
	s.mu.Unlock()
	return s.send(ctx)
}

// Status returns the pods' current targets.
func (s *Server) Status() Status {
	s.mu.Lock()
	defer s.mu.Unlock()
	st := Status{Step: s.at, Pods: map[string]PodStatus{}}
	for _, all := range s.work {
		st.Steps = max(st.Steps, len(all))
	}
	for name := range s.pods {
		if t, ok := s.target(name); ok {
			st.Pods[name] = PodStatus{Target: t}
		} else {
			st.Pods[name] = PodStatus{Error: "no workload for it"}
		}
	}
	return st
}

// errGone is a pod's reply that it no longer exists.
var errGone = errors.New("gone")

// send sends each pod its target.
func (s *Server) send(ctx context.Context) Status {
	st := s.Status()
	names := slices.Sorted(maps.Keys(st.Pods))
	errs := make([]error, len(names))
	var wg sync.WaitGroup
	room := make(chan struct{}, inFlight)
	for i, name := range names {
		if st.Pods[name].Error != "" {
			continue
		}
		target := st.Pods[name].Target
		room <- struct{}{}
		wg.Go(func() {
			errs[i] = s.sendTo(ctx, name, target)
			<-room
		})
	}
	wg.Wait()
	for i, err := range errs {
		if err != nil {
			st.Pods[names[i]] = PodStatus{st.Pods[names[i]].Target, err.Error()}
		}
	}
	return st
}

func (s *Server) sendTo(ctx context.Context, name string, t Target) error {
	s.mu.Lock()
	p := s.pods[name]
	s.mu.Unlock()
	if p == nil {
		return errGone
	}
	err := s.call(ctx, p.url+"?"+url.Values{"ram": {strconv.FormatInt(t.RAM, 10)}, "cpu": {strconv.FormatInt(t.CPU, 10)}}.Encode())
	s.mu.Lock()
	defer s.mu.Unlock()
	if err == nil {
		p.failures = 0
		return nil
	}
	if ctx.Err() != nil && !errors.Is(err, errGone) {
		return err // the caller gave up; the pod did not fail
	}
	if p.failures++; (errors.Is(err, errGone) || p.failures >= maxFailures) && s.pods[name] == p {
		delete(s.pods, name)
	}
	return err
}

func (s *Server) call(ctx context.Context, address string) error {
	req, err := http.NewRequestWithContext(ctx, http.MethodGet, address, nil)
	if err != nil {
		return err
	}
	resp, err := s.client.Do(req)
	if err != nil {
		return err
	}
	defer resp.Body.Close()
	switch resp.StatusCode {
	case http.StatusOK:
		return nil
	case http.StatusGone, http.StatusNotFound:
		return errGone
	}
	return fmt.Errorf("status %d", resp.StatusCode)
}

// Handler returns the routes.
func (s *Server) Handler() http.Handler {
	mux := http.NewServeMux()
	mux.HandleFunc("GET /metrics/{hostname}/{$}", s.register)
	mux.HandleFunc("GET /status", func(w http.ResponseWriter, _ *http.Request) { reply(w, s.Status()) })
	mux.HandleFunc("PUT /workloads", s.permitted(func(w http.ResponseWriter, r *http.Request) {
		var work map[string][]Target
		d := json.NewDecoder(http.MaxBytesReader(w, r.Body, maxBody))
		d.DisallowUnknownFields()
		err := d.Decode(&work)
		if err == nil {
			err = s.SetWorkloads(work)
		}
		if err != nil {
			http.Error(w, err.Error(), http.StatusBadRequest)
			return
		}
		reply(w, s.Status())
	}))
	mux.HandleFunc("POST /step", s.permitted(func(w http.ResponseWriter, r *http.Request) { reply(w, s.Step(r.Context(), 1)) }))
	mux.HandleFunc("POST /reset", s.permitted(func(w http.ResponseWriter, r *http.Request) { reply(w, s.Reset(r.Context())) }))
	return mux
}

// permitted passes requests with the token, or all if there is no token, to next.
func (s *Server) permitted(next http.HandlerFunc) http.HandlerFunc {
	return func(w http.ResponseWriter, r *http.Request) {
		given := strings.TrimPrefix(r.Header.Get("Authorization"), "Bearer ")
		if s.config.Token != "" && subtle.ConstantTimeCompare([]byte(given), []byte(s.config.Token)) != 1 {
			http.Error(w, "want the bearer token", http.StatusUnauthorized)
			return
		}
		next(w, r)
	}
}

func (s *Server) register(w http.ResponseWriter, r *http.Request) {
	name := r.PathValue("hostname")
	address, err := s.address(name, r)
	if err != nil {
		http.Error(w, err.Error(), http.StatusBadRequest)
		return
	}
	s.mu.Lock()
	t, ok := s.target(name)
	if ok {
		s.pods[name] = &registered{url: address}
	}
	s.mu.Unlock()
	if !ok {
		http.Error(w, fmt.Sprintf("no workload for %q", name), http.StatusNotFound)
		return
	}
	s.once.Do(func() { close(s.begun) })
	reply(w, t)
}

// address returns the URL to which a pod's targets go: the address that the pod calls from, or its name.
func (s *Server) address(name string, r *http.Request) (string, error) {
	if name == All || strings.ContainsAny(name, "/?#@:") || len(name) > 253 {
		return "", fmt.Errorf("%q is no name of a pod", name)
	}
	port, path := r.URL.Query().Get("port"), r.URL.Query().Get("path")
	if port == "" {
		return strings.ReplaceAll(s.config.PodURL, "{hostname}", name) + "/", nil
	}
	if n, err := strconv.ParseUint(port, 10, 16); err != nil || n == 0 {
		return "", fmt.Errorf("port is %q, want 1 to 65535", port)
	}
	path = cmp.Or(path, "/")
	if !strings.HasPrefix(path, "/") {
		return "", fmt.Errorf("path is %q, want one that begins with /", path)
	}
	host, _, err := net.SplitHostPort(r.RemoteAddr)
	if err != nil {
		return "", err
	}
	return (&url.URL{Scheme: "http", Host: net.JoinHostPort(host, port), Path: path}).String(), nil
}

func reply(w http.ResponseWriter, v any) {
	w.Header().Set("Content-Type", "application/json")
	_ = json.NewEncoder(w).Encode(v) // the caller may have disconnected
}
