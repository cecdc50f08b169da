package scheduler

import (
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	corev1 "k8s.io/api/core/v1"
	policyv1 "k8s.io/api/policy/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/util/intstr"
	"k8s.io/client-go/informers"
	"k8s.io/client-go/kubernetes/fake"

	"github.com/kubernasium/kubernasium/kwok/kwoktest"
)

// ranked gives a pod a priority, a label with its name, and an age in seconds.
func ranked(p *corev1.Pod, priority int32, age int) *corev1.Pod {
	p.Spec.Priority, p.Labels = &priority, map[string]string{"name": p.Name}
	p.CreationTimestamp = metav1.NewTime(time.Unix(10000-int64(age), 0))
	return p
}

// TestVictims has cases worked by hand: nodes of 4 cores, and a pod of priority 100 that wants 2.
func TestVictims(t *testing.T) {
	budget := func(name string, allowed int32) *policyv1.PodDisruptionBudget {
		return &policyv1.PodDisruptionBudget{
			ObjectMeta: metav1.ObjectMeta{Namespace: "default", Name: name}, Spec: policyv1.PodDisruptionBudgetSpec{Selector: &metav1.LabelSelector{MatchLabels: map[string]string{"name": name}}},
			Status: policyv1.PodDisruptionBudgetStatus{DisruptionsAllowed: allowed},
		}
	}
	going := func(p *corev1.Pod) *corev1.Pod {
		p.DeletionTimestamp = &metav1.Time{Time: time.Unix(1, 0)}
		return p
	}
	apartFrom := func(p *corev1.Pod, name string) *corev1.Pod {
		p.Spec.Affinity = &corev1.Affinity{PodAntiAffinity: &corev1.PodAntiAffinity{RequiredDuringSchedulingIgnoredDuringExecution: []corev1.PodAffinityTerm{
			{TopologyKey: corev1.LabelHostname, LabelSelector: &metav1.LabelSelector{MatchLabels: map[string]string{"name": name}}},
		}}}
		return p
	}
	made := func(name, node string, cores int64, priority int32, age int) *corev1.Pod {
		return ranked(madePod(name, node, cores*1000, 1), priority, age)
	}
	both := budget("", 1) // of the pods of a team
	both.Spec.Selector = &metav1.LabelSelector{MatchLabels: map[string]string{"team": "both"}}
	team := func(p *corev1.Pod) *corev1.Pod {
		p.Labels["team"] = "both"
		return p
	}
	for _, tc := range []struct {
		name    string
		pods    []*corev1.Pod
		pending *corev1.Pod
		budgets []*policyv1.PodDisruptionBudget
		want    []string // node, then victims; nil is none
	}{
		{"lowest highest priority", []*corev1.Pod{made("x", "a", 4, 7, 0), made("y", "b", 2, 3, 0), made("z", "b", 2, 5, 0), made("u", "c", 4, 6, 0)}, made("p", "", 2, 100, 0), nil, []string{"b", "y"}},
		{"then the smallest sum", []*corev1.Pod{made("x", "a", 3, 5, 0), made("v", "a", 1, 5, 0), made("y", "b", 3, 5, 0), made("w", "b", 1, 2, 0), made("u", "c", 4, 9, 0)}, made("p", "", 4, 100, 0), nil, []string{"b", "y", "w"}},
		{"as few as can be, the youngest first", []*corev1.Pod{made("old", "a", 2, 5, 20), made("young", "a", 2, 5, 10), made("y", "b", 4, 200, 0), made("z", "c", 4, 100, 0)}, made("p", "", 2, 100, 0), nil, []string{"a", "young"}},
		{"none of lower priority", []*corev1.Pod{made("x", "a", 4, 100, 0), made("y", "b", 4, 100, 0), made("z", "c", 4, 200, 0)}, made("p", "", 2, 100, 0), nil, nil},
		{"budgets hold", []*corev1.Pod{made("x", "a", 4, 1, 0), made("y", "b", 4, 5, 0), made("z", "c", 4, 200, 0)}, made("p", "", 2, 100, 0),
			[]*policyv1.PodDisruptionBudget{budget("x", 0), budget("y", 1)}, []string{"b", "y"}},
		{"a budget of which one pod may go: the least important", []*corev1.Pod{team(made("x", "a", 2, 5, 0)), team(made("w", "a", 2, 1, 0)), made("y", "b", 4, 200, 0), made("z", "c", 4, 200, 0)},
			made("p", "", 2, 100, 0), []*policyv1.PodDisruptionBudget{both}, []string{"a", "w"}},
		{"the other, if that does not help", []*corev1.Pod{team(made("x", "a", 3, 5, 0)), team(made("w", "a", 1, 1, 0)), made("y", "b", 4, 200, 0), made("z", "c", 4, 200, 0)},
			made("p", "", 3, 100, 0), []*policyv1.PodDisruptionBudget{both}, []string{"a", "x"}},
		{"none, if both would have to go", []*corev1.Pod{team(made("x", "a", 2, 5, 0)), team(made("w", "a", 2, 1, 0)), made("y", "b", 4, 200, 0), made("z", "c", 4, 200, 0)},
			made("p", "", 4, 100, 0), []*policyv1.PodDisruptionBudget{both}, nil},
		{"no pod of two budgets, which the API does not evict", []*corev1.Pod{made("x", "a", 4, 1, 0), made("y", "b", 4, 5, 0), made("z", "c", 4, 200, 0)}, made("p", "", 2, 100, 0),
			[]*policyv1.PodDisruptionBudget{budget("x", 1), budget("x", 1)}, []string{"b", "y"}},
		{"those that go need no eviction", []*corev1.Pod{made("x", "a", 4, 1, 0), going(made("y", "b", 4, 500, 0)), made("z", "c", 4, 200, 0)}, made("p", "", 2, 100, 0), nil, []string{"b"}},
		{"more than all that is there", []*corev1.Pod{made("x", "a", 4, 1, 0)}, made("p", "", 5, 100, 0), nil, nil},
		{"whom the pod wants apart", []*corev1.Pod{made("x", "a", 1, 1, 0), made("other", "a", 1, 1, 0), made("y", "b", 4, 200, 0), made("z", "c", 4, 200, 0)},
			apartFrom(made("p", "", 2, 100, 0), "x"), nil, []string{"a", "x"}},
		{"one that was nominated, and ends, takes nobody with it", []*corev1.Pod{
			made("x", "a", 1, 200, 0), made("v", "a", 3, 1, 0), made("y", "b", 4, 200, 0), made("z", "c", 4, 200, 0), func() *corev1.Pod {
				p := going(made("nominated", "", 1, 100, 0))
				p.Labels["name"], p.Status.NominatedNodeName = "x", "a"
				return p
			}(),
		}, apartFrom(made("p", "", 2, 100, 0), "x"), nil, nil},
		{"room that is kept for another", []*corev1.Pod{
			made("x", "a", 2, 1, 0), func() *corev1.Pod { p := made("nominated", "", 2, 100, 0); p.Status.NominatedNodeName = "a"; return p }(),
			made("y", "b", 4, 9, 0), made("z", "c", 4, 200, 0),
		}, made("p", "", 2, 100, 0), nil, []string{"a", "x"}},
	} {
		t.Run(tc.name, func(t *testing.T) {
			var nodes []*corev1.Node
			for _, name := range []string{"a", "b", "c"} {
				n := madeNode(name, 4000, 8192, 10)
				n.Labels[corev1.LabelHostname] = name
				nodes = append(nodes, n)
			}
			c := cacheOf(nodes, append(tc.pods, tc.pending))
			m, err := c.moment(tc.pending, 1, nil)
			if err != nil {
				t.Fatal(err)
			}
			if m.fitting() > 0 {
				t.Fatalf("the pod fits: %v", m.mask)
			}
			var got []string
			if k, _ := c.preemption(m, tc.budgets); k != nil {
				got = []string{k.node.Name}
				for _, v := range k.victims {
					got = append(got, v.Name)
					c.evicted(v.UID)
				}
				if again, _ := c.preemption(m, tc.budgets); again == nil || again.node != k.node || len(again.victims) > 0 {
					t.Errorf("when they have been evicted: %+v, want to wait for them", again)
				}
			}
			if d := cmp.Diff(tc.want, got); d != "" {
				t.Errorf("node and victims (-want +got):\n%s", d)
			}
		})
	}
}

// TestEvictedOnce: between the eviction of a victim and the event that shows it, its budget shows that nothing is left;
// no other node is emptied meanwhile.
func TestEvictedOnce(t *testing.T) {
	x, y, p := ranked(madePod("x", "a", 4000, 1), 1, 0), ranked(madePod("y", "b", 4000, 1), 5, 0), ranked(madePod("p", "", 2000, 1), 100, 0)
	c := cacheOf([]*corev1.Node{madeNode("a", 4000, 8192, 10), madeNode("b", 4000, 8192, 10)}, []*corev1.Pod{x, y, p})
	m, err := c.moment(p, 1, nil)
	if err != nil {
		t.Fatal(err)
	}
	b := &policyv1.PodDisruptionBudget{
		ObjectMeta: metav1.ObjectMeta{Namespace: "default"}, Spec: policyv1.PodDisruptionBudgetSpec{Selector: &metav1.LabelSelector{MatchLabels: x.Labels}},
		Status: policyv1.PodDisruptionBudgetStatus{DisruptionsAllowed: 1},
	}
	victims := func() string {
		t.Helper()
		k, _ := c.preemption(m, []*policyv1.PodDisruptionBudget{b})
		if k == nil {
			t.Fatal("no node can be emptied")
		}
		names := k.node.Name + ":"
		for _, v := range k.victims {
			names += " " + v.Name
		}
		return names
	}
	if got := victims(); got != "a: x" {
		t.Fatalf("at first %s, want x on a, of the lowest priority", got)
	}
	c.evicted(x.UID)
	b.Status.DisruptionsAllowed = 0
	if got := victims(); got != "a:" {
		t.Errorf("after the eviction of x %s, want a without any other", got)
	}
	c.setPod(x) // an older version
	if got := victims(); got != "a:" {
		t.Errorf("after a late event of x %s, want a without any other", got)
	}
}

// TestFitsMeanwhile: a pod that fits since the last of its victims has gone stays nominated, and preempts nobody.
func TestFitsMeanwhile(t *testing.T) {
	x, p := ranked(madePod("x", "a", 4000, 1), 1, 0), ranked(madePod("p", "", 2000, 1), 100, 0)
	p.Status.NominatedNodeName = "a"
	client := fake.NewClientset(x, p)
	s := &Scheduler{
		client: client, cache: cacheOf([]*corev1.Node{madeNode("a", 4000, 8192, 10)}, []*corev1.Pod{x, p}),
		budgets: informers.NewSharedInformerFactory(client, 0).Policy().V1().PodDisruptionBudgets().Lister(),
	}
	m, err := s.cache.moment(p, 1, nil)
	if err != nil {
		t.Fatal(err)
	}
	s.cache.deletePod(x.UID)
	if got := s.preempt(ctx, m); got != "" || len(client.Actions()) > 0 {
		t.Errorf("preempt says %q and calls %v, want nothing", got, client.Actions())
	}
}

// TestNominated: a pod that is nominated for a node has its room and its port there, against pods of no higher
// priority, and who does not want to be beside it stays away; but no pod is near it before it is bound.
func TestNominated(t *testing.T) {
	n := madeNode("a", 4000, 8192, 10)
	n.Labels[corev1.LabelHostname] = "a"
	nominated := ranked(madePod("nominated", "", 3000, 1), 10, 0)
	nominated.Status.NominatedNodeName = "a"
	withPort := func(p *corev1.Pod) *corev1.Pod {
		p.Spec.Containers[0].Ports = []corev1.ContainerPort{{ContainerPort: 80, HostPort: 8080}}
		return p
	}
	withPort(nominated)
	away := func(p *corev1.Pod) *corev1.Pod {
		p.Spec.Affinity = &corev1.Affinity{PodAntiAffinity: &corev1.PodAntiAffinity{RequiredDuringSchedulingIgnoredDuringExecution: []corev1.PodAffinityTerm{
			{TopologyKey: corev1.LabelHostname, LabelSelector: &metav1.LabelSelector{MatchLabels: map[string]string{"name": "nominated"}}},
		}}}
		return p
	}
	near := func(p *corev1.Pod) *corev1.Pod {
		p.Spec.Affinity = &corev1.Affinity{PodAffinity: &corev1.PodAffinity{RequiredDuringSchedulingIgnoredDuringExecution: []corev1.PodAffinityTerm{
			{TopologyKey: corev1.LabelHostname, LabelSelector: &metav1.LabelSelector{MatchLabels: map[string]string{"name": "nominated"}}},
		}}}
		return p
	}
	for _, tc := range []struct {
		pod  *corev1.Pod
		want string
	}{
		{ranked(madePod("p", "", 2000, 1), 10, 0), "Insufficient cpu"},
		{ranked(madePod("p", "", 1000, 1), 10, 0), ""},
		{ranked(madePod("p", "", 2000, 1), 11, 0), ""},
		{near(ranked(madePod("p", "", 1000, 1), 10, 0)), "pod affinity not matched"},
		{withPort(ranked(madePod("p", "", 1000, 1), 10, 0)), "host port taken"},
		{withPort(ranked(madePod("p", "", 1000, 1), 11, 0)), ""},
		{away(ranked(madePod("p", "", 1000, 1), 10, 0)), "pod anti-affinity not matched"},
		{away(ranked(madePod("p", "", 1000, 1), 11, 0)), ""},
		{nominated, ""},
	} {
		m, err := cacheOf([]*corev1.Node{n}, []*corev1.Pod{nominated, tc.pod}).moment(tc.pod, 1, nil)
		if err != nil {
			t.Fatal(err)
		}
		if got := m.refusal(0); got != tc.want {
			t.Errorf("pod of %v with priority %d: %q, want %q", tc.pod.Spec.Containers[0].Resources.Requests.Cpu(), *tc.pod.Spec.Priority, got, tc.want)
		}
	}
}

// TestPreemption: ours and the real kube-scheduler evict the same pods for one of high priority. A budget holds,
// and a pod that must not preempt waits.
func TestPreemption(t *testing.T) {
	plane := kwoktest.Shared(t)
	for _, name := range []string{"ours", corev1.DefaultSchedulerName} {
		t.Run(name, func(t *testing.T) {
			w := newWorld(t, plane)
			scheduler := name
			var ours *Scheduler
			if name == "ours" {
				c := w.config(byAgent(t, inOrder))
				scheduler = c.Name
				ours, _ = w.run(c)
			}
			classes := w.classes(map[string]int32{"low": 5, "mid": 10, "high": 100})
			of := func(class string) func(*corev1.Pod) {
				return func(p *corev1.Pod) {
					p.Spec.PriorityClassName, p.Labels = classes[class], map[string]string{"name": p.Name}
				}
			}
			on := func(node string) func(*corev1.Pod) {
				return func(p *corev1.Pod) { p.Spec.NodeName = w.namespace + "." + node }
			}
			for _, n := range []string{"a", "b", "c"} {
				w.node(n, "2", "4Gi", 10)
			}
			one := intstr.FromInt32(1)
			if _, err := w.client.PolicyV1().PodDisruptionBudgets(w.namespace).Create(ctx, &policyv1.PodDisruptionBudget{
				ObjectMeta: metav1.ObjectMeta{Name: "protected"},
				Spec:       policyv1.PodDisruptionBudgetSpec{MinAvailable: &one, Selector: &metav1.LabelSelector{MatchLabels: map[string]string{"name": "protected"}}},
			}, metav1.CreateOptions{}); err != nil {
				t.Fatal(err)
			}
			w.create(w.pod("mid", scheduler, "2", "1Gi", of("mid"), on("a")))
			w.create(w.pod("low1", scheduler, "1", "1Gi", of("low"), on("b")))
			w.create(w.pod("low2", scheduler, "1", "1Gi", of("low"), on("b")))
			w.create(w.pod("protected", scheduler, "2", "1Gi", on("c"), func(p *corev1.Pod) { p.Labels = map[string]string{"name": "protected"} }))
			w.until("pods run", func() bool { return slices.Equal(w.running(), []string{"low1", "low2", "mid", "protected"}) })
			w.until("the budget knows its pod", func() bool {
				b, err := w.client.PolicyV1().PodDisruptionBudgets(w.namespace).Get(ctx, "protected", metav1.GetOptions{})
				if err != nil {
					t.Fatal(err)
				}
				return b.Status.CurrentHealthy == 1
			})
			if ours != nil {
				w.known(ours)
				w.knownBudget(ours, "protected", 1)
			}
			placed := func(pod string) string {
				has := func() bool { return w.nodeOf(pod) != "" }
				if ours == nil {
					has = w.stirring("c", has)
				}
				w.until("pod "+pod+" has a node", has)
				return w.nodeOf(pod)
			}
			w.create(w.pod("first", scheduler, "2", "1Gi", of("high")))
			if got := placed("first"); got != "b" {
				t.Errorf("the pod of high priority is on %s, want b, whose pods have the lowest", got)
			}
			w.create(w.pod("second", scheduler, "1", "1Gi", of("high")))
			if got := placed("second"); got != "a" {
				t.Errorf("the second is on %s, want a: the pod on c is protected", got)
			}
			never := corev1.PreemptNever
			waits := w.create(w.pod("waits", scheduler, "2", "1Gi", of("high"), func(p *corev1.Pod) {
				p.Spec.PriorityClassName, p.Spec.PreemptionPolicy = w.never(), &never
			}))
			if note := w.event(waits, "FailedScheduling"); !strings.Contains(note, "3 Insufficient cpu") {
				t.Errorf("event %q", note)
			}
			w.until("the victims are gone, and only they", func() bool { return slices.Equal(w.running(), []string{"first", "protected", "second"}) })
		})
	}
}

// knownBudget waits until the scheduler knows a disruption budget with so many healthy pods.
func (w *world) knownBudget(s *Scheduler, name string, healthy int32) {
	w.t.Helper()
	w.until("the scheduler knows budget "+name, func() bool {
		b, err := s.budgets.PodDisruptionBudgets(w.namespace).Get(name)
		return err == nil && b.Status.CurrentHealthy == healthy
	})
}

// classes creates priority classes of the test's own, and returns their names.
func (w *world) classes(values map[string]int32) map[string]string {
	names := map[string]string{}
	for class, value := range values {
		names[class] = w.namespace + "-" + class
		w.class(priorityClass(names[class], value))
	}
	return names
}

// never creates a priority class that does not preempt.
func (w *world) never() string {
	never := corev1.PreemptNever
	c := priorityClass(w.namespace+"-never", 100)
	c.PreemptionPolicy = &never
	w.class(c)
	return c.Name
}

// running returns the names of the test's pods that have a node and stay, sorted.
func (w *world) running() (names []string) {
	w.t.Helper()
	list, err := w.client.CoreV1().Pods(w.namespace).List(ctx, metav1.ListOptions{})
	if err != nil {
		w.t.Fatal(err)
	}
	for i := range list.Items {
		if p := &list.Items[i]; p.Status.Phase == corev1.PodRunning && p.DeletionTimestamp == nil {
			names = append(names, p.Name)
		}
	}
	slices.Sort(names)
	return names
}
