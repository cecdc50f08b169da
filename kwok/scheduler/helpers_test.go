package scheduler

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"os"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/resource"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/client-go/kubernetes"

	"github.com/kubernasium/kubernasium/agents/baseline"
	"github.com/kubernasium/kubernasium/envs"
	_ "github.com/kubernasium/kubernasium/envs/all"
	"github.com/kubernasium/kubernasium/envs/cluster"
	"github.com/kubernasium/kubernasium/envs/space"
	"github.com/kubernasium/kubernasium/kwok"
	"github.com/kubernasium/kubernasium/kwok/kwoktest"
	"github.com/kubernasium/kubernasium/kwok/lease"
)

const (
	patience  = time.Minute
	balance   = "k8s/PodBalance-v0"
	labelTest = "kubernasium.io/test"
)

var ctx = context.Background()

func TestMain(m *testing.M) { os.Exit(kwoktest.Main(m)) }

// world is a control plane and what a test has of it: a namespace, and nodes with a label.
type world struct {
	t         *testing.T
	client    kubernetes.Interface
	server    kwok.Options
	namespace string
}

func newWorld(t *testing.T, plane *kwoktest.ControlPlane) *world {
	t.Helper()
	w := &world{t: t, server: kwok.Options{Kubeconfig: plane.Kubeconfig}}
	var err error
	if w.client, err = kwok.Connect(ctx, w.server); err != nil {
		t.Fatal(err)
	}
	ns, err := w.client.CoreV1().Namespaces().Create(ctx, &corev1.Namespace{ObjectMeta: metav1.ObjectMeta{GenerateName: "test-"}}, metav1.CreateOptions{})
	if err != nil {
		t.Fatal(err)
	}
	w.namespace = ns.Name
	t.Cleanup(func() {
		for _, err := range []error{
			w.client.CoreV1().Pods(w.namespace).DeleteCollection(ctx, metav1.DeleteOptions{GracePeriodSeconds: new(int64)}, metav1.ListOptions{}),
			w.client.CoreV1().Nodes().DeleteCollection(ctx, metav1.DeleteOptions{}, metav1.ListOptions{LabelSelector: labelTest + "=" + w.namespace}),
			w.client.CoreV1().Namespaces().Delete(ctx, w.namespace, metav1.DeleteOptions{}),
		} {
			if err != nil {
				t.Error(err)
			}
		}
	})
	return w
}

// only is the node selector of the test's pods.
func (w *world) only() map[string]string { return map[string]string{labelTest: w.namespace} }

// selector is the label selector of the test's nodes.
func (w *world) selector() string { return labelTest + "=" + w.namespace }

func amounts(cpu, memory string) corev1.ResourceList {
	return corev1.ResourceList{corev1.ResourceCPU: resource.MustParse(cpu), corev1.ResourceMemory: resource.MustParse(memory)}
}

// node creates a node of the test's, with so many pods at most, and returns its name.
func (w *world) node(name, cpu, memory string, pods int64, change ...func(*corev1.Node)) string {
	w.t.Helper()
	have := amounts(cpu, memory)
	have[corev1.ResourcePods] = *resource.NewQuantity(pods, resource.DecimalSI)
	n := &corev1.Node{
		ObjectMeta: metav1.ObjectMeta{Name: w.namespace + "." + name, Labels: w.only(), Annotations: map[string]string{"kwok.x-k8s.io/node": "fake"}},
		Status:     corev1.NodeStatus{Allocatable: have, Capacity: have},
	}
	for _, f := range change {
		f(n)
	}
	if _, err := w.client.CoreV1().Nodes().Create(ctx, n, metav1.CreateOptions{}); err != nil {
		w.t.Fatal(err)
	}
	w.until("node "+n.Name+" is ready", func() bool {
		now, err := w.client.CoreV1().Nodes().Get(ctx, n.Name, metav1.GetOptions{})
		if err != nil {
			w.t.Fatal(err)
		}
		for _, c := range now.Status.Conditions {
			if c.Type == corev1.NodeReady {
				return c.Status == corev1.ConditionTrue
			}
		}
		return false
	})
	return n.Name
}

// pod returns a pod of the test's, which create creates.
func (w *world) pod(name, scheduler, cpu, memory string, change ...func(*corev1.Pod)) *corev1.Pod {
	size := amounts(cpu, memory)
	p := &corev1.Pod{
		ObjectMeta: metav1.ObjectMeta{Namespace: w.namespace, Name: name},
		Spec: corev1.PodSpec{
			SchedulerName: scheduler, NodeSelector: w.only(), TerminationGracePeriodSeconds: new(int64),
			Containers: []corev1.Container{{Name: "main", Image: "kubernasium.io/simulated", Resources: corev1.ResourceRequirements{Requests: size}}},
		},
	}
	for _, f := range change {
		f(p)
	}
	return p
}

func (w *world) create(p *corev1.Pod) *corev1.Pod {
	w.t.Helper()
	made, err := w.client.CoreV1().Pods(w.namespace).Create(ctx, p, metav1.CreateOptions{})
	if err != nil {
		w.t.Fatal(err)
	}
	return made
}

// nodeOf returns the node of a pod without the namespace before it, or "".
func (w *world) nodeOf(pod string) string {
	w.t.Helper()
	p, err := w.client.CoreV1().Pods(w.namespace).Get(ctx, pod, metav1.GetOptions{})
	if err != nil {
		w.t.Fatal(err)
	}
	return strings.TrimPrefix(p.Spec.NodeName, w.namespace+".")
}

// placed waits until a pod has a node, and returns its name.
func (w *world) placed(pod string) (node string) {
	w.t.Helper()
	w.until("pod "+pod+" has a node", func() bool {
		node = w.nodeOf(pod)
		return node != ""
	})
	return node
}

// stirring is met, for what is waited for from the real kube-scheduler. On a loaded machine that has been seen to
// leave a pod aside for which it had preempted, until something else changes or minutes have passed: so now and then
// a small pod comes to a node and goes.
func (w *world) stirring(node string, met func() bool) func() bool {
	next := time.Now().Add(patience / 6)
	return func() bool {
		w.t.Helper()
		if met() {
			return true
		}
		if time.Now().After(next) {
			w.t.Log("kube-scheduler is stirred")
			p := w.create(w.pod("stirs", "nobody", "1m", "1Mi", func(p *corev1.Pod) { p.Spec.NodeName = w.namespace + "." + node }))
			if err := w.client.CoreV1().Pods(w.namespace).Delete(ctx, p.Name, metav1.DeleteOptions{}); err != nil {
				w.t.Fatal(err)
			}
			next = time.Now().Add(patience / 6)
		}
		return false
	}
}

func (w *world) until(what string, met func() bool) {
	w.t.Helper()
	for end := time.Now().Add(patience); !met(); time.Sleep(5 * time.Millisecond) {
		if time.Now().After(end) {
			w.t.Fatalf("after %v not yet: %s", patience, what)
		}
	}
}

// event waits for an event of a pod with a reason, and returns its note.
func (w *world) event(pod *corev1.Pod, reason string) (note string) {
	w.t.Helper()
	w.until(fmt.Sprintf("pod %s has an event %s", pod.Name, reason), func() bool {
		list, err := w.client.EventsV1().Events(w.namespace).List(ctx, metav1.ListOptions{})
		if err != nil {
			w.t.Fatal(err)
		}
		for i := range list.Items {
			if e := &list.Items[i]; e.Regarding.UID == pod.UID && e.Reason == reason {
				note = e.Note
				return true
			}
		}
		return false
	})
	return note
}

// config returns that of a scheduler of the test's own name, nodes and lease.
func (w *world) config(p *Policy) Config {
	return Config{
		Name: w.namespace, Policy: p, NodeSelector: w.selector(), Budget: patience, FirstRetry: 50 * time.Millisecond, LastRetry: 200 * time.Millisecond,
		Lease: lease.Lease{Identity: "one", Duration: 15 * time.Second, Renew: 10 * time.Second, Retry: 200 * time.Millisecond},
		Log:   slog.New(slog.NewTextHandler(logOf{w.t}, nil)),
	}
}

// logOf writes to the test's log.
type logOf struct{ t *testing.T }

func (l logOf) Write(p []byte) (int, error) {
	l.t.Log(strings.TrimSpace(string(p)))
	return len(p), nil
}

// run runs a scheduler until stop is called or the test ends, and returns when it watches.
func (w *world) run(c Config) (s *Scheduler, stop func()) {
	w.t.Helper()
	s, err := New(w.client, c)
	if err != nil {
		w.t.Fatal(err)
	}
	return s, w.start(s)
}

func (w *world) start(s *Scheduler) (stop func()) {
	running, cancel := context.WithCancel(ctx)
	ended := make(chan error, 1)
	go func() { ended <- s.Run(running) }()
	stop = sync.OnceFunc(func() {
		cancel()
		if err := <-ended; err != nil && !errors.Is(err, context.Canceled) {
			w.t.Errorf("Run: %v", err)
		}
	})
	w.t.Cleanup(stop)
	w.until("the scheduler watches", s.watches)
	return stop
}

// known waits until the scheduler knows the test's nodes. They come by another watch than pods: one that is created
// now could be seen before them.
func (w *world) known(s *Scheduler) {
	w.t.Helper()
	list, err := w.client.CoreV1().Nodes().List(ctx, metav1.ListOptions{LabelSelector: w.selector()})
	if err != nil {
		w.t.Fatal(err)
	}
	var names []string
	for i := range list.Items {
		names = append(names, list.Items[i].Name)
	}
	patient, cancel := context.WithTimeout(ctx, patience)
	defer cancel()
	if err := s.Knows(patient, names); err != nil {
		w.t.Fatal(err)
	}
}

// lookup returns an environment.
func lookup(t testing.TB, id string) *envs.Spec {
	t.Helper()
	s, err := envs.Lookup(id)
	if err != nil {
		t.Fatal(err)
	}
	return s
}

// byBaseline returns the policy of a baseline.
func byBaseline(t *testing.T, id, name string, opts map[string]any) *Policy {
	t.Helper()
	return &Policy{Name: name, Env: lookup(t, id), Options: opts, Baseline: name}
}

// agentFunc is an agent that rates nodes by a function of the row of each in the observation.
type agentFunc struct {
	columns int
	rate    func(node int, row []float32) float32
}

func (a agentFunc) Act(*envs.Batch, []float32) error { return errors.New("not asked: it rates") }

func (a agentFunc) Scores(b *envs.Batch, scores []float32) error {
	for i := range scores {
		scores[i] = a.rate(i, b.Obs[i*a.columns:][:a.columns])
	}
	return nil
}

// byAgent returns the policy of an agent in PodBalance, whose nodes have 16 columns.
func byAgent(t *testing.T, rate func(node int, row []float32) float32) *Policy {
	return &Policy{Name: "agent", Env: lookup(t, balance), Agent: func(_, _ space.Space) (Agent, error) { return agentFunc{16, rate}, nil }}
}

// episode plays an episode of PodBalance by a baseline in the simulator, and returns its workload,
// on nodes with the test's label, and placements.
func (w *world) episode(policy string, opts map[string]any, seed uint64) (*kwok.Workload, kwok.Placements) {
	w.t.Helper()
	v, err := envs.Make(balance, 1, envs.VecOptions{Options: opts, Autoreset: envs.Disabled})
	if err != nil {
		w.t.Fatal(err)
	}
	defer v.Close()
	p, err := baseline.New(v, policy, seed)
	if err != nil {
		w.t.Fatal(err)
	}
	b, err := v.Reset(ctx, envs.VecResetOptions{Seed: &seed})
	if err != nil {
		w.t.Fatal(err)
	}
	for action := make([]float32, 1); !b.Done(0); {
		if err := p.Act(b, action); err != nil {
			w.t.Fatal(err)
		}
		if b, err = v.Step(ctx, action); err != nil {
			w.t.Fatal(err)
		}
	}
	load, placed := kwok.WorkloadOf(v.Env(0).State())
	for i := range load.Nodes {
		load.Nodes[i].Labels = append(slices.Clone(load.Nodes[i].Labels), cluster.Label{Key: labelTest, Value: w.namespace})
	}
	return load, placed
}
