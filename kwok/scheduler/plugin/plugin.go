// Package plugin is kube-scheduler's plugin Kubernasium. A trained model or a baseline chooses among the nodes
// that kube-scheduler's filters have left. The plugin also filters, reserves and binds GPUs that pods share.
package plugin

import (
	"context"
	"fmt"
	"sync"
	"time"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/labels"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/types"
	appslisters "k8s.io/client-go/listers/apps/v1"
	corelisters "k8s.io/client-go/listers/core/v1"
	"k8s.io/client-go/tools/cache"
	"k8s.io/klog/v2"
	fwk "k8s.io/kube-scheduler/framework"
	"k8s.io/kubernetes/pkg/scheduler/framework"

	"github.com/kubernasium/kubernasium/agents/live"
	"github.com/kubernasium/kubernasium/envs"
	_ "github.com/kubernasium/kubernasium/envs/all" // registers the environments of models
	"github.com/kubernasium/kubernasium/envs/cluster"
	"github.com/kubernasium/kubernasium/kwok/k8sversion"
	"github.com/kubernasium/kubernasium/kwok/kubeyaml"
	"github.com/kubernasium/kubernasium/kwok/mirror"
	"github.com/kubernasium/kubernasium/kwok/schedulerconfig"
)

// Name is the plugin's name in kube-scheduler's configuration.
const Name = schedulerconfig.Plugin

// Plugin chooses nodes by a policy. [New] makes one for each profile.
type Plugin struct {
	handle       fwk.Handle
	args         schedulerconfig.Args
	selector     labels.Selector
	reload       *reloader
	preferences  framework.Framework // scores that take precedence over the policy; nil with [schedulerconfig.OrderPolicy]
	defaults     framework.Framework // kube-scheduler's default scores, which decide when the policy does not
	replicaSets  appslisters.ReplicaSetLister
	statefulSets appslisters.StatefulSetLister
	pods         corelisters.PodLister
	score        *scoreService // nil without endpoints

	busy    chan struct{} // a lock on policy and mirror, held while the policy decides, even after the budget has expired
	policy  *live.Policy
	mirror  *mirror.Mirror
	devices sync.Map // of nodes by name: *nodeDevices
	groups  groups
}

var (
	_ fwk.PreFilterPlugin = (*Plugin)(nil)
	_ fwk.FilterPlugin    = (*Plugin)(nil)
	_ fwk.PreScorePlugin  = (*Plugin)(nil)
	_ fwk.ScorePlugin     = (*Plugin)(nil)
	_ fwk.ReservePlugin   = (*Plugin)(nil)
	_ fwk.BindPlugin      = (*Plugin)(nil)
	_ fwk.PostBindPlugin  = (*Plugin)(nil)
)

// New is the factory for app.WithPlugin(plugin.Name, plugin.New). All that it starts ends with ctx. An error
// names the invalid argument, or is that of the model's file.
func New(ctx context.Context, obj runtime.Object, h fwk.Handle) (fwk.Plugin, error) {
	args, selector, err := readArgs(obj)
	if err != nil {
		return nil, err
	}
	registerMetrics()
	if err := k8sversion.CheckServer(ctx, h.ClientSet()); err != nil {
		klog.FromContext(ctx).Info("Version of the API server", "err", err) // much works on other versions
	}
	p := &Plugin{handle: h, args: args, selector: selector, busy: make(chan struct{}, 1), mirror: mirror.New(selector)}
	if p.policy, err = live.Open(args.Args, 1); err != nil {
		return nil, fmt.Errorf("%s: %w", Name, err)
	}
	if err := p.openScores(ctx); err != nil {
		return nil, fmt.Errorf("%s: order %s: %w", Name, args.Order, err)
	}
	apps := h.SharedInformerFactory().Apps().V1()
	p.replicaSets, p.statefulSets = apps.ReplicaSets().Lister(), apps.StatefulSets().Lister()
	if args.Serve.Listen != "" {
		if p.score, err = newScoreService(ctx, p); err != nil {
			return nil, fmt.Errorf("%s: score: %w", Name, err)
		}
	}
	if p.reload, err = newReloader(ctx, args); err != nil {
		return nil, err
	}
	return p, p.followPods()
}

// Name implements [fwk.Plugin].
func (p *Plugin) Name() string { return Name }

// mirrors returns the plugin's mirrors of the cluster.
func (p *Plugin) mirrors() []*mirror.Mirror {
	if p.score == nil {
		return []*mirror.Mirror{p.mirror}
	}
	return []*mirror.Mirror{p.mirror, p.score.mirror}
}

// followPods passes this profile's pending pods to the mirrors, and drops the devices of deleted nodes.
func (p *Plugin) followPods() error {
	_, err := p.handle.SharedInformerFactory().Core().V1().Nodes().Informer().AddEventHandler(cache.ResourceEventHandlerFuncs{
		DeleteFunc: func(obj any) {
			if d, ok := obj.(cache.DeletedFinalStateUnknown); ok {
				obj = d.Obj
			}
			if n, ok := obj.(*corev1.Node); ok {
				p.devices.Delete(n.Name)
				p.groups.forget(n.Name)
			}
		},
	})
	if err != nil {
		return err
	}
	seen := func(obj any) {
		pod := obj.(*corev1.Pod)
		if pod.Spec.SchedulerName != p.handle.ProfileName() {
			return
		}
		for _, m := range p.mirrors() {
			if isPending(pod) {
				m.AddPending(pod)
			} else {
				m.RemovePending(pod.UID)
			}
		}
	}
	pods := p.handle.SharedInformerFactory().Core().V1().Pods()
	p.pods = pods.Lister()
	_, err = pods.Informer().AddEventHandler(cache.ResourceEventHandlerFuncs{
		AddFunc: seen, UpdateFunc: func(_, obj any) { seen(obj) },
		DeleteFunc: func(obj any) {
			if d, ok := obj.(cache.DeletedFinalStateUnknown); ok {
				obj = d.Obj
			}
			if pod, ok := obj.(*corev1.Pod); ok {
				for _, m := range p.mirrors() {
					m.RemovePending(pod.UID)
					m.Release(pod.UID)
				}
			}
		},
	})
	return err
}

func isPending(p *corev1.Pod) bool {
	return p.Spec.NodeName == "" && p.DeletionTimestamp == nil && p.Status.Phase == corev1.PodPending
}

// decision is the result of PreScore in the cycle's state.
type decision struct {
	node      string
	devices   uint64
	index     map[string]int32 // index of nodes in scores
	scores    []int64
	imbalance float64 // imbalance of the cluster with the pod, in percent
}

// Clone implements [fwk.StateData].
func (d *decision) Clone() fwk.StateData { return d }

// PreScore asks the policy. If the policy fails, or exceeds its budget, kube-scheduler's scores decide: those
// of the profile's other score plugins or, if there are none, the default ones.
func (p *Plugin) PreScore(ctx context.Context, state fwk.CycleState, pod *corev1.Pod, feasible []fwk.NodeInfo) *fwk.Status {
	begin := time.Now()
	open, err := p.preferred(ctx, pod, feasible)
	var d *decision
	if err == nil {
		d, err = p.decide(ctx, pod, open)
	}
	if err != nil {
		reason := reasonOf(err)
		decisions.WithLabelValues(p.handle.ProfileName(), reason).Inc()
		klog.FromContext(ctx).Info("kube-scheduler's own scores decide", "pod", klog.KObj(pod), "reason", reason, "err", err)
		if p.hasOtherScores() {
			return fwk.NewStatus(fwk.Skip)
		}
		if d, err = p.byDefault(ctx, pod, feasible); err != nil {
			return fwk.AsStatus(err)
		}
		state.Write(Name, d)
		return nil
	}
	decisions.WithLabelValues(p.handle.ProfileName(), resultPolicy).Inc()
	duration.WithLabelValues(p.handle.ProfileName()).Observe(time.Since(begin).Seconds())
	state.Write(Name, d)
	return nil
}

// decide lets the policy choose among the nodes, within the budget.
func (p *Plugin) decide(ctx context.Context, pod *corev1.Pod, open []string) (*decision, error) {
	ctx, cancel := context.WithTimeout(ctx, p.args.Budget.Duration)
	defer cancel()
	select {
	case p.busy <- struct{}{}:
	case <-ctx.Done():
		return nil, fmt.Errorf("%s: the policy still works on another pod: %w", Name, ctx.Err())
	}
	// The snapshot may only be read during the cycle, so the mirror is updated here, not in the goroutine.
	if err := p.sync(pod.UID); err != nil {
		<-p.busy
		return nil, err
	}
	q := mirror.Question{Pod: pod, Open: open, Replicas: p.replicas(ctx, pod), Now: time.Now()}
	type answer struct {
		*decision
		error
	}
	answers := make(chan answer, 1)
	go func() { // it may outlive the cycle; the next cycle waits for its end
		d, err := p.choose(ctx, q)
		<-p.busy
		answers <- answer{d, err}
	}()
	select {
	case a := <-answers:
		return a.decision, a.error
	case <-ctx.Done():
		return nil, fmt.Errorf("%s: no answer within %v: %w", Name, p.args.Budget.Duration, ctx.Err())
	}
}

// sync updates policy and mirror, leaving out one pod. The caller holds busy.
func (p *Plugin) sync(without types.UID) error {
	if fresh := p.reload.take(); fresh != nil {
		old := p.policy
		p.policy = fresh
		if err := old.Close(); err != nil {
			return err
		}
	}
	all, err := p.handle.SnapshotSharedLister().NodeInfos().List()
	if err != nil {
		return err
	}
	return p.mirror.Sync(snapshot{infos: all, groups: &p.groups, without: without})
}

// choose asks the policy. The caller holds busy.
func (p *Plugin) choose(ctx context.Context, q mirror.Question) (*decision, error) {
	d := &decision{}
	_, d.index = p.mirror.Nodes()
	var err error
	d.node, d.devices, err = p.mirror.Ask(q, func(s *cluster.State, ask envs.Decision) (int32, uint64, error) {
		c, err := p.policy.Choose(ctx, s, ask)
		if err != nil {
			return 0, 0, err
		}
		d.scores = scaleScores(c)
		d.imbalance = imbalance(s.Nodes, c.Node, s.Pods[ask.Pod].Requests)
		return c.Node, c.Devices, nil
	})
	return d, err
}

// Score implements [fwk.ScorePlugin]: 100 for the policy's choice and less for all other nodes. If its weight
// exceeds the sum of the other plugins' weights, the choice always wins, without a tie.
func (p *Plugin) Score(_ context.Context, state fwk.CycleState, _ *corev1.Pod, n fwk.NodeInfo) (int64, *fwk.Status) {
	d, err := state.Read(Name)
	if err != nil {
		return 0, fwk.AsStatus(err)
	}
	of := d.(*decision)
	i, ok := of.index[n.Node().Name]
	if !ok {
		return 0, nil
	}
	return of.scores[i], nil
}

// ScoreExtensions implements [fwk.ScorePlugin]. Scores are already normalized.
func (p *Plugin) ScoreExtensions() fwk.ScoreExtensions { return nil }

// replicas returns the desired number of pods of a pod's controller, or 1 if it is unknown. It requests a
// controller that the informers do not have yet from the API server.
func (p *Plugin) replicas(ctx context.Context, pod *corev1.Pod) int {
	ref := metav1.GetControllerOf(pod)
	if ref == nil {
		return 1
	}
	var wanted *int32
	apps := p.handle.ClientSet().AppsV1()
	switch ref.Kind {
	case "ReplicaSet":
		r, err := p.replicaSets.ReplicaSets(pod.Namespace).Get(ref.Name)
		if err != nil {
			r, err = apps.ReplicaSets(pod.Namespace).Get(ctx, ref.Name, metav1.GetOptions{})
		}
		if err == nil {
			wanted = r.Spec.Replicas
		}
	case "StatefulSet":
		r, err := p.statefulSets.StatefulSets(pod.Namespace).Get(ref.Name)
		if err != nil {
			r, err = apps.StatefulSets(pod.Namespace).Get(ctx, ref.Name, metav1.GetOptions{})
		}
		if err == nil {
			wanted = r.Spec.Replicas
		}
	}
	if wanted == nil {
		return 1
	}
	return max(1, int(*wanted))
}

// PreFilter skips Filter for pods without GPUs if the selector matches every node.
func (p *Plugin) PreFilter(_ context.Context, _ fwk.CycleState, pod *corev1.Pod, _ []fwk.NodeInfo) (*fwk.PreFilterResult, *fwk.Status) {
	gpus, milli, _, err := kubeyaml.GPUs(pod)
	switch {
	case err != nil:
		return nil, fwk.NewStatus(fwk.UnschedulableAndUnresolvable, err.Error())
	case gpus > 0 && (milli < 1 || milli > cluster.MaxMilliGPU):
		return nil, fwk.NewStatus(fwk.UnschedulableAndUnresolvable, fmt.Sprintf("pod requests %d thousandths of each GPU, want 1 to %d", milli, cluster.MaxMilliGPU))
	case gpus == 0 && p.selector.Empty():
		return nil, fwk.NewStatus(fwk.Skip)
	}
	return nil, nil
}

// PreFilterExtensions implements [fwk.PreFilterPlugin].
func (p *Plugin) PreFilterExtensions() fwk.PreFilterExtensions { return nil }

// Filter rejects nodes that the selector does not match, and nodes without enough devices. Preemption may have
// changed the node.
func (p *Plugin) Filter(_ context.Context, _ fwk.CycleState, pod *corev1.Pod, n fwk.NodeInfo) *fwk.Status {
	if !p.selector.Matches(labels.Set(n.Node().Labels)) {
		return fwk.NewStatus(fwk.UnschedulableAndUnresolvable, "node(s) did not match the scheduler's node selector")
	}
	if gpus, _, _, err := kubeyaml.GPUs(pod); err == nil && gpus == 0 {
		return nil
	}
	devices, err := p.devicesOf(n)
	if err != nil {
		return fwk.AsStatus(err)
	}
	if _, ok := devices.Pick(pod); !ok {
		return fwk.NewStatus(fwk.Unschedulable, "Insufficient GPU")
	}
	return nil
}

// PostBind updates the metric of the cluster's imbalance.
func (p *Plugin) PostBind(_ context.Context, state fwk.CycleState, _ *corev1.Pod, node string) {
	if d, err := state.Read(Name); err == nil && d.(*decision).node == node {
		imbalancePercent.WithLabelValues(p.handle.ProfileName()).Set(d.(*decision).imbalance)
	}
}
