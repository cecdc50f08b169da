package kwok

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"iter"
	"maps"
	"math"
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
	corehelpers "k8s.io/component-helpers/scheduling/corev1"
	"k8s.io/component-helpers/scheduling/corev1/nodeaffinity"
	"k8s.io/klog/v2"

	"github.com/kubernasium/kubernasium/agents/live"
	"github.com/kubernasium/kubernasium/board"
	"github.com/kubernasium/kubernasium/envs"
	"github.com/kubernasium/kubernasium/envs/cluster"
	"github.com/kubernasium/kubernasium/envs/podsched/topology"
	"github.com/kubernasium/kubernasium/kwok/mirror"
)

// Bounds of what the page is told.
const (
	shownDecisions = 100
	shownWaiting   = 50

	// explainShare is the part of the time that explaining decisions may take. A decision in between has no scores.
	explainShare = 0.25
)

// watched is a running cluster as its page shows it: what the API server tells of nodes and pods, and what the policy and
// kube-scheduler's default say of each decision in the state before it. The explanations are made beside the scheduler, in
// this process, so that they delay none of its decisions.
type watched struct {
	schedulers []string // whose decisions are shown; empty: all
	shadow     bool     // the policy binds nothing
	args       live.Args
	selector   labels.Selector

	mu        sync.Mutex
	nodes     []*corev1.Node // by name
	on        map[string]map[types.UID]*corev1.Pod
	changes   map[string]int64 // by node
	next      int64            // of changes
	pending   map[types.UID]*corev1.Pod
	mirror    *mirror.Mirror
	policy    *live.Policy
	standard  *live.Policy // kube-scheduler's default scores
	placed    int
	disagreed int
	decisions []*board.PodWhy  // the last ones, the newest last
	heads     []board.Decision // likewise
	rest      time.Time        // until when nothing is explained
	viewers   map[int]func()
	joined    int
}

var (
	_ board.Cluster = (*watched)(nil)
	_ mirror.Source = (*watched)(nil)
)

// standardScores name the baseline with the scores of kube-scheduler as it comes.
var standardScores = live.Args{Baseline: "KubeDefault", Env: live.DefaultEnv}

// newWatched opens the policy a second time, beside the scheduler's own.
func newWatched(schedulers []string, args live.Args, selector labels.Selector) (*watched, error) {
	w := &watched{
		schedulers: schedulers, args: args, selector: selector, on: map[string]map[types.UID]*corev1.Pod{}, changes: map[string]int64{},
		pending: map[types.UID]*corev1.Pod{}, mirror: mirror.New(selector), viewers: map[int]func(){},
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

func (w *watched) close() error { return errors.Join(w.policy.Close(), w.standard.Close()) }

// watch follows the API server until ctx ends.
func (w *watched) watch(ctx context.Context, client kubernetes.Interface) error {
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

// handler calls set for each object that came, changed or went, and then wakes the viewers.
func handler[T any](w *watched, set func(v *T, before, gone bool)) cache.ResourceEventHandler {
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

func (w *watched) setNode(n *corev1.Node, gone bool) {
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

// setPod takes a pod in, and records the decision on one that has just got its node.
func (w *watched) setPod(ctx context.Context, p *corev1.Pod, before, gone bool) {
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
		w.decided(ctx, p)
	}
	delete(w.pending, p.UID)
	if w.on[node] == nil {
		w.on[node] = map[types.UID]*corev1.Pod{}
	}
	if delete(w.on[node], p.UID); !gone && !ended {
		w.on[node][p.UID] = p
	}
	w.next++
	w.changes[node] = w.next
}

// Len implements [mirror.Source].
func (w *watched) Len() int { return len(w.nodes) }

// Node implements [mirror.Source].
func (w *watched) Node(i int) (*corev1.Node, int64) {
	return w.nodes[i], w.changes[w.nodes[i].Name] + 1
}

// Pods implements [mirror.Source].
func (w *watched) Pods(i int) iter.Seq[*corev1.Pod] { return maps.Values(w.on[w.nodes[i].Name]) }

// decided records a decision of the scheduler, with what the policy and the default say of it in the state before.
func (w *watched) decided(ctx context.Context, p *corev1.Pod) {
	w.placed++
	why := &board.PodWhy{Pod: p.Namespace + "/" + p.Name, Node: p.Spec.NodeName, At: time.Now()}
	head := board.Decision{Pod: why.Pod, Node: why.Node, At: why.At}
	if began := time.Now(); began.After(w.rest) {
		asked := p.DeepCopy()
		asked.Spec.NodeName = ""
		if err := w.explain(ctx, asked, why, nil); err != nil {
			why.Message = err.Error()
		}
		w.rest = time.Now().Add(time.Duration(float64(time.Since(began)) * (1/explainShare - 1)))
		w.summarize(why, &head)
	} else {
		why.Message = "Not explained: the scheduler decides faster than this page explains."
	}
	w.decisions, w.heads = append(w.decisions, why), append(w.heads, head)
	if n := len(w.heads) - shownDecisions; n > 0 {
		w.decisions, w.heads = slices.Delete(w.decisions, 0, n), slices.Delete(w.heads, 0, n)
	}
}

// summarize fills the scores of a decision in from its explanation.
func (w *watched) summarize(why *board.PodWhy, head *board.Decision) {
	at := slices.Index(why.Nodes, why.Node)
	for _, c := range why.Choices {
		if c.Error != "" || len(c.Action) == 0 {
			continue
		}
		node := why.Nodes[int(c.Action[0])]
		switch c.Policy {
		case w.policyName():
			head.Policy = node
			if at >= 0 && c.Scores != nil {
				head.PolicyScore = c.Scores.Actions[at]
			}
		case standardScores.Baseline:
			head.Default = node
			if c.Scores != nil {
				head.Best = c.Scores.Actions[int(c.Action[0])]
				if at >= 0 {
					head.DefaultScore = c.Scores.Actions[at]
				}
			}
		}
	}
	// A node that the default rates as high as its own choice is no disagreement: it draws among those.
	if head.DefaultScore != nil && head.Best != nil && *head.DefaultScore < *head.Best {
		w.disagreed++
	}
}

// policyName is the name of the scheduler's policy among choices.
func (w *watched) policyName() string {
	if w.args.Model != "" {
		return w.args.Model
	}
	return w.args.Baseline
}

// explain asks what would be done with a pod in the present state. w.mu is locked.
func (w *watched) explain(ctx context.Context, p *corev1.Pod, why *board.PodWhy, baselines []string) error {
	if err := w.mirror.Sync(w); err != nil {
		return err
	}
	names, _ := w.mirror.Nodes()
	if len(names) == 0 {
		return errors.New("the scheduler has no nodes")
	}
	refused := map[string]string{}
	q := mirror.Question{Pod: p, Now: time.Now()}
	for _, n := range w.nodes {
		if reason := refusal(p, n); reason != "" {
			refused[n.Name] = reason
		} else {
			q.Open = append(q.Open, n.Name)
		}
	}
	policies := []asked{{w.policyName(), w.policy}, {standardScores.Baseline, w.standard}}
	var unknown []board.Choice
	for _, name := range baselines {
		if name == w.policyName() || name == standardScores.Baseline {
			continue
		}
		b, err := live.Open(live.Args{Baseline: name, Env: w.policy.Env().ID, Options: w.policy.Options()}, max(1, len(names)))
		if err != nil {
			unknown = append(unknown, board.Choice{Policy: name, Error: err.Error()})
			continue
		}
		defer func() { _ = b.Close() }() // a baseline holds nothing
		policies = append(policies, asked{name, b})
	}
	_, _, err := w.mirror.Ask(q, func(s *cluster.State, d envs.Decision) (int32, uint64, error) {
		why.Nodes = slices.Clone(names)
		for _, a := range policies {
			if slices.ContainsFunc(why.Choices, func(c board.Choice) bool { return c.Policy == a.name }) {
				continue // the policy is the default
			}
			why.Choices = append(why.Choices, a.choose(ctx, s, d))
		}
		why.Choices = append(why.Choices, unknown...)
		columns, rows, err := w.standard.Explain(ctx, s, d)
		if err != nil {
			return 0, 0, err
		}
		why.Columns, why.Rows = columns, rows
		for i, row := range rows {
			if reason := refused[names[i]]; reason != "" {
				rows[i] = make([]string, len(columns))
				rows[i][0], rows[i][1], rows[i][len(columns)-1] = row[0], row[1], reason
			}
		}
		scoreByDefault(why)
		return 0, 0, nil
	})
	return err
}

// scoreByDefault gives the default's choice the numbers of kube-scheduler in place of 1 for its node and 0 for others.
func scoreByDefault(why *board.PodWhy) {
	at := slices.Index(why.Columns, standardScores.Baseline)
	for i := range why.Choices {
		c := &why.Choices[i]
		if c.Policy != standardScores.Baseline || c.Scores == nil || at < 0 {
			continue
		}
		c.Scores.Kind, c.Scores.Value = "score", math.Inf(-1)
		for k, row := range why.Rows {
			var v float64
			if _, err := fmt.Sscan(row[at], &v); err != nil {
				c.Scores.Actions[k] = nil
				continue
			}
			c.Scores.Actions[k], c.Scores.Value = &v, max(c.Scores.Value, v)
		}
		if math.IsInf(c.Scores.Value, 0) {
			c.Scores = nil
		}
	}
}

// asked is a policy with its name on the page.
type asked struct {
	name   string
	policy *live.Policy
}

// choose asks the policy, with its scores: of a model as of an episode's.
func (a asked) choose(ctx context.Context, s *cluster.State, d envs.Decision) board.Choice {
	c, err := a.policy.Choose(ctx, s, d)
	if err != nil {
		return board.Choice{Policy: a.name, Error: err.Error()}
	}
	value, critic := a.policy.Value()
	return board.Choice{Policy: a.name, Action: []float32{float32(c.Node)}, Scores: board.ScoresOfNodes(c.Scores, value, critic)}
}

// refusal returns why a node is closed to a pod beyond what it requests; "" if it is not.
func refusal(p *corev1.Pod, n *corev1.Node) string {
	if n.Spec.Unschedulable {
		return "cordoned"
	}
	if t, found := corehelpers.FindMatchingUntoleratedTaint(klog.Background(), n.Spec.Taints, p.Spec.Tolerations, func(t *corev1.Taint) bool {
		return t.Effect == corev1.TaintEffectNoSchedule || t.Effect == corev1.TaintEffectNoExecute
	}, false); found {
		return "taint " + t.ToString()
	}
	if ok, err := nodeaffinity.GetRequiredNodeAffinity(p).Match(n); err != nil || !ok {
		return "node selector or affinity"
	}
	return ""
}

// Follow implements [board.Cluster].
func (w *watched) Follow(ctx context.Context, changed func()) {
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
func (w *watched) Look() *board.ClusterInfo {
	w.mu.Lock()
	defer w.mu.Unlock()
	info := &board.ClusterInfo{
		Scheduler: cmp.Or(strings.Join(w.schedulers, ", "), "all schedulers"), Shadow: w.shadow, Policy: w.policyName(), At: time.Now(), Nodes: []board.NodeInfo{}, Pending: len(w.pending), Waiting: []board.Waiting{},
		Placed: w.placed, Disagreed: w.disagreed, Decisions: slices.Clone(w.heads), Baselines: []string{},
	}
	for _, b := range w.policy.Env().Baselines {
		if !b.Oracle && b.Name != w.policyName() {
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

// messageOf returns why a pod waits, in its scheduler's words.
func messageOf(p *corev1.Pod) string {
	for _, c := range p.Status.Conditions {
		if c.Type == corev1.PodScheduled && c.Status == corev1.ConditionFalse {
			return c.Message
		}
	}
	return ""
}

// Why implements [board.Cluster].
func (w *watched) Why(ctx context.Context, pod string, policies []string) (*board.PodWhy, error) {
	w.mu.Lock()
	defer w.mu.Unlock()
	for _, p := range w.pending {
		if p.Namespace+"/"+p.Name == pod {
			why := &board.PodWhy{Pod: pod, At: time.Now(), Message: messageOf(p), Choices: []board.Choice{}}
			return why, w.explain(ctx, p, why, policies)
		}
	}
	for i := len(w.decisions) - 1; i >= 0; i-- {
		if w.decisions[i].Pod == pod {
			return w.decisions[i], nil
		}
	}
	return nil, fmt.Errorf("pod %q neither waits nor is one of the last %d decisions", pod, shownDecisions)
}
