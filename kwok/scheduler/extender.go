package scheduler

import (
	"context"
	"fmt"
	"math"
	"net/http"

	corev1 "k8s.io/api/core/v1"
	extenderv1 "k8s.io/kube-scheduler/extender/v1"

	"github.com/kubernasium/kubernasium/kwok/scorer"
)

// FallbackHeader is the header of a reply of /prioritize or /score that says why the scores are
// kube-scheduler's and not the policy's: timeout or error.
const FallbackHeader = "X-Kubernasium-Fallback"

// maxScore is the highest score of /score, as in the scheduling framework.
const maxScore = 100

// filter is the extender's: which of the nodes the pod fits.
func (s *Scheduler) filter(_ http.ResponseWriter, r *http.Request) (any, error) {
	q, err := readArgs(r)
	if err != nil {
		return nil, err
	}
	m, err := s.momentFor(r.Context(), q)
	if err != nil {
		return nil, err
	}
	result := extenderv1.ExtenderFilterResult{FailedNodes: extenderv1.FailedNodesMap{}}
	fitting := []string{}
	for _, name := range q.names {
		i, known := m.index[name]
		switch {
		case !known:
			result.FailedNodes[name] = "the extender does not know the node, or does not count it"
		case !m.mask[i]:
			result.FailedNodes[name] = m.refusal(i)
		default:
			fitting = append(fitting, name)
		}
	}
	if q.nodes == nil {
		result.NodeNames = &fitting
	} else {
		result.Nodes = &corev1.NodeList{}
		for i := range q.nodes.Items {
			if k, known := m.index[q.nodes.Items[i].Name]; known && m.mask[k] {
				result.Nodes.Items = append(result.Nodes.Items, q.nodes.Items[i])
			}
		}
	}
	if len(fitting) == 1 { // kube-scheduler takes it without asking for priorities
		s.cache.assumeAsked(m.pod.Pod, fitting[0], 0)
	}
	return result, nil
}

// prioritize is the extender's: the nodes' scores, 0 to 10.
func (s *Scheduler) prioritize(w http.ResponseWriter, r *http.Request) (any, error) {
	q, err := readArgs(r)
	if err != nil {
		return nil, err
	}
	m, c, err := s.advise(w, r, q)
	if err != nil {
		return nil, err
	}
	scores := m.ranked(c, extenderv1.MaxExtenderPriority)
	list := make(extenderv1.HostPriorityList, 0, len(q.names))
	for _, name := range q.names {
		list = append(list, extenderv1.HostPriority{Host: name, Score: scores[name]})
	}
	return list, nil
}

// ScoreRequest is the body of POST /score: a pod and the nodes on which it fits.
type ScoreRequest struct {
	Pod   *corev1.Pod   `json:"pod"`
	Nodes []corev1.Node `json:"nodes"`

	// Free is what is free on each of the nodes. Package scorer sends it; POST /score knows by itself.
	Free map[string]scorer.NodeFree `json:"free,omitempty"`
}

// ScoreReply is the reply: an integer from 0 to 100 for each node.
type ScoreReply struct {
	Scores map[string]int64 `json:"scores"`
}

// score is POST /score.
func (s *Scheduler) score(w http.ResponseWriter, r *http.Request) (any, error) {
	var body ScoreRequest
	if err := read(r, &body); err != nil {
		return nil, err
	}
	q := question{pod: body.Pod}
	for i := range body.Nodes {
		q.names = append(q.names, body.Nodes[i].Name)
	}
	if err := q.check(); err != nil {
		return nil, err
	}
	m, c, err := s.advise(w, r, &q)
	if err != nil {
		return nil, err
	}
	scores := m.ranked(c, maxScore)
	reply := ScoreReply{Scores: map[string]int64{}}
	for _, name := range q.names {
		reply.Scores[name] = scores[name]
	}
	return reply, nil
}

// question is what a request asks about.
type question struct {
	pod   *corev1.Pod
	names []string // of the nodes that it gives
	nodes *corev1.NodeList
}

func (q *question) check() error {
	switch {
	case q.pod == nil || q.pod.Name == "" || q.pod.UID == "":
		return refuse(http.StatusBadRequest, "no pod with a name and a UID")
	case len(q.names) == 0:
		return refuse(http.StatusBadRequest, "pod %s/%s: no nodes", q.pod.Namespace, q.pod.Name)
	}
	return nil
}

func readArgs(r *http.Request) (*question, error) {
	var args extenderv1.ExtenderArgs
	if err := read(r, &args); err != nil {
		return nil, err
	}
	q := &question{pod: args.Pod, nodes: args.Nodes}
	switch {
	case args.NodeNames != nil:
		q.names, q.nodes = *args.NodeNames, nil
	case args.Nodes != nil:
		for i := range args.Nodes.Items {
			q.names = append(q.names, args.Nodes.Items[i].Name)
		}
	}
	return q, q.check()
}

// momentFor returns the moment of a question. What was assumed of the pod is forgotten: it would
// not be asked about if it had a node.
func (s *Scheduler) momentFor(ctx context.Context, q *question) (*moment, error) {
	s.cache.forget(q.pod.UID)
	given := make(map[string]bool, len(q.names))
	for _, name := range q.names {
		given[name] = true
	}
	m, err := s.cache.moment(q.pod, s.replicas(ctx, q.pod), given)
	if err != nil {
		return nil, &httpError{http.StatusUnprocessableEntity, err}
	}
	return m, nil
}

// advise chooses a node for the pod of a question, and assumes that it goes there: who asks will
// bind it, and may ask about the next pod before the informers show that.
func (s *Scheduler) advise(w http.ResponseWriter, r *http.Request, q *question) (*moment, choice, error) {
	m, err := s.momentFor(r.Context(), q)
	if err != nil {
		return nil, choice{}, err
	}
	if m.fitting() == 0 {
		return nil, choice{}, refuse(http.StatusUnprocessableEntity, "pod %s/%s: %s", q.pod.Namespace, q.pod.Name, m.reasons())
	}
	v := s.decide(r.Context(), m)
	if v.fallback != "" {
		w.Header().Set(FallbackHeader, v.fallback)
	}
	s.cache.assumeAsked(m.pod.Pod, m.nodes[v.node].Name, v.devices)
	return m, v.choice, nil
}

// ranked scales the scores of the nodes on which the pod fits to 0 … most, by node name. The node
// that was chosen alone has most; all others have less.
func (m *moment) ranked(c choice, most int64) map[string]int64 {
	low, high := math.Inf(1), math.Inf(-1)
	for i, ok := range m.mask {
		if ok {
			low, high = min(low, c.scores[i]), max(high, c.scores[i])
		}
	}
	scores := make(map[string]int64, len(m.nodes))
	for i, ok := range m.mask {
		switch {
		case !ok:
		case int32(i) == c.node:
			scores[m.nodes[i].Name] = most
		case high > low:
			scores[m.nodes[i].Name] = min(most-1, int64(float64(most)*(c.scores[i]-low)/(high-low)))
		default:
			scores[m.nodes[i].Name] = most - 1
		}
	}
	return scores
}

// ExtenderConfig returns a KubeSchedulerConfiguration in which this scheduler, at url, is
// kube-scheduler's extender, and kube-scheduler's own score plugins are off: its filters stand, and
// the policy alone decides among the nodes that pass them. With nodeCacheCapable it is told of
// nodes by name, which costs less.
func ExtenderConfig(url string, nodeCacheCapable bool) []byte {
	return fmt.Appendf(nil, `apiVersion: kubescheduler.config.k8s.io/v1
kind: KubeSchedulerConfiguration
profiles:
- schedulerName: default-scheduler
  plugins:
    score:
      disabled: [{name: "*"}]
extenders:
- urlPrefix: %s
  filterVerb: filter
  prioritizeVerb: prioritize
  weight: 1
  nodeCacheCapable: %t
  httpTimeout: 5s
  ignorable: true
`, url, nodeCacheCapable)
}
