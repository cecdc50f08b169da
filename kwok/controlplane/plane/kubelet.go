package plane

import (
	"context"
	"errors"
	"fmt"
	"io"
	"log/slog"
	"net"
	"net/http"
	"os/exec"
	"slices"
	"strings"
	"time"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apiserver/pkg/util/flushwriter"
	"k8s.io/cri-streaming/pkg/streaming/portforward"
	"k8s.io/cri-streaming/pkg/streaming/remotecommand"
	"k8s.io/kubernetes/pkg/api/legacyscheme"
	utilexec "k8s.io/utils/exec"
	"sigs.k8s.io/kwok/pkg/apis/v1alpha1"
	"sigs.k8s.io/kwok/pkg/kwok/server"
)

const (
	streamIdle     = time.Hour // of exec, attach and port-forward, as in KWOK
	kubeletSocket  = "kubelet.sock"
	kubeletHeaders = 10 * time.Second
)

// A kubelet serves the API server's requests to nodes: logs, exec, attach and port-forward. KWOK defines the
// answers: objects of its kinds name the file with a pod's logs, or the place where a command runs.
//
// KWOK's own server listens on a port without authentication, so every user of the machine could run commands
// as us. Therefore kubelet uses only the server's methods, behind a socket in a folder that only its owner may
// enter. The API server's connections to nodes go to this socket.
type kubelet struct {
	kwok *server.Server
	crds []string
}

var (
	_ remotecommand.Executor    = kubelet{}
	_ remotecommand.Attacher    = kubelet{}
	_ portforward.PortForwarder = kubelet{}
)

// runKubelet serves on l until ctx ends. The channel receives when it has ended.
func runKubelet(ctx context.Context, l net.Listener, keys *pki, k kubelet, log *slog.Logger) <-chan error {
	s := &http.Server{
		Handler: k.handler(), ReadHeaderTimeout: kubeletHeaders,
		TLSNextProto: nil, Protocols: new(http.Protocols), // exec upgrades the connection, which HTTP/2 does not support
		BaseContext: func(net.Listener) context.Context { return ctx },
		ErrorLog:    slog.NewLogLogger(log.Handler(), slog.LevelDebug),
	}
	s.Protocols.SetHTTP1(true)
	done := make(chan error, 1)
	go func() { done <- s.ServeTLS(l, keys.serverCert(), keys.serverKey()) }()
	context.AfterFunc(ctx, func() { _ = s.Close() })
	return done
}

// handler serves the paths of a kubelet.
func (k kubelet) handler() http.Handler {
	mux := http.NewServeMux()
	mux.HandleFunc("GET /containerLogs/{namespace}/{pod}/{container}", k.logs)
	mux.HandleFunc("/exec/{namespace}/{pod}/{container}", func(w http.ResponseWriter, r *http.Request) {
		if o := streams(w, r); o != nil {
			remotecommand.ServeExec(w, r, k, podOf(r), "", r.PathValue("container"), r.URL.Query()["command"], o,
				streamIdle, remotecommand.DefaultStreamCreationTimeout, remotecommand.SupportedStreamingProtocols)
		}
	})
	mux.HandleFunc("/attach/{namespace}/{pod}/{container}", func(w http.ResponseWriter, r *http.Request) {
		if o := streams(w, r); o != nil {
			remotecommand.ServeAttach(w, r, k, podOf(r), "", r.PathValue("container"), o,
				streamIdle, remotecommand.DefaultStreamCreationTimeout, remotecommand.SupportedStreamingProtocols)
		}
	})
	mux.HandleFunc("/portForward/{namespace}/{pod}", func(w http.ResponseWriter, r *http.Request) {
		o, err := portforward.NewV4Options(r)
		if err != nil {
			http.Error(w, err.Error(), http.StatusBadRequest)
			return
		}
		portforward.ServePortForward(w, r, k, podOf(r), "", o, streamIdle, remotecommand.DefaultStreamCreationTimeout, portforward.SupportedProtocols)
	})
	return mux
}

func streams(w http.ResponseWriter, r *http.Request) *remotecommand.Options {
	o, err := remotecommand.NewOptions(r)
	if err != nil {
		http.Error(w, err.Error(), http.StatusBadRequest)
		return nil
	}
	return o
}

// podOf returns the request's pod as NAME/NAMESPACE, the form that KWOK's methods take.
func podOf(r *http.Request) string { return r.PathValue("pod") + "/" + r.PathValue("namespace") }

// logs answers with a container's logs. The API server passes on the text of a reply with status 400.
func (k kubelet) logs(w http.ResponseWriter, r *http.Request) {
	options := &corev1.PodLogOptions{}
	err := legacyscheme.ParameterCodec.DecodeParameters(r.URL.Query(), corev1.SchemeGroupVersion, options)
	out := &startedWriter{Writer: flushwriter.Wrap(w)}
	if err == nil {
		err = k.kwok.GetContainerLogs(r.Context(), r.PathValue("pod"), r.PathValue("namespace"), r.PathValue("container"), options, out, out)
		err = k.withHint(err, v1alpha1.LogsKind, v1alpha1.ClusterLogsKind)
	}
	if err != nil && !out.yes {
		http.Error(w, err.Error(), http.StatusBadRequest)
	}
}

// startedWriter records whether anything was written.
type startedWriter struct {
	io.Writer
	yes bool
}

func (b *startedWriter) Write(p []byte) (int, error) {
	b.yes = true
	return b.Writer.Write(p)
}

// ExecInContainer implements [remotecommand.Executor]. The client receives the exit status of a failed command.
func (k kubelet) ExecInContainer(ctx context.Context, name, uid, container string, cmd []string, in io.Reader, out, errOut io.WriteCloser, tty bool, resize <-chan remotecommand.TerminalSize, timeout time.Duration) error {
	err := k.kwok.ExecInContainer(ctx, name, uid, container, cmd, in, out, errOut, tty, resize, timeout)
	var exit *exec.ExitError
	if errors.As(err, &exit) {
		return utilexec.CodeExitError{Err: exit, Code: exit.ExitCode()}
	}
	return k.withHint(err, v1alpha1.ExecKind, v1alpha1.ClusterExecKind)
}

// AttachContainer implements [remotecommand.Attacher].
func (k kubelet) AttachContainer(ctx context.Context, name, uid, container string, in io.Reader, out, errOut io.WriteCloser, tty bool, resize <-chan remotecommand.TerminalSize) error {
	err := k.kwok.AttachContainer(ctx, name, uid, container, in, out, errOut, tty, resize)
	return k.withHint(err, v1alpha1.AttachKind, v1alpha1.ClusterAttachKind)
}

// PortForward implements [portforward.PortForwarder].
func (k kubelet) PortForward(ctx context.Context, name, uid string, port int32, stream io.ReadWriteCloser) error {
	err := k.kwok.PortForward(ctx, name, uid, port, stream)
	return k.withHint(err, v1alpha1.PortForwardKind, v1alpha1.ClusterPortForwardKind)
}

// withHint adds a hint to an error: the object's kind must be served by the control plane.
func (k kubelet) withHint(err error, kinds ...string) error {
	if err == nil {
		return nil
	}
	for _, kind := range kinds {
		if !slices.Contains(k.crds, kind) {
			return fmt.Errorf("%w: a simulated pod runs nothing; start the control plane with --enable-crds=%s and say by such an object what it shows", err, strings.Join(kinds, ","))
		}
	}
	return fmt.Errorf("%w: a simulated pod runs nothing; objects of the kinds %s say what it shows", err, strings.Join(kinds, " and "))
}
