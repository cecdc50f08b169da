package main

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"io"
	"net"
	"net/http"
	"os"
	"path/filepath"
	"strings"
	"testing"

	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/client-go/kubernetes"
	"k8s.io/client-go/kubernetes/scheme"
	"k8s.io/client-go/rest"
	"k8s.io/client-go/tools/clientcmd"
	"k8s.io/client-go/tools/portforward"
	"k8s.io/client-go/tools/remotecommand"
	"k8s.io/client-go/transport/spdy"
	utilexec "k8s.io/client-go/util/exec"
	"sigs.k8s.io/kwok/pkg/apis/v1alpha1"
	"sigs.k8s.io/kwok/pkg/client/clientset/versioned"
)

// subresource returns a request for what kubectl streams from the test's pod.
func subresource(c kubernetes.Interface, name string, options runtime.Object) *rest.Request {
	req := c.CoreV1().RESTClient().Post().Resource("pods").Namespace("default").Name("pod").SubResource(name)
	if options != nil {
		req = req.VersionedParams(options, scheme.ParameterCodec)
	}
	return req
}

// runs does what kubectl exec and attach do, over WebSockets as they do, until ctx or the command ends.
func runs(ctx context.Context, rc *rest.Config, req *rest.Request, stdin io.Reader, out io.Writer) error {
	e, err := remotecommand.NewWebSocketExecutor(rc, http.MethodGet, req.URL().String())
	if err != nil {
		return err
	}
	return e.StreamWithContext(ctx, remotecommand.StreamOptions{Stdin: stdin, Stdout: out})
}

// forward does what kubectl port-forward does, and returns the local port.
func forward(t *testing.T, rc *rest.Config, c kubernetes.Interface, port int) (local uint16, ended <-chan error) {
	t.Helper()
	transport, upgrader, err := spdy.RoundTripperFor(rc)
	if err != nil {
		t.Fatal(err)
	}
	dialer := spdy.NewDialer(upgrader, &http.Client{Transport: transport}, http.MethodPost, subresource(c, "portforward", nil).URL())
	stop, ready := make(chan struct{}), make(chan struct{})
	f, err := portforward.New(dialer, []string{fmt.Sprintf("0:%d", port)}, stop, ready, io.Discard, io.Discard)
	if err != nil {
		t.Fatal(err)
	}
	done := make(chan error, 1)
	go func() { done <- f.ForwardPorts() }()
	t.Cleanup(func() { close(stop) })
	select {
	case <-ready:
	case err := <-done:
		t.Fatalf("port-forward: %v", err)
	}
	ports, err := f.GetPorts()
	if err != nil {
		t.Fatal(err)
	}
	return ports[0].Local, done
}

// podOnNode starts a node and a pod that runs there, with a container main.
func podOnNode(t *testing.T, p *process) (*rest.Config, kubernetes.Interface) {
	t.Helper()
	rc, err := clientcmd.BuildConfigFromFlags("", p.Kubeconfig)
	if err != nil {
		t.Fatal(err)
	}
	c := p.client(t)
	createNode(t, c, "node-1")
	create(t, c, newPod("pod", nil))
	waitPhase(t, c, "pod", corev1.PodRunning)
	return rc, c
}

func logsOf(ctx context.Context, c kubernetes.Interface, o corev1.PodLogOptions) (string, error) {
	stream, err := c.CoreV1().Pods("default").GetLogs("pod", &o).Stream(ctx)
	if err != nil {
		return "", err
	}
	defer stream.Close()
	text, err := io.ReadAll(stream)
	return string(text), err
}

// TestKubectlStreams plays kubectl logs, exec, attach and port-forward by client-go's calls, on a pod
// of which objects say what it shows. Nobody but the API server can reach what answers.
func TestKubectlStreams(t *testing.T) {
	p := start(t, command(t, "--enable-crds=Logs,Exec,ClusterAttach,PortForward,ClusterLogs,ClusterExec,Attach,ClusterPortForward"))
	rc, c := podOnNode(t, p)
	ctx := t.Context()
	if text, err := logsOf(ctx, c, corev1.PodLogOptions{}); err == nil || !strings.Contains(err.Error(), "Logs and ClusterLogs") {
		t.Errorf("logs without an object: %q, %v; want the kinds that would say what it shows", text, err)
	}
	kwok, err := versioned.NewForConfig(rc)
	if err != nil {
		t.Fatal(err)
	}
	file := filepath.Join(t.TempDir(), "log")
	text := "2030-01-02T03:04:05.000000001Z stdout F first\n2030-01-02T03:04:06.000000001Z stdout F second\n"
	if err := os.WriteFile(file, []byte(text), 0o600); err != nil {
		t.Fatal(err)
	}
	echo := echoServer(t)
	of := metav1.ObjectMeta{Name: "pod", Namespace: "default"}
	v1 := kwok.KwokV1alpha1()
	_, logsErr := v1.Logs("default").Create(ctx, &v1alpha1.Logs{ObjectMeta: of, Spec: v1alpha1.LogsSpec{Logs: []v1alpha1.Log{{Containers: []string{"main"}, LogsFile: &file}}}}, metav1.CreateOptions{})
	_, execErr := v1.Execs("default").Create(ctx, &v1alpha1.Exec{ObjectMeta: of, Spec: v1alpha1.ExecSpec{Execs: []v1alpha1.ExecTarget{{Local: &v1alpha1.ExecTargetLocal{Envs: []v1alpha1.EnvVar{{Name: "WHO", Value: "simulated"}}}}}}}, metav1.CreateOptions{})
	_, attachErr := v1.ClusterAttaches().Create(ctx, &v1alpha1.ClusterAttach{ObjectMeta: metav1.ObjectMeta{Name: "all"}, Spec: v1alpha1.ClusterAttachSpec{Attaches: []v1alpha1.AttachConfig{{LogsFile: &file}}}}, metav1.CreateOptions{})
	_, forwardErr := v1.PortForwards("default").Create(ctx, &v1alpha1.PortForward{ObjectMeta: of, Spec: v1alpha1.PortForwardSpec{Forwards: []v1alpha1.Forward{{
		Ports: []int32{80}, Target: &v1alpha1.ForwardTarget{Address: "127.0.0.1", Port: int32(echo)},
	}}}}, metav1.CreateOptions{})
	if err := errors.Join(logsErr, execErr, attachErr, forwardErr); err != nil {
		t.Fatal(err)
	}

	eventually(t, "logs are the file's", func(ctx context.Context) (bool, error) {
		got, err := logsOf(ctx, c, corev1.PodLogOptions{})
		return got == "first\nsecond\n", err
	})
	one := int64(1)
	if got, err := logsOf(ctx, c, corev1.PodLogOptions{TailLines: &one, Timestamps: true}); err != nil || got != "2030-01-02T03:04:06.000000001Z second\n" {
		t.Errorf("the last line with its time = %q, %v", got, err)
	}

	t.Run("exec", func(t *testing.T) {
		var out bytes.Buffer
		run := func(ctx context.Context, stdin io.Reader, command ...string) error {
			out.Reset()
			return runs(ctx, rc, subresource(c, "exec", &corev1.PodExecOptions{Container: "main", Command: command, Stdin: stdin != nil, Stdout: true}), stdin, &out)
		}
		eventually(t, "a command runs", func(ctx context.Context) (bool, error) {
			err := run(ctx, strings.NewReader("to it"), "sh", "-c", "head -c 5; echo \" from $WHO\"")
			return out.String() == "to it from simulated\n", err
		})
		var exit utilexec.CodeExitError
		if err := run(ctx, nil, "sh", "-c", "exit 3"); !errors.As(err, &exit) || exit.Code != 3 {
			t.Errorf("exit 3 = %v, want its status", err)
		}
	})
	t.Run("attach", func(t *testing.T) {
		ctx, cancel := context.WithCancel(ctx)
		defer cancel()
		seen := &lockedBuffer{}
		go func() {
			_ = runs(ctx, rc, subresource(c, "attach", &corev1.PodAttachOptions{Container: "main", Stdout: true}), nil, seen) // ends with ctx
		}()
		log, err := os.OpenFile(file, os.O_APPEND|os.O_WRONLY, 0)
		if err != nil {
			t.Fatal(err)
		}
		defer log.Close()
		eventually(t, "what the pod logs is seen", func(context.Context) (bool, error) {
			_, err := log.WriteString("2030-01-02T03:04:07.000000001Z stdout F live\n")
			return strings.Contains(seen.String(), "live\n"), err
		})
	})
	t.Run("port-forward", func(t *testing.T) {
		eventually(t, "what is sent comes back", func(context.Context) (bool, error) {
			local, _ := forward(t, rc, c, 80)
			conn, err := net.Dial("tcp", fmt.Sprintf("127.0.0.1:%d", local))
			if err != nil {
				return false, err
			}
			defer conn.Close()
			if _, err := conn.Write([]byte("there and back")); err != nil {
				return false, err
			}
			back := make([]byte, len("there and back"))
			_, err = io.ReadFull(conn, back)
			return string(back) == "there and back", err
		})
	})
	sockets, err := filepath.Glob(filepath.Join(filepath.Dir(p.DataDir), "*", "kubelet.sock"))
	if info, statErr := os.Stat(p.DataDir); err != nil || len(sockets) == 0 || statErr != nil || info.Mode().Perm() != 0o700 {
		t.Errorf("sockets %v, %v in a folder of mode %v, %v; want one that only its owner may enter", sockets, err, info.Mode(), statErr)
	}
}

// echoServer sends back what it gets, and returns its port.
func echoServer(t *testing.T) int {
	t.Helper()
	l, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = l.Close() })
	go func() {
		for {
			conn, err := l.Accept()
			if err != nil {
				return
			}
			go func() {
				defer conn.Close()
				_, _ = io.Copy(conn, conn)
			}()
		}
	}()
	return l.Addr().(*net.TCPAddr).Port
}

// TestKubectlStreamsOff: without --enable-crds, the answer comes at once and says what to do.
func TestKubectlStreamsOff(t *testing.T) {
	p := start(t, command(t, "--components=kwok"))
	rc, err := clientcmd.BuildConfigFromFlags("", p.Kubeconfig)
	if err != nil {
		t.Fatal(err)
	}
	c := p.client(t)
	createNode(t, c, "node-1")
	create(t, c, newPod("pod", func(p *corev1.Pod) { p.Spec.NodeName = "node-1" }))
	waitPhase(t, c, "pod", corev1.PodRunning)
	if _, err := logsOf(t.Context(), c, corev1.PodLogOptions{}); !apierrors.IsBadRequest(err) || !strings.Contains(err.Error(), "--enable-crds=Logs,ClusterLogs") {
		t.Errorf("logs: %v, want the flag to start with", err)
	}
	err = runs(t.Context(), rc, subresource(c, "exec", &corev1.PodExecOptions{Container: "main", Command: []string{"ls"}, Stdout: true}), nil, io.Discard)
	if err == nil || !strings.Contains(err.Error(), "--enable-crds=Exec,ClusterExec") {
		t.Errorf("exec: %v, want the flag to start with", err)
	}
	out, err := command(t, "--enable-crds=Log").CombinedOutput()
	if err == nil || !strings.Contains(string(out), `"Log"`) || !strings.Contains(string(out), "ClusterLogs") {
		t.Errorf("--enable-crds=Log: %v, %s; want what there is", err, out)
	}
}
