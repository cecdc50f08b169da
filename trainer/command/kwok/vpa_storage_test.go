package kwok

import (
	"fmt"
	"net/http"
	"net/http/httptest"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/kubernasium/kubernasium/kwok/metricsapi"
)

// TestKwokVPAStoragePrometheus: a recommender starts with what Prometheus knows. The pod uses 100 m and 100 MiB now;
// for eight days it used 1 core and 5000 MiB, and so did a pod that is gone.
func TestKwokVPAStoragePrometheus(t *testing.T) {
	w := newVPAWorld(t)
	w.autoscaler("ours", "Off")
	pod := w.pod()
	if err := metricsapi.SetUsage(t.Context(), w.client, pod.Namespace, pod.Name, 100, 100<<20, time.Now()); err != nil {
		t.Fatal(err)
	}
	token := filepath.Join(t.TempDir(), "token")
	if err := os.WriteFile(token, []byte("secret\n"), 0o600); err != nil {
		t.Fatal(err)
	}
	srv := httptest.NewServer(http.HandlerFunc(func(rw http.ResponseWriter, r *http.Request) {
		if r.Header.Get("Authorization") != "Bearer secret" {
			rw.WriteHeader(http.StatusUnauthorized)
			return
		}
		query, result := r.FormValue("query"), []string{}
		for _, name := range []string{pod.Name, "web-gone"} {
			if r.URL.Path == "/api/v1/query" {
				result = append(result, fmt.Sprintf(`{"metric": {"kubernetes_namespace": "default", "kubernetes_pod_name": %q, "pod_label_app": "web"}, "value": [1, "1"]}`, name))
				continue
			}
			value, now, samples := "1", time.Now().Unix(), []string{}
			if strings.HasPrefix(query, "container_memory_working_set_bytes{") {
				value = "5242880000"
			}
			for h := range int64(191) {
				samples = append(samples, fmt.Sprintf(`[%d, %q]`, now-3600*(191-h), value))
			}
			result = append(result, fmt.Sprintf(`{"metric": {"namespace": "default", "pod_name": %q, "name": "main"}, "values": [%s]}`, name, strings.Join(samples, ",")))
		}
		kind := "matrix"
		if r.URL.Path == "/api/v1/query" {
			kind = "vector"
		}
		fmt.Fprintf(rw, `{"status": "success", "data": {"resultType": %q, "result": [%s]}}`, kind, strings.Join(result, ","))
	}))
	defer srv.Close()
	// Without the token the history cannot be read, and nothing is recommended.
	_, _, err := execute(t, t.Context(), "kwok", "vpa", "--metrics", "--once", "--baseline", "upstream", "--recommender-name", "ours", "--storage", "prometheus", "--prometheus-address", srv.URL)
	if err == nil || !strings.Contains(err.Error(), "401") {
		t.Errorf("without the token: %v, want an error with 401", err)
	}
	w.recommend("--baseline", "upstream", "--recommender-name", "ours", "--storage", "prometheus", "--prometheus-address", srv.URL, "--prometheus-bearer-token-file", token)
	// As in TestKwokVPABaselines for this usage: the one sample of now has a thirtieth of the weight.
	if got, want := w.target("ours"), "1168m 6117462922"; got != want {
		t.Errorf("recommended %s, want %s", got, want)
	}
}
