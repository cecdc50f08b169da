package board

import (
	"context"
	"net/http"
	"strings"
	"sync"
	"time"
)

// A Cluster is one that runs, with the scheduler that is watched. It is safe for concurrent use.
type Cluster interface {
	// Follow calls changed after each change until ctx ends.
	Follow(ctx context.Context, changed func())

	// Look returns the cluster as it is.
	Look() *ClusterInfo

	// Why explains the decision on a pod, namespace/name: that which was made, or, for a pod that waits, the one that
	// would be made now. Policies are names of baselines to ask besides.
	Why(ctx context.Context, pod string, policies []string) (*PodWhy, error)

	// PodsOf returns the pods that run on a node, and those that ran there since the page began, the last ones first.
	PodsOf(node string) []NodePod
}

// NodePod is a pod that runs on a node of a running cluster, or did.
type NodePod struct {
	Pod      string     `json:"pod"` // namespace/name
	Phase    string     `json:"phase"`
	MilliCPU int64      `json:"cpu_m"`        // requested
	Memory   int64      `json:"memory_bytes"` // likewise
	GPUs     float64    `json:"gpus"`         // likewise
	From     time.Time  `json:"from"`         // when it got the node, or, if it had it before the page began, when it was created
	To       *time.Time `json:"to"`           // when it left; null for one that runs
}

// ClusterInfo shows a running cluster.
type ClusterInfo struct {
	Scheduler string     `json:"scheduler"` // schedulerName of the pods whose decisions are shown
	Shadow    bool       `json:"shadow"`    // the policy is only compared with that scheduler
	Policy    string     `json:"policy"`
	Baselines []string   `json:"baselines"` // that can be asked besides
	At        time.Time  `json:"at"`
	Nodes     []NodeInfo `json:"nodes"`
	Use
	Pending   int        `json:"pending"`
	Waiting   []Waiting  `json:"waiting"`   // the first pending pods
	Placed    int        `json:"placed"`    // pods that the scheduler has placed since the page began
	Disagreed int        `json:"disagreed"` // of them, those that kube-scheduler's default would have put elsewhere
	Decisions []Decision `json:"decisions"` // the last ones, the newest first
}

// Waiting is a pod without a node.
type Waiting struct {
	Pod       string    `json:"pod"`
	Scheduler string    `json:"scheduler"`
	Since     time.Time `json:"since"`
	Message   string    `json:"message"` // why, in the scheduler's words
}

// Decision is a pod that got a node.
type Decision struct {
	Pod     string    `json:"pod"`
	Node    string    `json:"node"`
	At      time.Time `json:"at"`
	Policy  string    `json:"policy"`  // node that the policy chooses by what this page saw; "" where it was not asked
	Default string    `json:"default"` // node that kube-scheduler's default scores rate best; likewise

	PolicyScore  *float64 `json:"policy_score"`  // of the node that the pod got
	DefaultScore *float64 `json:"default_score"` // likewise
	Best         *float64 `json:"default_best"`  // of the node that the default would have chosen
}

// PodWhy explains a decision on a pod of a running cluster.
type PodWhy struct {
	Pod     string     `json:"pod"`
	Node    string     `json:"node"` // "" while it waits
	At      time.Time  `json:"at"`
	Message string     `json:"message"`
	Nodes   []string   `json:"nodes"` // in the order of the scores
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
	why := *answer // others may have it
	why.Nodes, why.Columns, why.Rows, why.Choices = list(why.Nodes), list(why.Columns), list(why.Rows), list(why.Choices)
	return &why, nil
}

// lookAt returns the cluster as it is, with empty lists in place of none, as the page expects.
func lookAt(c Cluster) *ClusterInfo {
	info := *c.Look()
	info.Nodes, info.Waiting, info.Decisions, info.Baselines = list(info.Nodes), list(info.Waiting), list(info.Decisions), list(info.Baselines)
	info.CPU, info.Memory, info.Pods, info.GPUs = list(info.CPU), list(info.Memory), list(info.Pods), list(info.GPUs)
	return &info
}

// list makes nil an empty list, which JSON does not write as null.
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

// news looks at the cluster once for all viewers of a version.
func (c *clusterSource) news(seen any) (data, now any, skipped int) {
	c.mu.Lock()
	defer c.mu.Unlock()
	before, again := seen.(int)
	version := c.version + 1
	if again && before == version {
		return nil, seen, 0
	}
	if c.seen != version {
		c.info, c.seen = lookAt(c.cluster), version
	}
	return c.info, version, skippedSince(before, version)
}
