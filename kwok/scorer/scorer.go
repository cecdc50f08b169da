// Package scorer scores nodes over HTTP. It defines the messages of POST /score, and a client that lets such a
// service choose in simulations.
package scorer

import (
	"bytes"
	"cmp"
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

// maxScores limits a scorer's reply in bytes.
const maxScores = 16 << 20

// Request is the body of POST /score: a pod and the nodes on which it fits.
type Request struct {
	Pod   *corev1.Pod   `json:"pod"`
	Nodes []corev1.Node `json:"nodes"`

	// Free holds the free resources of each node. A simulation sends it; a scheduler knows them.
	Free map[string]NodeFree `json:"free,omitempty"`

	// Reserve makes the scheduler count the pod on the chosen node in later requests, until the pod is bound
	// or 30 s have passed. Without it the request is a dry run.
	Reserve bool `json:"reserve,omitempty"`
}

// Reply is the reply of a scheduler: an integer from 0 to 100 for each node of the request. Only the chosen
// node has 100.
type Reply struct {
	Scores map[string]int64 `json:"scores"`
}

// Scorer lets an HTTP service score the nodes for each pod of a simulation. It sends a [Request] as JSON by
// POST and accepts a [Reply] with numbers of any size. The pod goes to the node with the highest score, or to
// the first of equal ones. If only one node fits, it sends no request, as kube-scheduler scores no single node.
type Scorer struct {
	URL     string
	Timeout time.Duration // timeout of each reply
	Client  *http.Client  // nil: the default one

	Nodes []corev1.Node // in the simulation's order
	Pods  []*corev1.Pod // in the simulation's order
}

var _ gpushare.Decider = (*Scorer)(nil)

// NodeFree holds the free resources of a node.
type NodeFree struct {
	MilliCPU  int64   `json:"cpu_m"`
	MemoryMiB int64   `json:"memory_mib"`
	MilliGPU  []int32 `json:"gpu_m"` // thousandths of each device
}

// scores is a [Reply] whose scores may be any numbers.
type scores struct {
	Scores map[string]float64 `json:"scores"` // by the name of each node of the request; other names are ignored
}

// New returns a scorer for an http or https URL.
func New(target string, timeout time.Duration, nodes []corev1.Node, pods []*corev1.Pod) (*Scorer, error) {
	u, err := url.Parse(target)
	if err != nil || u.Host == "" || u.Scheme != "http" && u.Scheme != "https" {
		return nil, fmt.Errorf("scorer: scorer %q, want a URL such as http://127.0.0.1:5000/score", target)
	}
	if timeout <= 0 {
		return nil, fmt.Errorf("scorer: time limit %v of the scorer, want more than 0", timeout)
	}
	return &Scorer{URL: target, Timeout: timeout, Nodes: nodes, Pods: pods}, nil
}

// Decide implements [gpushare.Decider].
func (h *Scorer) Decide(ctx context.Context, q gpushare.Question) (node int32, devices uint64, err error) {
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

func (h *Scorer) request(q gpushare.Question) *Request {
	r := &Request{Pod: h.Pods[q.Pod], Free: map[string]NodeFree{}}
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
func (h *Scorer) ask(ctx context.Context, r *Request) (*scores, error) {
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

func (h *Scorer) post(ctx context.Context, body []byte) (*scores, error) {
	req, err := http.NewRequestWithContext(ctx, http.MethodPost, h.URL, bytes.NewReader(body))
	if err != nil {
		return nil, err
	}
	req.Header.Set("Content-Type", "application/json")
	resp, err := cmp.Or(h.Client, http.DefaultClient).Do(req)
	if err != nil {
		return nil, err
	}
	defer resp.Body.Close()
	text, err := io.ReadAll(io.LimitReader(resp.Body, maxScores+1))
	if err != nil {
		return nil, err
	}
	const start = 200 // maximum length of a message in bytes
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
