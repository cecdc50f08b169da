package bsp

import (
	"errors"
	"math"
	"strings"
	"testing"
	"time"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/kubernasium/kubernasium/envs/gang/profile"
	"github.com/kubernasium/kubernasium/kwok"
	"github.com/kubernasium/kubernasium/kwok/kwoktest"
)

// slack is by how much a simulated pod may end late as the watch sees it: KWOK takes 40 to 170 ms on an idle machine.
const slack = 20.0

// TestKubernetes executes by the wall clock on KWOK's nodes, with Jobs that are suspended until all are there, and as
// pod groups.
func TestKubernetes(t *testing.T) {
	gates := "--feature-gates=GenericWorkload=true,GangScheduling=true"
	for name, flags := range map[string][]string{
		"suspended Jobs": nil,
		"pod groups":     {"--extra=kube-apiserver:" + gates, "--extra=kube-apiserver:--runtime-config=scheduling.k8s.io/v1alpha2=true", "--extra=kube-scheduler:" + gates},
	} {
		t.Run(name, func(t *testing.T) {
			e, err := OpenKubernetes(ctx, KubernetesConfig{
				Server: kwok.Options{Kubeconfig: kwoktest.Start(t, flags...).Kubeconfig},
				Laws: []profile.Law{
					{Task: "cap", A: 0.1, SizeExp: 1, ShareExp: 1, CMax: 8}, {Task: "zero", A: 0.2, SizeExp: 1, ShareExp: 0, CMax: 8},
					{Task: "memcpy", A: 3600, SizeExp: 0, ShareExp: 0, CMax: 8},
				},
			})
			if err != nil {
				t.Fatal(err)
			}
			defer func() {
				if err := e.Close(); err != nil {
					t.Error(err)
				}
			}()
			if !strings.Contains(e.Setting(), ", "+name+", simulated by ") || e.MaxMilliCPU() != simulatedMilliCPU {
				t.Errorf("setting %q, %d millicores; want %s", e.Setting(), e.MaxMilliCPU(), name)
			}
			for _, m := range []Method{Resize, RecreateAll, RecreateChanged} {
				t.Run(string(m), func(t *testing.T) { testRealMethod(t, e, m, name == "pod groups") })
			}
			t.Run("dead", func(t *testing.T) { testRealDead(t, e) })
			t.Run("late", func(t *testing.T) { testRealLate(t, e) })
			t.Run("no room", func(t *testing.T) { testNoRoom(t, e, name == "pod groups") })
		})
	}
}

// testRealMethod: cap of size 10 takes 1 s on one core and 0.5 s on two, zero of size 5 always 1 s.
func testRealMethod(t *testing.T, e *Kubernetes, m Method, groups bool) {
	c, err := e.Start(ctx, Job{Works: []Work{{"cap", 1}, {"zero", 1}}, MilliCPU: []int64{1000, 1000}, Method: m, Limit: time.Minute})
	if err != nil {
		t.Fatal(err)
	}
	defer c.Close()
	for i, want := range [][2]float64{{1, 1}, {0.5, 1}, {0.5, 1}} {
		if i == 1 {
			if err := c.Replan(ctx, []int64{2000, 1000}); err != nil {
				t.Fatal(err)
			}
			checkPods(t, c.(*crew), []int64{2000, 1000}, groups)
		}
		got, err := c.Superstep(ctx, []float64{10, 5})
		if err != nil {
			t.Fatal(err)
		}
		for k, d := range got {
			if s := d.Seconds(); s < want[k] || s > want[k]+slack {
				t.Errorf("superstep %d: task %d took %v s, want %v and at most %v more", i, k, s, want[k], slack)
			}
		}
	}
}

// checkPods checks that the pods have shares, and came as a gang.
func checkPods(t *testing.T, c *crew, shares []int64, groups bool) {
	t.Helper()
	for k, name := range c.names {
		pods := c.space.Pods(name)
		if len(pods) != 1 || pods[0].Spec.Containers[0].Resources.Requests.Cpu().MilliValue() != shares[k] {
			t.Errorf("job %s has pods %v, want one with %d millicores", name, pods, shares[k])
			continue
		}
		grouped := pods[0].Spec.SchedulingGroup != nil
		resumed := c.space.Job(name).Generation == 2 // it was changed once
		if grouped != groups || resumed == groups {
			t.Errorf("job %s: pod group %v, resumed %v; want one of them, the group = %v", name, grouped, resumed, groups)
		}
	}
}

// testRealDead: a pod that is deleted ends the superstep.
func testRealDead(t *testing.T, e *Kubernetes) {
	c, err := e.Start(ctx, Job{Works: []Work{{"memcpy", 1}, {"cap", 1}}, MilliCPU: []int64{1000, 1000}, Method: Resize, Limit: 10 * time.Minute})
	if err != nil {
		t.Fatal(err)
	}
	defer c.Close()
	k := c.(*crew)
	lost := k.space.Pods(k.names[0])[0].Name
	go func() { // once the pod works
		pods := e.space.Client().CoreV1().Pods(e.space.Namespace())
		for p, err := pods.Get(ctx, lost, metav1.GetOptions{}); err == nil && p.Annotations[AnnotationOps] == ""; p, err = pods.Get(ctx, lost, metav1.GetOptions{}) {
			time.Sleep(10 * time.Millisecond)
		}
		_ = pods.Delete(ctx, lost, metav1.DeleteOptions{})
	}()
	if _, err := c.Superstep(ctx, []float64{1, 1}); !errors.Is(err, ErrDead) || !strings.Contains(err.Error(), "superstep 0: ") || !strings.Contains(err.Error(), "task-memcpy") {
		t.Errorf("a pod that is deleted: %v, want %v of memcpy", err, ErrDead)
	}
}

// testRealLate: a task that takes an hour is not at the barrier in time.
func testRealLate(t *testing.T, e *Kubernetes) {
	c, err := e.Start(ctx, Job{Works: []Work{{"memcpy", 1}, {"cap", 1}}, MilliCPU: []int64{1000, 1000}, Method: Resize, Limit: 30 * time.Second})
	if err != nil {
		t.Fatal(err)
	}
	defer c.Close()
	e.space.Patience = 10 * time.Second // the start is over
	if _, err := c.Superstep(ctx, []float64{1, 1}); !errors.Is(err, ErrLate) || !strings.Contains(err.Error(), "have not ended: memcpy;") {
		t.Errorf("an hour of work: %v, want %v of memcpy", err, ErrLate)
	}
}

// testNoRoom: a gang of which one pod has room does not start; of a pod group no pod gets a node.
func testNoRoom(t *testing.T, e *Kubernetes, groups bool) {
	const half = simulatedMilliCPU / 2
	first, err := e.Start(ctx, Job{Works: []Work{{"cap", 1}}, MilliCPU: []int64{half}, Method: Resize, Limit: time.Minute})
	if err != nil {
		t.Fatal(err)
	}
	defer first.Close()
	placed := make(chan int, 1)
	go func() { // while the second waits
		time.Sleep(3 * time.Second)
		n := 0
		pods, err := e.space.Client().CoreV1().Pods(e.space.Namespace()).List(ctx, metav1.ListOptions{})
		if err != nil {
			n = math.MinInt
		} else {
			for _, p := range pods.Items {
				if p.Spec.NodeName != "" && p.DeletionTimestamp == nil && strings.HasPrefix(p.Name, "task-zero") {
					n++
				}
			}
		}
		placed <- n
	}()
	works := []Work{{"zero", 1}, {"cap", 1}}
	if _, err := e.Start(ctx, Job{Works: works, MilliCPU: []int64{half * 3 / 5, half * 3 / 5}, Method: Resize, Limit: 6 * time.Second}); !errors.Is(err, ErrLate) || !strings.Contains(err.Error(), "start of the gang") {
		t.Errorf("a gang without room: %v, want %v", err, ErrLate)
	}
	if n := <-placed; groups && n != 0 {
		t.Errorf("%d pods of a group without room have nodes, want none", n)
	}
}

// TestMessage: a worker's report stands in the status of its container.
func TestMessage(t *testing.T) {
	for text, want := range map[string]float64{`{"seconds":2.5}`: 2.5, "": 0, "Completed": 0, `{"seconds":-1}`: 0} {
		p := &corev1.Pod{Status: corev1.PodStatus{ContainerStatuses: []corev1.ContainerStatus{{State: corev1.ContainerState{Terminated: &corev1.ContainerStateTerminated{Message: text}}}}}}
		if got := message(p); got != want {
			t.Errorf("message %q: %v s, want %v", text, got, want)
		}
	}
}

// TestOpenKubernetesRefuses: without laws it needs an image, and leave to use real nodes.
func TestOpenKubernetesRefuses(t *testing.T) {
	for _, c := range []KubernetesConfig{{}, {Image: "x"}, {Server: kwok.Options{AllowRealNodes: true}}} {
		if _, err := OpenKubernetes(ctx, c); err == nil || !strings.Contains(err.Error(), "an image for real ones") {
			t.Errorf("%+v: %v, want that laws or an image are missing", c, err)
		}
	}
}
