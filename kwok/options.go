package kwok

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"math/rand/v2"
	"net/http"
	"os"
	"strings"
	"sync"
	"time"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/client-go/kubernetes"
	"k8s.io/client-go/rest"
	"k8s.io/client-go/tools/clientcmd"
	"k8s.io/client-go/util/flowcontrol"

	"github.com/kubernasium/kubernasium/envs"
	"github.com/kubernasium/kubernasium/kwok/k8sversion"
	"github.com/kubernasium/kubernasium/kwok/poll"
	"github.com/kubernasium/kubernasium/kwok/stages"
)

// KubeconfigVariable names the environment variable with the path of the kubeconfig that is used if the option
// kubeconfig is empty. A pod without either uses its service account. KUBECONFIG is ignored, because it may
// name a production cluster.
const KubeconfigVariable = "KUBERNASIUM_KUBECONFIG"

// Options select the control plane. Each twin has them.
type Options struct {
	Kubeconfig     string `opt:"kubeconfig,file" doc:"kubeconfig file of the control plane; empty: that of KUBERNASIUM_KUBECONFIG, or in a pod its service account"`
	AllowRealNodes bool   `opt:"allow_real_nodes" doc:"use a control plane with nodes that KWOK does not manage"`
}

// nodeAnnotation marks the nodes that KWOK manages.
const nodeAnnotation = stages.Node

// server is a connection that clusters with equal options share. It connects at first use, so that environments
// can be described without a control plane.
type server struct {
	opts Options
	wrap func(*rest.Config) // changes the connection; for tests

	mu     sync.Mutex
	client kubernetes.Interface // nil: not connected
}

func newServer(o Options) (*server, error) {
	if o.Kubeconfig == "" {
		o.Kubeconfig = os.Getenv(KubeconfigVariable)
	} else if _, err := os.Stat(o.Kubeconfig); err != nil {
		return nil, fmt.Errorf("%w: kubeconfig: %w", envs.ErrInvalidOption, err)
	}
	return &server{opts: o}, nil
}

// connect returns the client of the control plane. The first call checks the nodes and the version.
func (s *server) connect(ctx context.Context) (kubernetes.Interface, error) {
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.client != nil {
		return s.client, nil
	}
	rc, err := s.config()
	if err != nil {
		return nil, err
	}
	if s.wrap != nil {
		s.wrap(rc)
	}
	tune(rc)
	client, err := kubernetes.NewForConfig(rc)
	if err != nil {
		return nil, fmt.Errorf("kwok: kubeconfig %s: %w", s.opts.Kubeconfig, err)
	}
	if !s.opts.AllowRealNodes {
		if err := rejectRealNodes(ctx, client); err != nil {
			return nil, err
		}
	}
	if err := k8sversion.CheckServer(ctx, client); err != nil {
		slog.Warn("version of the API server", "err", err)
	}
	s.client = client
	return client, nil
}

// inCluster returns a pod's configuration for the API server. It is a variable for tests, because its files
// have fixed paths.
var inCluster = rest.InClusterConfig

// config returns the configuration for the API server: from the kubeconfig, or from the pod's service account.
func (s *server) config() (*rest.Config, error) {
	if s.opts.Kubeconfig != "" {
		rc, err := clientcmd.BuildConfigFromFlags("", s.opts.Kubeconfig)
		if err != nil {
			return nil, fmt.Errorf("kwok: kubeconfig: %w", err)
		}
		return rc, nil
	}
	rc, err := inCluster()
	if errors.Is(err, rest.ErrNotInCluster) {
		return nil, fmt.Errorf("kwok: neither the option kubeconfig nor %s names a control plane, and this is no pod; `trainer kwok up` starts one", KubeconfigVariable)
	} else if err != nil {
		return nil, fmt.Errorf("kwok: service account of this pod: %w", err)
	}
	return rc, nil
}

// reconnect reads the kubeconfig again, unless another caller has done so since old was the client. A restarted
// control plane may have another address.
func (s *server) reconnect(ctx context.Context, old kubernetes.Interface) (kubernetes.Interface, error) {
	s.mu.Lock()
	if s.client == old {
		s.client = nil
	}
	s.mu.Unlock()
	return s.connect(ctx)
}

// tune removes the client's rate limit, because the server limits the rate, and selects protobuf, which costs
// both sides less than JSON.
func tune(rc *rest.Config) {
	rc.QPS = -1
	rc.RateLimiter = flowcontrol.NewFakeAlwaysRateLimiter()
	rc.ContentType = "application/vnd.kubernetes.protobuf"
	rc.AcceptContentTypes = "application/vnd.kubernetes.protobuf,application/json"
	rc.UserAgent = "kubernasium"
	rc.WarningHandler = rest.NoWarnings{}
	rc.Wrap(func(next http.RoundTripper) http.RoundTripper { return retryTransport{next} })
}

const (
	firstPause = 10 * time.Millisecond // before the first retry of a rejected request; doubled up to lastPause
	lastPause  = time.Second
)

// retryTransport retries requests that the API server rejects with 429, until their context ends. client-go gives up
// after ten retries at intervals of a second. If many requests return together, some of them are rejected each
// time.
type retryTransport struct{ next http.RoundTripper }

func (p retryTransport) RoundTrip(r *http.Request) (*http.Response, error) {
	for pause := firstPause; ; pause = min(2*pause, lastPause) {
		resp, err := p.next.RoundTrip(r)
		if err != nil || resp.StatusCode != http.StatusTooManyRequests || r.Body != nil && r.GetBody == nil {
			return resp, err
		}
		_ = resp.Body.Close() // its size is known
		spread := pause/2 + rand.N(pause)
		if err := poll.Sleep(r.Context(), spread); err != nil {
			return nil, err
		}
		if r.GetBody != nil {
			r = r.Clone(r.Context())
			if r.Body, err = r.GetBody(); err != nil {
				return nil, err
			}
		}
	}
}

// rejectRealNodes returns an error if KWOK does not manage a node of the control plane.
func rejectRealNodes(ctx context.Context, client kubernetes.Interface) error {
	ctx, cancel := context.WithTimeout(ctx, callTimeout)
	defer cancel()
	nodes, err := client.CoreV1().Nodes().List(ctx, metav1.ListOptions{})
	if err != nil {
		return wrapAPI("list nodes", err)
	}
	if real := realNodes(nodes.Items); len(real) > 0 {
		return fmt.Errorf("kwok: %d of %d nodes lack the annotation %s and so may be real: %s; allow_real_nodes permits them",
			len(real), len(nodes.Items), nodeAnnotation, strings.Join(real[:min(3, len(real))], ", "))
	}
	return nil
}

// Simulated reports whether KWOK manages the node.
func Simulated(n *corev1.Node) bool { return n.Annotations[nodeAnnotation] != "" }

func realNodes(nodes []corev1.Node) []string {
	var real []string
	for i := range nodes {
		if !Simulated(&nodes[i]) {
			real = append(real, nodes[i].Name)
		}
	}
	return real
}
