package main

import (
	"bufio"
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"io"
	"io/fs"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"sync"
	"syscall"
	"testing"
	"time"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/resource"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/client-go/kubernetes"
	"k8s.io/client-go/tools/clientcmd"

	"github.com/kubernasium/kubernasium/kwok/launch"
)

// childEnv makes the test binary play the command, so that tests run the code as it is now.
const childEnv = "KUBERNASIUM_CONTROLPLANE_TEST_CHILD"

// patience bounds every wait: machines that test are busy.
const patience = 2 * time.Minute

func TestMain(m *testing.M) {
	if os.Getenv(childEnv) != "" {
		main()
		return
	}
	os.Exit(m.Run())
}

// A process is a control plane that a test has started.
type process struct {
	launch.Ready
	cmd    *exec.Cmd
	stdin  io.WriteCloser
	stderr *lockedBuffer
	once   sync.Once
	err    error // of its end
}

// command returns the control plane's command, not started.
func command(t *testing.T, args ...string) *exec.Cmd {
	t.Helper()
	cmd := exec.Command(os.Args[0], args...)
	cmd.Env = append(os.Environ(), childEnv+"=1", tokenEnv+"=", "TMPDIR="+os.TempDir())
	return cmd
}

// start starts a control plane and waits until it is ready. The end of the test kills it.
func start(t *testing.T, cmd *exec.Cmd) *process {
	t.Helper()
	p := &process{cmd: cmd, stderr: &lockedBuffer{}}
	cmd.Stderr = p.stderr
	var err error
	if p.stdin, err = cmd.StdinPipe(); err != nil {
		t.Fatal(err)
	}
	stdout, err := cmd.StdoutPipe()
	if err != nil {
		t.Fatal(err)
	}
	begin := time.Now()
	if err := cmd.Start(); err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		_ = cmd.Process.Signal(syscall.SIGTERM)
		_ = p.wait()
		if t.Failed() {
			t.Logf("log of the control plane:\n%s", p.stderr)
		}
	})
	lines := make(chan string, 1)
	go func() {
		line, _ := bufio.NewReader(stdout).ReadString('\n')
		lines <- line
	}()
	select {
	case line := <-lines:
		if err := json.Unmarshal([]byte(line), &p.Ready); err != nil {
			t.Fatalf("the line %q is not JSON: %v; its end: %v\n%s", line, err, p.wait(), p.stderr)
		}
	case <-time.After(patience):
		t.Fatalf("not ready after %v\n%s", patience, p.stderr)
	}
	t.Logf("ready after %.2f s (%.2f s by its own account)", time.Since(begin).Seconds(), p.Seconds)
	return p
}

// wait returns the process's error once it has ended, and kills it if that takes too long.
func (p *process) wait() error {
	p.once.Do(func() {
		timer := time.AfterFunc(patience, func() { _ = p.cmd.Process.Kill() })
		defer timer.Stop()
		p.err = p.cmd.Wait()
	})
	return p.err
}

// client returns an unthrottled client by the kubeconfig that p wrote.
func (p *process) client(t *testing.T) kubernetes.Interface {
	t.Helper()
	rc, err := clientcmd.BuildConfigFromFlags("", p.Kubeconfig)
	if err != nil {
		t.Fatal(err)
	}
	rc.QPS = -1
	c, err := kubernetes.NewForConfig(rc)
	if err != nil {
		t.Fatal(err)
	}
	return c
}

// createNode creates a node of 4 cores and waits until it is ready.
func createNode(t *testing.T, c kubernetes.Interface, name string) {
	t.Helper()
	size := corev1.ResourceList{"cpu": resource.MustParse("4"), "memory": resource.MustParse("8Gi"), "pods": resource.MustParse("110")}
	n := &corev1.Node{
		ObjectMeta: metav1.ObjectMeta{Name: name, Annotations: map[string]string{"kwok.x-k8s.io/node": "fake"}},
		Status:     corev1.NodeStatus{Allocatable: size, Capacity: size},
	}
	if _, err := c.CoreV1().Nodes().Create(t.Context(), n, metav1.CreateOptions{}); err != nil {
		t.Fatal(err)
	}
	eventually(t, "node "+name+" is ready", func(ctx context.Context) (bool, error) {
		n, err := c.CoreV1().Nodes().Get(ctx, name, metav1.GetOptions{})
		if err != nil {
			return false, err
		}
		for _, cond := range n.Status.Conditions {
			if cond.Type == corev1.NodeReady {
				return cond.Status == corev1.ConditionTrue, nil
			}
		}
		return false, nil
	})
}

// newPod returns a pod of 100 millicores, which edit may change.
func newPod(name string, edit func(*corev1.Pod)) *corev1.Pod {
	p := &corev1.Pod{
		ObjectMeta: metav1.ObjectMeta{Name: name, Namespace: "default"},
		Spec: corev1.PodSpec{Containers: []corev1.Container{{
			Name: "main", Image: "none",
			Resources: corev1.ResourceRequirements{Requests: corev1.ResourceList{"cpu": resource.MustParse("100m")}},
		}}},
	}
	if edit != nil {
		edit(p)
	}
	return p
}

func create(t *testing.T, c kubernetes.Interface, p *corev1.Pod) {
	t.Helper()
	if _, err := c.CoreV1().Pods(p.Namespace).Create(t.Context(), p, metav1.CreateOptions{}); err != nil {
		t.Fatal(err)
	}
}

// waitPhase waits until a pod has a phase, and returns it.
func waitPhase(t *testing.T, c kubernetes.Interface, name string, phase corev1.PodPhase) *corev1.Pod {
	t.Helper()
	var last *corev1.Pod
	eventually(t, "pod "+name+" is "+string(phase), func(ctx context.Context) (ok bool, err error) {
		last, err = c.CoreV1().Pods("default").Get(ctx, name, metav1.GetOptions{})
		return err == nil && last.Status.Phase == phase, err
	})
	return last
}

// eventually waits until cond is true.
func eventually(t *testing.T, what string, cond func(context.Context) (bool, error)) {
	t.Helper()
	ctx, cancel := context.WithTimeout(t.Context(), patience)
	defer cancel()
	for {
		ok, err := cond(ctx)
		if ok {
			return
		}
		select {
		case <-ctx.Done():
			t.Fatalf("after %v not so: %s; last error: %v", patience, what, err)
		case <-time.After(10 * time.Millisecond):
		}
	}
}

// wantGone fails the test if path is there.
func wantGone(t *testing.T, path string) {
	t.Helper()
	if _, err := os.Stat(path); !errors.Is(err, fs.ErrNotExist) {
		t.Errorf("stat %s = %v, want that it is gone", path, err)
	}
}

// temporary lists the temporary folders of the control plane with this process id, by the files
// that it has open.
func temporary(t *testing.T, pid int) []string {
	t.Helper()
	fds, err := filepath.Glob("/proc/" + itoa(pid) + "/fd/*")
	if err != nil {
		t.Fatal(err)
	}
	var dirs []string
	for _, fd := range fds {
		if name, err := os.Readlink(fd); err == nil && filepath.Base(name) == "lock" && strings.Contains(name, "kubernasium-controlplane-") {
			dirs = append(dirs, filepath.Dir(name))
		}
	}
	return dirs
}

// lockedBuffer is a buffer that several goroutines may use.
type lockedBuffer struct {
	mu sync.Mutex
	b  bytes.Buffer
}

func (l *lockedBuffer) Write(p []byte) (int, error) {
	l.mu.Lock()
	defer l.mu.Unlock()
	return l.b.Write(p)
}

func (l *lockedBuffer) String() string {
	l.mu.Lock()
	defer l.mu.Unlock()
	return l.b.String()
}
