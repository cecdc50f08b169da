package kwok

import (
	"cmp"
	"context"
	"fmt"
	"slices"

	"gonum.org/v1/gonum/stat"
	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/labels"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/client-go/informers"
	"k8s.io/client-go/kubernetes"
	corelisters "k8s.io/client-go/listers/core/v1"
	"k8s.io/client-go/tools/cache"

	"github.com/kubernasium/kubernasium/kwok/kubeyaml"
)

// Placement is a pod that a scheduler has bound to a node.
type Placement struct {
	Node      int     // in the order of the nodes' names
	Imbalance float64 // in percent: the mean of the population standard deviations, over nodes, of the requested shares of CPU and memory
}

// FollowPlacements calls placed, from one goroutine, for each pod that the scheduler binds to one of the
// selected nodes, until ctx ends. Pods that are bound already only count as requests.
func FollowPlacements(ctx context.Context, client kubernetes.Interface, scheduler string, selector labels.Selector, placed func(Placement)) error {
	factory := informers.NewSharedInformerFactory(client, 0)
	defer factory.Shutdown()
	ctx, stop := context.WithCancel(ctx)
	defer stop()
	core := factory.Core().V1()
	nodes := core.Nodes().Informer()
	f := &placementFollower{scheduler: scheduler, selector: selector, nodes: core.Nodes().Lister(), placed: placed, pods: map[types.UID]podOnNode{}}
	factory.Start(ctx.Done())
	if !cache.WaitForCacheSync(ctx.Done(), nodes.HasSynced) {
		return nil
	}
	_, err := core.Pods().Informer().AddEventHandler(cache.ResourceEventHandlerDetailedFuncs{
		AddFunc:    func(obj any, isInInitialList bool) { f.see(obj.(*corev1.Pod), isInInitialList) },
		UpdateFunc: func(_, obj any) { f.see(obj.(*corev1.Pod), false) },
		DeleteFunc: func(obj any) {
			if d, ok := obj.(cache.DeletedFinalStateUnknown); ok {
				obj = d.Obj
			}
			if p, ok := obj.(*corev1.Pod); ok {
				delete(f.pods, p.UID)
			}
		},
	})
	if err != nil {
		return fmt.Errorf("kwok: follow placements: %w", err)
	}
	factory.Start(ctx.Done())
	<-ctx.Done()
	return nil
}

// podOnNode is a bound pod's node and requests.
type podOnNode struct {
	node                  string
	milliCPU, memoryBytes int64
}

// placementFollower sums the requests on nodes.
type placementFollower struct {
	scheduler string
	selector  labels.Selector
	nodes     corelisters.NodeLister
	placed    func(Placement)
	pods      map[types.UID]podOnNode // bound pods, until they are deleted
}

// see updates the requests with a pod. A pod that existed at the start is not reported as placed.
func (f *placementFollower) see(p *corev1.Pod, before bool) {
	if p.Spec.NodeName == "" {
		return
	}
	_, known := f.pods[p.UID]
	on := podOnNode{node: p.Spec.NodeName}
	if p.Status.Phase != corev1.PodSucceeded && p.Status.Phase != corev1.PodFailed {
		r, _ := kubeyaml.Requests(p)
		on.milliCPU, on.memoryBytes = r.MilliCPU, r.MemoryBytes
	}
	f.pods[p.UID] = on
	if known || before || p.Spec.SchedulerName != f.scheduler {
		return
	}
	if placement, ok := f.placement(on.node); ok {
		f.placed(placement)
	}
}

// placement describes the cluster after a pod was placed on a node; ok is false if the node is not selected.
func (f *placementFollower) placement(node string) (Placement, bool) {
	nodes, err := f.nodes.List(f.selector)
	if err != nil { // a lister's objects never are
		return Placement{}, false
	}
	slices.SortFunc(nodes, func(a, b *corev1.Node) int { return cmp.Compare(a.Name, b.Name) })
	index := make(map[string]int, len(nodes))
	for i, n := range nodes {
		index[n.Name] = i
	}
	cpu, memory := make([]float64, len(nodes)), make([]float64, len(nodes))
	for _, p := range f.pods {
		if i, ok := index[p.node]; ok {
			cpu[i] += float64(p.milliCPU)
			memory[i] += float64(p.memoryBytes)
		}
	}
	for i, n := range nodes {
		have := haveNode(n).Allocatable
		cpu[i] /= float64(max(have.MilliCPU, 1))
		memory[i] /= float64(max(have.MemoryBytes, 1))
	}
	i, ok := index[node]
	return Placement{i, 100 * (stat.PopStdDev(cpu, nil) + stat.PopStdDev(memory, nil)) / 2}, ok
}
