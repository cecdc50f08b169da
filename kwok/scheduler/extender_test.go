package scheduler

import (
	"bytes"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"net/http"
	"net/http/httptest"
	"os"
	"path/filepath"
	"strings"
	"sync/atomic"
	"testing"

	"github.com/google/go-cmp/cmp"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/kubernasium/kubernasium/kwok/kwoktest"
)

// later is a handler that is set after its server has an address.
type later struct{ atomic.Value }

func (l *later) ServeHTTP(w http.ResponseWriter, r *http.Request) {
	l.Load().(http.Handler).ServeHTTP(w, r)
}

// TestExtender: the real kube-scheduler, whose score plugins are off, places deployments as the
// policy does that answers as its extender, pod for pod as in the simulator.
func TestExtender(t *testing.T) {
	for _, capable := range []bool{true, false} {
		t.Run(fmt.Sprintf("nodeCacheCapable %v", capable), func(t *testing.T) {
			handler := &later{}
			server := httptest.NewServer(handler)
			defer server.Close()
			file := filepath.Join(t.TempDir(), "scheduler.yaml")
			u := strings.Replace(server.URL, "http://", "http://any:secret@", 1)
			if err := os.WriteFile(file, ExtenderConfig(u, capable), 0o600); err != nil {
				t.Fatal(err)
			}
			w := newWorld(t, kwoktest.Start(t, "--scheduler-config="+file))
			load, want := w.episode("Greedy", mixed, 3)
			c := w.config(byBaseline(t, balance, "Greedy", mixed))
			c.Token = "secret"
			s, err := New(w.client, c)
			if err != nil {
				t.Fatal(err)
			}
			handler.Store(s.Handler())
			w.start(s)
			got, err := load.Deploy(ctx, w.client, corev1.DefaultSchedulerName, patience, s.Knows)
			if err != nil {
				t.Fatal(err)
			}
			compare(t, "extender", load, got, want)
			if n := counter(t, s, "kubernasium_scheduler_fallbacks_total"); n != 0 {
				t.Errorf("%v decisions fell back", n)
			}
			// Without its extender kube-scheduler goes on.
			server.Close()
			w.node("a", "4", "8Gi", 10)
			w.create(w.pod("alone", corev1.DefaultSchedulerName, "1", "1Gi"))
			if got := w.placed("alone"); got != "a" {
				t.Errorf("without the extender the pod is on %s, want a", got)
			}
		})
	}
}

// counter returns the sum of a metric over its labels.
func counter(t *testing.T, s *Scheduler, name string) (sum float64) {
	t.Helper()
	families, err := s.metrics.registry.Gather()
	if err != nil {
		t.Fatal(err)
	}
	for _, f := range families {
		if f.GetName() == name {
			for _, m := range f.GetMetric() {
				sum += m.GetCounter().GetValue() + m.GetGauge().GetValue()
			}
		}
	}
	return sum
}

// TestScoreClient: a client of POST /score that binds each pod to the node of the highest score
// places all that fit, as the policy does in the simulator.
func TestScoreClient(t *testing.T) {
	w := newWorld(t, kwoktest.Shared(t))
	load, want := w.episode("Greedy", mixed, 3)
	c := w.config(byBaseline(t, balance, "Greedy", mixed))
	c.Name = "somebody-else" // the pods are the client's
	s, _ := w.run(c)
	server := httptest.NewServer(s.Handler())
	defer server.Close()
	client := scoreClient{w: w, url: server.URL, name: w.namespace}
	stop := make(chan struct{})
	ended := make(chan error, 1)
	go func() { ended <- client.run(stop) }()
	got, err := load.Deploy(ctx, w.client, client.name, patience, s.Knows)
	close(stop)
	if err := errors.Join(err, <-ended); err != nil {
		t.Fatal(err)
	}
	compare(t, "POST /score", load, got, want)
}

// scoreClient schedules by POST /score.
type scoreClient struct {
	w         *world
	url, name string
}

func (c *scoreClient) run(stop <-chan struct{}) error {
	for {
		select {
		case <-stop:
			return nil
		default:
		}
		pods, err := c.w.client.CoreV1().Pods("").List(ctx, metav1.ListOptions{FieldSelector: "spec.nodeName=,spec.schedulerName=" + c.name})
		if err != nil {
			return err
		}
		for i := range pods.Items {
			if p := &pods.Items[i]; p.DeletionTimestamp == nil {
				if err := c.place(p); err != nil {
					return err
				}
			}
		}
	}
}

func (c *scoreClient) place(p *corev1.Pod) error {
	nodes, err := c.w.client.CoreV1().Nodes().List(ctx, metav1.ListOptions{LabelSelector: c.w.selector()})
	if err != nil {
		return err
	}
	body, err := json.Marshal(ScoreRequest{Pod: p, Nodes: nodes.Items})
	if err != nil {
		return err
	}
	resp, err := http.Post(c.url+"/score", "application/json", bytes.NewReader(body))
	if err != nil {
		return err
	}
	defer resp.Body.Close()
	var reply ScoreReply
	if err := json.NewDecoder(resp.Body).Decode(&reply); err != nil || resp.StatusCode != http.StatusOK {
		return fmt.Errorf("POST /score: %s, %v", resp.Status, err)
	}
	best := ""
	for _, n := range nodes.Items {
		if best == "" || reply.Scores[n.Name] > reply.Scores[best] {
			best = n.Name
		}
	}
	return c.w.client.CoreV1().Pods(p.Namespace).Bind(ctx, &corev1.Binding{
		ObjectMeta: metav1.ObjectMeta{Name: p.Name}, Target: corev1.ObjectReference{Kind: "Node", Name: best},
	}, metav1.CreateOptions{})
}

// post asks an endpoint, and returns its status and reply.
func post(t *testing.T, h http.Handler, path, body string) (int, string) {
	t.Helper()
	r := httptest.NewRequest(http.MethodPost, path, strings.NewReader(body))
	w := httptest.NewRecorder()
	h.ServeHTTP(w, r)
	text, err := io.ReadAll(w.Result().Body)
	if err != nil {
		t.Fatal(err)
	}
	return w.Code, strings.TrimSpace(string(text))
}

// TestProtocols: bodies and replies as upstream's extender client and the earlier project's plugin
// write and read them. The JSON is written by hand: keys of the extender's structs are Go's names,
// those of a pod are Kubernetes', and the scores are those that the agent gives.
func TestProtocols(t *testing.T) {
	w := newWorld(t, kwoktest.Shared(t))
	for _, name := range []string{"a", "b", "c"} {
		w.node(name, "4", "8Gi", 10)
	}
	// b is best, then c, then a: 3, 1 and 2 of 3.
	s, _ := w.run(w.config(byAgent(t, func(node int, _ []float32) float32 { return []float32{1, 3, 2}[node] })))
	w.known(s)
	h := s.Handler()
	ns := w.namespace
	pod := func(cpu string) string {
		return `{"metadata":{"name":"p","namespace":"` + ns + `","uid":"u1"},"spec":{"schedulerName":"default-scheduler","containers":[{"name":"main","image":"i","resources":{"requests":{"cpu":"` + cpu + `","memory":"1Gi"}}}]}}`
	}
	node := func(name string) string { return `{"metadata":{"name":"` + ns + "." + name + `"}}` }
	names := func(list ...string) string {
		for i := range list {
			list[i] = `"` + ns + "." + list[i] + `"`
		}
		return "[" + strings.Join(list, ",") + "]"
	}
	for _, tc := range []struct{ name, path, body, want string }{
		{"filter by name", "/filter", `{"Pod":` + pod("1") + `,"Nodes":null,"NodeNames":` + names("c", "x", "a") + `}`,
			`{"Nodes":null,"NodeNames":` + names("c", "a") + `,"FailedNodes":{"` + ns + `.x":"the extender does not know the node, or does not count it"},"FailedAndUnresolvableNodes":null,"Error":""}`},
		{"filter, too large", "/filter", `{"Pod":` + pod("5") + `,"Nodes":null,"NodeNames":` + names("a") + `}`,
			`{"Nodes":null,"NodeNames":[],"FailedNodes":{"` + ns + `.a":"Insufficient cpu"},"FailedAndUnresolvableNodes":null,"Error":""}`},
		{"prioritize by name", "/prioritize", `{"Pod":` + pod("1") + `,"Nodes":null,"NodeNames":` + names("a", "b", "c") + `}`,
			`[{"Host":"` + ns + `.a","Score":0},{"Host":"` + ns + `.b","Score":10},{"Host":"` + ns + `.c","Score":5}]`},
		{"prioritize some", "/prioritize", `{"Pod":` + pod("1") + `,"Nodes":{"metadata":{},"items":[` + node("c") + `,` + node("a") + `]},"NodeNames":null}`,
			`[{"Host":"` + ns + `.c","Score":10},{"Host":"` + ns + `.a","Score":0}]`},
		{"score", "/score", `{"pod":` + pod("1") + `,"nodes":[` + node("a") + `,` + node("b") + `,` + node("c") + `]}`,
			`{"scores":{"` + ns + `.a":0,"` + ns + `.b":100,"` + ns + `.c":50}}`},
	} {
		status, got := post(t, h, tc.path, tc.body)
		if status != http.StatusOK {
			t.Errorf("%s: status %d: %s", tc.name, status, got)
		} else if d := cmp.Diff(tc.want, got); d != "" {
			t.Errorf("%s (-want +got):\n%s", tc.name, d)
		}
	}
	for _, tc := range []struct {
		name, path, body string
		status           int
		want             string
	}{
		{"no JSON", "/score", "{", 400, "unexpected EOF"},
		{"no pod", "/score", `{"nodes":[]}`, 400, "no pod"},
		{"no nodes", "/prioritize", `{"Pod":` + pod("1") + `}`, 400, "no nodes"},
		{"fits nowhere", "/score", `{"pod":` + pod("5") + `,"nodes":[` + node("a") + `]}`, 422, "1 Insufficient cpu, 2 not among the nodes given"},
		{"unknown nodes", "/prioritize", `{"Pod":` + pod("1") + `,"NodeNames":` + names("x") + `}`, 422, "3 not among the nodes given"},
		{"too large", "/score", `{"pod":"` + strings.Repeat("x", maxBody) + `"}`, 413, "33554432 bytes"},
	} {
		status, got := post(t, h, tc.path, tc.body)
		var reply map[string]string
		if err := json.Unmarshal([]byte(got), &reply); err != nil || status != tc.status || !strings.Contains(reply["error"], tc.want) {
			t.Errorf("%s: status %d, %s, want %d and an error with %q", tc.name, status, got, tc.status, tc.want)
		}
	}
	if r := httptest.NewRecorder(); true {
		h.ServeHTTP(r, httptest.NewRequest(http.MethodGet, "/healthz", nil))
		if r.Code != http.StatusOK {
			t.Errorf("GET /healthz: %d", r.Code)
		}
	}
	r := httptest.NewRecorder()
	h.ServeHTTP(r, httptest.NewRequest(http.MethodGet, "/metrics", nil))
	for _, want := range []string{`kubernasium_scheduler_requests_total{code="200",path="/score"} 1`, "kubernasium_scheduler_policy_duration_seconds_count 3"} {
		if !strings.Contains(r.Body.String(), want) {
			t.Errorf("GET /metrics does not show %q", want)
		}
	}
}

// TestToken: a request needs the token; /healthz does not, and says when nothing is known yet.
func TestToken(t *testing.T) {
	w := newWorld(t, kwoktest.Shared(t))
	c := w.config(byBaseline(t, balance, "Greedy", nil))
	c.Token = "secret"
	s, err := New(w.client, c)
	if err != nil {
		t.Fatal(err)
	}
	h := s.Handler()
	for _, tc := range []struct {
		name, method, path string
		auth               func(r *http.Request)
		want               int
	}{
		{"health", "GET", "/healthz", func(*http.Request) {}, 503},
		{"none", "GET", "/metrics", func(*http.Request) {}, 401},
		{"wrong", "POST", "/score", func(r *http.Request) { r.Header.Set("Authorization", "Bearer x") }, 401},
		{"bearer", "GET", "/metrics", func(r *http.Request) { r.Header.Set("Authorization", "Bearer secret") }, 200},
		{"basic, not listed yet", "POST", "/score", func(r *http.Request) { r.SetBasicAuth("any", "secret") }, 503},
	} {
		r := httptest.NewRequest(tc.method, tc.path, strings.NewReader("{}"))
		tc.auth(r)
		rec := httptest.NewRecorder()
		h.ServeHTTP(rec, r)
		if rec.Code != tc.want {
			t.Errorf("%s: status %d, want %d", tc.name, rec.Code, tc.want)
		}
	}
}
