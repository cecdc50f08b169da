package shadow_test

import (
	"fmt"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/kubernasium/kubernasium/agents/shadow"
	"github.com/kubernasium/kubernasium/envs"
	"github.com/kubernasium/kubernasium/envs/cluster"
	"github.com/kubernasium/kubernasium/envs/dataset/clustertrace"
)

func priority(p int32, cores int64) clustertrace.Template {
	return clustertrace.Template{Priority: p, MilliCPU: 1000 * cores}
}

// TestPreemption: as recorded, c waits from 2 to 6 h for a's end. The policy's cluster evicts a, whose priority is
// lower than b's, at 2 h; a's other 4 h begin when c has ended at 6 h.
func TestPreemption(t *testing.T) {
	s := newScript(t)
	n0, n1 := s.node("n0", 4), s.node("n1", 4)
	a, b := s.pod("a", s.template(priority(0, 4))), s.pod("b", s.template(priority(1, 4)))
	s.bind(a, n0)
	s.bind(b, n1)
	s.at(2)
	c := s.pod("c", s.template(priority(5, 4)))
	s.at(6).finish(a)
	s.bind(c, n0)
	s.at(10).finish(c)
	s.at(12).finish(b)
	r := run(t, s.end(12), withFirst())
	wantMetric(t, r, "preemptions", 0, 1/12.0)
	wantMetric(t, r, "pending_time", 4*3600/3.0, 4*3600/3.0) // of c, and of a
	wantMetric(t, r, "pending_pods", 4/12.0, 4/12.0)
	wantMetric(t, r, "nodes_in_use", (10*2+2)/12.0, (10*2+2)/12.0)
	wantNotModelled(t, r, "disruption budgets")
}

// TestRecordedPreemption: a was evicted at 2 h, in the third hour of the recording, and ends then in both clusters. The
// pod that takes its place is one of its own. What happened before --since does not count.
func TestRecordedPreemption(t *testing.T) {
	s := newScript(t)
	n0 := s.node("n0", 4)
	low := s.template(priority(0, 4))
	a := s.pod("a", low)
	s.bind(a, n0)
	s.at(2)
	c := s.pod("c", s.template(priority(5, 4)))
	s.add(clustertrace.Event{Kind: clustertrace.DeletePod, Pod: a, Preempted: true})
	s.bind(c, n0)
	again := s.pod("a-again", low)
	s.at(6).finish(c)
	s.bind(again, n0)
	recording := s.end(8)
	r := run(t, recording, withFirst())
	wantMetric(t, r, "preemptions", 1/8.0, 0)
	series := fmt.Sprint(r.Recorded.Series[index(t, r, "preemptions")])
	if series != "[0 0 1 0 0 0 0 0]" {
		t.Errorf("preemptions by hour %s, want one in the third", series)
	}
	o := withFirst()
	o.Since = 3 * time.Hour
	for _, m := range run(t, recording, o).Metrics {
		if m.Name == "preemptions" {
			t.Error("preemptions are shown, though none counts")
		}
	}
}

// TestVictims: which pods have to go, worked by hand after kube-scheduler's rules. When the policy is asked about the
// pod that comes last, those that were evicted for it wait.
func TestVictims(t *testing.T) {
	never := priority(9, 4)
	never.PreemptionPolicy = "Never"
	label := func(t clustertrace.Template, app string) clustertrace.Template {
		t.Labels = map[string]string{"app": app}
		return t
	}
	apart := label(priority(9, 1), "quiet")
	apart.PodAntiAffinity = required("loud", "host")
	gpus := func(p, gpus, milli int32) clustertrace.Template {
		return clustertrace.Template{Priority: p, GPUs: gpus, MilliGPU: milli}
	}
	port := func(p int32, text string) clustertrace.Template {
		return clustertrace.Template{Priority: p, HostPorts: []string{text}}
	}
	for name, tc := range map[string]struct {
		first, second []clustertrace.Template // pods of two nodes of 4 cores and 2 GPUs
		comes         clustertrace.Template
		want          string // the node it gets, and the pods that wait then, by their place in the two lists
	}{
		"the least important of a node": {
			// Without all three 4 cores are free. The one of priority 1 is spared, then 2 cores have to go.
			[]clustertrace.Template{priority(0, 1), priority(1, 2), priority(0, 1)}, []clustertrace.Template{priority(7, 4)}, priority(9, 2), "0: 0 2",
		},
		"the older of two is spared":        {[]clustertrace.Template{priority(0, 2), priority(0, 2)}, []clustertrace.Template{priority(9, 4)}, priority(9, 2), "0: 1"},
		"the lower priority":                {[]clustertrace.Template{priority(3, 4)}, []clustertrace.Template{priority(2, 4)}, priority(9, 4), "1: 1"},
		"fewer pods":                        {[]clustertrace.Template{priority(3, 4)}, []clustertrace.Template{priority(3, 2), priority(3, 2)}, priority(9, 4), "0: 0"},
		"the smaller sum of priorities":     {[]clustertrace.Template{priority(3, 2), priority(1, 2)}, []clustertrace.Template{priority(3, 2), priority(2, 2)}, priority(9, 4), "0: 0 1"},
		"the one that has started last":     {[]clustertrace.Template{priority(3, 4)}, []clustertrace.Template{priority(3, 4)}, priority(9, 4), "1: 1"},
		"none of the same priority":         {[]clustertrace.Template{priority(9, 4)}, []clustertrace.Template{priority(9, 4)}, priority(9, 4), "waits"},
		"none by a pod that never preempts": {[]clustertrace.Template{priority(0, 4)}, []clustertrace.Template{priority(0, 4)}, never, "waits"},
		"none where it would not help":      {[]clustertrace.Template{priority(0, 1), priority(9, 3)}, []clustertrace.Template{priority(9, 4)}, priority(9, 2), "waits"},
		"devices":                           {[]clustertrace.Template{gpus(0, 1, 500), gpus(1, 1, 1000)}, []clustertrace.Template{gpus(9, 2, 1000)}, gpus(9, 1, 600), "0: 0"},
		"a host port":                       {[]clustertrace.Template{port(0, "TCP/:80"), priority(0, 1)}, []clustertrace.Template{port(9, "TCP/:80")}, port(9, "TCP/:80"), "0: 0"},
		"a host port of an address":         {[]clustertrace.Template{port(0, "TCP/10.0.0.1:80"), priority(0, 1)}, []clustertrace.Template{port(9, "TCP/:80")}, port(9, "TCP/:80"), "0: 0"},
		"anti-affinity":                     {[]clustertrace.Template{label(priority(0, 1), "loud"), label(priority(0, 1), "still")}, []clustertrace.Template{label(priority(9, 1), "loud")}, apart, "0: 0"},
	} {
		t.Run(name, func(t *testing.T) {
			if got, _ := evicted(t, tc.first, tc.second, tc.comes); got != tc.want {
				t.Errorf("evicted %s, want %s", got, tc.want)
			}
		})
	}
}

// evicted places the pods of two lists on two nodes of 4 cores and 2 GPUs, and then one more, for which others may have to go. It
// returns the node of that, and the pods that wait then, by their place in the lists.
func evicted(t *testing.T, first, second []clustertrace.Template, comes clustertrace.Template, budgets ...clustertrace.Budget) (string, *shadow.Report) {
	t.Helper()
	s := newScript(t)
	for i := range 2 {
		host := fmt.Sprint("n", i)
		s.nodeOf(clustertrace.Node{Name: host, MilliCPU: 4000, MemoryBytes: gi, Pods: 110, GPUs: 2, MilliGPU: 1000, GPUModel: "T4", Labels: map[string]string{"host": host, "side": fmt.Sprint(i)}})
	}
	for i := range budgets {
		s.add(clustertrace.Event{Kind: clustertrace.AddBudget, Budget: &budgets[i]})
	}
	hours := 0.0
	for side, list := range [][]clustertrace.Template{first, second} {
		for _, template := range list {
			template.NodeSelector = map[string]string{"side": fmt.Sprint(side)}
			template.MemoryBytes = int64(hours) + 1 // which distinguishes it for the policy
			s.at(hours).pod("p", s.template(template))
			hours++
		}
	}
	placed := int(hours)
	s.at(hours).pod("comes", s.template(comes))
	got, calls := "waits", 0
	spy := policyOf("spy", func(state *cluster.State, d envs.Decision, fitting []int32) int32 {
		if calls++; calls == placed+1 {
			var waiting []int64
			for i := range state.Pods {
				if p := &state.Pods[i]; p.Phase == cluster.Pending && int32(i) != d.Pod {
					waiting = append(waiting, p.Requests.MemoryBytes-1)
				}
			}
			slices.Sort(waiting)
			got = fmt.Sprintf("%d: %s", fitting[0], strings.Trim(fmt.Sprint(waiting), "[]"))
		}
		return fitting[0]
	})
	return got, run(t, s.end(hours+1), shadow.Options{Policies: []shadow.Policy{spy}})
}

// TestBudgets: which pods have to go where a disruption budget protects those of the app db, worked by hand after
// kube-scheduler's rules.
func TestBudgets(t *testing.T) {
	guarded := func(p int32, cores int64) clustertrace.Template {
		t := priority(p, cores)
		t.Labels = map[string]string{"app": "db"}
		return t
	}
	budget := func(min, max string) clustertrace.Budget {
		return clustertrace.Budget{Namespace: "default", Name: "db", MinAvailable: min, MaxUnavailable: max, Selector: &clustertrace.Selector{MatchLabels: map[string]string{"app": "db"}}}
	}
	full := []clustertrace.Template{priority(9, 4)}
	for name, tc := range map[string]struct {
		first, second []clustertrace.Template
		cores         int64
		budgets       []clustertrace.Budget
		want          string
		violations    int
	}{
		"another node, in spite of priority": {[]clustertrace.Template{guarded(0, 4)}, []clustertrace.Template{priority(3, 4)}, 4, []clustertrace.Budget{budget("1", "")}, "1: 1", 0},
		"without the budget":                 {[]clustertrace.Template{guarded(0, 4)}, []clustertrace.Template{priority(3, 4)}, 4, nil, "0: 0", 0},
		"a budget that was deleted": {
			[]clustertrace.Template{guarded(0, 4)}, []clustertrace.Template{priority(3, 4)}, 4, []clustertrace.Budget{budget("1", ""), {Namespace: "default", Name: "db"}}, "0: 0", 0,
		},
		"of another namespace": {
			[]clustertrace.Template{guarded(0, 4)}, []clustertrace.Template{priority(3, 4)}, 4,
			[]clustertrace.Budget{{Namespace: "other", Name: "db", MinAvailable: "1", Selector: budget("", "").Selector}}, "0: 0", 0,
		},
		"the protected one is spared first": {[]clustertrace.Template{guarded(1, 2), priority(2, 2)}, full, 2, []clustertrace.Budget{budget("1", "")}, "0: 1", 0},
		// The budget lets one go. In the order of importance that is the first, so that the second is spared before it.
		"one of two":              {[]clustertrace.Template{guarded(2, 2), guarded(1, 2)}, full, 2, []clustertrace.Budget{budget("", "1")}, "0: 0", 0},
		"as a share":              {[]clustertrace.Template{guarded(2, 2), guarded(1, 2)}, full, 4, []clustertrace.Budget{budget("", "50%")}, "0: 0 1", 1},
		"no other choice":         {[]clustertrace.Template{guarded(1, 4)}, full, 4, []clustertrace.Budget{budget("100%", "")}, "0: 0", 1},
		"the fewest are violated": {[]clustertrace.Template{guarded(0, 2), guarded(0, 2)}, []clustertrace.Template{guarded(5, 4)}, 4, []clustertrace.Budget{budget("3", "")}, "1: 2", 1},
	} {
		t.Run(name, func(t *testing.T) {
			for _, list := range [][]clustertrace.Template{tc.first, tc.second} {
				for i := range list {
					list[i].PreemptionPolicy = "Never" // those that are evicted evict no others
				}
			}
			got, r := evicted(t, tc.first, tc.second, priority(9, tc.cores), tc.budgets...)
			if got != tc.want || r.Policies[0].Violations != tc.violations {
				t.Errorf("evicted %s with %d violations, want %s with %d", got, r.Policies[0].Violations, tc.want, tc.violations)
			}
			if len(r.NotModelled) > 0 == (len(tc.budgets) > 0) {
				t.Errorf("not modelled: %q with %d budgets", r.NotModelled, len(tc.budgets))
			}
		})
	}
}
