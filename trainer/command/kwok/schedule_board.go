package kwok

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"iter"
	"maps"
	"slices"
	"strings"
	"sync"
	"time"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/labels"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/client-go/informers"
	"k8s.io/client-go/kubernetes"
	"k8s.io/client-go/tools/cache"

	"github.com/kubernasium/kubernasium/agents/live"
	"github.com/kubernasium/kubernasium/board"
	"github.com/kubernasium/kubernasium/envs/cluster"
	"github.com/kubernasium/kubernasium/envs/podsched/topology"
	"github.com/kubernasium/kubernasium/kwok/mirror"
)

// Limits of what the page shows.
const (
	shownDecisions = 100
	shownWaiting   = 50

	// explainShare is the maximum share of time spent on explaining decisions. A decision beyond it has no
	// scores.
	explainShare = 0.25
)

// liveCluster is a running cluster as its page shows it: the nodes and pods of the API server and, for each
// decision, the scores of the policy and of kube-scheduler's default in the state before it. This process
// computes the explanations, outside the scheduler, so that they delay no decision.
type liveCluster struct {
	schedulers []string // schedulers whose decisions are shown; empty: all
	shadow     bool     // the policy binds no pods
	args       live.Args

	mu        sync.Mutex
	nodes     []*corev1.Node // by name
	on        map[string]map[types.UID]*corev1.Pod
	changes   map[string]int64 // by node
	next      int64            // number of the last change
	pending   map[types.UID]*corev1.Pod
	mirror    *mirror.Mirror
	policy    *live.Policy
	standard  *live.Policy            // kube-scheduler's default scores
	baselines map[string]*live.Policy // further baselines, by name
	wanted    map[string]bool         // those baselines that viewers ask about
	left      []leftPod               // the latest pods that left their nodes, the newest last
	placed    int
	disagreed int
	decisions []*board.PodWhy  // explanations of the latest decisions, the newest last
	heads     []board.Decision // the latest decisions, the newest last
	rest      time.Time        // no explanation before this time
	viewers   map[int]func()
	joined    int
}

var (
	_ board.Cluster = (*liveCluster)(nil)
	_ mirror.Source = (*liveCluster)(nil)
)

// standardScores names the baseline with kube-scheduler's default scores.
var standardScores = live.Args{Baseline: "KubeDefault", Env: live.DefaultEnv}

// newLiveCluster opens the policy a second time, apart from the scheduler's own.
func newLiveCluster(schedulers []string, args live.Args, selector labels.Selector) (*liveCluster, error) {
	w := &liveCluster{
		schedulers: schedulers, args: args, on: map[string]map[types.UID]*corev1.Pod{}, changes: map[string]int64{},
		pending: map[types.UID]*corev1.Pod{}, mirror: mirror.New(selector), viewers: map[int]func(){},
		baselines: map[string]*live.Policy{}, wanted: map[string]bool{},
	}
	var err error
	if w.policy, err = live.Open(args, 1); err != nil {
		return nil, err
	}
	if w.standard, err = live.Open(standardScores, 1); err != nil {
		return nil, errors.Join(err, w.policy.Close())
	}
	return w, nil
}

func (w *liveCluster) close() error {
	errs := []error{w.policy.Close(), w.standard.Close()}
	for _, p := range w.baselines {
		errs = append(errs, p.Close())
	}
	return errors.Join(errs...)
}

// watch follows the API server until ctx ends.
func (w *liveCluster) watch(ctx context.Context, client kubernetes.Interface) error {
	factory := informers.NewSharedInformerFactory(client, 0)
	defer factory.Shutdown()
	ctx, stop := context.WithCancel(ctx)
	defer stop()
	nodes, pods := factory.Core().V1().Nodes().Informer(), factory.Core().V1().Pods().Informer()
	_, err := nodes.AddEventHandler(handler(w, func(n *corev1.Node, _, gone bool) { w.setNode(n, gone) }))
	if err != nil {
		return fmt.Errorf("watch nodes: %w", err)
	}
	factory.Start(ctx.Done())
	if !cache.WaitForCacheSync(ctx.Done(), nodes.HasSynced) {
		return nil
	}
	if _, err = pods.AddEventHandler(handler(w, func(p *corev1.Pod, before, gone bool) { w.setPod(ctx, p, before, gone) })); err != nil {
		return fmt.Errorf("watch pods: %w", err)
	}
	factory.Start(ctx.Done())
	<-ctx.Done()
	return nil
}

// handler calls set for each added, changed or deleted object, and then wakes the viewers.
func handler[T any](w *liveCluster, set func(v *T, before, gone bool)) cache.ResourceEventHandler {
	one := func(obj any, before, gone bool) {
		if d, ok := obj.(cache.DeletedFinalStateUnknown); ok {
			obj = d.Obj
		}
		v, ok := obj.(*T)
		if !ok {
			return
		}
		w.mu.Lock()
		set(v, before, gone)
		wake := slices.Collect(maps.Values(w.viewers))
		w.mu.Unlock()
		for _, changed := range wake {
			changed()
		}
	}
	return cache.ResourceEventHandlerDetailedFuncs{
		AddFunc: func(obj any, before bool) { one(obj, before, false) }, UpdateFunc: func(_, obj any) { one(obj, false, false) },
		DeleteFunc: func(obj any) { one(obj, false, true) },
	}
}

func (w *liveCluster) setNode(n *corev1.Node, gone bool) {
	i, found := slices.BinarySearchFunc(w.nodes, n, func(a, b *corev1.Node) int { return mirror.CompareNames(a.Name, b.Name) })
	switch {
	case gone && found:
		w.nodes = slices.Delete(slices.Clone(w.nodes), i, i+1)
	case found:
		w.nodes[i] = n
	case !gone:
		w.nodes = slices.Insert(w.nodes, i, n)
	}
}

// setPod updates a pod, and records the decision if the pod has just been bound.
func (w *liveCluster) setPod(ctx context.Context, p *corev1.Pod, before, gone bool) {
	ended := p.Status.Phase == corev1.PodSucceeded || p.Status.Phase == corev1.PodFailed
	node := p.Spec.NodeName
	if node == "" {
		if delete(w.pending, p.UID); !gone && !ended {
			w.pending[p.UID] = p
		}
		return
	}
	_, known := w.on[node][p.UID]
	if !before && !gone && !known && (len(w.schedulers) == 0 || slices.Contains(w.schedulers, p.Spec.SchedulerName)) {
		w.recordDecision(ctx, p)
	}
	delete(w.pending, p.UID)
	if w.on[node] == nil {
		w.on[node] = map[types.UID]*corev1.Pod{}
	}
	if delete(w.on[node], p.UID); !gone && !ended {
		w.on[node][p.UID] = p
	} else if known {
		w.leave(p, gone)
	}
	w.next++
	w.changes[node] = w.next
}

// Len implements [mirror.Source].
func (w *liveCluster) Len() int { return len(w.nodes) }

// Node implements [mirror.Source].
func (w *liveCluster) Node(i int) (*corev1.Node, int64) {
	return w.nodes[i], w.changes[w.nodes[i].Name] + 1
}

// Pods implements [mirror.Source].
func (w *liveCluster) Pods(i int) iter.Seq[*corev1.Pod] { return maps.Values(w.on[w.nodes[i].Name]) }

// Follow implements [board.Cluster].
func (w *liveCluster) Follow(ctx context.Context, changed func()) {
	w.mu.Lock()
	w.joined++
	me := w.joined
	w.viewers[me] = changed
	w.mu.Unlock()
	<-ctx.Done()
	w.mu.Lock()
	defer w.mu.Unlock()
	delete(w.viewers, me)
}

// Look implements [board.Cluster].
func (w *liveCluster) Snapshot() *board.ClusterInfo {
	w.mu.Lock()
	defer w.mu.Unlock()
	info := &board.ClusterInfo{
		Scheduler: cmp.Or(strings.Join(w.schedulers, ", "), "all schedulers"), Shadow: w.shadow, Policy: w.policyName(), At: time.Now(), Nodes: []board.NodeInfo{}, Pending: len(w.pending), Waiting: []board.Waiting{},
		Placed: w.placed, Disagreed: w.disagreed, Decisions: slices.Clone(w.heads), Baselines: []string{},
	}
	for _, b := range w.policy.Env().Baselines {
		if !b.Clairvoyant && b.Name != w.policyName() && b.Name != standardScores.Baseline { // asked in any case
			info.Baselines = append(info.Baselines, b.Name)
		}
	}
	slices.Reverse(info.Decisions)
	if w.mirror.Sync(w) == nil {
		w.mirror.View(func(s *cluster.State, objects []*corev1.Node) {
			info.Use = board.UseOf(s)
			for i, n := range objects {
				node := &s.Nodes[i]
				info.Nodes = append(info.Nodes, board.NodeInfo{Name: n.Name, MilliCPU: node.Allocatable.MilliCPU, Memory: node.Allocatable.MemoryBytes,
					GPUs: node.NumDevices, GPUModel: s.Meta(node.Meta).GPUModel, Rack: cmp.Or(n.Labels[topology.RackLabel], n.Labels[corev1.LabelTopologyZone])})
			}
		})
	}
	waiting := slices.SortedFunc(maps.Values(w.pending), func(a, b *corev1.Pod) int {
		return cmp.Or(a.CreationTimestamp.Compare(b.CreationTimestamp.Time), strings.Compare(a.Name, b.Name))
	})
	for _, p := range waiting[:min(len(waiting), shownWaiting)] {
		info.Waiting = append(info.Waiting, board.Waiting{Pod: p.Namespace + "/" + p.Name, Scheduler: p.Spec.SchedulerName, Since: p.CreationTimestamp.Time, Message: messageOf(p)})
	}
	return info
}
