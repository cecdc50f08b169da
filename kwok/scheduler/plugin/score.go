package plugin

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"iter"
	"net"
	"net/http"
	"os"
	"slices"
	"strconv"
	"strings"
	"sync"
	"time"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/labels"
	"k8s.io/apimachinery/pkg/types"
	corelisters "k8s.io/client-go/listers/core/v1"
	"k8s.io/client-go/tools/cache"
	"k8s.io/component-base/metrics/legacyregistry"
	"k8s.io/klog/v2"

	"github.com/kubernasium/kubernasium/agents/live"
	"github.com/kubernasium/kubernasium/envs"
	"github.com/kubernasium/kubernasium/envs/cluster"
	"github.com/kubernasium/kubernasium/kwok/kubeyaml"
	"github.com/kubernasium/kubernasium/kwok/mirror"
	"github.com/kubernasium/kubernasium/kwok/scorer"
	"github.com/kubernasium/kubernasium/server/guard"
)

const (
	maxBody       = 32 << 20 // maximum size of a request: 5,000 Nodes of a few KiB each, as JSON
	tokenVariable = "KUBERNASIUM_TOKEN"
	reserveFor    = 30 * time.Second // lifetime of a reservation whose binding the API server does not show
)

// scoreService answers POST /score with the policy's current choice. It sees nodes and pods as the informers
// report them, not the snapshot of a scheduling cycle.
type scoreService struct {
	plugin *Plugin
	token  string
	nodes  corelisters.NodeLister
	pods   corelisters.PodLister
	synced []cache.InformerSynced

	mu         sync.Mutex
	policy     *live.Policy
	mirror     *mirror.Mirror
	generation int64
	reserved   map[types.UID]reservation
	reload     *reloader
}

// reservation is a pod that a client will bind.
type reservation struct {
	pod     *corev1.Pod
	node    string
	devices uint64
	until   time.Time
}

// newScoreService listens and serves until ctx ends.
func newScoreService(ctx context.Context, p *Plugin) (*scoreService, error) {
	core := p.handle.SharedInformerFactory().Core().V1()
	s := &scoreService{
		plugin: p, nodes: core.Nodes().Lister(), pods: core.Pods().Lister(), mirror: mirror.New(p.selector), reserved: map[types.UID]reservation{},
		synced: []cache.InformerSynced{core.Nodes().Informer().HasSynced, core.Pods().Informer().HasSynced},
	}
	s.token = os.Getenv(tokenVariable)
	if file := p.args.Serve.TokenFile; file != "" {
		b, err := os.ReadFile(file)
		if err != nil {
			return nil, err
		}
		if s.token = strings.TrimSpace(string(b)); s.token == "" {
			return nil, fmt.Errorf("%s holds no token", file)
		}
	}
	host, _, err := net.SplitHostPort(p.args.Serve.Listen)
	if err != nil {
		return nil, err
	}
	if s.token == "" && !guard.IsLoopback(host) {
		return nil, fmt.Errorf("%s reaches beyond the loopback interface and needs a token: tokenFile or %s", p.args.Serve.Listen, tokenVariable)
	}
	if s.policy, err = live.Open(p.args.Args, 1); err != nil {
		return nil, err
	}
	if s.reload, err = newReloader(ctx, p.args); err != nil {
		return nil, err
	}
	l, err := (&net.ListenConfig{}).Listen(ctx, "tcp", p.args.Serve.Listen)
	if err != nil {
		return nil, err
	}
	mux := http.NewServeMux()
	g := &guard.Guard{Accept: guard.Only(s.token)}
	mux.Handle("POST /score", g.Protect(s, nil))
	mux.Handle("GET /metrics", g.Protect(legacyregistry.Handler(), nil))
	mux.Handle("GET /healthz", g.Public(http.HandlerFunc(s.health)))
	server := &http.Server{Handler: mux, ReadHeaderTimeout: 10 * time.Second, ReadTimeout: 30 * time.Second, WriteTimeout: 30 * time.Second, IdleTimeout: 2 * time.Minute}
	context.AfterFunc(ctx, func() { _ = server.Close() }) // dry runs may be interrupted
	go func() {
		if err := server.Serve(l); !errors.Is(err, http.ErrServerClosed) {
			klog.FromContext(ctx).Error(err, "the score service has ended")
		}
	}()
	return s, nil
}

// httpError is an error with a status.
type httpError struct {
	status int
	error
}

func refuse(status int, format string, args ...any) error {
	return httpError{status, fmt.Errorf(format, args...)}
}

// ServeHTTP answers a [scorer.Request]. An error has the body {"error": "..."} and a status: 400 if the request
// is malformed, 413 if it is too large, 422 if the policy cannot choose, and 503 until the informers have
// listed nodes and pods.
func (s *scoreService) ServeHTTP(w http.ResponseWriter, r *http.Request) {
	var reply any
	scores, err := s.answer(w, r)
	status := http.StatusOK
	if reply = (scorer.Reply{Scores: scores}); err != nil {
		status = http.StatusUnprocessableEntity
		var h httpError
		if errors.As(err, &h) {
			status = h.status
		}
		reply = map[string]string{"error": err.Error()}
	}
	requests.WithLabelValues(strconv.Itoa(status)).Inc()
	w.Header().Set("Content-Type", "application/json")
	w.WriteHeader(status)
	_ = json.NewEncoder(w).Encode(reply) // the client may have disconnected
}

func (s *scoreService) answer(w http.ResponseWriter, r *http.Request) (map[string]int64, error) {
	if !s.listed() {
		return nil, refuse(http.StatusServiceUnavailable, "nodes and pods are not listed yet")
	}
	q, err := scorer.Decode(http.MaxBytesReader(w, r.Body, maxBody))
	var large *http.MaxBytesError
	switch {
	case errors.As(err, &large):
		return nil, refuse(http.StatusRequestEntityTooLarge, "the body has more than %d bytes", large.Limit)
	case err != nil:
		return nil, refuse(http.StatusBadRequest, "the body: %w", err)
	case q.Pod == nil || q.Pod.Name == "" || q.Pod.UID == "":
		return nil, refuse(http.StatusBadRequest, "no pod with a name and a UID")
	case len(q.Nodes) == 0:
		return nil, refuse(http.StatusBadRequest, "pod %s/%s: no nodes", q.Pod.Namespace, q.Pod.Name)
	}
	ctx, cancel := context.WithTimeout(r.Context(), s.plugin.args.Budget.Duration)
	defer cancel()
	return s.choose(ctx, q)
}

// listed reports whether the informers have listed nodes and pods.
func (s *scoreService) listed() bool {
	return !slices.ContainsFunc(s.synced, func(synced cache.InformerSynced) bool { return !synced() })
}

// health answers GET /healthz: 503 until the informers have listed nodes and pods.
func (s *scoreService) health(w http.ResponseWriter, _ *http.Request) {
	if !s.listed() {
		http.Error(w, "nodes and pods are not listed yet", http.StatusServiceUnavailable)
		return
	}
	_, _ = w.Write([]byte("ok\n")) // the client may have disconnected
}

// choose asks the policy about the cluster as the informers report it.
func (s *scoreService) choose(ctx context.Context, q *scorer.Request) (map[string]int64, error) {
	s.mu.Lock()
	defer s.mu.Unlock()
	if fresh := s.reload.take(); fresh != nil {
		old := s.policy
		s.policy = fresh
		if err := old.Close(); err != nil {
			return nil, err
		}
	}
	before, reserved := s.reserved[q.Pod.UID]
	delete(s.reserved, q.Pod.UID) // the pod's own reservation does not restrict its choice
	if reserved && !q.Reserve {
		defer func() { s.reserve(before) }() // a dry run changes nothing
	}
	view, err := s.view()
	if err != nil {
		return nil, err
	}
	if err := s.mirror.Sync(view); err != nil {
		return nil, err
	}
	question := mirror.Question{Pod: q.Pod, Replicas: s.plugin.replicas(ctx, q.Pod), Now: time.Now()}
	if question.Open, err = openTo(q); err != nil {
		return nil, err
	}
	var ranks []int64
	node, devices, err := s.mirror.Ask(question, func(state *cluster.State, d envs.Decision) (int32, uint64, error) {
		c, err := s.policy.Choose(ctx, state, d)
		if err == nil {
			ranks = scaleScores(c)
		}
		return c.Node, c.Devices, err
	})
	if err != nil {
		return nil, fmt.Errorf("pod %s/%s: %w", q.Pod.Namespace, q.Pod.Name, err)
	}
	if q.Reserve {
		s.reserve(reservation{q.Pod, node, devices, time.Now().Add(reserveFor)})
	}
	_, index := s.mirror.Nodes()
	scores := map[string]int64{}
	for i := range q.Nodes {
		name := q.Nodes[i].Name
		scores[name] = 0
		if k, ok := index[name]; ok {
			scores[name] = ranks[k]
		}
	}
	return scores, nil
}

// reserve adds a reservation.
func (s *scoreService) reserve(r reservation) {
	s.reserved[r.pod.UID] = r
	if r.devices != 0 {
		s.mirror.Reserve(r.pod.UID, r.devices)
	}
}

// openTo returns the nodes of a request that the pod's selector, affinity and tolerations permit.
func openTo(q *scorer.Request) (open []string, err error) {
	terms, err := kubeyaml.ReadTerms(q.Pod)
	if err != nil {
		return nil, err
	}
	for i := range q.Nodes {
		why, err := terms.Refusal(&q.Nodes[i])
		if err != nil {
			return nil, err
		}
		if why == "" {
			open = append(open, q.Nodes[i].Name)
		}
	}
	return open, nil
}

// view is a cluster as the informers report it, with reservations.
type view struct {
	nodes      []*corev1.Node
	pods       map[string][]*corev1.Pod // by node
	generation int64                    // unique for each view; the mirror finds unchanged pods itself
}

var _ mirror.Source = (*view)(nil)

func (s *scoreService) view() (*view, error) {
	nodes, err := s.nodes.List(labels.Everything())
	if err != nil {
		return nil, err
	}
	pods, err := s.pods.List(labels.Everything())
	if err != nil {
		return nil, err
	}
	s.generation++
	v := &view{nodes: nodes, pods: map[string][]*corev1.Pod{}, generation: s.generation}
	for _, p := range pods {
		if p.Spec.NodeName != "" {
			v.pods[p.Spec.NodeName] = append(v.pods[p.Spec.NodeName], p)
			delete(s.reserved, p.UID)
		}
	}
	for uid, r := range s.reserved {
		if time.Now().After(r.until) {
			delete(s.reserved, uid)
			s.mirror.Release(uid)
			continue
		}
		v.pods[r.node] = append(v.pods[r.node], r.pod)
	}
	return v, nil
}

// Len implements [mirror.Source].
func (v *view) Len() int { return len(v.nodes) }

// Node implements [mirror.Source].
func (v *view) Node(i int) (*corev1.Node, int64) { return v.nodes[i], v.generation }

// Pods implements [mirror.Source].
func (v *view) Pods(i int) iter.Seq[*corev1.Pod] { return slices.Values(v.pods[v.nodes[i].Name]) }
