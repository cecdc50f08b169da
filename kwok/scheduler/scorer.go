package scheduler

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"net/http"
	"net/url"
	"time"

	corev1 "k8s.io/api/core/v1"

	"github.com/kubernasium/kubernasium/envs/podsched/gpushare"
)

// maxScores bounds a scorer's reply, in bytes.
const maxScores = 16 << 20

// HTTPScorer lets an HTTP service score the nodes for each pod of a simulation. It sends a
// [ScoreRequest] by POST as JSON, which POST /score of a [Scheduler] takes too, and takes a
// [ScoreReply] with numbers of any size; the pod goes to the node with the highest score, of equal ones
// to the first. Where only one node fits it does not ask, as kube-scheduler does not.
type HTTPScorer struct {
	URL     string
	Timeout time.Duration // for each reply
	Client  *http.Client  // nil: the default one

	Nodes []corev1.Node // in the order in which the simulation has them
	Pods  []*corev1.Pod // likewise
}

var _ gpushare.Decider = (*HTTPScorer)(nil)

// NodeFree holds the free resources of a node.
type NodeFree struct {
	MilliCPU  int64   `json:"cpu_m"`
	MemoryMiB int64   `json:"memory_mib"`
	MilliGPU  []int32 `json:"gpu_m"` // thousandths of each device
}

// scores is a [ScoreReply] whose scores may be any numbers.
type scores struct {
	Scores map[string]float64 `json:"scores"` // by the names of all nodes of the request; other names are ignored
}

// NewHTTPScorer returns a scorer at a URL of http or https.
func NewHTTPScorer(target string, timeout time.Duration, nodes []corev1.Node, pods []*corev1.Pod) (*HTTPScorer, error) {
	u, err := url.Parse(target)
	if err != nil || u.Host == "" || u.Scheme != "http" && u.Scheme != "https" {
		return nil, fmt.Errorf("scheduler: scorer %q, want a URL such as http://127.0.0.1:5000/score", target)
	}
	if timeout <= 0 {
		return nil, fmt.Errorf("scheduler: time limit %v of the scorer, want more than 0", timeout)
	}
	return &HTTPScorer{URL: target, Timeout: timeout, Nodes: nodes, Pods: pods}, nil
}

// Decide implements [gpushare.Decider].
func (h *HTTPScorer) Decide(ctx context.Context, q gpushare.Question) (node int32, devices uint64, err error) {
	if len(q.Fitting) == 1 {
		return q.Fitting[0], 0, nil
	}
	reply, err := h.ask(ctx, h.request(q))
	if err != nil {
		return 0, 0, fmt.Errorf("scorer %s: %w", h.URL, err)
	}
	node, best := -1, 0.0
	for _, n := range q.Fitting {
		name := h.Nodes[n].Name
		v, ok := reply.Scores[name]
		if !ok {
			return 0, 0, fmt.Errorf("scorer %s: no score of node %s among %d, want one of each node", h.URL, name, len(reply.Scores))
		}
		if node < 0 || v > best {
			node, best = n, v
		}
	}
	return node, 0, nil
}

func (h *HTTPScorer) request(q gpushare.Question) *ScoreRequest {
	r := &ScoreRequest{Pod: h.Pods[q.Pod], Free: map[string]NodeFree{}}
	for _, n := range q.Fitting {
		node := &h.Nodes[n]
		r.Nodes = append(r.Nodes, *node)
		f := NodeFree{}
		f.MilliCPU, f.MemoryMiB, f.MilliGPU = q.Sim.Free(int(n))
		r.Free[node.Name] = f
	}
	return r
}

// ask sends a request and reads the reply, within the time limit.
func (h *HTTPScorer) ask(ctx context.Context, r *ScoreRequest) (*scores, error) {
	body, err := json.Marshal(r)
	if err != nil {
		return nil, err
	}
	limited, cancel := context.WithTimeout(ctx, h.Timeout)
	defer cancel()
	reply, err := h.post(limited, body)
	if err != nil && ctx.Err() == nil && errors.Is(limited.Err(), context.DeadlineExceeded) {
		return nil, fmt.Errorf("no reply within %v", h.Timeout)
	}
	return reply, err
}

func (h *HTTPScorer) post(ctx context.Context, body []byte) (*scores, error) {
	req, err := http.NewRequestWithContext(ctx, http.MethodPost, h.URL, bytes.NewReader(body))
	if err != nil {
		return nil, err
	}
	req.Header.Set("Content-Type", "application/json")
	client := h.Client
	if client == nil {
		client = http.DefaultClient
	}
	resp, err := client.Do(req)
	if err != nil {
		return nil, err
	}
	defer resp.Body.Close()
	text, err := io.ReadAll(io.LimitReader(resp.Body, maxScores+1))
	if err != nil {
		return nil, err
	}
	const start = 200 // of a message, in bytes
	switch {
	case resp.StatusCode != http.StatusOK:
		return nil, fmt.Errorf("status %s: %s", resp.Status, text[:min(len(text), start)])
	case len(text) > maxScores:
		return nil, fmt.Errorf("the reply is over %d MiB", maxScores>>20)
	}
	var reply scores
	if err := json.Unmarshal(text, &reply); err != nil {
		return nil, fmt.Errorf("reply %s: %w", text[:min(len(text), start)], err)
	}
	return &reply, nil
}
