package kwok

import (
	"context"
	"encoding/json"
	"errors"
	"io"
	"net/http"
	"net/url"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/resource"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/labels"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/client-go/kubernetes"
	"k8s.io/client-go/kubernetes/fake"

	"github.com/kubernasium/kubernasium/agents/live"
	"github.com/kubernasium/kubernasium/board"
	"github.com/kubernasium/kubernasium/kwok"
	"github.com/kubernasium/kubernasium/kwok/kwoktest"
	"github.com/kubernasium/kubernasium/trainer/play"
)

// servePage serves the page of a scheduler of the policy beside run, and returns how to get from it. Its end is waited for.
func servePage(t *testing.T, client kubernetes.Interface, args live.Args) (get func(path string, to any)) {
	t.Helper()
	c := scheduleConfig{}
	c.profile.Name, c.profile.Args.Args, c.profile.Args.NodeSelector = "custom-scheduler", args, defaultNodeSelector
	told, ended := make(chan string, 1), make(chan error, 1)
	c.page = sidePage{address: "127.0.0.1:0", announce: func(url string) { told <- url }}
	ctx, stop := context.WithCancel(context.Background())
	go func() {
		ended <- c.onBoard(ctx, client, func(ctx context.Context) error { <-ctx.Done(); return nil })
	}()
	var page string
	select {
	case page = <-told:
	case err := <-ended:
		t.Fatal(err)
	}
	t.Cleanup(func() {
		stop()
		if err := <-ended; err != nil {
			t.Error(err)
		}
	})
	return getter(t, page)
}

func getter(t *testing.T, page string) func(path string, to any) {
	return func(path string, to any) {
		t.Helper()
		resp, err := http.Get(page + path)
		if err != nil {
			t.Fatal(err)
		}
		defer resp.Body.Close()
		text, err := io.ReadAll(resp.Body)
		if err = errors.Join(err, json.Unmarshal(text, to)); err != nil || resp.StatusCode != http.StatusOK {
			t.Fatalf("GET %s: %s, %v: %s", path, resp.Status, err, text)
		}
	}
}

func sizedNode(name, rack string) *corev1.Node {
	have := corev1.ResourceList{corev1.ResourceCPU: resource.MustParse("8"), corev1.ResourceMemory: resource.MustParse("32Gi"), corev1.ResourcePods: resource.MustParse("110")}
	return &corev1.Node{ObjectMeta: metav1.ObjectMeta{Name: name, Labels: map[string]string{"rack": rack}}, Status: corev1.NodeStatus{Allocatable: have, Capacity: have}}
}

func podWanting(name, cpu, node string) *corev1.Pod {
	want := corev1.ResourceList{corev1.ResourceCPU: resource.MustParse(cpu), corev1.ResourceMemory: resource.MustParse("1Gi")}
	return &corev1.Pod{ObjectMeta: metav1.ObjectMeta{Name: name, Namespace: "default", UID: types.UID(name)}, Spec: corev1.PodSpec{
		SchedulerName: "custom-scheduler", NodeName: node, Containers: []corev1.Container{{Name: "main", Resources: corev1.ResourceRequirements{Requests: want}}}}}
}

// TestScheduleBoard: a, of 8 CPU, runs a pod of 4; b is empty and c is cordoned. A pod of 2 CPU waits, with its scheduler's
// message; Greedy and kube-scheduler's default both choose b. It is put on a all the same: the page shows that decision, in
// the state before it, as a disagreement.
func TestScheduleBoard(t *testing.T) {
	cordoned := sizedNode("c", "r2")
	cordoned.Spec.Unschedulable = true
	waiting := podWanting("p", "2", "")
	waiting.Status.Conditions = []corev1.PodCondition{{Type: corev1.PodScheduled, Status: corev1.ConditionFalse, Message: "no luck yet"}}
	client := fake.NewClientset(sizedNode("a", "r1"), sizedNode("b", "r1"), cordoned, podWanting("old", "4", "a"), waiting)
	get := servePage(t, client, live.Args{Baseline: "Greedy"})
	var info board.ClusterInfo
	waitFor(t, "the cluster is read", func() bool {
		get("api/cluster", &info)
		return len(info.Nodes) == 3 && info.Pending == 1 && info.Pods[0] == 1
	})
	if info.CPU[0] != 0.5 || info.Nodes[0].Rack != "r1" || info.Nodes[2].Rack != "r2" || info.Waiting[0].Pod != "default/p" || info.Waiting[0].Message != "no luck yet" || info.Placed != 0 {
		t.Errorf("cluster %+v", info)
	}
	check := func(why *board.PodWhy, policies ...string) {
		t.Helper()
		if len(why.Rows) != 3 || why.Rows[2][len(why.Columns)-1] != "cordoned" || why.Rows[0][len(why.Columns)-1] != "" {
			t.Fatalf("rows %q", why.Rows)
		}
		for i, name := range policies {
			c := why.Choices[i]
			if c.Policy != name || len(c.Action) != 1 || why.Nodes[int(c.Action[0])] != "b" {
				t.Errorf("choice %d: %+v, want that of %s, node b", i, c, name)
			}
			// Greedy rates no nodes: 1 for the one that it takes would tell nothing.
			if s := c.Scores; name == "Greedy" && s != nil || name == "KubeDefault" && (s == nil || s.Actions[2] != nil || *s.Actions[1] <= *s.Actions[0]) {
				t.Errorf("scores of %s: %+v", name, s)
			}
		}
	}
	var why board.PodWhy
	get("api/cluster/why?"+url.Values{"pod": {"default/p"}, "policies": {"First|Nobody"}}.Encode(), &why)
	check(&why, "Greedy", "KubeDefault")
	if why.Node != "" || len(why.Choices) != 4 || why.Nodes[int(why.Choices[2].Action[0])] != "a" || !strings.Contains(why.Choices[3].Error, "Nobody") {
		t.Errorf("why %+v", why)
	}
	bound := waiting.DeepCopy()
	bound.Spec.NodeName = "a"
	if _, err := client.CoreV1().Pods("default").Update(t.Context(), bound, metav1.UpdateOptions{}); err != nil {
		t.Fatal(err)
	}
	waitFor(t, "the decision", func() bool { get("api/cluster", &info); return info.Placed == 1 })
	d := info.Decisions[0]
	if d.Pod != "default/p" || d.Node != "a" || d.Policy != "b" || d.Default != "b" || d.DefaultScore == nil || *d.DefaultScore >= *d.Best || info.Disagreed != 1 || info.Pending != 0 || info.CPU[0] != 0.75 {
		t.Errorf("decision %+v of %+v", d, info)
	}
	get("api/cluster/why?pod=default/p", &why)
	check(&why, "Greedy", "KubeDefault")
	if why.Node != "a" {
		t.Errorf("decision on node %s", why.Node)
	}
}

// TestScheduleBoardAsks: a visitor may ask about a decision that has been made. Baselines that somebody asks about are asked
// at the decisions that follow, in the state before them: First chooses a, and RoundRobin, which nobody has asked about, is
// not known to have chosen.
func TestScheduleBoardAsks(t *testing.T) {
	w, err := newLiveCluster([]string{"custom-scheduler"}, live.Args{Baseline: "KubeDefault"}, labels.Everything())
	if err != nil {
		t.Fatal(err)
	}
	w.setNode(sizedNode("a", "r"), false)
	w.setNode(sizedNode("b", "r"), false)
	bind := func(name, node string) {
		w.rest = time.Time{} // explain each
		w.setPod(t.Context(), podWanting(name, "2", node), false, false)
	}
	ask := func(pod string, policies ...string) []board.Choice {
		t.Helper()
		why, err := w.Why(t.Context(), pod, policies)
		if err != nil {
			t.Fatal(err)
		}
		return why.Choices
	}
	bind("p", "b")
	if got := ask("default/p", "First"); len(got) != 2 || got[0].Policy != "KubeDefault" || !strings.Contains(got[1].Error, "not asked") {
		t.Errorf("choices %+v, want KubeDefault's once, and that First was not asked", got)
	}
	bind("q", "a")
	got := ask("default/q", "First", "RoundRobin")
	if len(got) != 3 || got[1].Policy != "First" || len(got[1].Action) != 1 || got[1].Action[0] != 0 || !strings.Contains(got[2].Error, "not asked") {
		t.Errorf("choices %+v, want node a by First, and that RoundRobin was not asked", got)
	}
	if d := w.Snapshot().Decisions[0]; d.Default != "a" || d.Policy != "a" || d.PolicyScore == nil || *d.PolicyScore != *d.DefaultScore {
		t.Errorf("decision %+v, want node a, with the default's score as the policy's", d)
	}
	if err := w.close(); err != nil {
		t.Error(err)
	}
}

// TestPodsOfLiveNode: of three pods of node a one runs, one has ended and one was deleted; the last to leave stands before the
// one that left earlier, and what node b has is its own.
func TestPodsOfLiveNode(t *testing.T) {
	w, err := newLiveCluster(nil, live.Args{Baseline: "Greedy"}, labels.Everything())
	if err != nil {
		t.Fatal(err)
	}
	w.setNode(sizedNode("a", "r"), false)
	w.setNode(sizedNode("b", "r"), false)
	began := time.Date(2026, 3, 1, 12, 0, 0, 0, time.UTC)
	for name, node := range map[string]string{"runs": "a", "ends": "a", "goes": "a", "other": "b"} {
		p := podWanting(name, "1500m", node)
		p.Status.Phase = corev1.PodRunning
		p.Status.Conditions = []corev1.PodCondition{{Type: corev1.PodScheduled, Status: corev1.ConditionTrue, LastTransitionTime: metav1.NewTime(began)}}
		w.setPod(t.Context(), p, true, false)
	}
	ended := podWanting("ends", "1500m", "a")
	ended.Status.Phase = corev1.PodSucceeded
	w.setPod(t.Context(), ended, false, false)
	w.setPod(t.Context(), ended, false, true) // it is deleted later, which is no second end
	w.setPod(t.Context(), podWanting("goes", "1500m", "a"), false, true)
	var got []string
	for _, p := range w.PodsOf("a") {
		got = append(got, p.Pod+" "+p.Phase)
		if p.MilliCPU != 1500 || p.Memory != 1<<30 || (p.To == nil) != (p.Phase == "Running") {
			t.Errorf("pod %+v, want 1500m CPU and 1Gi, with an end unless it runs", p)
		}
	}
	if diff := cmp.Diff([]string{"default/runs Running", "default/goes Deleted", "default/ends Succeeded"}, got); diff != "" {
		t.Errorf("pods of a (-want +got):\n%s", diff)
	}
	if from := w.PodsOf("a")[0].From; !from.Equal(began) {
		t.Errorf("the pod runs from %v, want %v", from, began)
	}
	if got := w.PodsOf("b"); len(got) != 1 || got[0].Pod != "default/other" {
		t.Errorf("pods of b: %+v", got)
	}
	if err := w.close(); err != nil {
		t.Error(err)
	}
}

// TestScheduleBoardModel: of a model the page shows probabilities, which sum to 1, the value of the state and the entropy.
func TestScheduleBoardModel(t *testing.T) {
	client := fake.NewClientset(sizedNode("a", "r"), sizedNode("b", "r"), sizedNode("c", "r"), podWanting("p", "2", ""))
	get := servePage(t, client, live.Args{Model: pretrainedModel("k8s-PodBalance-v0/ppo")})
	var info board.ClusterInfo
	waitFor(t, "the cluster is read", func() bool { get("api/cluster", &info); return info.Pending == 1 })
	var why board.PodWhy
	get("api/cluster/why?pod=default/p", &why)
	s, sum := why.Choices[0].Scores, 0.0
	if s == nil || s.Kind != "probability" || s.Entropy == nil || s.Value == 0 {
		t.Fatalf("scores %+v", s)
	}
	for _, p := range s.Actions {
		sum += *p
	}
	if sum < 0.999999 || sum > 1.000001 {
		t.Errorf("probabilities sum to %v", sum)
	}
}

// TestWatchedFollows: viewers are woken by what happens, and nodes and pods that go are gone.
func TestWatchedFollows(t *testing.T) {
	client := fake.NewClientset(sizedNode("a", "r"), sizedNode("b", "r"), podWanting("old", "4", "a"))
	w, err := newLiveCluster([]string{"custom-scheduler"}, live.Args{Baseline: "Greedy"}, labels.Everything())
	if err != nil {
		t.Fatal(err)
	}
	ctx, stop := context.WithCancel(t.Context())
	woken, ended := make(chan struct{}, 100), make(chan error, 2)
	go func() { ended <- w.watch(ctx, client) }()
	go func() { w.Follow(ctx, func() { woken <- struct{}{} }); ended <- nil }()
	waitFor(t, "two nodes and a pod", func() bool { i := w.Snapshot(); return len(i.Nodes) == 2 && i.Pods[0] == 1 })
	waitFor(t, "a viewer", func() bool { w.mu.Lock(); defer w.mu.Unlock(); return len(w.viewers) == 1 })
	waitFor(t, "the watches, which tell of deletions", func() bool {
		watches := 0
		for _, a := range client.Actions() {
			if a.GetVerb() == "watch" {
				watches++
			}
		}
		return watches == 2
	})
	for len(woken) > 0 {
		<-woken
	}
	if err := errors.Join(client.CoreV1().Pods("default").Delete(ctx, "old", metav1.DeleteOptions{}), client.CoreV1().Nodes().Delete(ctx, "b", metav1.DeleteOptions{})); err != nil {
		t.Fatal(err)
	}
	<-woken
	<-woken
	waitFor(t, "one empty node", func() bool { // a viewer may be woken late by what was there before
		i := w.Snapshot()
		return len(i.Nodes) == 1 && i.Pods[0] == 0 && i.CPU[0] == 0
	})
	stop()
	if err := errors.Join(<-ended, <-ended, w.close()); err != nil {
		t.Error(err)
	}
}

// TestKwokScheduleBoard: the page of the command shows what the real scheduler decides: every pod with its node, and that
// the policy would have done the same.
func TestKwokScheduleBoard(t *testing.T) {
	needScheduler(t)
	kubeconfig := kwoktest.Start(t).Kubeconfig
	t.Setenv(play.TokenVariable, "")
	client, err := kwok.Connect(t.Context(), kwok.Options{Kubeconfig: kubeconfig})
	if err != nil {
		t.Fatal(err)
	}
	for _, name := range []string{"a", "b"} {
		createSized(t, client, name)
	}
	address, err := withPort("127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	_, stop := startSchedule(t, "--policy", "Greedy", "--kubeconfig", kubeconfig, "--budget", "1m", "--board", address)
	defer stop()
	get := getter(t, "http://"+address+"/")
	var info board.ClusterInfo
	for i, name := range []string{"one", "two"} {
		schedulePod(t, client, name)
		waitFor(t, "the decision on pod "+name, func() bool { get("api/cluster", &info); return info.Placed == i+1 })
		p, err := client.CoreV1().Pods("default").Get(t.Context(), name, metav1.GetOptions{})
		if err != nil {
			t.Fatal(err)
		}
		if d := info.Decisions[0]; d.Pod != "default/"+name || d.Node != p.Spec.NodeName {
			t.Errorf("decision %+v, want pod %s on %s", d, name, p.Spec.NodeName)
		} else if d.Policy != "" && d.Policy != d.Node {
			t.Errorf("decision %+v: the page asks the same policy in the same state", d)
		}
	}
	if info.Pods[0] != 1 || info.Pods[1] != 1 {
		t.Errorf("pods by node %v, want one each", info.Pods)
	}
}
