package trace_test

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"io"
	"net/http"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"sync/atomic"
	"testing"
	"time"

	gocmp "github.com/google/go-cmp/cmp"
	corev1 "k8s.io/api/core/v1"
	schedulingv1 "k8s.io/api/scheduling/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/api/resource"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/client-go/kubernetes"
	"k8s.io/client-go/tools/clientcmd"

	"github.com/kubernasium/kubernasium/envs/dataset/clustertrace"
	"github.com/kubernasium/kubernasium/envs/envstest"
	"github.com/kubernasium/kubernasium/kwok"
	"github.com/kubernasium/kubernasium/kwok/kwoktest"
	"github.com/kubernasium/kubernasium/kwok/trace"
)

func TestMain(m *testing.M) { os.Exit(kwoktest.Main(m)) }

func connect(t *testing.T, kubeconfig string) kubernetes.Interface {
	t.Helper()
	client, err := kwok.Connect(t.Context(), kwok.Options{Kubeconfig: kubeconfig})
	if err != nil {
		t.Fatal(err)
	}
	return client
}

// through returns a client whose requests go through f.
func through(t *testing.T, kubeconfig string, f func(next http.RoundTripper, r *http.Request) (*http.Response, error)) kubernetes.Interface {
	t.Helper()
	c, err := clientcmd.BuildConfigFromFlags("", kubeconfig)
	if err != nil {
		t.Fatal(err)
	}
	c.QPS = -1
	c.Wrap(func(next http.RoundTripper) http.RoundTripper {
		return roundTripper(func(r *http.Request) (*http.Response, error) { return f(next, r) })
	})
	client, err := kubernetes.NewForConfig(c)
	if err != nil {
		t.Fatal(err)
	}
	return client
}

type roundTripper func(*http.Request) (*http.Response, error)

func (f roundTripper) RoundTrip(r *http.Request) (*http.Response, error) { return f(r) }

// flushed is a recording that can be read while it is written.
type flushed struct{ *clustertrace.Writer }

// Write implements [trace.Sink].
func (f flushed) Write(e *clustertrace.Event) error { return errors.Join(f.Writer.Write(e), f.Flush()) }

// recording records in the background. The returned function waits until diff, unless it is nil, finds no difference in what
// was recorded. Then it ends the recording and returns it.
func recording(t *testing.T, client kubernetes.Interface, path string, salt []byte) (stop func(diff func(*clustertrace.Trace) string) *clustertrace.Trace) {
	t.Helper()
	var w *clustertrace.Writer
	var before *clustertrace.Trace
	start := time.Now()
	_, err := os.Stat(path)
	if err == nil {
		if w, before, err = clustertrace.Append(path); err == nil {
			start = before.Header.Start
		}
	} else {
		w, err = clustertrace.Create(path, clustertrace.Header{Start: start})
	}
	if err != nil {
		t.Fatal(err)
	}
	ctx, cancel := context.WithCancel(t.Context())
	synced, done := make(chan struct{}), make(chan error, 1)
	go func() {
		done <- trace.Record(ctx, client, flushed{w}, trace.Options{Start: start, Salt: salt, Before: before, Synced: func() { close(synced) }})
	}()
	select {
	case <-synced:
	case err := <-done:
		t.Fatal(err)
	}
	return func(diff func(*clustertrace.Trace) string) *clustertrace.Trace {
		if diff != nil {
			eventually(t, func() string {
				sofar, err := clustertrace.Load(path)
				if sofar == nil || !errors.Is(err, clustertrace.ErrCut) {
					return fmt.Sprint(err)
				}
				return diff(sofar)
			})
		}
		cancel()
		if err := errors.Join(<-done, w.Close(time.Since(start))); err != nil {
			t.Fatal(err)
		}
		got, err := clustertrace.Load(path)
		if err != nil {
			t.Fatal(err)
		}
		return got
	}
}

// placed is a pod and its node.
type placed struct{ Pod, Node, Phase string }

// byAPI returns the pods that the API server has.
func byAPI(t *testing.T, client kubernetes.Interface) (all []placed) {
	t.Helper()
	pods, err := client.CoreV1().Pods("").List(t.Context(), metav1.ListOptions{})
	if err != nil {
		t.Fatal(err)
	}
	for _, p := range pods.Items {
		all = append(all, placed{p.Namespace + "/" + p.Name, p.Spec.NodeName, string(p.Status.Phase)})
	}
	slices.SortFunc(all, func(a, b placed) int { return cmp.Compare(a.Pod, b.Pod) })
	return all
}

// byTrace returns the pods that are there at the end of a recording.
func byTrace(tr *clustertrace.Trace) (all []placed) {
	for _, p := range tr.Pods {
		if p.Deleted != clustertrace.Never {
			continue
		}
		one := placed{Pod: tr.Templates[p.Template].Namespace + "/" + p.Name, Phase: string(corev1.PodPending)}
		if p.Node >= 0 {
			one.Node = tr.Nodes[p.Node].Last().Name
		}
		switch {
		case p.Phase != "":
			one.Phase = string(p.Phase)
		case p.Started != clustertrace.Never:
			one.Phase = string(corev1.PodRunning)
		}
		all = append(all, one)
	}
	slices.SortFunc(all, func(a, b placed) int { return cmp.Compare(a.Pod, b.Pod) })
	return all
}

// runSim deploys a workload that kube-scheduler places, and leaves its last filling.
func runSim(t *testing.T, kubeconfig string) {
	t.Helper()
	ctx, cancel := context.WithCancel(t.Context())
	defer cancel()
	deployments := 0
	_, err := kwok.RunSim(ctx, kwok.SimConfig{
		Server: kwok.Options{Kubeconfig: kubeconfig}, Namespace: "default", Nodes: 3, CPULoad: 0.2, MemoryLoad: 0.2, PodLoad: 0.2, Resets: 2,
		SchedulerName: "default-scheduler", Patience: 2 * time.Minute, Seed: 1,
	}, func(kwok.SimDeployment, kwok.Load) {
		if deployments++; deployments == 7 { // in the second filling
			cancel()
		}
	})
	if err != nil && !errors.Is(err, context.Canceled) && ctx.Err() == nil {
		t.Fatal(err)
	}
}

// cutWatches is how many watches of pods are cut before one lasts.
const cutWatches = 2

// TestRecord records by watches that are cut at first what runsim does, continues the recording after a pause, and compares with the API server.
// The recording replayed on another control plane has every pod on the node where it was.
func TestRecord(t *testing.T) {
	kubeconfig := kwoktest.Start(t).Kubeconfig
	client := connect(t, kubeconfig)
	path := filepath.Join(t.TempDir(), "sim.jsonl.zst")
	var pods atomic.Int64 // watches of pods
	unsteady := through(t, kubeconfig, func(next http.RoundTripper, r *http.Request) (*http.Response, error) {
		if r.URL.Query().Get("watch") == "" || !strings.HasSuffix(r.URL.Path, "/pods") || pods.Add(1) > cutWatches {
			return next.RoundTrip(r)
		}
		ctx, cancel := context.WithTimeout(r.Context(), 300*time.Millisecond)
		context.AfterFunc(ctx, cancel)
		return next.RoundTrip(r.WithContext(ctx))
	})
	stop := recording(t, unsteady, path, nil)
	// While a watch is down client-go lists again, and nobody sees pods that come and go meanwhile.
	eventually(t, func() string {
		if pods.Load() <= cutWatches {
			return "the watches of pods that are cut are not over"
		}
		return ""
	})
	runSim(t, kubeconfig)
	first := stop(func(sofar *clustertrace.Trace) string {
		all := byAPI(t, client)
		if slices.ContainsFunc(all, func(p placed) bool { return p.Phase != string(corev1.PodRunning) }) {
			return "pods are still being started"
		}
		return gocmp.Diff(all, byTrace(sofar))
	})
	want := byAPI(t, client)
	if d := gocmp.Diff(want, byTrace(first)); d != "" || len(want) < 20 {
		t.Fatalf("%d pods (-API server +recorded):\n%s", len(want), d)
	}
	deleted := 0
	for _, p := range first.Pods {
		if p.Deleted != clustertrace.Never {
			deleted++
		}
		if !(p.Created <= p.Bound && p.Bound <= p.Started) || p.Started == clustertrace.Never {
			t.Errorf("%s was created at %v, bound at %v, started at %v", p.Name, p.Created, p.Bound, p.Started)
		}
		if spec := first.Templates[p.Template]; spec.MilliCPU != 1000 || spec.MemoryBytes != 2<<30 || !strings.HasPrefix(spec.Owner, "ReplicaSet/sim-") {
			t.Errorf("%s has template %+v, want 1 CPU, 2 Gi and a ReplicaSet", p.Name, spec)
		}
	}
	if deleted < 39 { // 0.2 of 3 × 64 CPU is 38.4 pods of 1 CPU, which the first filling exceeds
		t.Errorf("%d pods were deleted, want the first filling, 39 or more", deleted)
	}
	if n := first.Nodes[0].Last(); len(first.Nodes) != 3 || n.MilliCPU != 64_000 || n.MemoryBytes != 256<<30 || n.Pods != 110 || n.NotReady {
		t.Errorf("%d nodes, the first %+v, want 3 of 64 CPU, 256 Gi and 110 pods, ready", len(first.Nodes), n)
	}

	// What happens while nothing records is known when it does again.
	gone := strings.TrimPrefix(want[0].Pod, "default/")
	if err := kwok.Clean(t.Context(), kwok.Options{Kubeconfig: kubeconfig}, "default", true); err != nil {
		t.Fatal(err)
	}
	create(t, client, "later", func(*corev1.Pod) {})
	stop = recording(t, client, path, nil)
	second := stop(nil)
	if d := gocmp.Diff([]placed{{"default/later", "", "Pending"}}, only(byTrace(second), "later")); d != "" || len(second.Gaps) != 1 || len(byTrace(second)) != 1 {
		t.Errorf("continued: %d gaps, %d pods (-want +got):\n%s", len(second.Gaps), len(byTrace(second)), d)
	}
	if i := slices.IndexFunc(second.Pods, func(p clustertrace.PodLife) bool { return p.Name == gone }); i < 0 || second.Pods[i].Deleted == clustertrace.Never {
		t.Errorf("pod %s, deleted in the gap, is at %d", gone, i)
	}

	// Until the pods of the first part were deleted, the replay is in their state.
	replayed := connect(t, kwoktest.Start(t, "--components=kwok").Kubeconfig)
	part := filepath.Join(t.TempDir(), "part.jsonl")
	copyUntil(t, path, part, clustertrace.Gap)
	report, err := trace.Replay(t.Context(), replayed, part, trace.ReplayOptions{})
	if err != nil || report.Skipped > 0 || report.Pods != len(first.Pods) || report.Deleted != deleted {
		t.Fatalf("%+v, %v, want %d pods, %d deleted, and nothing skipped", report, err, len(first.Pods), deleted)
	}
	eventually(t, func() string { return gocmp.Diff(want, byAPI(t, replayed)) })
}

// TestReplayedIsRecorded replays a recording by hand while it is recorded: the templates, nodes and ends
// are those of the file.
func TestReplayedIsRecorded(t *testing.T) {
	client := connect(t, kwoktest.Start(t, "--components=kwok").Kubeconfig)
	const text = `{"format":"kubernasium.cluster-trace","version":1,"start":"2026-03-01T10:00:00Z"}
{"k":"priority_class","priority_class":{"name":"high","value":1000,"preemption_policy":"Never"}}
{"k":"node","node":{"name":"a","milli_cpu":8000,"memory_bytes":34359738368,"pods":110,"gpus":2,"milli_gpu":1000,"gpu_model":"T4","other":{"example.com/disk":4},"labels":{"zone":"z1"},"taints":[{"key":"gpu","effect":"NoSchedule"}]}}
{"k":"node","node":{"name":"b","milli_cpu":4000,"memory_bytes":34359738368,"pods":10}}
{"k":"template","template":{"namespace":"ns","owner":"Job/train","labels":{"app":"x"},"scheduler":"kubernasium-replay","priority":1000,"priority_class":"high","preemption_policy":"Never","milli_cpu":1000,"memory_bytes":1048576,"extra_milli_cpu":100,"extra_memory_bytes":419430400,"other":{"example.com/disk":1},"gpus":1,"milli_gpu":500,"gpu_models":["T4"],"node_selector":{"zone":"z1"},"tolerations":[{"key":"gpu","operator":"Exists"}],"required":[{"labels":[{"key":"zone","operator":"In","values":["z1","z2"]}]}],"preferred":[{"weight":5,"term":{"fields":[{"key":"metadata.name","operator":"In","values":["a"]}]}}],"pod_anti_affinity":{"preferredDuringSchedulingIgnoredDuringExecution":[{"weight":1,"podAffinityTerm":{"labelSelector":{"matchLabels":{"app":"x"}},"topologyKey":"zone"}}]},"topology_spread":[{"maxSkew":1,"topologyKey":"zone","whenUnsatisfiable":"ScheduleAnyway","labelSelector":{"matchLabels":{"app":"x"}}}]}}
{"k":"pod","name":"one"}
{"k":"bind","gpus":[1]}
{"k":"template","template":{"namespace":"ns","scheduler":"kubernasium-replay","milli_cpu":500,"extra_memory_bytes":209715200}}
{"k":"template","template":{"namespace":"ns","labels":{"v":"2"},"scheduler":"kubernasium-replay","milli_cpu":750,"extra_memory_bytes":209715200}}
{"k":"pod","tpl":1,"name":"two"}
{"k":"bind","p":1,"n":1}
{"k":"pod","tpl":1,"name":"three"}
{"k":"bind","p":2,"n":1}
{"k":"run","p":2}
{"k":"finish","t":3000,"p":2,"phase":"Failed"}
{"k":"finish","phase":"Succeeded"}
{"k":"update_pod","p":1,"tpl":2}
{"k":"update_node","n":1,"node":{"name":"b","milli_cpu":4000,"memory_bytes":34359738368,"pods":10,"unschedulable":true}}
{"k":"end"}
`
	file := envstest.TempFile(t, "hand.jsonl", text)
	want, err := clustertrace.Load(file)
	if err != nil {
		t.Fatal(err)
	}
	stop := recording(t, client, filepath.Join(t.TempDir(), "again.jsonl.gz"), nil)
	report, err := trace.Replay(t.Context(), client, file, trace.ReplayOptions{Speed: 1})
	if err != nil || report.Skipped > 0 || report.Bound != 3 || report.Finished != 2 {
		t.Fatalf("%+v, %v, want three pods bound, two finished, nothing skipped", report, err)
	}
	got := stop(func(sofar *clustertrace.Trace) string {
		pods := byTrace(sofar)
		if len(pods) < 3 || len(sofar.Nodes) < 2 || !sofar.Nodes[1].Last().Unschedulable || !slices.ContainsFunc(sofar.Templates, func(s *clustertrace.Template) bool { return s.Labels["v"] == "2" }) {
			return "the last changes are not recorded"
		}
		return gocmp.Diff(byTrace(want)[:2], pods[:2])
	})
	if d := gocmp.Diff(byTrace(want)[:2], byTrace(got)[:2]); d != "" { // the third, two, runs here
		t.Errorf("pods (-file +recorded):\n%s", d)
	}
	if d := gocmp.Diff(want.Classes["high"], got.Classes["high"]); d != "" {
		t.Errorf("class (-file +recorded):\n%s", d)
	}
	for i := range want.Nodes {
		if d := gocmp.Diff(want.Nodes[i].Last(), got.Nodes[i].Last()); d != "" {
			t.Errorf("node %d (-file +recorded):\n%s", i, d)
		}
	}
	for i, p := range want.Pods {
		k := slices.IndexFunc(got.Pods, func(q clustertrace.PodLife) bool { return q.Name == p.Name })
		if k < 0 {
			t.Fatalf("pod %s is not recorded", p.Name)
		}
		spec := *got.Templates[got.Pods[k].Last()]
		spec.Tolerations = slices.DeleteFunc(spec.Tolerations, func(tol clustertrace.Toleration) bool { return strings.HasPrefix(tol.Key, "node.kubernetes.io/") }) // admission's
		if len(spec.Tolerations) == 0 {
			spec.Tolerations = nil
		}
		if d := gocmp.Diff(want.Templates[want.Pods[i].Last()], &spec); d != "" {
			t.Errorf("template of %s (-file +recorded):\n%s", p.Name, d)
		}
		if d := gocmp.Diff(p.Devices, got.Pods[k].Devices); d != "" {
			t.Errorf("GPUs of %s (-file +recorded):\n%s", p.Name, d)
		}
	}
}

// TestRecordWithoutRights: the error names what may not be listed, and nothing but lists and watches is asked for.
func TestRecordWithoutRights(t *testing.T) {
	var writes atomic.Int64
	client := through(t, kwoktest.Shared(t, "--components=kwok").Kubeconfig, func(next http.RoundTripper, r *http.Request) (*http.Response, error) {
		if r.Method != http.MethodGet {
			writes.Add(1)
		}
		if !strings.HasSuffix(r.URL.Path, "/persistentvolumeclaims") {
			return next.RoundTrip(r)
		}
		body := `{"kind":"Status","apiVersion":"v1","status":"Failure","reason":"Forbidden","code":403,"message":"cannot list persistentvolumeclaims"}`
		return &http.Response{
			StatusCode: http.StatusForbidden, Header: http.Header{"Content-Type": {"application/json"}}, Body: io.NopCloser(strings.NewReader(body)), Request: r,
		}, nil
	})
	w, err := clustertrace.NewWriter(io.Discard, clustertrace.Header{})
	if err != nil {
		t.Fatal(err)
	}
	err = trace.Record(t.Context(), client, w, trace.Options{Start: time.Now()})
	if !apierrors.IsForbidden(err) || !strings.Contains(err.Error(), "list and watch persistentvolumeclaims") {
		t.Errorf("Record = %v, want that persistentvolumeclaims may not be listed", err)
	}
	if n := writes.Load(); n > 0 {
		t.Errorf("%d requests that are no reads", n)
	}
}

// TestAnonymized looks for every name and label of a cluster in its anonymized recording.
func TestAnonymized(t *testing.T) {
	client := connect(t, kwoktest.Shared(t, "--components=kwok").Kubeconfig)
	secret := []string{"secretnode", "secretpod", "secretteam", "secretvalue", "secretowner", "secretsched", "secretclaim", "secretgate", "secrettaint", "secretzone", "secretclass"}
	node := &corev1.Node{ObjectMeta: metav1.ObjectMeta{
		Name: "secretnode", Labels: map[string]string{"secretteam": "secretvalue", "topology.kubernetes.io/zone": "secretzone", "cores": "16"},
		Annotations: map[string]string{"kwok.x-k8s.io/node": "fake"},
	}, Spec: corev1.NodeSpec{Taints: []corev1.Taint{{Key: "secrettaint", Value: "secretvalue", Effect: corev1.TaintEffectNoSchedule}}}}
	if _, err := client.CoreV1().Nodes().Create(t.Context(), node, metav1.CreateOptions{}); err != nil {
		t.Fatal(err)
	}
	class := &schedulingv1.PriorityClass{ObjectMeta: metav1.ObjectMeta{Name: "secretclass"}, Value: 7}
	if _, err := client.SchedulingV1().PriorityClasses().Create(t.Context(), class, metav1.CreateOptions{}); err != nil {
		t.Fatal(err)
	}
	selector := &metav1.LabelSelector{MatchLabels: map[string]string{"secretteam": "secretvalue"}}
	terms := []corev1.PodAffinityTerm{{LabelSelector: selector, Namespaces: []string{"secretteam"}, TopologyKey: "secretzone"}}
	yes := true
	create(t, client, "secretpod", func(p *corev1.Pod) {
		p.Labels = map[string]string{"secretteam": "secretvalue"}
		p.OwnerReferences = []metav1.OwnerReference{{APIVersion: "example.com/v1", Kind: "Job", Name: "secretowner", UID: "u", Controller: &yes}}
		p.Spec.SchedulerName, p.Spec.PriorityClassName = "secretsched", "secretclass"
		p.Spec.NodeSelector = map[string]string{"secretteam": "secretvalue"}
		p.Spec.Tolerations = []corev1.Toleration{{Key: "secrettaint", Value: "secretvalue"}}
		p.Spec.SchedulingGates = []corev1.PodSchedulingGate{{Name: "secretgate"}}
		p.Spec.Volumes = []corev1.Volume{{Name: "v", VolumeSource: corev1.VolumeSource{PersistentVolumeClaim: &corev1.PersistentVolumeClaimVolumeSource{ClaimName: "secretclaim"}}}}
		p.Spec.TopologySpreadConstraints = []corev1.TopologySpreadConstraint{{MaxSkew: 1, TopologyKey: "secretzone", WhenUnsatisfiable: corev1.DoNotSchedule, LabelSelector: selector}}
		p.Spec.Affinity = &corev1.Affinity{
			NodeAffinity: &corev1.NodeAffinity{RequiredDuringSchedulingIgnoredDuringExecution: &corev1.NodeSelector{NodeSelectorTerms: []corev1.NodeSelectorTerm{{
				MatchExpressions: []corev1.NodeSelectorRequirement{{Key: "secretteam", Operator: corev1.NodeSelectorOpIn, Values: []string{"secretvalue"}}, {Key: "cores", Operator: corev1.NodeSelectorOpGt, Values: []string{"15"}}},
				MatchFields:      []corev1.NodeSelectorRequirement{{Key: "metadata.name", Operator: corev1.NodeSelectorOpIn, Values: []string{"secretnode"}}},
			}}}},
			PodAffinity:     &corev1.PodAffinity{RequiredDuringSchedulingIgnoredDuringExecution: terms},
			PodAntiAffinity: &corev1.PodAntiAffinity{PreferredDuringSchedulingIgnoredDuringExecution: []corev1.WeightedPodAffinityTerm{{Weight: 1, PodAffinityTerm: terms[0]}}},
		}
	})
	path := filepath.Join(t.TempDir(), "hidden.jsonl")
	got := recording(t, client, path, []byte("salt"))(nil)
	text, err := os.ReadFile(path)
	if err != nil {
		t.Fatal(err)
	}
	for _, s := range secret {
		if strings.Contains(string(text), s) {
			t.Errorf("the recording has %s:\n%s", s, text)
		}
	}
	// The hashes are the same wherever a name stands: the pod may be on the node, as it could before.
	i := slices.IndexFunc(got.Pods, func(p clustertrace.PodLife) bool { return len(p.Claims) == 1 })
	if i < 0 || len(got.Nodes) != 1 {
		t.Fatalf("%d nodes and no pod with a claim", len(got.Nodes))
	}
	if why := got.Templates[got.Pods[i].Template].Refusal(got.Nodes[0].Last()); why != "" {
		t.Errorf("the anonymized pod is refused: %s", why)
	}
}

// only returns the pods of a name.
func only(all []placed, name string) []placed {
	return slices.DeleteFunc(slices.Clone(all), func(p placed) bool { return !strings.HasSuffix(p.Pod, "/"+name) })
}

// create creates a pod that nobody schedules.
func create(t *testing.T, client kubernetes.Interface, name string, change func(*corev1.Pod)) {
	t.Helper()
	p := &corev1.Pod{
		ObjectMeta: metav1.ObjectMeta{Name: name, Namespace: "default"},
		Spec: corev1.PodSpec{SchedulerName: "nobody", Containers: []corev1.Container{{
			Name: "main", Image: "none", Resources: corev1.ResourceRequirements{Requests: corev1.ResourceList{"cpu": resource.MustParse("1")}},
		}}},
	}
	change(p)
	if _, err := client.CoreV1().Pods("default").Create(t.Context(), p, metav1.CreateOptions{}); err != nil {
		t.Fatal(err)
	}
}

// eventually waits until there is no difference.
func eventually(t *testing.T, diff func() string) {
	t.Helper()
	for begin := time.Now(); ; time.Sleep(100 * time.Millisecond) {
		d := diff()
		if d == "" {
			return
		}
		if time.Since(begin) > time.Minute {
			t.Fatalf("after a minute (-want +got):\n%s", d)
		}
	}
}

// copyUntil copies a recording up to the first event of a kind.
func copyUntil(t *testing.T, from, to string, kind clustertrace.Kind) {
	t.Helper()
	r, err := clustertrace.Open(from)
	if err != nil {
		t.Fatal(err)
	}
	defer r.Close()
	out := &strings.Builder{}
	w, err := clustertrace.NewWriter(out, r.Header)
	if err != nil {
		t.Fatal(err)
	}
	for {
		e, err := r.Next()
		if err != nil {
			t.Fatal(err)
		}
		if e.Kind == kind {
			break
		}
		if err := w.Write(&e); err != nil {
			t.Fatal(err)
		}
	}
	if err := errors.Join(w.Flush(), os.WriteFile(to, []byte(out.String()), 0o600)); err != nil {
		t.Fatal(err)
	}
}
