package main

import (
	"fmt"
	"net/http"
	"net/http/httptest"
	"slices"
	"sync"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	upstreamhistory "k8s.io/autoscaler/vertical-pod-autoscaler/pkg/recommender/input/history"
	"k8s.io/autoscaler/vertical-pod-autoscaler/pkg/recommender/model"

	"github.com/kubernasium/kubernasium/kwok/vpa/history"
)

// promServer answers upstream's queries for two pods of eight days, and keeps what it was asked.
type promServer struct {
	mu    sync.Mutex
	asked []string
	auth  []string
	start time.Time
}

func (p *promServer) ServeHTTP(w http.ResponseWriter, r *http.Request) {
	query := r.FormValue("query")
	p.mu.Lock()
	p.asked = append(p.asked, fmt.Sprint(r.URL.Path, " ", query, " ", r.FormValue("step")))
	p.auth = append(p.auth, r.Header.Get("Authorization"))
	p.mu.Unlock()
	w.Header().Set("Content-Type", "application/json")
	fmt.Fprint(w, `{"status": "success", "data": {"resultType": "matrix", "result": [`)
	for i, pod := range []string{"web-1", "web-2"} {
		if i > 0 {
			fmt.Fprint(w, ",")
		}
		if r.URL.Path == "/api/v1/query" {
			fmt.Fprintf(w, `{"metric": {"kubernetes_namespace": "shop", "kubernetes_pod_name": %q, "pod_label_app": "old"}, "values": [[%d, "1"]]},`, pod, p.start.Unix())
			fmt.Fprintf(w, `{"metric": {"kubernetes_namespace": "shop", "kubernetes_pod_name": %q, "pod_label_app": "web", "job": "x"}, "values": [[%d, "1"]]}`, pod, p.start.Unix()+60)
			continue
		}
		fmt.Fprintf(w, `{"metric": {"namespace": "shop", "pod_name": %q, "name": "main"}, "values": [`, pod)
		for k := range 192 {
			value := 0.1*float64(i+1) + 0.0123*float64(k%17) // cores
			if query[0] != 'r' {
				value = 1e8*float64(i+2) + 3.7e6*float64(k%23)
			}
			if k > 0 {
				fmt.Fprint(w, ",")
			}
			fmt.Fprintf(w, `[%d, "%g"]`, p.start.Unix()+3600*int64(k), value)
		}
		fmt.Fprint(w, "]}")
	}
	fmt.Fprint(w, "]}}")
}

// TestHistory reads a Prometheus server by upstream's provider and by ours: the queries are the same, and so are pods,
// labels and samples.
func TestHistory(t *testing.T) {
	p := &promServer{start: time.Date(2026, 1, 5, 0, 0, 0, 0, time.UTC)}
	srv := httptest.NewServer(p)
	defer srv.Close()
	for _, change := range []func(*history.Config){
		func(*history.Config) {},
		func(c *history.Config) {
			c.Job, c.Namespace, c.Length, c.Resolution = "", "shop", "2d", "90s"
			c.ContainerPodNameLabel, c.ContainerNameLabel = "pod_name", "name"
			c.PodLabelsMetric, c.CPUMetric, c.MemoryMetric = `kube_pod_labels{job="ksm"}[8d]`, "cpu_total", "memory"
		},
		func(c *history.Config) { c.Username, c.Password = "me", "secret" },
		func(c *history.Config) { c.Username, c.Password, c.BearerToken = "me", "secret", "token" },
	} {
		c := history.DefaultConfig()
		c.Address = srv.URL
		change(&c)
		provider, err := upstreamhistory.NewPrometheusHistoryProvider(upstreamhistory.PrometheusHistoryProviderConfig{
			Address: c.Address, QueryTimeout: c.QueryTimeout, HistoryLength: c.Length, HistoryResolution: c.Resolution,
			PodLabelPrefix: c.PodLabelPrefix, PodLabelsMetricName: c.PodLabelsMetric, PodNamespaceLabel: c.PodNamespaceLabel, PodNameLabel: c.PodNameLabel,
			CtrNamespaceLabel: c.ContainerNamespaceLabel, CtrPodNameLabel: c.ContainerPodNameLabel, CtrNameLabel: c.ContainerNameLabel,
			CadvisorMetricsJobName: c.Job, Namespace: c.Namespace, CPUMetricName: c.CPUMetric, MemoryMetricName: c.MemoryMetric,
			Authentication: upstreamhistory.PrometheusCredentials{Username: c.Username, Password: c.Password, BearerToken: c.BearerToken},
		})
		if err != nil {
			t.Fatal(err)
		}
		theirs, err := provider.GetClusterHistory()
		if err != nil {
			t.Fatal(err)
		}
		reader, err := history.NewReader(c)
		if err != nil {
			t.Fatal(err)
		}
		ours, err := reader.Read(t.Context(), time.Now())
		if err != nil {
			t.Fatal(err)
		}
		if len(p.asked) != 6 || !slices.Equal(p.asked[:3], p.asked[3:]) || !slices.Equal(p.auth[:3], p.auth[3:]) {
			t.Errorf("asked %q with %q, want upstream's three queries twice", p.asked, p.auth)
		}
		p.asked, p.auth = nil, nil
		want := map[string]map[string]string{}
		got := map[string]map[string]string{}
		for id, h := range theirs {
			want[id.Namespace+"/"+id.PodName] = described(h.LastLabels, upstreamSamples(h.Samples["main"], model.ResourceCPU), upstreamSamples(h.Samples["main"], model.ResourceMemory))
		}
		for id, h := range ours {
			got[id.Namespace+"/"+id.Name] = described(h.Labels, fmt.Sprint(h.Containers["main"].CPU), fmt.Sprint(h.Containers["main"].Memory))
		}
		if diff := cmp.Diff(want, got); diff != "" || len(got) != 2 {
			t.Errorf("history (-upstream +ours)\n%s", diff)
		}
	}
}

func described(labels map[string]string, cpu, memory string) map[string]string {
	return map[string]string{"labels": fmt.Sprint(labels), "cpu": cpu, "memory": memory}
}

func upstreamSamples(all []model.ContainerUsageSample, r model.ResourceName) string {
	var of []history.Sample
	for _, s := range all {
		if s.Resource == r {
			of = append(of, history.Sample{At: s.MeasureStart, Amount: int64(s.Usage)})
		}
	}
	return fmt.Sprint(of)
}
