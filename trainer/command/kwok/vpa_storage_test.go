package kwok

import (
	"fmt"
	"net/http"
	"net/http/httptest"
	"strings"
	"testing"
	"time"

	"github.com/kubernasium/kubernasium/envs/envstest"
	"github.com/kubernasium/kubernasium/kwok/metricsapi"
)

// TestKwokVPAStoragePrometheus: a recommender starts with what Prometheus knows. The pod uses 100 m and 100 MiB now;
// for eight days it used 1 core and 5000 MiB, or a pod did that is gone and had the labels.
func TestKwokVPAStoragePrometheus(t *testing.T) {
	w := newVPAWorld(t)
	for _, name := range []string{"live", "gone", "other"} {
		w.autoscaler(name, "Off")
	}
	pod := w.pod()
	if err := metricsapi.SetUsage(t.Context(), w.client, pod.Namespace, pod.Name, 100, 100<<20, time.Now()); err != nil {
		t.Fatal(err)
	}
	token := envstest.TempFile(t, "token", "secret\n")
	var past, label string // of the pod that Prometheus knows
	srv := httptest.NewServer(http.HandlerFunc(func(rw http.ResponseWriter, r *http.Request) {
		if r.Header.Get("Authorization") != "Bearer secret" {
			rw.WriteHeader(http.StatusUnauthorized)
			return
		}
		query, result := r.FormValue("query"), []string{}
		if r.URL.Path == "/api/v1/query" {
			result = append(result, fmt.Sprintf(`{"metric": {"kubernetes_namespace": "default", "kubernetes_pod_name": %q, "pod_label_app": %q}, "value": [1, "1"]}`, past, label))
		} else {
			value, now, samples := "1", time.Now().Unix(), []string{}
			if strings.HasPrefix(query, "container_memory_working_set_bytes{") {
				value = "5242880000"
			}
			for h := range int64(191) {
				samples = append(samples, fmt.Sprintf(`[%d, %q]`, now-3600*(191-h), value))
			}
			result = append(result, fmt.Sprintf(`{"metric": {"namespace": "default", "pod_name": %q, "name": "main"}, "values": [%s]}`, past, strings.Join(samples, ",")))
		}
		kind := "matrix"
		if r.URL.Path == "/api/v1/query" {
			kind = "vector"
		}
		fmt.Fprintf(rw, `{"status": "success", "data": {"resultType": %q, "result": [%s]}}`, kind, strings.Join(result, ","))
	}))
	defer srv.Close()
	// Without the token the history cannot be read, and nothing is recommended.
	_, _, err := execute(t, t.Context(), "kwok", "vpa", "--metrics", "--once", "--baseline", "upstream", "--recommender-name", "live", "--storage", "prometheus", "--prometheus-address", srv.URL)
	if err == nil || !strings.Contains(err.Error(), "401") {
		t.Errorf("without the token: %v, want an error with 401", err)
	}
	for _, tc := range []struct{ name, pod, label, want string }{
		// As in TestKwokVPABaselines for this usage: the one sample of now has a thirtieth of the weight.
		{"live", pod.Name, "", "1168m 6117462922"},
		{"gone", "web-gone", "web", "1168m 6117462922"},
		// By hand, of now alone: 100 m is in the bucket that ends at 110.27 m, and 15 % more is 126 m; memory is the least, 250 MiB.
		{"other", "api-gone", "api", "126m 262144k"},
	} {
		past, label = tc.pod, tc.label
		w.recommend("--baseline", "upstream", "--recommender-name", tc.name, "--storage", "prometheus", "--prometheus-address", srv.URL, "--prometheus-bearer-token-file", token)
		if got := w.target(tc.name); got != tc.want {
			t.Errorf("%s: recommended %s, want %s", tc.name, got, tc.want)
		}
	}
}
