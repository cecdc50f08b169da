package metricsapi_test

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"math"
	"net/http"
	"net/http/httptest"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/resource"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/client-go/rest"
	"k8s.io/metrics/pkg/apis/metrics/v1beta1"

	"github.com/kubernasium/kubernasium/envs"
	"github.com/kubernasium/kubernasium/envs/cluster"
	"github.com/kubernasium/kubernasium/envs/envstest"
	"github.com/kubernasium/kubernasium/envs/vpa/workload"
	"github.com/kubernasium/kubernasium/kwok"
	"github.com/kubernasium/kubernasium/kwok/metricsapi"
)

// read reads what was recorded, on a grid of minutes.
func read(t *testing.T, recorded []byte) []workload.Series {
	t.Helper()
	file := envstest.TempFile(t, "usage.jsonl", string(recorded))
	all, _, err := workload.ReadFiles(file, "", workload.Grid{Interval: time.Minute})
	if err != nil {
		t.Fatal(err)
	}
	return all
}

// metricsServer answers as an API server with metrics-server does, in upstream's types: the n-th list is of the n-th
// minute, with n·100 m and n MiB; the second and the third are equal, and the fifth cannot be had.
type metricsServer struct {
	asked     int
	forbidden bool // to list pods
	busy      int  // number of lists of pods to answer by 503
	grows     bool // the n-th list has the container cn
	paths     []string
}

func (s *metricsServer) ServeHTTP(w http.ResponseWriter, r *http.Request) {
	w.Header().Set("Content-Type", "application/json")
	s.paths = append(s.paths, r.URL.String())
	resources := func(cpu, memory int64) corev1.ResourceList {
		return corev1.ResourceList{corev1.ResourceCPU: *resource.NewMilliQuantity(cpu, resource.DecimalSI), corev1.ResourceMemory: *resource.NewQuantity(memory<<20, resource.BinarySI)}
	}
	var reply any
	switch {
	case strings.HasPrefix(r.URL.Path, "/api/v1/"):
		if s.forbidden {
			w.WriteHeader(http.StatusForbidden)
			reply = metav1.Status{TypeMeta: metav1.TypeMeta{Kind: "Status", APIVersion: "v1"}, Status: metav1.StatusFailure, Reason: metav1.StatusReasonForbidden, Message: "no pods for you", Code: 403}
			break
		}
		if s.busy--; s.busy >= 0 {
			w.WriteHeader(http.StatusServiceUnavailable)
			return
		}
		reply = corev1.PodList{TypeMeta: metav1.TypeMeta{Kind: "PodList", APIVersion: "v1"}, Items: []corev1.Pod{
			{ObjectMeta: metav1.ObjectMeta{Name: "web-0", Namespace: "team"}, Spec: corev1.PodSpec{Containers: []corev1.Container{
				{Name: "main", Image: "secret", Resources: corev1.ResourceRequirements{Requests: resources(500, 64)}},
			}}},
			{ObjectMeta: metav1.ObjectMeta{Name: "other", Namespace: "team"}, Spec: corev1.PodSpec{Containers: []corev1.Container{{Name: "unmeasured"}}}},
		}}
	default:
		s.asked++
		n := int64(s.asked)
		if n == 5 {
			w.WriteHeader(http.StatusServiceUnavailable)
			return
		}
		if n > 2 {
			n--
		}
		name := "main"
		if s.grows {
			name = fmt.Sprint("c", n)
		}
		reply = v1beta1.PodMetricsList{TypeMeta: metav1.TypeMeta{Kind: "PodMetricsList", APIVersion: "metrics.k8s.io/v1beta1"}, Items: []v1beta1.PodMetrics{{
			ObjectMeta: metav1.ObjectMeta{Name: "web-0", Namespace: "team"}, Timestamp: metav1.NewTime(time.Unix(1_800_000_000+60*n, 0)),
			Window: metav1.Duration{Duration: 15 * time.Second}, Containers: []v1beta1.ContainerMetrics{{Name: name, Usage: resources(100*n, n)}},
		}}}
	}
	_ = json.NewEncoder(w).Encode(reply)
}

// TestRecord: of six lists one is missing and one is there twice, so that minutes 1, 2, 3 and 5 have samples and minute
// 4 keeps that before it.
func TestRecord(t *testing.T) {
	usage := func(n ...int64) (all []cluster.Resources) {
		for _, v := range n {
			all = append(all, cluster.Resources{MilliCPU: 100 * v, MemoryBytes: v << 20})
		}
		return all
	}
	for _, forbidden := range []bool{false, true} {
		t.Run(fmt.Sprint("forbidden:", forbidden), func(t *testing.T) {
			s := &metricsServer{forbidden: forbidden}
			server := httptest.NewServer(s)
			defer server.Close()
			var b bytes.Buffer
			var warnings []string
			r, err := metricsapi.Record(ctx, &b, metricsapi.RecordConfig{
				REST: &rest.Config{Host: server.URL}, Namespace: "team", Selector: "app=web", Interval: time.Millisecond, Samples: 6,
				Warn: func(err error) { warnings = append(warnings, err.Error()) },
			})
			if err != nil {
				t.Fatal(err)
			}
			want := metricsapi.Recording{Samples: 5, Failed: 1, Containers: 1, Readings: 5, First: time.Unix(1_800_000_060, 0), Last: time.Unix(1_800_000_300, 0)}
			if d := cmp.Diff(want, r); d != "" {
				t.Errorf("recording (-want +got):\n%s", d)
			}
			series := workload.Series{ID: "team/web-0/main", Interval: time.Minute, Usage: usage(1, 2, 3, 3, 5), Requests: cluster.Resources{MilliCPU: 500, MemoryBytes: 64 << 20}}
			if forbidden {
				series.Requests = cluster.Resources{}
			}
			if d := cmp.Diff([]workload.Series{series}, read(t, b.Bytes())); d != "" {
				t.Errorf("series (-want +got):\n%s", d)
			}
			if got := strings.Join(warnings, "\n"); strings.Contains(got, "no pods for you") != forbidden || !strings.Contains(got, "unable to handle the request") && !strings.Contains(got, "503") {
				t.Errorf("warnings:\n%s", got)
			}
			if strings.Contains(b.String(), "secret") || strings.Contains(b.String(), "unmeasured") || !strings.HasPrefix(s.paths[0], "/apis/metrics.k8s.io/v1beta1/namespaces/team/pods?labelSelector=app%3Dweb") {
				t.Errorf("asked for %s, kept\n%s", s.paths[0], b.String())
			}
		})
	}
}

// TestRecordRequestsLater: requests that cannot be read with the first sample are recorded with a later one, once.
func TestRecordRequestsLater(t *testing.T) {
	server := httptest.NewServer(&metricsServer{busy: 2})
	defer server.Close()
	var b bytes.Buffer
	warned := 0
	if _, err := metricsapi.Record(ctx, &b, metricsapi.RecordConfig{
		REST: &rest.Config{Host: server.URL}, Interval: time.Millisecond, Samples: 4, Warn: func(error) { warned++ },
	}); err != nil || warned != 1 {
		t.Errorf("%v and %d warnings, want 1 warning", err, warned)
	}
	if got := read(t, b.Bytes())[0].Requests; got.MilliCPU != 500 || strings.Count(b.String(), `"PodList"`) != 1 {
		t.Errorf("requests of %+v are recorded, want 500 millicores once:\n%s", got, b.String())
	}
}

// TestRecordWarnsOnce: new containers come three times, but that pods cannot be listed is said once.
func TestRecordWarnsOnce(t *testing.T) {
	server := httptest.NewServer(&metricsServer{forbidden: true, grows: true})
	defer server.Close()
	var b bytes.Buffer
	warned := 0
	r, err := metricsapi.Record(ctx, &b, metricsapi.RecordConfig{
		REST: &rest.Config{Host: server.URL}, Interval: time.Millisecond, Samples: 4,
		Warn: func(error) { warned++ },
	})
	if err != nil || r.Containers != 3 || warned != 1 {
		t.Errorf("%+v, %v and %d warnings; want 3 containers and 1 warning", r, err, warned)
	}
}

// TestRecordEnds: the first reply must come; a context that ends leaves whole lines.
func TestRecordEnds(t *testing.T) {
	s := &metricsServer{}
	server := httptest.NewServer(s)
	defer server.Close()
	var b bytes.Buffer
	ending, cancel := context.WithCancel(ctx)
	c := metricsapi.RecordConfig{REST: &rest.Config{Host: server.URL}, Interval: time.Millisecond, Warn: func(error) { cancel() }} // at the fifth
	r, err := metricsapi.Record(ending, &b, c)
	if !errors.Is(err, context.Canceled) || r.Samples != 4 || len(read(t, b.Bytes())) != 1 {
		t.Errorf("%+v, %v; want 4 samples and context.Canceled", r, err)
	}
	s.asked = 4
	if _, err := metricsapi.Record(ctx, &b, c); err == nil || !strings.Contains(err.Error(), "list the metrics of pods") {
		t.Errorf("a server that fails at once: %v, want an error", err)
	}
	if _, err := metricsapi.Record(ctx, &b, metricsapi.RecordConfig{REST: c.REST}); err == nil || !strings.Contains(err.Error(), "interval 0s") {
		t.Errorf("no interval: %v, want an error", err)
	}
}

// TestRecordFollowsEpisode records the twin of vertical pod autoscaling through the API server, after each step: the
// series that are read are what the pods of the episode used.
func TestRecordFollowsEpisode(t *testing.T) {
	o, _ := start(t)
	rc, err := kwok.RESTConfig(ctx, o)
	if err != nil {
		t.Fatal(err)
	}
	spec, err := envs.Lookup("k8s/VerticalPodAutoscalerKwok-v0")
	if err != nil {
		t.Fatal(err)
	}
	v, err := envs.NewVec(spec, 1, envs.VecOptions{Autoreset: envs.Disabled, Options: map[string]any{
		"kubeconfig": o.Kubeconfig, "workload": "step", "steps": 4, "mode": "InPlaceOrRecreate", "history_h": 1, "pods": 2, "startup_s": 0,
	}})
	if err != nil {
		t.Fatal(err)
	}
	defer v.Close()
	b, err := v.Reset(ctx, envs.VecResetOptions{})
	if err != nil {
		t.Fatal(err)
	}
	var file bytes.Buffer
	var want [][]cluster.Resources
	for !b.Done(0) {
		if b, err = v.Step(ctx, []float32{0.1, 0.2, 0.3, 0.2, 0.1, 0.2, 0.3, 0.2}); err != nil {
			t.Fatal(err)
		}
		r, err := metricsapi.Record(ctx, &file, metricsapi.RecordConfig{
			REST: rc, Selector: "kubernasium.io/environment", Interval: time.Minute, Samples: 1, Warn: func(err error) { t.Error(err) },
		})
		if err != nil || r.Containers != 2 {
			t.Fatalf("%+v, %v; want 2 containers", r, err)
		}
		n := 0
		for _, p := range v.Env(0).State().Pods {
			if p.Phase == cluster.Running {
				if n == len(want) {
					want = append(want, nil)
				}
				want[n] = append(want[n], p.Usage)
				n++
			}
		}
	}
	var got [][]cluster.Resources
	for _, s := range read(t, file.Bytes()) {
		got = append(got, s.Usage)
		if s.Requests.MilliCPU == 0 {
			t.Errorf("the requests of %s are not recorded", s.ID)
		}
	}
	if d := cmp.Diff(want, got); d != "" && !cmp.Equal([][]cluster.Resources{want[1], want[0]}, got) { // the API lists by name
		t.Errorf("usage (-episode +recorded):\n%s", d)
	}
}

// TestQuantitiesAreKubernetes: package workload, which knows no Kubernetes, reads amounts as upstream does.
func TestQuantitiesAreKubernetes(t *testing.T) {
	for _, text := range []string{
		"0", "250m", "12345678n", "7u", "2", "0.5", "1e3", "1E3", "3E", "128Mi", "1.5Gi", "400Ki", "129M", "1Ei", "-1", "+3", ".5", "1.", "100k", "5P", "2Ti",
		"", "1x", "1 Mi", "1mi", // a suffix alone is 0 to upstream, and an error here
		"0x10", "1e", "NaN", "Inf", "1_0", "1K", "1e3Mi", "--1", "1ee2",
	} {
		got, err := workload.ParseQuantity(text)
		q, upstream := resource.ParseQuantity(text)
		if (err == nil) != (upstream == nil) {
			t.Errorf("%q: %v, %v; upstream says %v", text, got, err, upstream)
		} else if want := q.AsApproximateFloat64(); err == nil && math.Abs(got-want) > 1e-12*math.Abs(want) {
			t.Errorf("%q is %v, upstream says %v", text, got, want)
		}
	}
}
