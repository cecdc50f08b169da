package shadow_test

import (
	"encoding/json"
	"fmt"
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

// open returns the nodes that are open to each pod in the cluster of a policy that takes the first.
func open(t *testing.T, r *shadow.Recording) (all [][]int32) {
	t.Helper()
	run(t, r, shadow.Options{Policies: []shadow.Policy{policyOf("spy", func(_ *cluster.State, _ envs.Decision, fitting []int32) int32 {
		all = append(all, fitting)
		return fitting[0]
	})}})
	return all
}

func app(name string, change func(*clustertrace.Template)) clustertrace.Template {
	t := clustertrace.Template{MilliCPU: 1000, Labels: map[string]string{"app": name}}
	if change != nil {
		change(&t)
	}
	return t
}

// TestPodRules: the nodes that rules between pods leave open to each pod, worked by hand. Pods come one an
// hour; the policy takes the first node that is open.
func TestPodRules(t *testing.T) {
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
	shy := app("guard", func(t *clustertrace.Template) { t.PodAntiAffinity = preferred("web", "zone") })
	lost := app("web", func(t *clustertrace.Template) { t.PodAffinity = preferred("web", "rack") })
	all := []int32{0, 1, 2}
	for name, tc := range map[string]struct {
		pods []clustertrace.Template
		want [][]int32
	}{
		"anti-affinity on hosts":           {[]clustertrace.Template{apart, apart, apart, apart}, [][]int32{{0, 1, 2}, {1, 2}, {2}}}, // the fourth waits
		"another's anti-affinity":          {[]clustertrace.Template{guard, app("web", nil), app("db", nil)}, [][]int32{all, {2}, all}},
		"anti-affinity in its namespace":   {[]clustertrace.Template{guard, elsewhere}, [][]int32{all, all}},
		"anti-affinity in all namespaces":  {[]clustertrace.Template{everywhere, elsewhere}, [][]int32{all, {1, 2}}},
		"affinity to what runs":            {[]clustertrace.Template{app("web", nil), near}, [][]int32{all, {0, 1}}},
		"affinity to what comes later":     {[]clustertrace.Template{near, app("web", nil)}, [][]int32{all, {0, 1}}}, // web, then cache
		"affinity to oneself":              {[]clustertrace.Template{together, together}, [][]int32{all, {0, 1}}},
		"spread":                           {[]clustertrace.Template{spreadOver(""), spreadOver(""), spreadOver(""), spreadOver("")}, [][]int32{all, {2}, all, {2}}},
		"spread over more zones than are":  {[]clustertrace.Template{spreadOver(`, "minDomains": 3`), spreadOver(`, "minDomains": 3`), spreadOver(`, "minDomains": 3`)}, [][]int32{all, {2}}}, // least is 0
		"spread among nodes of a selector": {[]clustertrace.Template{selected(spreadOver("")), selected(spreadOver(""))}, [][]int32{{0, 1}, {0, 1}}},
		"spread that ignores its selector": {[]clustertrace.Template{selected(spreadOver(`, "nodeAffinityPolicy": "Ignore"`)), selected(spreadOver(`, "nodeAffinityPolicy": "Ignore"`))}, [][]int32{{0, 1}}},
		// Soft rules, with at most 200 for each: n0 has the other pod, n1 shares its zone.
		"preferred anti-affinity, soft spread": {[]clustertrace.Template{soft(), soft()}, [][]int32{all, {2}}}, // 0, 200, 400
		"preferred nodes":                      {[]clustertrace.Template{prefers(0, 0, 9)}, [][]int32{{2}}},
		"preferred nodes within the margin":    {[]clustertrace.Template{prefers(10, 9, 8)}, [][]int32{{0, 1}}}, // 200, 180, 160
		"another's preferred anti-affinity":    {[]clustertrace.Template{shy, app("web", nil), app("db", nil)}, [][]int32{all, {2}, all}},
		"another's affinity":                   {[]clustertrace.Template{together, app("set", nil)}, [][]int32{all, {0, 1}}}, // hardPodAffinityWeight
		"no node meets the preference":         {[]clustertrace.Template{lost, lost}, [][]int32{all, all}},
	} {
		t.Run(name, func(t *testing.T) {
			s := newScript(t)
			hosts(s)
			for i, template := range tc.pods {
				s.at(float64(i)).pod("p", s.template(template))
			}
			if diff := cmp.Diff(tc.want, open(t, s.end(10))); diff != "" {
				t.Errorf("nodes that are open to each pod (-want +got):\n%s", diff)
			}
		})
	}
}

// preferred returns the JSON of an affinity with one preferred term.
func preferred(app, topology string) json.RawMessage {
	return json.RawMessage(`{"preferredDuringSchedulingIgnoredDuringExecution": [{"weight": 1, "podAffinityTerm": {"topologyKey": "` + topology + `", "labelSelector": {"matchLabels": {"app": "` + app + `"}}}}]}`)
}

// prefers returns a template that prefers the three nodes by weights.
func prefers(weights ...int32) clustertrace.Template {
	return app("web", func(t *clustertrace.Template) {
		for i, weight := range weights {
			t.Preferred = append(t.Preferred, clustertrace.Preference{Weight: weight, Term: clustertrace.Term{
				Labels: []clustertrace.Requirement{{Key: "host", Operator: "In", Values: []string{fmt.Sprint("n", i)}}}}})
		}
	})
}

// TestPreferNoSchedule: n0 has a taint that only the second pod tolerates, until n1 is removed.
func TestPreferNoSchedule(t *testing.T) {
	s := newScript(t)
	s.nodeOf(clustertrace.Node{Name: "n0", MilliCPU: 4000, MemoryBytes: gi, Pods: 110, Taints: []clustertrace.Taint{{Key: "slow", Effect: "PreferNoSchedule"}}})
	n1 := s.node("n1", 4)
	tolerant := app("web", func(t *clustertrace.Template) {
		t.Tolerations = []clustertrace.Toleration{{Key: "slow", Operator: "Exists"}}
	})
	s.pod("a", s.template(app("web", nil)))
	s.at(1).pod("b", s.template(tolerant))
	s.at(2).add(clustertrace.Event{Kind: clustertrace.RemoveNode, Node: n1})
	s.at(3).pod("c", s.template(app("web", nil)))
	got := open(t, s.end(4))
	if diff := cmp.Diff([][]int32{{1}, {0, 1}, {0}}, got[:3]); diff != "" {
		t.Errorf("nodes that are open to each pod (-want +got):\n%s", diff)
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

// TestLeftOut: b is bound beside a, against a's rule. The policy is not asked about that decision. The report counts it
// and names it.
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
}
