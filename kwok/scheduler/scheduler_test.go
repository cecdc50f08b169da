package scheduler

import (
	"bufio"
	"bytes"
	"encoding/json"
	"errors"
	"fmt"
	"net/http"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	corev1 "k8s.io/api/core/v1"
	policyv1 "k8s.io/api/policy/v1"
	schedulingv1 "k8s.io/api/scheduling/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/labels"
	"k8s.io/client-go/kubernetes"
	policylisters "k8s.io/client-go/listers/policy/v1"
	"k8s.io/client-go/rest"
	"k8s.io/client-go/tools/clientcmd"

	"github.com/kubernasium/kubernasium/kwok"
	"github.com/kubernasium/kubernasium/kwok/kwoktest"
)

// inOrder prefers nodes of lower index.
func inOrder(node int, _ []float32) float32 { return -float32(node) }

// TestPlacing: what keeps pods off nodes, what events say, and that a pod that fits nowhere is
// placed when there is room.
func TestPlacing(t *testing.T) {
	w := newWorld(t, kwoktest.Shared(t))
	w.node("a", "2", "4Gi", 10, func(n *corev1.Node) { n.Labels["disk"] = "ssd" })
	w.node("b", "2", "4Gi", 2, func(n *corev1.Node) {
		n.Spec.Taints = []corev1.Taint{{Key: "team", Value: "x", Effect: corev1.TaintEffectNoSchedule}}
	})
	c := w.config(byAgent(t, inOrder))
	s, _ := w.run(c)
	first := w.create(w.pod("first", c.Name, "1500m", "1Gi"))
	if got := w.placed("first"); got != "a" {
		t.Errorf("the first pod is on %s, want a: b is tainted", got)
	}
	if note, want := w.event(first, "Scheduled"), fmt.Sprintf("Successfully assigned %s/first to %s.a", w.namespace, w.namespace); note != want {
		t.Errorf("event %q, want %q", note, want)
	}
	w.create(w.pod("tolerates", c.Name, "1", "1Gi", func(p *corev1.Pod) {
		p.Spec.Tolerations = []corev1.Toleration{{Key: "team", Operator: corev1.TolerationOpExists}}
	}))
	if got := w.placed("tolerates"); got != "b" {
		t.Errorf("the pod that tolerates the taint is on %s, want b: a has no room", got)
	}
	waits := w.create(w.pod("waits", c.Name, "1", "1Gi"))
	if note := w.event(waits, "FailedScheduling"); !strings.Contains(note, "0/2 nodes are available: 1 Insufficient cpu, 1 untolerated taint team.") {
		t.Errorf("event %q", note)
	}
	hdd := w.create(w.pod("hdd", c.Name, "100m", "1Gi", func(p *corev1.Pod) { p.Spec.NodeSelector["disk"] = "hdd" }))
	if note := w.event(hdd, "FailedScheduling"); !strings.Contains(note, "0/2 nodes are available: 2 node affinity or selector not matched.") {
		t.Errorf("event %q", note)
	}
	if err := w.client.CoreV1().Pods(w.namespace).Delete(ctx, "first", metav1.DeleteOptions{}); err != nil {
		t.Fatal(err)
	}
	if got := w.placed("waits"); got != "a" {
		t.Errorf("the pod that waited is on %s, want a, where there is room now", got)
	}
	w.node("c", "2", "4Gi", 10, func(n *corev1.Node) { n.Labels["disk"] = "hdd" })
	if got := w.placed("hdd"); got != "c" {
		t.Errorf("the pod that waited for a disk is on %s, want c, which is new", got)
	}
	w.attempted(s, resultScheduled, 4)
	if got := attempts(t, s, resultUnschedulable); got < 2 {
		t.Errorf("%v attempts were %s, want 2 at least", got, resultUnschedulable)
	}
}

// attempted waits until so many attempts had a result: they are counted after others see the bindings.
func (w *world) attempted(s *Scheduler, result string, want float64) {
	w.t.Helper()
	w.until(fmt.Sprintf("%v attempts of %s are %s", want, s.cfg.Lease.Identity, result), func() bool { return attempts(w.t, s, result) >= want })
	if got := attempts(w.t, s, result); got != want {
		w.t.Errorf("%v attempts of %s are %s, want %v", got, s.cfg.Lease.Identity, result, want)
	}
}

func attempts(t *testing.T, s *Scheduler, result string) float64 {
	t.Helper()
	families, err := s.metrics.registry.Gather()
	if err != nil {
		t.Fatal(err)
	}
	for _, f := range families {
		for _, m := range f.GetMetric() {
			for _, l := range m.GetLabel() {
				if f.GetName() == "kubernasium_scheduler_schedule_attempts_total" && l.GetValue() == result {
					return m.GetCounter().GetValue()
				}
			}
		}
	}
	return 0
}

// TestPriority: of the pods that wait when a scheduler comes, that of the highest priority is
// placed first, and of equal ones the first that came.
func TestPriority(t *testing.T) {
	w := newWorld(t, kwoktest.Shared(t))
	w.node("a", "1", "4Gi", 10)
	c := w.config(byAgent(t, inOrder))
	high := int32(1000)
	w.create(w.pod("low", c.Name, "600m", "1Gi"))
	w.class(priorityClass(w.namespace, high))
	last := w.create(w.pod("high", c.Name, "600m", "1Gi", func(p *corev1.Pod) { p.Spec.PriorityClassName = w.namespace }))
	if last.Spec.Priority == nil || *last.Spec.Priority != high {
		t.Fatalf("priority %v, want %d of its class", last.Spec.Priority, high)
	}
	w.run(c)
	if got := w.placed("high"); got != "a" {
		t.Errorf("the pod of high priority is on %q, want a", got)
	}
	if got := w.nodeOf("low"); got != "" {
		t.Errorf("the pod of low priority is on %s, where there was no room left", got)
	}
}

// slow is an agent's function that waits in each decision until it is let go.
type slow struct {
	let chan struct{}
}

func (s *slow) rate(node int, _ []float32) float32 {
	<-s.let
	return float32(node)
}

func priorityClass(name string, value int32) *schedulingv1.PriorityClass {
	return &schedulingv1.PriorityClass{ObjectMeta: metav1.ObjectMeta{Name: name}, Value: value}
}

// class creates a priority class, and waits until the API server knows it: admission has its classes from a watch.
func (w *world) class(c *schedulingv1.PriorityClass) {
	w.t.Helper()
	if _, err := w.client.SchedulingV1().PriorityClasses().Create(ctx, c, metav1.CreateOptions{}); err != nil {
		w.t.Fatal(err)
	}
	w.t.Cleanup(func() {
		if err := w.client.SchedulingV1().PriorityClasses().Delete(ctx, c.Name, metav1.DeleteOptions{}); err != nil {
			w.t.Error(err)
		}
	})
	probe := w.pod("probe", "nobody", "1", "1Gi", func(p *corev1.Pod) { p.Spec.PriorityClassName = c.Name })
	w.until("pods of class "+c.Name+" are admitted", func() bool {
		_, err := w.client.CoreV1().Pods(w.namespace).Create(ctx, probe, metav1.CreateOptions{DryRun: []string{metav1.DryRunAll}})
		if err != nil && !apierrors.IsForbidden(err) {
			w.t.Fatal(err)
		}
		return err == nil
	})
}

// TestFallback: where the policy is too slow, or fails, kube-scheduler's scores choose.
func TestFallback(t *testing.T) {
	w := newWorld(t, kwoktest.Shared(t))
	for _, name := range []string{"a", "b", "c"} {
		w.node(name, "4", "8Gi", 10)
	}
	agent := &slow{make(chan struct{})}
	c := w.config(byAgent(t, agent.rate))
	c.Budget = 20 * time.Millisecond
	s, stop := w.run(c)
	// The policy would choose c; LeastAllocated and the first of equals give a, then b, then c.
	for i, want := range []string{"a", "b", "c"} {
		name := fmt.Sprintf("p%d", i)
		w.create(w.pod(name, c.Name, "1", "2Gi"))
		if got := w.placed(name); got != want {
			t.Errorf("pod %d is on %s, want %s by kube-scheduler's scores", i, got, want)
		}
	}
	if n := counter(t, s, "kubernasium_scheduler_fallbacks_total"); n != 3 {
		t.Errorf("%v decisions fell back, want 3", n)
	}
	status, reply := post(t, s.Handler(), "/score", `{"pod":{"metadata":{"name":"x","namespace":"y","uid":"u"},"spec":{}},"nodes":[{"metadata":{"name":"`+w.namespace+`.a"}}]}`)
	if status != http.StatusOK || reply != `{"scores":{"`+w.namespace+`.a":100}}` {
		t.Errorf("POST /score while the policy is too slow: %d, %s", status, reply)
	}
	close(agent.let)
	tries := 0
	w.until("the policy answers in time", func() bool {
		tries++
		name := fmt.Sprintf("q%d", tries)
		w.create(w.pod(name, c.Name, "1m", "1Mi"))
		w.placed(name)
		if err := w.client.CoreV1().Pods(w.namespace).Delete(ctx, name, metav1.DeleteOptions{}); err != nil {
			t.Fatal(err) // a busy machine takes many, for which there is no room
		}
		return counterOf(t, s, "kubernasium_scheduler_policy_duration_seconds") > 0
	})
	stop()
	// A policy that cannot decide: with no GPU in the cluster GPUPodScheduling is not possible.
	c = w.config(byBaseline(t, "k8s/GPUPodScheduling-v0", "FGD", nil))
	c.Lease.Name = "gpu-" + c.Name
	s, _ = w.run(c)
	w.create(w.pod("no-gpu", c.Name, "1m", "1Mi"))
	w.placed("no-gpu")
	if n := counter(t, s, "kubernasium_scheduler_fallbacks_total"); n < 1 {
		t.Error("no decision fell back where the policy fails")
	}
}

// counterOf returns how many observations a histogram has.
func counterOf(t *testing.T, s *Scheduler, name string) (count uint64) {
	t.Helper()
	families, err := s.metrics.registry.Gather()
	if err != nil {
		t.Fatal(err)
	}
	for _, f := range families {
		if f.GetName() == name {
			for _, m := range f.GetMetric() {
				count += m.GetHistogram().GetSampleCount()
			}
		}
	}
	return count
}

// TestBetweenDecisionAndBinding: the chosen node is deleted, or the pod is bound by somebody else,
// while the policy decides.
func TestBetweenDecisionAndBinding(t *testing.T) {
	w := newWorld(t, kwoktest.Shared(t))
	w.node("a", "4", "8Gi", 10)
	b := w.node("b", "4", "8Gi", 10)
	var s *Scheduler
	var meanwhile atomic.Value // func() of the next decision
	c := w.config(byAgent(t, func(node int, _ []float32) float32 {
		if f, ok := meanwhile.Swap((func())(nil)).(func()); ok && f != nil {
			f()
		}
		return float32(node) // the last node
	}))
	s, _ = w.run(c)
	meanwhile.Store(func() {
		if err := w.client.CoreV1().Nodes().Delete(ctx, b, metav1.DeleteOptions{}); err != nil {
			t.Error(err)
		}
		for end := time.Now().Add(patience); time.Now().Before(end); time.Sleep(time.Millisecond) {
			s.cache.mu.Lock()
			_, there := s.cache.nodes[b]
			s.cache.mu.Unlock()
			if !there {
				return
			}
		}
		t.Error("the deletion of the node is not seen")
	})
	w.create(w.pod("node-goes", c.Name, "1", "1Gi"))
	if got := w.placed("node-goes"); got != "a" {
		t.Errorf("the pod is on %s, want a: b was deleted after it was chosen", got)
	}
	w.node("c", "4", "8Gi", 10)
	w.known(s)
	// Somebody binds the pod to a while we choose c: by the API alone we learn of it.
	meanwhile.Store(func() {
		err := w.client.CoreV1().Pods(w.namespace).Bind(ctx, &corev1.Binding{
			ObjectMeta: metav1.ObjectMeta{Name: "bound"}, Target: corev1.ObjectReference{Kind: "Node", Name: w.namespace + ".a"},
		}, metav1.CreateOptions{})
		if err != nil {
			t.Error(err)
		}
	})
	w.create(w.pod("bound", c.Name, "1", "1Gi"))
	// There may be more than one before the binding is seen here.
	w.until("the conflict is counted", func() bool { return attempts(t, s, resultConflict) >= 2 })
	if got := w.nodeOf("bound"); got != "a" {
		t.Errorf("the pod is on %s, want a, where somebody else bound it", got)
	}
	// What was assumed of it is forgotten: c is empty, and takes a pod that needs all of it.
	w.create(w.pod("all", c.Name, "4", "8Gi"))
	if got := w.placed("all"); got != "c" {
		t.Errorf("the pod is on %s, want c", got)
	}
}

// held is a lister of budgets that says when it is asked first, and waits until it is let go.
type held struct {
	policylisters.PodDisruptionBudgetLister
	asked, let chan struct{}
	once       *sync.Once
}

func (h held) List(s labels.Selector) ([]*policyv1.PodDisruptionBudget, error) {
	h.once.Do(func() { close(h.asked) })
	<-h.let
	return h.PodDisruptionBudgetLister.List(s)
}

// TestChangeDuringAttempt: a node that is seen when a pod has just been found to fit nowhere, and is not yet noted
// as one that waits for a change, leads to another attempt.
func TestChangeDuringAttempt(t *testing.T) {
	w := newWorld(t, kwoktest.Shared(t))
	w.node("small", "1", "4Gi", 10)
	c := w.config(byAgent(t, inOrder))
	c.FirstRetry, c.LastRetry = patience*2, patience*2
	s, err := New(w.client, c)
	if err != nil {
		t.Fatal(err)
	}
	h := held{s.budgets, make(chan struct{}), make(chan struct{}), &sync.Once{}}
	s.budgets = h
	w.start(s)
	let := sync.OnceFunc(func() { close(h.let) })
	t.Cleanup(let) // before the scheduler's end
	w.create(w.pod("p", c.Name, "2", "1Gi"))
	select {
	case <-h.asked:
	case <-time.After(patience):
		t.Fatal("nobody looks for victims")
	}
	w.node("large", "4", "8Gi", 10)
	w.known(s)
	let()
	if got := w.placed("p"); got != "large" {
		t.Errorf("the pod is on %s, want large", got)
	}
}

// cut is a transport that can be cut.
type cut struct {
	next http.RoundTripper
	off  atomic.Bool
}

func (c *cut) RoundTrip(r *http.Request) (*http.Response, error) {
	if c.off.Load() {
		return nil, errors.New("cut")
	}
	return c.next.RoundTrip(r)
}

// TestLeaderElection: of three instances one binds. When it ends, another takes over at once; when
// that is cut off from the API server, it stops, and the third takes over after the lease.
func TestLeaderElection(t *testing.T) {
	w := newWorld(t, kwoktest.Shared(t))
	w.node("a", "64", "64Gi", 100)
	rc, err := clientcmd.BuildConfigFromFlags("", w.server.Kubeconfig)
	if err != nil {
		t.Fatal(err)
	}
	var wire *cut
	instance := func(identity string) (*Scheduler, func()) {
		own := rest.CopyConfig(rc)
		own.QPS = -1
		own.Wrap(func(next http.RoundTripper) http.RoundTripper {
			wire = &cut{next: next}
			return wire
		})
		client, err := kubernetes.NewForConfig(own)
		if err != nil {
			t.Fatal(err)
		}
		c := w.config(byAgent(t, inOrder))
		c.Lease.Identity = identity
		if identity != "one" { // which ends by itself; the others' leases are waited for
			c.Lease.Duration, c.Lease.Renew = 5*time.Second, 2*time.Second
		}
		s, err := New(client, c)
		if err != nil {
			t.Fatal(err)
		}
		return s, w.start(s)
	}
	one, stopOne := instance("one")
	w.until("one leads", one.leading.Load)
	two, _ := instance("two")
	wireOfTwo := wire
	place := func(name string, by *Scheduler) {
		w.create(w.pod(name, w.namespace, "1", "1Gi"))
		w.placed(name)
		w.attempted(by, resultScheduled, 1)
	}
	place("p1", one)
	if two.leading.Load() {
		t.Error("one and two lead at a time")
	}
	begin := time.Now()
	stopOne()
	w.until("two leads", two.leading.Load)
	t.Logf("taken over %v after the leader's end", time.Since(begin).Round(time.Millisecond))
	place("p2", two)
	three, _ := instance("three")
	wireOfTwo.off.Store(true)
	begin = time.Now()
	w.until("three leads", func() bool {
		if two.leading.Load() && three.leading.Load() {
			t.Fatal("two and three lead at a time")
		}
		return three.leading.Load()
	})
	t.Logf("taken over %v after the leader was cut off", time.Since(begin).Round(time.Millisecond))
	place("p3", three)
	for _, s := range []*Scheduler{one, two, three} {
		w.attempted(s, resultScheduled, 1)
	}
	wireOfTwo.off.Store(false)
}

// TestShadow: nothing is bound, and each line tells what the real kube-scheduler did and what the
// policy would have done in that moment.
func TestShadow(t *testing.T) {
	w := newWorld(t, kwoktest.Shared(t))
	load, _ := w.episode("Greedy", mixed, 3)
	var lines bytes.Buffer // written by one goroutine, read after it has ended
	c := w.config(byBaseline(t, balance, "Greedy", mixed))
	c.Name, c.Shadow = corev1.DefaultSchedulerName, &lines
	s, stop := w.run(c)
	placed, err := load.Deploy(ctx, w.client, corev1.DefaultSchedulerName, patience, s.Knows)
	if err != nil {
		t.Fatal(err)
	}
	w.until("every placement is seen", func() bool {
		return counter(t, s, "kubernasium_scheduler_shadow_decisions_total") >= float64(placed.Pods())
	})
	stop()
	if n := counter(t, s, "kubernasium_scheduler_schedule_attempts_total"); n != 0 {
		t.Errorf("%v attempts to place a pod in shadow mode", n)
	}
	records, agree := 0, 0
	in := bufio.NewScanner(&lines)
	for in.Scan() {
		var r ShadowRecord
		if err := json.Unmarshal(in.Bytes(), &r); err != nil {
			t.Fatalf("%v: %s", err, in.Bytes())
		}
		if r.Err != "" || r.Fallback != "" || r.Chosen == "" || r.Agree != (r.Chosen == r.Bound) || r.Fitting < 1 {
			t.Errorf("record %+v", r)
		}
		records++
		if r.Agree {
			agree++
		}
	}
	if records != placed.Pods() {
		t.Errorf("%d records of %d pods", records, placed.Pods())
	}
	// Nodes and pods differ, and kube-scheduler looks at free shares and not at their spread.
	if agree == 0 || agree == records {
		t.Errorf("%d of %d decisions agree, want some and not all", agree, records)
	}
	t.Logf("%d of %d decisions agree with kube-scheduler's", agree, records)
}

// TestShadowBindsNothing: pods that name the shadow and no other scheduler stay pending.
func TestShadowBindsNothing(t *testing.T) {
	w := newWorld(t, kwoktest.Shared(t))
	w.node("a", "4", "8Gi", 10)
	c := w.config(byAgent(t, inOrder))
	c.Shadow = &bytes.Buffer{}
	s, _ := w.run(c)
	p := w.create(w.pod("p", c.Name, "1", "1Gi"))
	w.until("the pod is seen", func() bool { return s.cache.order(p.UID).seq > 0 })
	// A second scheduler of another name is quick to bind; this one has had as long.
	other := w.config(byAgent(t, inOrder))
	other.Name = "other-" + w.namespace
	other.Lease.Name = other.Name
	w.run(other)
	w.create(w.pod("q", other.Name, "1", "1Gi"))
	w.placed("q")
	if got := w.nodeOf("p"); got != "" {
		t.Errorf("the shadow bound the pod to %s", got)
	}
}

// TestRealNodes: nodes that are not KWOK's do not count, even if they come later.
func TestRealNodes(t *testing.T) {
	w := newWorld(t, kwoktest.Start(t, "--components=kwok"))
	c := w.config(byAgent(t, inOrder))
	c.NodeSelector = ""
	w.run(c)
	n := &corev1.Node{ObjectMeta: metav1.ObjectMeta{Name: "real", Labels: w.only()}}
	n.Status.Allocatable = amounts("64", "256Gi")
	n.Status.Allocatable[corev1.ResourcePods] = amounts("100", "1")[corev1.ResourceCPU]
	if _, err := w.client.CoreV1().Nodes().Create(ctx, n, metav1.CreateOptions{}); err != nil {
		t.Fatal(err)
	}
	p := w.create(w.pod("p", c.Name, "1", "1Gi"))
	if note := w.event(p, "FailedScheduling"); !strings.Contains(note, "no node") {
		t.Errorf("event %q", note)
	}
	if _, err := kwok.Connect(ctx, w.server); err == nil || !strings.Contains(err.Error(), "real") {
		t.Errorf("Connect to a cluster with a real node = %v, want a refusal", err)
	}
	w.node("simulated", "4", "8Gi", 10)
	if got := w.placed("p"); got != "simulated" {
		t.Errorf("the pod is on %s", got)
	}
}
