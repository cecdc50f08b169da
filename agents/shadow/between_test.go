package shadow_test

import (
	"encoding/json"
	"testing"

	"github.com/google/go-cmp/cmp"

	"github.com/kubernasium/kubernasium/agents/shadow"
	"github.com/kubernasium/kubernasium/envs"
	"github.com/kubernasium/kubernasium/envs/cluster"
	"github.com/kubernasium/kubernasium/envs/dataset/clustertrace"
)

// required returns the JSON of an affinity with one required term.
func required(app, topology string) json.RawMessage {
	return json.RawMessage(`{"requiredDuringSchedulingIgnoredDuringExecution": [{"topologyKey": "` + topology + `",
		"labelSelector": {"matchExpressions": [{"key": "app", "operator": "In", "values": ["` + app + `"]}]}}]}`)
}

// hosts adds three nodes of 4 cores: n0 and n1 in zone x, n2 in zone y.
func hosts(s *script) {
	for i, zone := range []string{"x", "x", "y"} {
		name := "n" + string(rune('0'+i))
		s.nodeOf(clustertrace.Node{Name: name, MilliCPU: 4000, MemoryBytes: gi, Pods: 110, Labels: map[string]string{"host": name, "zone": zone}})
	}
}

func app(name string, change func(*clustertrace.Template)) clustertrace.Template {
	t := clustertrace.Template{MilliCPU: 1000, Labels: map[string]string{"app": name}}
	if change != nil {
		change(&t)
	}
	return t
}

// TestBetween: the nodes that rules between pods leave open to each pod, worked by hand. Pods come one an
// hour; the policy takes the first node that is open.
func TestBetween(t *testing.T) {
	apart := app("web", func(t *clustertrace.Template) { t.PodAntiAffinity = required("web", "host") })
	guard := app("guard", func(t *clustertrace.Template) { t.PodAntiAffinity = required("web", "zone") })
	near := app("cache", func(t *clustertrace.Template) { t.PodAffinity = required("web", "zone") })
	together := app("set", func(t *clustertrace.Template) { t.PodAffinity = required("set", "zone") })
	spreadOver := func(more string) clustertrace.Template {
		return app("web", func(t *clustertrace.Template) {
			t.Spread = json.RawMessage(`[{"maxSkew": 1, "topologyKey": "zone", "whenUnsatisfiable": "DoNotSchedule", "labelSelector": {"matchLabels": {"app": "web"}}` + more + `}]`)
		})
	}
	elsewhere := app("web", func(t *clustertrace.Template) { t.Namespace = "other" })
	everywhere := app("guard", func(t *clustertrace.Template) {
		t.PodAntiAffinity = json.RawMessage(`{"requiredDuringSchedulingIgnoredDuringExecution": [{"topologyKey": "host", "namespaceSelector": {}, "labelSelector": {"matchLabels": {"app": "web"}}}]}`)
	})
	all := []int32{0, 1, 2}
	for name, tc := range map[string]struct {
		pods []clustertrace.Template
		want [][]int32
	}{
		"anti-affinity on hosts":              {[]clustertrace.Template{apart, apart, apart, apart}, [][]int32{{0, 1, 2}, {1, 2}, {2}}}, // the fourth waits
		"another's anti-affinity":             {[]clustertrace.Template{guard, app("web", nil), app("db", nil)}, [][]int32{all, {2}, all}},
		"anti-affinity in its namespace":      {[]clustertrace.Template{guard, elsewhere}, [][]int32{all, all}},
		"anti-affinity in all namespaces":     {[]clustertrace.Template{everywhere, elsewhere}, [][]int32{all, {1, 2}}},
		"affinity to what runs":               {[]clustertrace.Template{app("web", nil), near}, [][]int32{all, {0, 1}}},
		"affinity to what comes later":        {[]clustertrace.Template{near, app("web", nil)}, [][]int32{all, {0, 1}}}, // web, then cache
		"affinity to oneself":                 {[]clustertrace.Template{together, together}, [][]int32{all, {0, 1}}},
		"spread":                              {[]clustertrace.Template{spreadOver(""), spreadOver(""), spreadOver(""), spreadOver("")}, [][]int32{all, {2}, all, {2}}},
		"spread over more zones than are":     {[]clustertrace.Template{spreadOver(`, "minDomains": 3`), spreadOver(`, "minDomains": 3`), spreadOver(`, "minDomains": 3`)}, [][]int32{all, {2}}}, // least is 0
		"spread among nodes of a selector":    {[]clustertrace.Template{selected(spreadOver("")), selected(spreadOver(""))}, [][]int32{{0, 1}, {0, 1}}},
		"spread that ignores its selector":    {[]clustertrace.Template{selected(spreadOver(`, "nodeAffinityPolicy": "Ignore"`)), selected(spreadOver(`, "nodeAffinityPolicy": "Ignore"`))}, [][]int32{{0, 1}}},
		"preferred and soft rules close none": {[]clustertrace.Template{soft(), soft()}, [][]int32{all, all}},
	} {
		t.Run(name, func(t *testing.T) {
			s := newScript(t)
			hosts(s)
			for i, template := range tc.pods {
				s.at(float64(i)).pod("p", s.template(template))
			}
			var got [][]int32
			spy := policyOf("spy", func(_ *cluster.State, _ envs.Decision, fitting []int32) int32 {
				got = append(got, fitting)
				return fitting[0]
			})
			run(t, s.end(10), shadow.Options{Policies: []shadow.Policy{spy}})
			if diff := cmp.Diff(tc.want, got); diff != "" {
				t.Errorf("nodes that are open to each pod (-want +got):\n%s", diff)
			}
		})
	}
}

func selected(t clustertrace.Template) clustertrace.Template {
	t.NodeSelector = map[string]string{"zone": "x"}
	return t
}

func soft() clustertrace.Template {
	return app("web", func(t *clustertrace.Template) {
		t.PodAntiAffinity = json.RawMessage(`{"preferredDuringSchedulingIgnoredDuringExecution": [{"weight": 1, "podAffinityTerm": {"topologyKey": "host", "labelSelector": {"matchLabels": {"app": "web"}}}}]}`)
		t.Spread = json.RawMessage(`[{"maxSkew": 1, "topologyKey": "zone", "whenUnsatisfiable": "ScheduleAnyway", "labelSelector": {"matchLabels": {"app": "web"}}}]`)
	})
}

// TestLeftOut: b is bound beside a, against a's rule. The policy is not asked about that decision. The report counts it and
// names it. Both pods have preferences.
func TestLeftOut(t *testing.T) {
	s := newScript(t)
	n := s.nodeOf(clustertrace.Node{Name: "n", MilliCPU: 4000, MemoryBytes: gi, Pods: 110, Labels: map[string]string{"host": "n"}})
	template := soft()
	a := s.pod("a", s.template(template))
	s.bind(a, n)
	template.PodAntiAffinity = required("web", "host")
	b := s.pod("b", s.template(template))
	s.bind(b, n)
	var told []shadow.Decision
	r := run(t, s.end(10), shadow.Options{Policies: []shadow.Policy{first}, Decided: func(d shadow.Decision) error {
		told = append(told, d)
		return nil
	}})
	if r.LeftOut != 1 || r.Policies[0].Asked != 1 {
		t.Errorf("%d decisions left out, %d asked, want 1 and 1", r.LeftOut, r.Policies[0].Asked)
	}
	want := []shadow.Decision{{At: start, Pod: "default/a", Node: "n", Choices: []string{"n"}}, {At: start, Pod: "default/b", Node: "n"}}
	if diff := cmp.Diff(want, told); diff != "" {
		t.Errorf("decisions (-want +got):\n%s", diff)
	}
	wantNotModelled(t, r, "2 pods ask for: policies were asked about 1 recorded decisions without it")
}
