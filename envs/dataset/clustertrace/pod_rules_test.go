package clustertrace_test

import (
	"strings"
	"testing"

	"github.com/kubernasium/kubernasium/envs/dataset/clustertrace"
)

// TestPodRulesErrors: what the Kubernetes API does not allow is an error that names the field.
func TestPodRulesErrors(t *testing.T) {
	for want, template := range map[string]clustertrace.Template{
		"pod_affinity: ":   {PodAffinity: []byte(`{"requiredDuringSchedulingIgnoredDuringExecution": 3}`)},
		"operator Gt":      {PodAntiAffinity: []byte(`{"requiredDuringSchedulingIgnoredDuringExecution": [{"labelSelector": {"matchExpressions": [{"key": "a", "operator": "Gt", "values": ["1"]}]}}]}`)},
		"topology_spread:": {Spread: []byte(`[{"whenUnsatisfiable": "DoNotSchedule", "labelSelector": {"matchExpressions": [{"key": "a", "operator": "In"}]}}]`)},
	} {
		if _, err := template.PodRules(); err == nil || !strings.Contains(err.Error(), want) {
			t.Errorf("PodRules: %v, want an error with %q", err, want)
		}
	}
}

// FuzzPodRules reads any bytes as rules.
func FuzzPodRules(f *testing.F) {
	f.Add([]byte(`{"requiredDuringSchedulingIgnoredDuringExecution": [{"topologyKey": "zone", "labelSelector": {"matchLabels": {"a": "b"}}}]}`))
	f.Add([]byte(`[{"maxSkew": 1, "topologyKey": "zone", "whenUnsatisfiable": "DoNotSchedule", "matchLabelKeys": ["a"], "labelSelector": {}}]`))
	f.Add([]byte(`null`))
	f.Fuzz(func(t *testing.T, text []byte) {
		for _, one := range []clustertrace.Template{{PodAffinity: text, Labels: map[string]string{"a": "b"}}, {PodAntiAffinity: text}, {Spread: text, Labels: map[string]string{"a": "b"}}} {
			b, err := one.PodRules()
			if err != nil || b == nil {
				continue
			}
			for i := range b.Affinity {
				b.Affinity[i].Selects(&one)
			}
			for i := range b.DoNotSchedule {
				b.DoNotSchedule[i].Counts(&one)
			}
		}
	})
}
