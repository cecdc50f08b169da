package scheduler

import (
	"fmt"
	"math/rand/v2"
	"slices"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
	corev1 "k8s.io/api/core/v1"
	eventsv1 "k8s.io/api/events/v1"
	policyv1 "k8s.io/api/policy/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/util/intstr"

	"github.com/kubernasium/kubernasium/kwok/kwoktest"
)

// crowd is a cluster that has no room left for a pod.
type crowd struct {
	nodes  []amount // room
	pods   []crowded
	wanted amount
	rank   int32 // of the pod that wants room
}

type amount struct{ cores, gib int }

type crowded struct {
	amount
	node      int
	rank      int32 // no two have the same, so that there are no ties
	protected bool  // by a disruption budget that allows no disruption
}

// randomCrowd returns nodes that are nearly full, and a pod that fits none of them.
func randomCrowd(r *rand.Rand) crowd {
	c := crowd{nodes: make([]amount, 2+r.IntN(3)), wanted: amount{2 + r.IntN(4), 1 + r.IntN(4)}}
	ranks := r.Perm(40)
	c.rank = int32(ranks[0])
	for i := range c.nodes {
		c.nodes[i] = amount{6, 12}
		for left := c.nodes[i]; left.cores >= c.wanted.cores && left.gib >= c.wanted.gib; {
			p := crowded{amount{1 + r.IntN(3), 1 + r.IntN(3)}, i, int32(ranks[len(c.pods)+1]), r.IntN(3) == 0}
			if p.cores > left.cores || p.gib > left.gib {
				continue
			}
			left.cores -= p.cores
			left.gib -= p.gib
			c.pods = append(c.pods, p)
		}
	}
	return c
}

// outcome is where the pod went, none where it waits, and who had to go.
type outcome struct {
	Node    string
	Victims []string
}

// play builds the cluster, and has the pod placed by the scheduler of a name, which may be ours.
func (c *crowd) play(w *world, scheduler string, ours *Scheduler) outcome {
	w.t.Helper()
	node := func(i int) string { return fmt.Sprintf("n%d", i) }
	for i, n := range c.nodes {
		w.node(node(i), fmt.Sprint(n.cores), fmt.Sprintf("%dGi", n.gib), 20)
	}
	ranks := map[string]int32{"wants": c.rank}
	name := func(i int) string { return fmt.Sprintf("p%d", i) }
	var all []string
	protected := int32(0)
	for i, p := range c.pods {
		ranks[name(i)] = p.rank
		all = append(all, name(i))
		if p.protected {
			protected++
		}
	}
	slices.Sort(all)
	classes := w.classes(ranks)
	pod := func(name string, a amount, change ...func(*corev1.Pod)) *corev1.Pod {
		p := w.pod(name, scheduler, fmt.Sprint(a.cores), fmt.Sprintf("%dGi", a.gib), change...)
		p.Spec.PriorityClassName = classes[name]
		return p
	}
	every := intstr.FromInt32(protected)
	if _, err := w.client.PolicyV1().PodDisruptionBudgets(w.namespace).Create(ctx, &policyv1.PodDisruptionBudget{
		ObjectMeta: metav1.ObjectMeta{Name: "protected"},
		Spec:       policyv1.PodDisruptionBudgetSpec{MinAvailable: &every, Selector: &metav1.LabelSelector{MatchLabels: map[string]string{"protected": "true"}}},
	}, metav1.CreateOptions{}); err != nil {
		w.t.Fatal(err)
	}
	for i, p := range c.pods {
		w.create(pod(name(i), p.amount, func(made *corev1.Pod) {
			made.Spec.NodeName, made.Labels = w.namespace+"."+node(p.node), map[string]string{"protected": fmt.Sprint(p.protected)}
		}))
	}
	w.until("pods run", func() bool { return slices.Equal(w.running(), all) })
	w.until("the budget knows its pods", func() bool {
		b, err := w.client.PolicyV1().PodDisruptionBudgets(w.namespace).Get(ctx, "protected", metav1.GetOptions{})
		if err != nil {
			w.t.Fatal(err)
		}
		return b.Status.CurrentHealthy == protected && b.Status.DesiredHealthy == protected
	})
	if ours != nil {
		w.known(ours)
		w.knownBudget(ours, "protected", protected)
	}
	wants := w.create(pod("wants", c.wanted))
	var got outcome
	settled := func() bool {
		got.Node = w.nodeOf("wants")
		return got.Node != "" || w.nobodyGoes(wants)
	}
	if ours == nil {
		settled = w.stirring(node(0), settled)
	}
	w.until("the pod is placed, or nobody goes for it", settled)
	for _, p := range all {
		if !slices.Contains(w.running(), p) {
			got.Victims = append(got.Victims, p)
		}
	}
	return got
}

// nobodyGoes reports whether an event says that the pod waits and nothing is evicted for it.
func (w *world) nobodyGoes(pod *corev1.Pod) bool {
	w.t.Helper()
	list, err := w.client.EventsV1().Events(w.namespace).List(ctx, metav1.ListOptions{})
	if err != nil {
		w.t.Fatal(err)
	}
	return slices.ContainsFunc(list.Items, func(e eventsv1.Event) bool {
		// kube-scheduler says in the same event what became of preemption, by node; ours says nothing if it does not help.
		told := strings.Contains(e.Note, "No preemption victims found") || e.ReportingController != corev1.DefaultSchedulerName && !strings.Contains(e.Note, "Preemption")
		return e.Regarding.UID == pod.UID && e.Reason == "FailedScheduling" && told
	})
}

// TestPreemptionAtRandom: in random clusters ours and the real kube-scheduler place a pod on the same
// node and evict the same pods for it. Where all that helps is to break a disruption budget, which
// kube-scheduler then does, ours has the pod wait.
func TestPreemptionAtRandom(t *testing.T) {
	plane := kwoktest.Shared(t)
	counts := map[string]int{}
	for seed := range uint64(15) {
		t.Run(fmt.Sprint(seed), func(t *testing.T) {
			c := randomCrowd(rand.New(rand.NewPCG(1, seed)))
			want := c.play(newWorld(t, plane), corev1.DefaultSchedulerName, nil)
			kind := "preempts"
			if want.Node == "" {
				kind = "waits"
			}
			for i, p := range c.pods {
				if p.protected && slices.Contains(want.Victims, fmt.Sprintf("p%d", i)) {
					kind, want = "breaks a budget", outcome{}
				}
			}
			counts[kind]++
			w := newWorld(t, plane)
			s, _ := w.run(w.config(byAgent(t, inOrder)))
			if d := cmp.Diff(want, c.play(w, w.namespace, s)); d != "" {
				t.Errorf("%+v, where kube-scheduler %s (-kube-scheduler +ours):\n%s", c, kind, d)
			}
		})
	}
	if len(counts) != 3 {
		t.Errorf("kube-scheduler: %v, want clusters of all three kinds", counts)
	}
}
