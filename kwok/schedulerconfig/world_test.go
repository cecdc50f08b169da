package schedulerconfig_test

import (
	"bufio"
	"context"
	"net/http"
	"slices"
	"strconv"
	"strings"
	"testing"
	"time"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/resource"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/client-go/kubernetes"

	"github.com/kubernasium/kubernasium/envs/envstest"
	"github.com/kubernasium/kubernasium/kwok"
	"github.com/kubernasium/kubernasium/kwok/freeport"
	"github.com/kubernasium/kubernasium/kwok/kwoktest"
	"github.com/kubernasium/kubernasium/kwok/schedulerconfig"
)

const (
	patience  = time.Minute
	labelTest = "kubernasium.io/test"
)

// world is a control plane whose kube-scheduler has the plugin in several profiles.
type world struct {
	client     kubernetes.Interface
	kubeconfig string
	url        string // of the endpoints of the first profile
}

// start starts a control plane with these profiles beside default-scheduler.
func start(t testing.TB, profiles ...schedulerconfig.Profile) *world {
	t.Helper()
	return startWith(t, nil, profiles...)
}

// startWith starts a control plane with further flags.
func startWith(t testing.TB, flags []string, profiles ...schedulerconfig.Profile) *world {
	t.Helper()
	return startEdited(t, flags, func(text []byte) []byte { return text }, profiles...)
}

// startEdited starts a control plane whose kube-scheduler has an edited configuration.
func startEdited(t testing.TB, flags []string, edit func([]byte) []byte, profiles ...schedulerconfig.Profile) *world {
	t.Helper()
	address, err := freeport.Address()
	if err != nil {
		t.Fatal(err)
	}
	t.Setenv("KUBERNASIUM_TOKEN", "")
	profiles[0].Args.Serve.Listen = address
	c := schedulerconfig.Config{Default: true, Profiles: profiles}
	text, err := c.YAML()
	if err != nil {
		t.Fatal(err)
	}
	file := envstest.TempFile(t, "scheduler.yaml", string(edit(text)))
	p := kwoktest.Start(t, append(flags, "--scheduler-config="+file)...)
	client, err := kwok.Connect(t.Context(), kwok.Options{Kubeconfig: p.Kubeconfig})
	if err != nil {
		t.Fatal(err)
	}
	return &world{client: client, kubeconfig: p.Kubeconfig, url: "http://" + address}
}

// room is a namespace with nodes of its own.
type room struct {
	*world
	t         *testing.T
	namespace string
}

func (w *world) room(t *testing.T) *room {
	t.Helper()
	ns, err := w.client.CoreV1().Namespaces().Create(t.Context(), &corev1.Namespace{ObjectMeta: metav1.ObjectMeta{GenerateName: "test-"}}, metav1.CreateOptions{})
	if err != nil {
		t.Fatal(err)
	}
	r := &room{w, t, ns.Name}
	t.Cleanup(func() {
		ctx := context.Background()
		for _, err := range []error{
			w.client.CoreV1().Pods(r.namespace).DeleteCollection(ctx, metav1.DeleteOptions{GracePeriodSeconds: new(int64)}, metav1.ListOptions{}),
			w.client.CoreV1().Nodes().DeleteCollection(ctx, metav1.DeleteOptions{}, metav1.ListOptions{LabelSelector: labelTest + "=" + r.namespace}),
		} {
			if err != nil {
				t.Error(err)
			}
		}
	})
	return r
}

func amounts(cpu, memory string) corev1.ResourceList {
	return corev1.ResourceList{corev1.ResourceCPU: resource.MustParse(cpu), corev1.ResourceMemory: resource.MustParse(memory)}
}

// node creates a node, and waits until kube-scheduler may use it.
func (r *room) node(name, cpu, memory string, change ...func(*corev1.Node)) string {
	r.t.Helper()
	have := amounts(cpu, memory)
	have[corev1.ResourcePods] = resource.MustParse("110")
	full := r.namespace + "." + name
	n := &corev1.Node{
		ObjectMeta: metav1.ObjectMeta{Name: full, Labels: map[string]string{labelTest: r.namespace, corev1.LabelHostname: full}, Annotations: map[string]string{"kwok.x-k8s.io/node": "fake"}},
		Status:     corev1.NodeStatus{Allocatable: have, Capacity: have},
	}
	for _, f := range change {
		f(n)
	}
	if _, err := r.client.CoreV1().Nodes().Create(r.t.Context(), n, metav1.CreateOptions{}); err != nil {
		r.t.Fatal(err)
	}
	r.until("node "+name+" is ready and known", func() bool {
		now, err := r.client.CoreV1().Nodes().Get(r.t.Context(), full, metav1.GetOptions{})
		if err != nil {
			r.t.Fatal(err)
		}
		list, err := r.client.CoreV1().Nodes().List(r.t.Context(), metav1.ListOptions{})
		if err != nil {
			r.t.Fatal(err)
		}
		for _, c := range now.Status.Conditions {
			if c.Type == corev1.NodeReady && c.Status == corev1.ConditionTrue {
				return r.metric(`scheduler_cache_size{type="nodes"}`) == float64(len(list.Items))
			}
		}
		return false
	})
	return full
}

// pod creates a pod that may go to the room's nodes.
func (r *room) pod(name, scheduler, cpu, memory string, change ...func(*corev1.Pod)) *corev1.Pod {
	r.t.Helper()
	p := &corev1.Pod{
		ObjectMeta: metav1.ObjectMeta{Namespace: r.namespace, Name: name, Annotations: map[string]string{}, Labels: map[string]string{"app": "a"}},
		Spec: corev1.PodSpec{
			SchedulerName: scheduler, NodeSelector: map[string]string{labelTest: r.namespace}, TerminationGracePeriodSeconds: new(int64),
			Containers: []corev1.Container{{Name: "main", Image: "kubernasium.io/simulated"}},
		},
	}
	if cpu != "" {
		p.Spec.Containers[0].Resources.Requests = amounts(cpu, memory)
	}
	for _, f := range change {
		f(p)
	}
	p, err := r.client.CoreV1().Pods(r.namespace).Create(r.t.Context(), p, metav1.CreateOptions{})
	if err != nil {
		r.t.Fatal(err)
	}
	return p
}

func (r *room) get(name string) *corev1.Pod {
	r.t.Helper()
	p, err := r.client.CoreV1().Pods(r.namespace).Get(r.t.Context(), name, metav1.GetOptions{})
	if err != nil {
		r.t.Fatal(err)
	}
	return p
}

// placed waits until a pod has a node, and returns the node's name in the room.
func (r *room) placed(name string) (node string) {
	r.t.Helper()
	r.until("pod "+name+" has a node", func() bool {
		node = strings.TrimPrefix(r.get(name).Spec.NodeName, r.namespace+".")
		return node != ""
	})
	return node
}

// refused waits until a pod is marked as unschedulable, for a reason that contains why.
func (r *room) refused(name, why string) {
	r.t.Helper()
	r.until("PodScheduled of "+name+" is False: "+why, func() bool {
		return slices.ContainsFunc(r.get(name).Status.Conditions, func(c corev1.PodCondition) bool {
			return c.Type == corev1.PodScheduled && c.Status == corev1.ConditionFalse && c.Reason == corev1.PodReasonUnschedulable && strings.Contains(c.Message, why)
		})
	})
}

func (r *room) until(what string, met func() bool) {
	r.t.Helper()
	for end := time.Now().Add(patience); !met(); time.Sleep(10 * time.Millisecond) {
		if time.Now().After(end) {
			r.t.Fatalf("after %v not yet: %s", patience, what)
		}
	}
}

// metric returns the sum of the metrics whose line begins so.
func (w *world) metric(prefix string) (sum float64) {
	resp, err := http.Get(w.url + "/metrics")
	if err != nil {
		return -1
	}
	defer resp.Body.Close()
	for lines := bufio.NewScanner(resp.Body); lines.Scan(); {
		if line := lines.Text(); strings.HasPrefix(line, prefix) {
			v, _ := strconv.ParseFloat(line[strings.LastIndexByte(line, ' ')+1:], 64)
			sum += v
		}
	}
	return sum
}
