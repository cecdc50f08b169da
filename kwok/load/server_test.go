package load

import (
	"context"
	"encoding/json"
	"fmt"
	"io"
	"net/http"
	"net/http/httptest"
	"net/url"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
)

// fakePod takes targets and remembers them.
type fakePod struct {
	mu     sync.Mutex
	taken  []string
	status int    // of its replies; 0 is 200
	before func() // is called before them
	*httptest.Server
}

func newFakePod(t *testing.T) *fakePod {
	t.Helper()
	p := &fakePod{}
	p.Server = httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		p.mu.Lock()
		status, before := p.status, p.before
		p.taken = append(p.taken, r.URL.Path+"?"+r.URL.RawQuery)
		p.mu.Unlock()
		if before != nil {
			before()
		}
		if status != 0 {
			w.WriteHeader(status)
		}
	}))
	t.Cleanup(p.Close)
	return p
}

func (p *fakePod) port() string { return p.URL[strings.LastIndex(p.URL, ":")+1:] }

func (p *fakePod) answer(status int) {
	p.mu.Lock()
	defer p.mu.Unlock()
	p.status = status
}

// ask sends a request and returns status and body.
func ask(t *testing.T, method, address, token, body string) (int, string) {
	t.Helper()
	req, err := http.NewRequest(method, address, strings.NewReader(body))
	if err != nil {
		t.Fatal(err)
	}
	if token != "" {
		req.Header.Set("Authorization", "Bearer "+token)
	}
	resp, err := http.DefaultClient.Do(req)
	if err != nil {
		t.Fatal(err)
	}
	defer resp.Body.Close()
	text, err := io.ReadAll(resp.Body)
	if err != nil {
		t.Fatal(err)
	}
	return resp.StatusCode, strings.TrimSpace(string(text))
}

func serve(t *testing.T, c Config, work map[string][]Target) (*Server, string) {
	t.Helper()
	s, err := NewServer(c, work)
	if err != nil {
		t.Fatal(err)
	}
	srv := httptest.NewServer(s.Handler())
	t.Cleanup(srv.Close)
	return s, srv.URL
}

// TestLockStep: each step hands every pod its target, and one that fails keeps no other from it.
func TestLockStep(t *testing.T) {
	_, u := serve(t, Config{}, map[string][]Target{
		All: {{RAM: 2500, CPU: 500}, {RAM: 5000, CPU: 1000}}, "own": {{RAM: 1, CPU: 1}, {RAM: 2, CPU: 2}, {RAM: 3, CPU: 3}},
	})
	a, own, broken := newFakePod(t), newFakePod(t), newFakePod(t)
	for name, p := range map[string]*fakePod{"a": a, "broken": broken} {
		if status, text := ask(t, "GET", u+"/metrics/"+name+"/?port="+p.port(), "", ""); status != 200 || text != `{"ram":2500,"cpu":500}` {
			t.Errorf("register %s: %d %s", name, status, text)
		}
	}
	if status, text := ask(t, "GET", u+"/metrics/own/?path=/x/&port="+own.port(), "", ""); status != 200 || text != `{"ram":1,"cpu":1}` {
		t.Errorf("register own: %d %s", status, text)
	}
	broken.answer(http.StatusInternalServerError)
	var last Status
	for range 4 {
		_, text := ask(t, "POST", u+"/step", "", "")
		last = Status{}
		if err := json.Unmarshal([]byte(text), &last); err != nil {
			t.Fatal(err)
		}
		if last.Step == 3 && last.Pods["broken"].Error == "" {
			t.Error("the failure of a pod was not reported")
		}
	}
	want := Status{Step: 4, Steps: 3, Pods: map[string]PodStatus{"a": {Target: Target{2500, 500}}, "own": {Target: Target{2, 2}}}}
	if diff := cmp.Diff(want, last); diff != "" {
		t.Errorf("after four steps, the third failure forgotten (-want +got)\n%s", diff)
	}
	// The workload of two steps starts again after the second.
	if want := []string{"/?cpu=1000&ram=5000", "/?cpu=500&ram=2500", "/?cpu=1000&ram=5000", "/?cpu=500&ram=2500"}; !slices.Equal(a.taken, want) {
		t.Errorf("pod a took %q, want %q", a.taken, want)
	}
	if want := []string{"/x/?cpu=2&ram=2", "/x/?cpu=3&ram=3", "/x/?cpu=1&ram=1", "/x/?cpu=2&ram=2"}; !slices.Equal(own.taken, want) {
		t.Errorf("the pod with its own workload took %q, want %q", own.taken, want)
	}
	a.answer(http.StatusGone)
	ask(t, "POST", u+"/reset", "", "")
	_, text := ask(t, "GET", u+"/status", "", "")
	if text != `{"step":0,"steps":3,"pods":{"own":{"ram":1,"cpu":1}}}` {
		t.Errorf("after a reset, pod a gone: %s", text)
	}
}

// TestSlowPod: pods are called at the same time, so that one that does not reply costs its time once. None of these
// replies before all have been called.
func TestSlowPod(t *testing.T) {
	const pods = 8
	s, u := serve(t, Config{}, map[string][]Target{All: {{1, 1}}})
	s.client = newClient(20 * time.Second) // which a busy machine may need
	var called sync.WaitGroup
	called.Add(pods)
	for i := range pods {
		p := newFakePod(t)
		p.before = func() {
			called.Done()
			called.Wait()
		}
		ask(t, "GET", u+fmt.Sprintf("/metrics/p%d/?port=%s", i, p.port()), "", "")
	}
	st := s.Step(context.Background(), 1)
	for name, p := range st.Pods {
		if p.Error != "" {
			t.Errorf("pod %s: %s", name, p.Error)
		}
	}
	if len(st.Pods) != pods {
		t.Errorf("a step called %d pods, want %d", len(st.Pods), pods)
	}
}

// TestCancelledSteps: a client that gives up on its steps does not make the server drop pods, which reply to the next.
func TestCancelledSteps(t *testing.T) {
	s, u := serve(t, Config{}, map[string][]Target{All: {{1, 1}, {2, 2}}})
	p := newFakePod(t)
	ask(t, "GET", u+"/metrics/a/?port="+p.port(), "", "")
	cancelled, cancel := context.WithCancel(t.Context())
	cancel()
	for range maxFailures {
		if st := s.Step(cancelled, 1); st.Pods["a"].Error == "" {
			t.Errorf("a cancelled step reports %+v, want an error", st.Pods["a"])
		}
	}
	if st := s.Step(t.Context(), 1); len(st.Pods) != 1 || st.Pods["a"].Error != "" {
		t.Errorf("the step after %d cancelled ones reports %+v, want pod a without an error", maxFailures, st.Pods)
	}
}

func TestByName(t *testing.T) {
	p := newFakePod(t)
	_, u := serve(t, Config{PodURL: p.URL + "/{hostname}"}, map[string][]Target{All: {{7, 9}}})
	ask(t, "GET", u+"/metrics/stress-1/", "", "")
	ask(t, "POST", u+"/step", "", "")
	if want := []string{"/stress-1/?cpu=9&ram=7"}; !slices.Equal(p.taken, want) {
		t.Errorf("it was called as %q, want %q", p.taken, want)
	}
}

// TestClock: with an interval, steps come from the first registration on.
func TestClock(t *testing.T) {
	s, u := serve(t, Config{Every: 20 * time.Millisecond}, map[string][]Target{All: {{1, 1}, {2, 2}}})
	ctx, cancel := context.WithCancel(context.Background())
	defer cancel()
	ended := make(chan struct{})
	go func() {
		s.Run(ctx)
		close(ended)
	}()
	time.Sleep(60 * time.Millisecond)
	if got := s.Status().Step; got != 0 {
		t.Errorf("step %d before a registration, want 0", got)
	}
	p := newFakePod(t)
	ask(t, "GET", u+"/metrics/a/?port="+p.port(), "", "")
	for end := time.Now().Add(time.Minute); s.Status().Step < 3; time.Sleep(5 * time.Millisecond) {
		if time.Now().After(end) {
			t.Fatalf("step %d after a minute, want 3", s.Status().Step)
		}
	}
	cancel()
	<-ended
}

func TestRefused(t *testing.T) {
	_, u := serve(t, Config{Token: "secret"}, map[string][]Target{"a": {{1, 1}}})
	for _, tc := range []struct {
		method, path, token, body string
		status                    int
		want                      string
	}{
		{"POST", "/step", "", "", 401, "bearer token"},
		{"POST", "/reset", "wrong", "", 401, "bearer token"},
		{"PUT", "/workloads", "", "{}", 401, "bearer token"},
		{"POST", "/step", "secret", "", 200, `"step":1`},
		{"PUT", "/workloads", "secret", `{"a": []}`, 400, `workload of "a" is empty`},
		{"PUT", "/workloads", "secret", `{"a": [{"ram": -1, "cpu": 0}]}`, 400, "-1 MiB"},
		{"PUT", "/workloads", "secret", `{"a": [{"memory": 1}]}`, 400, "memory"},
		{"PUT", "/workloads", "secret", `{"b": [{"ram": 3, "cpu": 4}]}`, 200, `"step":0`},
		{"GET", "/metrics/a/", "", "", 404, `no workload for "a"`},
		{"GET", "/metrics/b/", "", "", 200, `{"ram":3,"cpu":4}`},
		{"GET", "/metrics/b/?port=0", "", "", 400, "port is"},
		{"GET", "/metrics/b/?port=80&path=x", "", "", 400, "path is"},
		{"GET", "/metrics/" + url.PathEscape("b@evil:80") + "/", "", "", 400, "no name of a pod"},
	} {
		status, text := ask(t, tc.method, u+tc.path, tc.token, tc.body)
		if status != tc.status || !strings.Contains(text, tc.want) {
			t.Errorf("%s %s %s: %d %q, want %d with %q", tc.method, tc.path, tc.body, status, text, tc.status, tc.want)
		}
	}
}

// TestParts: the arguments of stress-ng as the earlier project has them.
func TestParts(t *testing.T) {
	for _, tc := range []struct {
		target Target
		want   map[string]string
	}{
		{Target{}, map[string]string{}},
		{Target{RAM: 2500, CPU: 500}, map[string]string{"memory": "--vm 1 --vm-bytes 2500M --vm-hang 10", "rest": "--cpu 1 --cpu-load 50"}},
		{Target{RAM: 0, CPU: 2300}, map[string]string{"cores": "--cpu 2", "rest": "--cpu 1 --cpu-load 30"}},
		{Target{RAM: 1, CPU: 3009}, map[string]string{"memory": "--vm 1 --vm-bytes 1M --vm-hang 10", "cores": "--cpu 3"}},
	} {
		got := map[string]string{}
		for name, args := range partsOf(tc.target) {
			got[name] = strings.Join(args, " ")
		}
		if diff := cmp.Diff(tc.want, got); diff != "" {
			t.Errorf("%+v (-want +got)\n%s", tc.target, diff)
		}
	}
}
