package kwok

import (
	"cmp"
	"context"
	"slices"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/client-go/kubernetes"
	"k8s.io/client-go/rest"

	"github.com/kubernasium/kubernasium/envs/cluster"
	"github.com/kubernasium/kubernasium/kwok/kubeyaml"
)

// NodeUsage sums the requests of a node's pods.
type NodeUsage struct {
	Name        string            `json:"name"`
	Ready       bool              `json:"ready"`
	Requested   cluster.Resources `json:"requested"`
	Allocatable cluster.Resources `json:"allocatable"`
	Pods        int64             `json:"pods"`
	MaxPods     int64             `json:"max_pods"`
}

// Load is the requested share of a cluster's CPU, memory and pods.
type Load struct {
	CPU    float64 `json:"cpu"`
	Memory float64 `json:"memory"`
	Pods   float64 `json:"pods"`
}

// Connect returns a client of the control plane that o selects. It logs a warning if the control plane runs an
// unsupported version of Kubernetes; see package k8sversion.
func Connect(ctx context.Context, o Options) (kubernetes.Interface, error) {
	server, err := newServer(o)
	if err != nil {
		return nil, err
	}
	return server.connect(ctx)
}

// RESTConfig returns the configuration for the control plane that o selects, for clients of other APIs.
func RESTConfig(ctx context.Context, o Options) (*rest.Config, error) {
	server, err := newServer(o)
	if err != nil {
		return nil, err
	}
	if _, err := server.connect(ctx); err != nil { // rejects real nodes
		return nil, err
	}
	rc, err := server.config()
	if err != nil {
		return nil, err
	}
	rc.QPS, rc.UserAgent, rc.WarningHandler = -1, "kubernasium", rest.NoWarnings{}
	return rc, nil
}

// Usage returns the requests on each node, in name order. Ended pods do not count.
func Usage(ctx context.Context, client kubernetes.Interface) ([]NodeUsage, error) {
	nodes, err := client.CoreV1().Nodes().List(ctx, metav1.ListOptions{})
	if err != nil {
		return nil, wrapAPI("list nodes", err)
	}
	pods, err := client.CoreV1().Pods("").List(ctx, metav1.ListOptions{})
	if err != nil {
		return nil, wrapAPI("list pods", err)
	}
	all, index := make([]NodeUsage, len(nodes.Items)), map[string]int{}
	for i := range nodes.Items {
		r := haveNode(&nodes.Items[i])
		all[i] = NodeUsage{Name: nodes.Items[i].Name, Ready: r.Ready, Allocatable: r.Allocatable, MaxPods: r.Pods}
		index[all[i].Name] = i
	}
	for i := range pods.Items {
		p := &pods.Items[i]
		n, ok := index[p.Spec.NodeName]
		if !ok || p.Status.Phase == corev1.PodSucceeded || p.Status.Phase == corev1.PodFailed {
			continue
		}
		requested, _ := kubeyaml.Requests(p)
		all[n].Requested = all[n].Requested.Plus(requested)
		all[n].Pods++
	}
	slices.SortFunc(all, func(a, b NodeUsage) int { return cmp.Compare(a.Name, b.Name) })
	return all, nil
}

// Total returns the load over all nodes. A share is 0 if the nodes have none of the resource.
func Total(nodes []NodeUsage) Load {
	var requested, allocatable cluster.Resources
	var pods, most int64
	for _, n := range nodes {
		requested, allocatable = requested.Plus(n.Requested), allocatable.Plus(n.Allocatable)
		pods, most = pods+n.Pods, most+n.MaxPods
	}
	part := func(a, b int64) float64 { return float64(a) / float64(max(b, 1)) }
	return Load{part(requested.MilliCPU, allocatable.MilliCPU), part(requested.MemoryBytes, allocatable.MemoryBytes), part(pods, most)}
}
