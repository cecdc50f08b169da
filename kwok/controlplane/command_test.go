package main

import (
	"bytes"
	"context"
	"fmt"
	"net"
	"net/http"
	"net/url"
	"os"
	"path/filepath"
	"strconv"
	"strings"
	"syscall"
	"testing"
	"time"

	batchv1 "k8s.io/api/batch/v1"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/client-go/kubernetes"
	"k8s.io/client-go/rest"
	"k8s.io/client-go/tools/clientcmd"

	"github.com/kubernasium/kubernasium/kwok/controlplane/plane"
	"github.com/kubernasium/kubernasium/kwok/freeport"
)

func itoa(i int) string { return strconv.Itoa(i) }

// TestLifecycle plays what a user does: nodes, a bound pod, a pod for the scheduler, a Job, and
// a stop that leaves nothing.
func TestLifecycle(t *testing.T) {
	p := start(t, command(t))
	if p.PID != p.cmd.Process.Pid || p.Clock != "real" || p.Versions["kubernetes"] != "v1.36.3" || len(p.Components) != 3 {
		t.Errorf("ready line = %+v, want pid %d, the real clock, Kubernetes v1.36.3 and 3 components", p.Ready, p.cmd.Process.Pid)
	}
	if info, err := os.Stat(p.Kubeconfig); err != nil || info.Mode().Perm() != 0o600 {
		t.Errorf("kubeconfig: %v, mode %v, want 0600", err, info.Mode())
	}
	c := p.client(t)
	createNode(t, c, "node-1")

	create(t, c, newPod("bound", func(p *corev1.Pod) { p.Spec.NodeName = "node-1" }))
	create(t, c, newPod("pending", nil))
	if got := waitPhase(t, c, "pending", corev1.PodRunning); got.Spec.NodeName != "node-1" {
		t.Errorf("kube-scheduler bound the pod to %q, want node-1", got.Spec.NodeName)
	}
	waitPhase(t, c, "bound", corev1.PodRunning)
	completeJob(t, c)
	t.Logf("resident memory: %d MB", residentMB(t, p.PID))

	dirs := temporary(t, p.PID)
	if len(dirs) != 1 || dirs[0] != p.DataDir {
		t.Errorf("temporary folders %v, want %s alone", dirs, p.DataDir)
	}
	begin := time.Now()
	if err := p.cmd.Process.Signal(syscall.SIGTERM); err != nil {
		t.Fatal(err)
	}
	if err := p.wait(); err != nil {
		t.Errorf("end = %v, want exit status 0", err)
	}
	t.Logf("stopped after %.2f s", time.Since(begin).Seconds())
	wantGone(t, p.DataDir)
	wantGone(t, "/proc/"+itoa(p.PID))
	u, err := url.Parse(p.URL)
	if err != nil {
		t.Fatal(err)
	}
	if conn, err := net.Dial("tcp", u.Host); err == nil {
		conn.Close()
		t.Errorf("%s still listens", u.Host)
	}
}

// completeJob runs a Job of two pods, of which each takes 100 ms.
func completeJob(t *testing.T, c kubernetes.Interface) {
	t.Helper()
	two := int32(2)
	job := &batchv1.Job{ObjectMeta: metav1.ObjectMeta{Name: "job", Namespace: "default"}, Spec: batchv1.JobSpec{
		Completions: &two, Parallelism: &two,
		Template: corev1.PodTemplateSpec{
			ObjectMeta: metav1.ObjectMeta{Annotations: map[string]string{plane.DurationAnnotation: "100ms"}},
			Spec:       newPod("", nil).Spec,
		},
	}}
	job.Spec.Template.Spec.RestartPolicy = corev1.RestartPolicyNever
	if _, err := c.BatchV1().Jobs("default").Create(t.Context(), job, metav1.CreateOptions{}); err != nil {
		t.Fatal(err)
	}
	eventually(t, "the job has succeeded twice", func(ctx context.Context) (bool, error) {
		j, err := c.BatchV1().Jobs("default").Get(ctx, "job", metav1.GetOptions{})
		return err == nil && j.Status.Succeeded == 2, err
	})
}

// residentMB reads the resident memory of a process.
func residentMB(t *testing.T, pid int) int {
	t.Helper()
	text, err := os.ReadFile("/proc/" + itoa(pid) + "/status")
	if err != nil {
		t.Fatal(err)
	}
	for line := range strings.Lines(string(text)) {
		var kb int
		if n, _ := fmt.Sscanf(line, "VmRSS: %d kB", &kb); n == 1 {
			return kb / 1000
		}
	}
	t.Fatal("no VmRSS in /proc/PID/status")
	return 0
}

func TestTwoAtOnce(t *testing.T) {
	lean := "--components=" + plane.KWOK
	a, b := start(t, command(t, lean)), start(t, command(t, lean))
	if a.URL == b.URL || a.DataDir == b.DataDir {
		t.Fatalf("both have %s and %s", a.URL, a.DataDir)
	}
	createNode(t, a.client(t), "only-in-a")
	nodes, err := b.client(t).CoreV1().Nodes().List(t.Context(), metav1.ListOptions{})
	if err != nil || len(nodes.Items) != 0 {
		t.Errorf("nodes of the other control plane: %v, %v, want none", nodes, err)
	}
}

// TestRestart restarts from a folder after a crash and after a clean stop; the first kubeconfig
// stays good.
func TestRestart(t *testing.T) {
	dir := filepath.Join(t.TempDir(), strings.Repeat("long", 40)) // longer than a socket's name may be
	address, err := freeport.Address()
	if err != nil {
		t.Fatal(err)
	}
	args := []string{"--data-dir", dir, "--durable", "--components=" + plane.KWOK, "--listen", address}
	p := start(t, command(t, args...))
	createNode(t, p.client(t), "survivor")

	// A second one on the same folder is refused.
	out, err := command(t, "--data-dir", dir).CombinedOutput()
	if err == nil || !strings.Contains(string(out), "in use by another control plane") {
		t.Errorf("second control plane on the folder: %v, %s, want a refusal", err, out)
	}
	left := temporary(t, p.PID)
	if err := p.cmd.Process.Kill(); err != nil {
		t.Fatal(err)
	}
	_ = p.wait() // "signal: killed"
	for _, signal := range []syscall.Signal{syscall.SIGTERM, syscall.SIGINT} {
		next := start(t, command(t, args...))
		if _, err := p.client(t).CoreV1().Nodes().Get(t.Context(), "survivor", metav1.GetOptions{}); err != nil {
			t.Errorf("after the restart: %v", err)
		}
		if err := next.cmd.Process.Signal(signal); err != nil {
			t.Fatal(err)
		}
		if err := next.wait(); err != nil {
			t.Errorf("end by %v = %v, want exit status 0", signal, err)
		}
	}
	if _, err := os.Stat(filepath.Join(dir, "etcd")); err != nil {
		t.Errorf("the data folder did not stay: %v", err)
	}
	// What the crash left is removed by a later start, once it is old.
	if len(left) != 1 {
		t.Fatalf("temporary folders %v, want one", left)
	}
	old := time.Now().Add(-time.Hour)
	if err := os.Chtimes(left[0], old, old); err != nil {
		t.Fatal(err)
	}
	start(t, command(t, "--components="))
	wantGone(t, left[0])
}

func TestEndOfStdin(t *testing.T) {
	p := start(t, command(t, "--exit-with-stdin", "--components="))
	if err := p.stdin.Close(); err != nil {
		t.Fatal(err)
	}
	if err := p.wait(); err != nil {
		t.Errorf("end = %v, want exit status 0", err)
	}
	wantGone(t, p.DataDir)
}

// TestStopWhileStarting stops it before it is ready.
func TestStopWhileStarting(t *testing.T) {
	for range 10 {
		if stopWhileStarting(t) {
			return
		}
	}
	t.Error("it was always ready before it was told to stop")
}

// stopWhileStarting returns false where it was ready already.
func stopWhileStarting(t *testing.T) bool {
	t.Helper()
	dir := t.TempDir()
	cmd := command(t, "--data-dir", dir)
	var stdout bytes.Buffer
	cmd.Stdout = &stdout
	if err := cmd.Start(); err != nil {
		t.Fatal(err)
	}
	eventually(t, "it has begun", func(context.Context) (bool, error) {
		_, err := os.Stat(filepath.Join(dir, "pki", "ca.crt"))
		return err == nil, err
	})
	left := temporary(t, cmd.Process.Pid)
	if err := cmd.Process.Signal(syscall.SIGTERM); err != nil {
		t.Fatal(err)
	}
	err := cmd.Wait()
	for _, l := range left {
		if l != dir {
			wantGone(t, l)
		}
	}
	if stdout.Len() > 0 {
		return false
	}
	if err == nil {
		t.Error("end = exit status 0, want an error: it was never ready")
	}
	return true
}

func TestSteppedClock(t *testing.T) {
	p := start(t, command(t, "--clock=stepped", "--components="+plane.KWOK))
	c := p.client(t)
	createNode(t, c, "node-1")
	create(t, c, newPod("hour", func(p *corev1.Pod) {
		p.Spec.NodeName = "node-1"
		p.Annotations = map[string]string{plane.DurationAnnotation: "1h"}
	}))
	began := waitPhase(t, c, "hour", corev1.PodRunning).Status.StartTime.Time
	step := func(d string) {
		t.Helper()
		body := []byte(`{"advance": "` + d + `"}`)
		if _, err := c.CoreV1().RESTClient().Post().AbsPath(plane.ClockPath).Body(body).DoRaw(t.Context()); err != nil {
			t.Fatalf("step by %s: %v", d, err)
		}
	}
	// A pod that ends at once shows that KWOK has seen what came before it: that the first one runs, from which its
	// hour counts, and the step.
	seen := func(name string, end time.Time) {
		t.Helper()
		create(t, c, newPod(name, func(p *corev1.Pod) {
			p.Spec.NodeName = "node-1"
			p.Annotations = map[string]string{plane.DurationAnnotation: end.Format(time.RFC3339)}
		}))
		waitPhase(t, c, name, corev1.PodSucceeded)
	}
	seen("before", began)
	step("59m")
	seen("short", began.Add(10*time.Minute))
	waitPhase(t, c, "hour", corev1.PodRunning)
	step("1m")
	ended := waitPhase(t, c, "hour", corev1.PodSucceeded).Status.ContainerStatuses[0].State.Terminated.FinishedAt.Time
	// 1 h: by the steps; a second is what the API's times round to.
	if took := ended.Sub(began); took < time.Hour-time.Second || took > time.Hour+time.Second {
		t.Errorf("the pod took %v of simulated time, want 1h", took)
	}
	if _, err := c.CoreV1().RESTClient().Post().AbsPath(plane.ClockPath).Body([]byte(`{"advance": "-1s"}`)).DoRaw(t.Context()); err == nil {
		t.Error("a step back was taken")
	}
}

// TestSchedulerConfig gives kube-scheduler a second profile.
func TestSchedulerConfig(t *testing.T) {
	file := filepath.Join(t.TempDir(), "scheduler.yaml")
	const conf = `
apiVersion: kubescheduler.config.k8s.io/v1
kind: KubeSchedulerConfiguration
profiles:
- schedulerName: default-scheduler
- schedulerName: packer
  pluginConfig:
  - name: NodeResourcesFit
    args:
      scoringStrategy: {type: MostAllocated, resources: [{name: cpu, weight: 1}]}
`
	if err := os.WriteFile(file, []byte(conf), 0o600); err != nil {
		t.Fatal(err)
	}
	p := start(t, command(t, "--scheduler-config", file, "--components", plane.KWOK+","+plane.Scheduler))
	c := p.client(t)
	createNode(t, c, "empty")
	createNode(t, c, "filled")
	create(t, c, newPod("first", func(p *corev1.Pod) { p.Spec.NodeName = "filled" }))
	waitPhase(t, c, "first", corev1.PodRunning)
	create(t, c, newPod("packed", func(p *corev1.Pod) { p.Spec.SchedulerName = "packer" }))
	if got := waitPhase(t, c, "packed", corev1.PodRunning).Spec.NodeName; got != "filled" {
		t.Errorf("the packing profile chose %s, want filled", got)
	}
}

// TestBeyondLoopback listens on every interface, with a token of the user's.
func TestBeyondLoopback(t *testing.T) {
	cmd := command(t, "--listen", "0.0.0.0:0", "--host", "localhost", "--components=")
	cmd.Env = append(cmd.Env, tokenEnv+"=secret-of-the-user")
	p := start(t, cmd)
	rc, err := clientcmd.BuildConfigFromFlags("", p.Kubeconfig)
	if err != nil {
		t.Fatal(err)
	}
	if rc.BearerToken != "secret-of-the-user" || !strings.HasPrefix(rc.Host, "https://localhost:") {
		t.Errorf("kubeconfig has server %s and another token than the user's", rc.Host)
	}
	for token, want := range map[string]int{rc.BearerToken: http.StatusOK, "": http.StatusUnauthorized, "wrong": http.StatusUnauthorized} {
		rc.BearerToken = token
		hc, err := rest.HTTPClientFor(rc)
		if err != nil {
			t.Fatal(err)
		}
		resp, err := hc.Get(rc.Host + "/api/v1/nodes")
		if err != nil {
			t.Fatal(err)
		}
		resp.Body.Close()
		if resp.StatusCode != want {
			t.Errorf("token %q: status %d, want %d", token, resp.StatusCode, want)
		}
	}
	if out, err := command(t, "health", "--timeout=1m", "--kubeconfig", p.Kubeconfig).CombinedOutput(); err != nil {
		t.Errorf("health = %v, %s, want success", err, out)
	}
	if err := p.cmd.Process.Signal(syscall.SIGTERM); err != nil {
		t.Fatal(err)
	}
	_ = p.wait()
}

// TestRefusals starts it with flags that it must not take.
func TestRefusals(t *testing.T) {
	dir := t.TempDir()
	write := func(name, text string) string {
		file := filepath.Join(dir, name)
		if err := os.WriteFile(file, []byte(text), 0o600); err != nil {
			t.Fatal(err)
		}
		return file
	}
	foreign := write("foreign", "apiVersion: v1\nkind: Config\nclusters: [{name: production, cluster: {server: https://example.com}}]\n")
	for _, tc := range []struct {
		name, want string
		args       []string
	}{
		{"all interfaces without a token", "needs a token", []string{"--listen", "0.0.0.0:0"}},
		{"no host without a token", "needs a token", []string{"--listen", ":0"}},
		{"address without a port", "missing port", []string{"--listen", "127.0.0.1"}},
		{"empty token", "holds no token", []string{"--token-file", write("empty", "\n")}},
		{"token with a comma", "comma", []string{"--token-file", write("comma", "a,b")}},
		{"durable without a folder", "--durable needs --data-dir", []string{"--durable"}},
		{"unknown component", "none of kwok, kube-scheduler", []string{"--components", "kubelet"}},
		{"unknown clock", "want real or stepped", []string{"--clock", "fast"}},
		{"unknown controller", "not in the list of known controllers", []string{"--controllers", "nonesuch"}},
		{"unknown flag of a component", "unknown flag: --nonesuch", []string{"--extra", "kube-apiserver:--nonesuch=1"}},
		{"extra without a component", "want COMPONENT:--FLAG", []string{"--extra", "--v=2"}},
		{"stages that are none", "holds no Stage", []string{"--stages", write("none.yaml", "# nothing\n")}},
		{"scheduler configuration that is none", "unknown", []string{"--scheduler-config", write("sched.yaml", "profile: 1\n")}},
		{"another cluster's kubeconfig", "would be overwritten", []string{"--kubeconfig", foreign}},
		{"log level", "--log-level", []string{"--log-level", "loud"}},
	} {
		t.Run(tc.name, func(t *testing.T) {
			out, err := command(t, tc.args...).CombinedOutput()
			if err == nil || !strings.Contains(string(out), tc.want) {
				t.Errorf("controlplane %s: %v\n%s\nwant an error with %q", strings.Join(tc.args, " "), err, out, tc.want)
			}
		})
	}
	if text, err := os.ReadFile(foreign); err != nil || !strings.Contains(string(text), "production") {
		t.Errorf("the other cluster's kubeconfig: %v, %s, want it untouched", err, text)
	}
}

// TestOrdinaryUser runs it as a user without rights.
func TestOrdinaryUser(t *testing.T) {
	if os.Getuid() != 0 {
		t.Skip("the other tests run as an ordinary user already; as root, this one becomes user 65534")
	}
	dir := t.TempDir()
	binary := filepath.Join(dir, "controlplane")
	text, err := os.ReadFile(os.Args[0])
	if err != nil {
		t.Fatal(err)
	}
	if err := os.WriteFile(binary, text, 0o755); err != nil {
		t.Fatal(err)
	}
	for d := dir; d != os.TempDir() && d != "/"; d = filepath.Dir(d) {
		if err := os.Chmod(d, 0o755); err != nil {
			t.Fatal(err)
		}
	}
	cmd := command(t)
	cmd.Path, cmd.Dir = binary, "/"
	cmd.SysProcAttr = &syscall.SysProcAttr{Credential: &syscall.Credential{Uid: 65534, Gid: 65534}}
	p := start(t, cmd)
	c := p.client(t)
	createNode(t, c, "node-1")
	create(t, c, newPod("pod", nil))
	waitPhase(t, c, "pod", corev1.PodRunning)
}
