package scorer

import (
	"encoding/json"
	"fmt"
	"io"
	"net/http"
	"net/http/httptest"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	"github.com/kubernasium/kubernasium/envs/podsched/gpushare"
	"github.com/kubernasium/kubernasium/kwok/kubeyaml"
	"github.com/kubernasium/kubernasium/kwok/kwoktest"
)

// coresCluster has a node of 4 cores, one of 8 and one of 1, and three pods of 2 cores.
const coresCluster = `
kind: List
items:
  - {kind: Node, metadata: {name: four}, status: {allocatable: {cpu: 4, memory: 4Gi}}}
  - {kind: Node, metadata: {name: eight}, status: {allocatable: {cpu: 8, memory: 4Gi, nvidia.com/gpu: 2}}}
  - {kind: Node, metadata: {name: one}, status: {allocatable: {cpu: 1, memory: 4Gi}}}
  - {kind: Deployment, metadata: {name: web}, spec: {replicas: 3, template: {spec: {containers: [{name: c, resources: {requests: {cpu: 2, memory: 1Gi}}}]}}}}
`

// byScorer places coresCluster by a service on loopback.
func byScorer(t *testing.T, timeout time.Duration, handler http.HandlerFunc) (*gpushare.Report, error) {
	t.Helper()
	server := httptest.NewServer(handler)
	defer server.Close()
	return kwoktest.Simulate(t, coresCluster, "BestFit", func(o *kubeyaml.Objects, w *kubeyaml.Workload) gpushare.Decider {
		h, err := New(server.URL+"/score", timeout, o.Nodes, w.Objects)
		if err != nil {
			t.Fatal(err)
		}
		return h
	})
}

// TestScorer: a service that scores by free cores gets 8 against 4, 6 against 4, and then 4 against 4, which goes to
// the first node. It is told of the pod and of the nodes on which that fits, by the names of Kubernetes' API.
func TestScorer(t *testing.T) {
	var asked []string
	r, err := byScorer(t, time.Minute, func(w http.ResponseWriter, r *http.Request) {
		var body struct {
			Pod struct {
				Metadata struct{ Name, UID string }
				Spec     struct {
					Containers []struct {
						Resources struct{ Requests map[string]string }
					}
				}
			}
			Nodes []struct {
				Metadata struct{ Name string }
				Status   struct{ Allocatable map[string]string }
			}
			Free map[string]struct {
				CPU    int64   `json:"cpu_m"`
				Memory int64   `json:"memory_mib"`
				GPU    []int32 `json:"gpu_m"`
			}
		}
		if err := json.NewDecoder(r.Body).Decode(&body); err != nil {
			t.Error(err)
		}
		if r.Method != http.MethodPost || r.URL.Path != "/score" || r.Header.Get("Content-Type") != "application/json" || body.Pod.Metadata.UID == "" ||
			body.Pod.Spec.Containers[0].Resources.Requests["cpu"] != "2" {
			t.Errorf("%s %s of pod %+v", r.Method, r.URL, body.Pod)
		}
		reply := map[string]map[string]float64{"scores": {"another": 1e9}}
		var names []string
		for _, n := range body.Nodes {
			f := body.Free[n.Metadata.Name]
			names = append(names, fmt.Sprint(n.Metadata.Name, " ", f.CPU, " ", f.Memory, " ", f.GPU))
			reply["scores"][n.Metadata.Name] = float64(f.CPU) / 1000
		}
		asked = append(asked, strings.Join(names, "; "))
		if err := json.NewEncoder(w).Encode(reply); err != nil {
			t.Error(err)
		}
	})
	if err != nil {
		t.Fatal(err)
	}
	var nodes []string
	for _, p := range r.Placements {
		nodes = append(nodes, p.Node)
	}
	if want := []string{"eight", "eight", "four"}; !slices.Equal(nodes, want) {
		t.Errorf("placed on %v, want %v", nodes, want)
	}
	want := []string{
		"four 4000 4096 []; eight 8000 4096 [1000 1000]", "four 4000 4096 []; eight 6000 3072 [1000 1000]", "four 4000 4096 []; eight 4000 2048 [1000 1000]",
	}
	if d := cmp.Diff(want, asked); d != "" {
		t.Errorf("asked about (-want +got):\n%s", d)
	}
}

// TestScorerErrors: a service that fails, is silent or leaves a node out ends the simulation with its reason.
func TestScorerErrors(t *testing.T) {
	reply := func(status int, body string) http.HandlerFunc {
		return func(w http.ResponseWriter, _ *http.Request) {
			w.WriteHeader(status)
			_, _ = io.WriteString(w, body)
		}
	}
	for _, tc := range []struct {
		name    string
		timeout time.Duration
		handler http.HandlerFunc
		want    string
	}{
		{"failing", time.Minute, reply(http.StatusTeapot, "no policy"), "status 418 I'm a teapot: no policy"},
		{"not JSON", time.Minute, reply(http.StatusOK, "scores: 1"), "reply scores: 1: invalid character"},
		{"a node left out", time.Minute, reply(http.StatusOK, `{"scores": {"four": 1}}`), "no score of node eight among 1, want one of each node"},
		{"the field score", time.Minute, reply(http.StatusOK, `{"score": 1}`), "no score of node four among 0"},
		{"silent", 50 * time.Millisecond, func(_ http.ResponseWriter, r *http.Request) {
			_, _ = io.Copy(io.Discard, r.Body)
			<-r.Context().Done()
		}, "no reply within 50ms"},
	} {
		t.Run(tc.name, func(t *testing.T) {
			_, err := byScorer(t, tc.timeout, tc.handler)
			if err == nil || !strings.Contains(err.Error(), tc.want) || !strings.Contains(err.Error(), "pod default/web-") {
				t.Errorf("%v, want an error of a pod with %q", err, tc.want)
			}
		})
	}
	for url, want := range map[string]string{"localhost:5000": "want a URL", "ftp://localhost/": "want a URL"} {
		if _, err := New(url, time.Second, nil, nil); err == nil || !strings.Contains(err.Error(), want) {
			t.Errorf("%s: %v, want an error with %q", url, err, want)
		}
	}
	if _, err := New("http://localhost/", 0, nil, nil); err == nil {
		t.Error("no time limit is accepted")
	}
}
