package profile

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"math"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	batchv1 "k8s.io/api/batch/v1"
	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/kubernasium/kubernasium/envs"
	"github.com/kubernasium/kubernasium/envs/cluster"
	"github.com/kubernasium/kubernasium/envs/lra"
	"github.com/kubernasium/kubernasium/envs/lra/files"
	"github.com/kubernasium/kubernasium/envs/lra/throughput"
	"github.com/kubernasium/kubernasium/kwok"
	"github.com/kubernasium/kubernasium/kwok/kwoktest"
)

// Environment variables that make this test binary a collection that is to be killed.
const (
	childState      = "KUBERNASIUM_PROFILE_STATE"
	childKubeconfig = "KUBERNASIUM_PROFILE_KUBECONFIG"
	childLog        = "KUBERNASIUM_PROFILE_LOG"
)

func TestMain(m *testing.M) {
	if os.Getenv(childState) != "" {
		load := &endless{logged: logged{Law: law, path: os.Getenv(childLog)}, after: 12}
		_, err := Collect(ctx, collection(os.Getenv(childKubeconfig), os.Getenv(childState), load))
		fmt.Fprintln(os.Stderr, err) // it is killed before
		os.Exit(1)
	}
	os.Exit(kwoktest.Main(m))
}

var ctx = context.Background()

const noise = 0.02

var law = Law{Table: throughput.GenerateTable(3), Noise: noise, Seed: 5, Name: "table 3"}

// collection is of the combinations of up to 2 containers: 7 alone and 28 others.
func collection(kubeconfig, state string, load Load) Config {
	all, err := Combinations(2, 1, 1)
	if err != nil {
		panic(err)
	}
	return Config{
		Server: kwok.Options{Kubeconfig: kubeconfig}, NewNodes: 4, Combinations: all, Repeats: 1, Load: load, StateFile: state,
	}
}

// TestCollect: the values are the law's within the noise, whatever happened on the way.
func TestCollect(t *testing.T) {
	kubeconfig := kwoktest.Shared(t).Kubeconfig
	whole := &logged{Law: law, path: filepath.Join(t.TempDir(), "log")}
	state := filepath.Join(t.TempDir(), "state.json")
	r, err := Collect(ctx, collection(kubeconfig, state, whole))
	if err != nil {
		t.Fatal(err)
	}
	if r.Measured != 35 || r.Resumed != 0 || len(r.Failed) > 0 || len(r.Profile) != 35 {
		t.Fatalf("%d measured, %d resumed, %d failed, profile of %d; want 35 measured and nothing else", r.Measured, r.Resumed, len(r.Failed), len(r.Profile))
	}
	wantLaw(t, r.Profile)
	wantClean(t, kubeconfig, state)

	t.Run("again", func(t *testing.T) {
		again, err := Collect(ctx, collection(kubeconfig, state, whole))
		if err != nil {
			t.Fatal(err)
		}
		if again.Measured != 0 || again.Resumed != 35 || len(whole.lines(t)) != 35 {
			t.Errorf("%d measured, %d resumed, %d times loaded; want 0, 35, 35", again.Measured, again.Resumed, len(whole.lines(t)))
		}
		if diff := cmp.Diff(r.Profile, again.Profile); diff != "" {
			t.Errorf("profile (-first +again):\n%s", diff)
		}
	})
	t.Run("cancelled", func(t *testing.T) { testCancelled(t, kubeconfig, r.Profile) })
	t.Run("killed", func(t *testing.T) { testKilled(t, kubeconfig, r.Profile) })
	t.Run("failures", func(t *testing.T) { testFailures(t, kubeconfig) })
	t.Run("launched", func(t *testing.T) { testLaunched(t, kubeconfig) })
	t.Run("command", func(t *testing.T) { testCommand(t, kubeconfig) })
	t.Run("episode", func(t *testing.T) { testEpisode(t, kubeconfig) })
}

// wantLaw compares with the law, by bounds of five standard deviations of a mean over that of the
// measurement alone.
func wantLaw(t *testing.T, profile []throughput.Measurement) {
	t.Helper()
	for _, m := range profile {
		s, err := lra.StateOf(m.Counts)
		if err != nil {
			t.Fatal(err)
		}
		for a, k := range m.Counts {
			if k == 0 {
				if m.RPS[a] != 0 || m.RT50[a] != 0 {
					t.Errorf("%v: %s is absent and has %v", m.Counts, lra.Apps[a], m.RPS[a])
				}
				continue
			}
			want := law.Table.RPS[s][a]
			bound := 5 * noise * math.Sqrt(1+1/float64(k))
			if d := math.Abs(math.Log(m.RPS[a] / want)); d > bound {
				t.Errorf("%v: %s achieves %v, want %v within %v", m.Counts, lra.Apps[a], m.RPS[a], want, bound)
			}
			// Four clients in a closed loop wait for 4/rps s in the mean; exponential.
			if d := math.Abs(math.Log(m.RT50[a] / (4 / want * 0.693147))); d > bound {
				t.Errorf("%v: median response of %s after %v s", m.Counts, lra.Apps[a], m.RT50[a])
			}
			if d := math.Abs(m.RT99[a]/m.RT50[a] - 6.643856); d > 1e-6 { // log2(100)
				t.Errorf("%v: 99th percentile of %s is %v times the median, want 6.64", m.Counts, lra.Apps[a], m.RT99[a]/m.RT50[a])
			}
		}
	}
}

// wantClean: the collection has left no node, and its namespace is gone or going.
func wantClean(t *testing.T, kubeconfig, path string) {
	t.Helper()
	client, err := kwok.Connect(ctx, kwok.Options{Kubeconfig: kubeconfig})
	if err != nil {
		t.Fatal(err)
	}
	nodes, err := client.CoreV1().Nodes().List(ctx, metav1.ListOptions{})
	if err != nil || len(nodes.Items) > 0 {
		t.Errorf("%d nodes are left, %v", len(nodes.Items), err)
	}
	all, err := client.CoreV1().Namespaces().List(ctx, metav1.ListOptions{})
	if err != nil {
		t.Fatal(err)
	}
	for _, ns := range all.Items {
		if strings.HasPrefix(ns.Name, "profile-") && ns.DeletionTimestamp == nil {
			t.Errorf("namespace %s is left", ns.Name)
		}
	}
	if s := readState(t, path); s.Namespace != "" {
		t.Errorf("the state file still names namespace %s", s.Namespace)
	}
}

func readState(t *testing.T, path string) *state {
	t.Helper()
	text, err := os.ReadFile(path)
	if err != nil {
		t.Fatal(err)
	}
	s := &state{}
	if err := json.Unmarshal(text, s); err != nil {
		t.Fatal(err)
	}
	return s
}

func testCancelled(t *testing.T, kubeconfig string, want []throughput.Measurement) {
	load := &logged{Law: law, path: filepath.Join(t.TempDir(), "log")}
	c := collection(kubeconfig, filepath.Join(t.TempDir(), "state.json"), load)
	cancelled, cancel := context.WithCancel(ctx)
	c.Done = func(p Progress) {
		if p.Measured == 9 {
			cancel()
		}
	}
	if _, err := Collect(cancelled, c); !errors.Is(err, context.Canceled) {
		t.Fatalf("a cancelled collection: %v, want %v", err, context.Canceled)
	}
	wantClean(t, kubeconfig, c.StateFile)
	resume(t, c, load, want)
}

// testKilled kills the process in the middle, which leaves containers behind.
func testKilled(t *testing.T, kubeconfig string, want []throughput.Measurement) {
	load := &logged{Law: law, path: filepath.Join(t.TempDir(), "log")}
	c := collection(kubeconfig, filepath.Join(t.TempDir(), "state.json"), load)
	cmd := exec.Command(os.Args[0])
	cmd.Env = append(os.Environ(), childState+"="+c.StateFile, childKubeconfig+"="+kubeconfig, childLog+"="+load.path)
	var stderr bytes.Buffer
	cmd.Stderr = &stderr
	if err := cmd.Start(); err != nil {
		t.Fatal(err)
	}
	for begin := time.Now(); ; time.Sleep(5 * time.Millisecond) {
		if text, err := os.ReadFile(c.StateFile); err == nil && strings.Count(string(text), `"try"`) >= 9 {
			break
		}
		if time.Since(begin) > time.Minute {
			t.Error("nine combinations were not measured within a minute")
			break
		}
	}
	if err := cmd.Process.Kill(); err != nil {
		t.Fatal(err)
	}
	if err := cmd.Wait(); err == nil || t.Failed() {
		t.Fatalf("the killed collection: %v\n%s", err, &stderr)
	}
	leave(t, c)
	resume(t, c, load, want)
}

// leave makes sure that a Job of a combination that is still to be measured was left.
func leave(t *testing.T, c Config) {
	t.Helper()
	s := readState(t, c.StateFile)
	if s.Namespace == "" {
		t.Fatal("the state file does not say in which namespace containers were left")
	}
	missing := c.Combinations[slices.IndexFunc(c.Combinations, func(c lra.Counts) bool {
		return !slices.ContainsFunc(s.Measurements, func(m measurement) bool { return m.Counts == c })
	})]
	app := slices.IndexFunc(missing[:], func(n int) bool { return n > 0 })
	client, err := kwok.Connect(ctx, c.Server)
	if err != nil {
		t.Fatal(err)
	}
	_, err = client.BatchV1().Jobs(s.Namespace).Create(ctx, &batchv1.Job{
		ObjectMeta: metav1.ObjectMeta{Name: jobName(key{missing, 0}, lra.Apps[app]), Labels: map[string]string{labelApp: lra.Apps[app]}},
		Spec: batchv1.JobSpec{Template: corev1.PodTemplateSpec{Spec: corev1.PodSpec{
			RestartPolicy: corev1.RestartPolicyNever, Containers: []corev1.Container{{Name: "left", Image: "left"}},
		}}},
	}, metav1.CreateOptions{})
	if err != nil && !apierrors.IsAlreadyExists(err) { // it may have been left indeed
		t.Fatal(err)
	}
}

// resume continues a collection that was interrupted, and wants the profile of one that was not;
// what the state file had is not measured again.
func resume(t *testing.T, c Config, load *logged, want []throughput.Measurement) {
	t.Helper()
	before := readState(t, c.StateFile).Measurements
	if n := len(before); n < 9 || n >= 35 {
		t.Fatalf("%d combinations were measured before the end, want 9 to 34", n)
	}
	logBefore := load.lines(t)
	c.Done = nil
	r, err := Collect(ctx, c)
	if err != nil {
		t.Fatal(err)
	}
	if r.Resumed != len(before) || r.Measured != 35-len(before) {
		t.Errorf("%d resumed and %d measured, want %d and %d", r.Resumed, r.Measured, len(before), 35-len(before))
	}
	times := map[string]int{}
	for _, line := range load.lines(t)[len(logBefore):] {
		times[line]++
	}
	for _, m := range before {
		if times[fmt.Sprint(m.Counts, " ", m.Try)] > 0 {
			t.Errorf("%v was measured again", m.Counts)
		}
	}
	if len(times) != 35-len(before) {
		t.Errorf("%d combinations were measured after the resumption, want the %d that were missing", len(times), 35-len(before))
	}
	if diff := cmp.Diff(want, r.Profile); diff != "" {
		t.Errorf("profile (-uninterrupted +resumed):\n%s", diff)
	}
	wantClean(t, c.Server.Kubeconfig, c.StateFile)
}

func testFailures(t *testing.T, kubeconfig string) {
	load := &flaky{Law: law, tries: map[lra.Counts]int{}, never: true}
	c := collection(kubeconfig, filepath.Join(t.TempDir(), "state.json"), load)
	var err error
	if c.Combinations, err = WithAlone([]lra.Counts{{1, 1}, {2}, {0, 1}}); err != nil {
		t.Fatal(err)
	}
	r, err := Collect(ctx, c)
	if err != nil {
		t.Fatal(err)
	}
	if r.Measured != 8 || !slices.Equal(r.Failed, []lra.Counts{{2}}) || load.tries[lra.Counts{1, 1}] != 3 || load.tries[lra.Counts{2}] != 3 {
		t.Errorf("%d measured, failed %v after %v; want 8, and two Redis failed, three times tried", r.Measured, r.Failed, load.tries)
	}
	load.never = false
	if r, err = Collect(ctx, c); err != nil || r.Measured != 1 || r.Resumed != 8 || len(r.Failed) > 0 || len(r.Profile) != 9 {
		t.Errorf("the next collection: %+v, %v; want that it measures what had failed", r, err)
	}
	alone := c
	alone.StateFile, alone.Load = filepath.Join(t.TempDir(), "state.json"), &flaky{Law: law, tries: map[lra.Counts]int{}, first: true}
	if _, err := Collect(ctx, alone); err == nil || !strings.Contains(err.Error(), "[1 0 0 0 0 0 0]: the clients gave up") {
		t.Errorf("an application that cannot be measured alone: %v, want an error", err)
	}
	other := c
	other.Load = &Law{Table: law.Table, Name: "another"}
	if _, err := Collect(ctx, other); err == nil || !strings.Contains(err.Error(), `by "law of table 3 with noise 0.02 of seed 5; after 0s"`) {
		t.Errorf("another load with the same state file: %v, want an error that tells the settings", err)
	}
}

// testLaunched: a combination is alone on one node when it is loaded, all of it, from the templates.
func testLaunched(t *testing.T, kubeconfig string) {
	client, err := kwok.Connect(ctx, kwok.Options{Kubeconfig: kubeconfig})
	if err != nil {
		t.Fatal(err)
	}
	load := &inspector{Law: law, t: t, nodes: map[string]bool{}, pods: func(namespace string) []corev1.Pod {
		l, err := client.CoreV1().Pods(namespace).List(ctx, metav1.ListOptions{})
		if err != nil {
			t.Error(err)
			return nil
		}
		return l.Items
	}}
	c := collection(kubeconfig, filepath.Join(t.TempDir(), "state.json"), load)
	c.NewNodes, c.Repeats = 2, 2
	c.Pods = map[string]corev1.PodTemplateSpec{"redis": {
		ObjectMeta: metav1.ObjectMeta{Labels: map[string]string{"app": "cache"}},
		Spec:       corev1.PodSpec{RestartPolicy: corev1.RestartPolicyAlways, Containers: []corev1.Container{{Name: "redis", Image: "example.com/redis:7"}}},
	}}
	if c.Combinations, err = WithAlone([]lra.Counts{{2, 1, 0, 3, 0, 0, 2}, {0, 8}}); err != nil {
		t.Fatal(err)
	}
	r, err := Collect(ctx, c)
	if err != nil {
		t.Fatal(err)
	}
	if r.Measured != 18 || len(r.Profile) != 18 || len(load.nodes) != 2 {
		t.Errorf("%d measured on %d nodes, profile of %d; want 18 on 2, and 18", r.Measured, len(load.nodes), len(r.Profile))
	}
	c.Pods = map[string]corev1.PodTemplateSpec{"nginx": {}}
	if _, err := Collect(ctx, c); err == nil || !strings.Contains(err.Error(), `application "nginx"`) {
		t.Errorf("a pod for an unknown application: %v", err)
	}
}

// testCommand loads by processes that print which container they were given.
func testCommand(t *testing.T, kubeconfig string) {
	// An IP of KWOK's is in 10.0.0.0/8; each container of two has half the throughput.
	load, err := NewCommand(`case {{.Address}} in *.*.*.*) ;; *) echo no address >&2; exit 1;; esac
case {{.Pod}} in {{.App}}-2*) rps=40;; *) rps=80;; esac
echo '{"rps": '$rps', "rt50": 0.5, "rt99": {{.Seconds}}}'`, 2*time.Second, time.Minute)
	if err != nil {
		t.Fatal(err)
	}
	c := collection(kubeconfig, filepath.Join(t.TempDir(), "state.json"), load)
	c.WarmUp = 10 * time.Millisecond
	if c.Combinations, err = WithAlone([]lra.Counts{{2}}); err != nil {
		t.Fatal(err)
	}
	r, err := Collect(ctx, c)
	if err != nil {
		t.Fatal(err)
	}
	for _, m := range r.Profile {
		for a, k := range m.Counts {
			want := []float64{0, 1, 0.5}[k]
			if m.RPS[a] != want || k > 0 && (m.RT50[a] != 0.5 || m.RT99[a] != 2) {
				t.Errorf("%v: %s achieves %v at %v and %v s, want %v at 0.5 and 2", m.Counts, lra.Apps[a], m.RPS[a], m.RT50[a], m.RT99[a], want)
			}
		}
	}
}

// testEpisode: collection, profile, node table, episode. On nodes with room for two, everything that
// can be is measured, so that the episode is that of the law's own table.
func testEpisode(t *testing.T, kubeconfig string) {
	exact := law
	exact.Noise = 0
	r, err := Collect(ctx, collection(kubeconfig, filepath.Join(t.TempDir(), "state.json"), &exact))
	if err != nil {
		t.Fatal(err)
	}
	var file bytes.Buffer
	if err := files.WriteProfile(&file, r.Profile); err != nil {
		t.Fatal(err)
	}
	read, err := files.ReadProfile("profile.csv", &file)
	if err != nil {
		t.Fatal(err)
	}
	if diff := cmp.Diff(r.Profile, read); diff != "" {
		t.Errorf("profile (-written +read):\n%s", diff)
	}
	regressor, err := throughput.FitRegressor(read)
	if err != nil {
		t.Fatal(err)
	}
	path := filepath.Join(t.TempDir(), "table.csv")
	f, err := os.Create(path)
	if err != nil {
		t.Fatal(err)
	}
	if err := errors.Join(files.WriteTable(f, regressor.Table()), f.Close()); err != nil {
		t.Fatal(err)
	}
	collected, want := greedy(t, map[string]any{"table": path}), greedy(t, map[string]any{"table_seed": 3})
	if math.Abs(collected-want) > 1e-5 || want < 0.5 { // a table has six digits
		t.Errorf("return with the collected table %v, with the law's own %v", collected, want)
	}
}

// greedy plays an episode on 12 nodes with 2 slots.
func greedy(t *testing.T, opts map[string]any) float64 {
	t.Helper()
	spec, err := envs.Lookup("k8s/LRAPlacement-v0")
	if err != nil {
		t.Fatal(err)
	}
	opts["nodes"], opts["containers"], opts["classes"] = 12, 20, []any{"1:2:1"}
	v, err := envs.NewVec(spec, 1, envs.VecOptions{Options: opts, Autoreset: envs.Disabled})
	if err != nil {
		t.Fatal(err)
	}
	defer v.Close()
	b, err := spec.Baseline("greedy")
	if err != nil {
		t.Fatal(err)
	}
	rule, err := b.New(v.Env(0).Task())
	if err != nil {
		t.Fatal(err)
	}
	batch, err := v.Reset(ctx, envs.VecResetOptions{Seeds: []uint64{11}})
	for action := []float32{0}; err == nil && !batch.Done(0); {
		if err = rule(ctx, v.Env(0).State(), batch.Begins(0), action); err == nil {
			batch, err = v.Step(ctx, action)
		}
	}
	if err != nil {
		t.Fatal(err)
	}
	return batch.EpisodeReturn[0]
}

// TestControlPlaneGone kills the control plane in the middle, and resumes at another.
func TestControlPlaneGone(t *testing.T) {
	p := kwoktest.Start(t)
	c := collection(p.Kubeconfig, filepath.Join(t.TempDir(), "state.json"), &law)
	var killed sync.Once
	c.Done = func(now Progress) {
		if now.Measured >= 9 {
			killed.Do(func() {
				if err := p.Kill(); err != nil {
					t.Error(err)
				}
			})
		}
	}
	if _, err := Collect(ctx, c); !errors.Is(err, cluster.ErrUnavailable) {
		t.Fatalf("a collection without a control plane: %v, want %v", err, cluster.ErrUnavailable)
	}
	if readState(t, c.StateFile).Namespace == "" {
		t.Error("the state file has forgotten the namespace, in which containers were left")
	}
	c.Server.Kubeconfig, c.Done = kwoktest.Shared(t).Kubeconfig, nil
	before := len(readState(t, c.StateFile).Measurements)
	r, err := Collect(ctx, c)
	if err != nil {
		t.Fatal(err)
	}
	if r.Resumed != before || before < 9 || len(r.Profile) != 35 {
		t.Errorf("%d resumed of %d, profile of %d; want at least 9, and 35", r.Resumed, before, len(r.Profile))
	}
	wantLaw(t, r.Profile)
	wantClean(t, c.Server.Kubeconfig, c.StateFile)
}
