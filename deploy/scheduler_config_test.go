package deploy

import (
	"slices"
	"strings"
	"testing"

	corev1 "k8s.io/api/core/v1"
	"sigs.k8s.io/yaml"

	"github.com/kubernasium/kubernasium/kwok/schedulerconfig"
)

// TestSchedulerConfig: the chart's configuration of kube-scheduler is that which `trainer kwok schedule` writes,
// but for what only a pod has.
func TestSchedulerConfig(t *testing.T) {
	margin := int64(schedulerconfig.DefaultMargin)
	config := schedulerconfig.Config{
		Lease:    &schedulerconfig.Lease{Namespace: "team", Name: "kubernasium-scheduler"},
		Profiles: []schedulerconfig.Profile{{Name: "kubernasium", Args: schedulerconfig.Args{Order: schedulerconfig.OrderRespect, Margin: &margin}}},
	}
	text, err := config.YAML()
	if err != nil {
		t.Fatal(err)
	}
	var want, got map[string]any
	if err := yaml.Unmarshal(text, &want); err != nil {
		t.Fatal(err)
	}
	out := helm(t, "template", "kubernasium", chart, "--kube-version", supported, "--namespace", "team", "--set", "scheduler.enabled=true", "--show-only", "templates/scheduler.yaml")
	for _, document := range strings.Split(out, "\n---\n") {
		var m corev1.ConfigMap
		if err := yaml.Unmarshal([]byte(document), &m); err == nil && m.Kind == "ConfigMap" {
			if err := yaml.Unmarshal([]byte(m.Data["config.yaml"]), &got); err != nil {
				t.Fatal(err)
			}
		}
	}
	paths := func(v any) (all []string) { walk("", v, &all); slices.Sort(all); return all }
	for _, p := range paths(want) {
		if strings.Contains(p, "clientConnection") || strings.Contains(p, "Duration") || strings.Contains(p, "Period") || strings.Contains(p, "Deadline") {
			continue // defaults of kube-scheduler, and the rate of a shared cluster
		}
		if !slices.Contains(paths(got), p) {
			t.Errorf("the chart's configuration lacks %s; it has\n%s", p, strings.Join(paths(got), "\n"))
		}
	}
}

// walk appends each value of a document, with its path.
func walk(path string, v any, all *[]string) {
	switch x := v.(type) {
	case map[string]any:
		for key, value := range x {
			walk(path+"."+key, value, all)
		}
	case []any:
		for _, value := range x {
			walk(path+"[]", value, all)
		}
	default:
		text, _ := yaml.Marshal(x)
		*all = append(*all, path+" = "+strings.TrimSpace(string(text)))
	}
}
