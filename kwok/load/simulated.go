package load

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"net"
	"net/http"
	"sync"
	"time"

	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/client-go/kubernetes"

	"github.com/kubernasium/kubernasium/kwok/metricsapi"
)

const mib = 1 << 20

// SimulatedConfig selects the simulated pods to register.
type SimulatedConfig struct {
	Client    kubernetes.Interface
	Server    string // URL of the utilisation server
	Namespace string
	Selector  string           // label selector; "" selects all pods
	Now       func() time.Time // time of the samples; default: the real time
	Listen    string           // default: 127.0.0.1 and a free port
}

// Simulated acts as the stress pods of pods that KWOK simulates. It writes their usage, within their CPU and
// memory limits, to annotations that metrics.k8s.io serves.
type Simulated struct {
	config SimulatedConfig
	port   int
	http   *http.Server
	ended  chan error

	mu    sync.Mutex
	known map[string]string // UIDs by name
}

// StartSimulated accepts targets until Close.
func StartSimulated(c SimulatedConfig) (*Simulated, error) {
	c.Listen = cmp.Or(c.Listen, "127.0.0.1:0")
	if c.Now == nil {
		c.Now = time.Now
	}
	l, err := net.Listen("tcp", c.Listen)
	if err != nil {
		return nil, err
	}
	s := &Simulated{config: c, port: l.Addr().(*net.TCPAddr).Port, ended: make(chan error, 1), known: map[string]string{}}
	mux := http.NewServeMux()
	mux.HandleFunc("GET /pods/{name}/{$}", s.take)
	s.http = &http.Server{Handler: mux, ReadHeaderTimeout: registerTimeout}
	go func() { s.ended <- s.http.Serve(l) }()
	return s, nil
}

// Sync registers the running pods that are not registered yet, and applies their target of the current step. It
// returns the number of running pods.
func (s *Simulated) Sync(ctx context.Context) (int, error) {
	list, err := s.config.Client.CoreV1().Pods(s.config.Namespace).List(ctx, metav1.ListOptions{LabelSelector: s.config.Selector})
	if err != nil {
		return 0, err
	}
	running := map[string]string{}
	for i := range list.Items {
		if p := &list.Items[i]; p.Status.Phase == corev1.PodRunning && p.DeletionTimestamp == nil {
			running[p.Name] = string(p.UID)
		}
	}
	s.mu.Lock()
	before := s.known
	s.known = running
	s.mu.Unlock()
	var errs []error
	for i := range list.Items {
		p := &list.Items[i]
		if running[p.Name] == "" || before[p.Name] == running[p.Name] {
			continue
		}
		t, err := Register(ctx, s.config.Server, p.Name, s.port, "/pods/"+p.Name+"/")
		if err == nil {
			err = s.use(ctx, p.Name, t)
		}
		if err != nil {
			s.mu.Lock()
			delete(s.known, p.Name) // the next Sync retries
			s.mu.Unlock()
			errs = append(errs, err)
		}
	}
	return len(running), errors.Join(errs...)
}

// take handles a target from the server.
func (s *Simulated) take(w http.ResponseWriter, r *http.Request) {
	name := r.PathValue("name")
	t, err := parseTarget(r.URL.Query())
	if err != nil {
		http.Error(w, err.Error(), http.StatusBadRequest)
		return
	}
	s.mu.Lock()
	_, ok := s.known[name]
	s.mu.Unlock()
	if !ok {
		http.Error(w, fmt.Sprintf("no pod %s runs", name), http.StatusGone)
		return
	}
	switch err := s.use(r.Context(), name, t); {
	case apierrors.IsNotFound(err):
		http.Error(w, err.Error(), http.StatusGone)
		return
	case err != nil:
		http.Error(w, err.Error(), http.StatusInternalServerError)
		return
	}
	reply(w, t)
}

// use sets the usage annotations of a pod.
func (s *Simulated) use(ctx context.Context, name string, t Target) error {
	p, err := s.config.Client.CoreV1().Pods(s.config.Namespace).Get(ctx, name, metav1.GetOptions{})
	if err != nil {
		return err
	}
	milli, bytes := t.CPU, t.RAM*mib
	for i := range p.Spec.Containers {
		limits := p.Spec.Containers[i].Resources.Limits
		if l, ok := limits[corev1.ResourceCPU]; ok {
			milli = min(milli, l.MilliValue())
		}
		if l, ok := limits[corev1.ResourceMemory]; ok {
			bytes = min(bytes, l.Value())
		}
	}
	return metricsapi.SetUsage(ctx, s.config.Client, s.config.Namespace, name, milli, bytes, s.config.Now())
}

// Close stops accepting targets; the pods keep their usage.
func (s *Simulated) Close() error {
	ctx, cancel := context.WithTimeout(context.Background(), shutdownTimeout)
	defer cancel()
	err := s.http.Shutdown(ctx)
	if end := <-s.ended; !errors.Is(end, http.ErrServerClosed) {
		err = errors.Join(err, end)
	}
	return err
}
