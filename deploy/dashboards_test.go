package deploy

import (
	"encoding/json"
	"io"
	"net/http"
	"os"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"testing"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
)

// A dashboard has the fields of Grafana's JSON that the tests read.
type dashboard struct {
	UID, Title string
	Templating struct {
		List []struct{ Name, Query string }
	}
	Panels []struct {
		Title   string
		Targets []struct{ Expr string }
	}
}

func readDashboard(t *testing.T, text []byte) (d dashboard) {
	t.Helper()
	if err := json.Unmarshal(text, &d); err != nil || d.UID == "" || len(d.Panels) == 0 {
		t.Fatalf("no dashboard: %v", err)
	}
	return d
}

// wantMetrics reports metrics of the dashboard that the program neither serves nor, in source, declares.
func wantMetrics(t *testing.T, name, served, source string) {
	t.Helper()
	text, err := os.ReadFile(filepath.Join(chart, "dashboards", name+".json"))
	if err != nil {
		t.Fatal(err)
	}
	word, n := regexp.MustCompile(`\b(kubernasium|scheduler|process)_[a-z_]+`), 0
	d := readDashboard(t, text)
	var all []string
	for _, p := range d.Panels {
		if len(p.Targets) == 0 {
			t.Errorf("panel %s of %s asks for nothing", p.Title, name)
		}
		for _, q := range p.Targets {
			all = append(all, word.FindAllString(q.Expr, -1)...)
		}
	}
	for _, v := range d.Templating.List {
		all = append(all, word.FindAllString(v.Query, -1)...)
	}
	for _, metric := range all {
		n++
		declared := strings.TrimSuffix(strings.TrimPrefix(metric, "kubernasium_"), "_bucket")
		if !strings.Contains(served, "\n"+metric+"{") && !strings.Contains(served, "\n"+metric+" ") && !strings.Contains(source, `Subsystem: "kubernasium", Name: "`+declared+`"`) {
			t.Errorf("the dashboard %s asks for %s, which nothing serves", name, metric)
		}
	}
	if n < 8 {
		t.Errorf("the dashboard %s has %d metrics, want those of eight panels", name, n)
	}
}

// body returns what the program answers to a request of a path.
func (p *program) body(t *testing.T, scheme string, port int32, path, token string) string {
	t.Helper()
	client := &http.Client{Transport: p.transport()}
	r, err := http.NewRequestWithContext(t.Context(), http.MethodGet, scheme+"://"+p.ports[port]+path, nil)
	if err != nil {
		t.Fatal(err)
	}
	r.Header.Set("Authorization", "Bearer "+token)
	resp, err := client.Do(r)
	if err != nil {
		t.Fatal(err)
	}
	defer resp.Body.Close()
	text, err := io.ReadAll(resp.Body)
	if err != nil || resp.StatusCode != http.StatusOK {
		t.Fatalf("%s: %s, %v", path, resp.Status, err)
	}
	return string(text)
}

// TestDashboards: the ConfigMap has the label that Grafana's sidecar looks for, and every dashboard of the chart.
func TestDashboards(t *testing.T) {
	c := openCluster(t)
	ns := c.install(t, "server.enabled=false", "dashboards.enabled=true", "dashboards.annotations.grafana_folder=Kubernasium")
	found, err := c.client.CoreV1().ConfigMaps(ns).List(t.Context(), metav1.ListOptions{LabelSelector: "grafana_dashboard=1"})
	if err != nil || len(found.Items) != 1 {
		t.Fatalf("%d ConfigMaps with the label, %v; want 1", len(found.Items), err)
	}
	var m corev1.ConfigMap = found.Items[0]
	if m.Annotations["grafana_folder"] != "Kubernasium" {
		t.Errorf("annotations %v, want those of the values", m.Annotations)
	}
	files, err := filepath.Glob(filepath.Join(chart, "dashboards", "*.json"))
	if err != nil || len(files) != len(m.Data) {
		t.Fatalf("%d dashboards of %d files, %v", len(m.Data), len(files), err)
	}
	var ids []string
	for _, file := range files {
		d := readDashboard(t, []byte(m.Data[filepath.Base(file)]))
		if slices.Contains(ids, d.UID) {
			t.Errorf("two dashboards have the id %s", d.UID)
		}
		ids = append(ids, d.UID)
	}
}
