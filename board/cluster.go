package board

import (
	"context"
	"net/http"
	"strings"
	"sync"
	"time"
)

// A Cluster is a running cluster with its observed scheduler. It is safe for concurrent use.
type Cluster interface {
	// Follow calls changed after each change until ctx ends.
	Follow(ctx context.Context, changed func())

	// Snapshot returns the present cluster.
	Snapshot() *ClusterInfo

	// Why explains the decision on a pod, namespace/name: the past one or, for a pending pod, the one that would be
	// made now. policies are names of baselines to compare.
	Why(ctx context.Context, pod string, policies []string) (*PodWhy, error)

	// PodsOf returns the pods that run on a node, and those that ran there since the page started, the latest first.
	PodsOf(node string) []NodePod
}

// NodePod is a present or past pod of a node of a running cluster.
type NodePod struct {
	Pod      string     `json:"pod"` // namespace/name
	Phase    string     `json:"phase"`
	MilliCPU int64      `json:"cpu_m"`        // requested
	Memory   int64      `json:"memory_bytes"` // requested
	GPUs     float64    `json:"gpus"`         // requested
	From     time.Time  `json:"from"`         // when it was bound; if before the page started, when it was created
	To       *time.Time `json:"to"`           // when it ended; null while it runs
}

// ClusterInfo shows a running cluster.
type ClusterInfo struct {
	Scheduler string     `json:"scheduler"` // schedulerName of the pods whose decisions are shown
	Shadow    bool       `json:"shadow"`    // the policy is only compared with that scheduler
	Policy    string     `json:"policy"`
	Baselines []string   `json:"baselines"` // to compare
	At        time.Time  `json:"at"`
	Nodes     []NodeInfo `json:"nodes"`
	Use
	Pending   int        `json:"pending"`
	Waiting   []Waiting  `json:"waiting"`   // the first pending pods
	Placed    int        `json:"placed"`    // pods that the scheduler has bound since the page started
	Disagreed int        `json:"disagreed"` // of them, those for which kube-scheduler's default scores prefer another node
	Decisions []Decision `json:"decisions"` // the latest, newest first
}

// Waiting is a pod without a node.
type Waiting struct {
	Pod       string    `json:"pod"`
	Scheduler string    `json:"scheduler"`
	Since     time.Time `json:"since"`
	Message   string    `json:"message"` // the scheduler's reason
}

// Decision is the binding of a pod, beside the nodes that the policy and the default scores prefer.
type Decision struct {
	Pod     string    `json:"pod"`
	Node    string    `json:"node"`
	At      time.Time `json:"at"`
	Policy  string    `json:"policy"`  // the policy's choice, from the state that this page saw; "" if it was not asked
	Default string    `json:"default"` // node with the best default score of kube-scheduler; "" if unknown

	PolicyScore  *float64 `json:"policy_score"`  // of the node that the pod was bound to
	DefaultScore *float64 `json:"default_score"` // likewise
	Best         *float64 `json:"default_best"`  // default score of the default's node
}

// PodWhy explains a decision on a pod of a running cluster.
type PodWhy struct {
	Pod     string     `json:"pod"`
	Node    string     `json:"node"` // "" while pending
	At      time.Time  `json:"at"`
	Message string     `json:"message"`
	Nodes   []string   `json:"nodes"` // in the order of scores
	Columns []string   `json:"columns"`
	Rows    [][]string `json:"rows"`
	Choices []Choice   `json:"choices"`
}

// whyCluster answers GET /api/cluster/why?pod=NAMESPACE/NAME&policies=A|B.
func (s *Server) whyCluster(r *http.Request) (any, error) {
	q := r.URL.Query()
	var policies []string
	if text := q.Get("policies"); text != "" {
		policies = strings.Split(text, "|")
	}
	answer, err := s.cfg.Cluster.Why(r.Context(), q.Get("pod"), policies)
	if err != nil {
		return nil, err
	}
	why := *answer // others may share the answer
	why.Nodes, why.Columns, why.Rows, why.Choices = list(why.Nodes), list(why.Columns), list(why.Rows), list(why.Choices)
	return &why, nil
}

// snapshotOf returns the present cluster, with empty lists in place of nil, as the page expects.
func snapshotOf(c Cluster) *ClusterInfo {
	info := *c.Snapshot()
	info.Nodes, info.Waiting, info.Decisions, info.Baselines = list(info.Nodes), list(info.Waiting), list(info.Decisions), list(info.Baselines)
	info.CPU, info.Memory, info.Pods, info.GPUs = list(info.CPU), list(info.Memory), list(info.Pods), list(info.GPUs)
	return &info
}

// list replaces nil by an empty list, which is not null in JSON.
func list[T any](v []T) []T {
	if v == nil {
		return []T{}
	}
	return v
}

// clusterSource follows a running cluster.
type clusterSource struct {
	cluster Cluster

	mu      sync.Mutex
	version int
	seen    int // version of info
	info    *ClusterInfo
}

func (c *clusterSource) follow(ctx context.Context, changed func()) {
	c.cluster.Follow(ctx, func() {
		c.mu.Lock()
		c.version++
		c.mu.Unlock()
		changed()
	})
}

// update calls Snapshot once per version, for all viewers.
func (c *clusterSource) update(seen any) (data, now any, skipped int) {
	c.mu.Lock()
	defer c.mu.Unlock()
	before, again := seen.(int)
	version := c.version + 1
	if again && before == version {
		return nil, seen, 0
	}
	if c.seen != version {
		c.info, c.seen = snapshotOf(c.cluster), version
	}
	return c.info, version, skippedSince(before, version)
}
