package scheduler

import (
	"context"
	"errors"
	"fmt"
	"io"
	"log/slog"
	"maps"
	"slices"
	"sync"
	"sync/atomic"
	"time"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/fields"
	"k8s.io/apimachinery/pkg/labels"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/client-go/informers"
	"k8s.io/client-go/kubernetes"
	"k8s.io/client-go/kubernetes/scheme"
	appslisters "k8s.io/client-go/listers/apps/v1"
	policylisters "k8s.io/client-go/listers/policy/v1"
	toolscache "k8s.io/client-go/tools/cache"
	"k8s.io/client-go/tools/events"
	"k8s.io/client-go/tools/leaderelection"
	"k8s.io/client-go/util/workqueue"

	"github.com/kubernasium/kubernasium/kwok/filters"
	"github.com/kubernasium/kubernasium/kwok/lease"
)

// Config says what a Scheduler does. Zero fields take their defaults.
type Config struct {
	Name           string // scheduler name of the pods; default custom-scheduler
	Policy         *Policy
	NodeSelector   string // label selector of the nodes that count; default DefaultNodeSelector
	AllowRealNodes bool   // nodes that are not KWOK's count too

	Budget     time.Duration // of a decision; default 100 ms
	FirstRetry time.Duration // until a pod that was not placed is tried again, doubled each time; default 1 s
	LastRetry  time.Duration // most of that; default 10 s

	Shadow io.Writer // if set, nothing is bound, and a line of JSON tells of each pod that another scheduler of that Name bound
	// Placed, if set, is called for each pod that was bound, one after another. Imbalance is that of
	// k8s/PodBalance-v0: the mean of the population standard deviations over nodes of the requested
	// shares of CPU and of memory.
	Placed func(Placement)
	Lease  lease.Lease
	Token  string // of requests to the handler, if not empty
	Log    *slog.Logger
}

// DefaultNodeSelector leaves out nodes of the control plane, and those of environments that are
// being played.
const DefaultNodeSelector = "!node-role.kubernetes.io/control-plane,!kubernasium.io/environment"

const (
	bindTimeout = 10 * time.Second // of a call; one takes 1 to 5 ms on an idle machine
	assumeFor   = 30 * time.Second // a placement that the API server does not show by then is given up
	syncTimeout = time.Minute      // of the informers' first lists
	lastAnswer  = 10 * time.Second // that the policy has for an answer when the scheduler ends
	knowPoll    = 5 * time.Millisecond
)

// Scheduler places pods on an API server. [New] makes one; [Scheduler.Run] runs it.
type Scheduler struct {
	cfg     Config
	client  kubernetes.Interface
	log     *slog.Logger
	cache   *cache
	queue   workqueue.TypedRateLimitingInterface[types.UID]
	decider *decider
	metrics *metrics

	replicaSets  appslisters.ReplicaSetLister
	statefulSets appslisters.StatefulSetLister
	budgets      policylisters.PodDisruptionBudgetLister
	listed       []toolscache.InformerSynced // whether the first lists have been taken in
	factories    []informers.SharedInformerFactory
	recorder     events.EventRecorder
	broadcaster  events.EventBroadcaster

	synced   chan struct{} // closed when the first lists are taken in
	watchdog *leaderelection.HealthzAdaptor
	leading  atomic.Bool
	ending   atomic.Bool
	mu       sync.Mutex
	unfit    map[types.UID]*filters.Pod // pods that fitted no node, or are being tried, to try again when there is room
}

// New returns a Scheduler for the API server that client talks to; see kwok.Connect, which refuses
// clusters of real nodes. The policy is opened once, so that one that cannot decide is an error.
func New(client kubernetes.Interface, c Config) (*Scheduler, error) {
	setDefaults(&c)
	selector, err := labels.Parse(c.NodeSelector)
	if err != nil {
		return nil, fmt.Errorf("scheduler: node selector: %w", err)
	}
	if c.Policy == nil {
		return nil, errors.New("scheduler: no policy")
	}
	trial, err := c.Policy.open(2)
	if err != nil {
		return nil, err
	}
	if err := trial.close(); err != nil {
		return nil, err
	}
	s := &Scheduler{cfg: c, client: client, log: c.Log, unfit: map[types.UID]*filters.Pod{}, synced: make(chan struct{}), watchdog: lease.NewWatchdog()}
	s.cache = newCache(selector, c.AllowRealNodes, assumeFor)
	s.queue = newQueue(s.cache.order, c.FirstRetry, c.LastRetry)
	s.metrics = newMetrics(func() float64 { return float64(len(s.cache.waiting(c.Name))) })
	s.decider = newDecider(c.Policy, c.Budget, s.metrics)
	s.broadcaster = events.NewBroadcaster(&events.EventSinkImpl{Interface: client.EventsV1()})
	s.recorder = s.broadcaster.NewRecorder(scheme.Scheme, c.Name)
	return s, s.inform()
}

func setDefaults(c *Config) {
	if c.Name == "" {
		c.Name = "custom-scheduler"
	}
	if c.NodeSelector == "" {
		c.NodeSelector = DefaultNodeSelector
	}
	for _, d := range []struct {
		of    *time.Duration
		value time.Duration
	}{{&c.Budget, 100 * time.Millisecond}, {&c.FirstRetry, time.Second}, {&c.LastRetry, 10 * time.Second}} {
		if *d.of == 0 {
			*d.of = d.value
		}
	}
	if c.Log == nil {
		c.Log = slog.New(slog.DiscardHandler)
	}
	c.Lease.SetDefaults(c.Name)
}

// inform makes the informers.
func (s *Scheduler) inform() error {
	all := informers.NewSharedInformerFactory(s.client, 0)
	live := fields.AndSelectors(
		fields.OneTermNotEqualSelector("status.phase", string(corev1.PodSucceeded)), fields.OneTermNotEqualSelector("status.phase", string(corev1.PodFailed)))
	pods := informers.NewSharedInformerFactoryWithOptions(s.client, 0, informers.WithTweakListOptions(func(o *metav1.ListOptions) { o.FieldSelector = live.String() }))
	s.factories = []informers.SharedInformerFactory{all, pods}
	s.replicaSets, s.statefulSets = all.Apps().V1().ReplicaSets().Lister(), all.Apps().V1().StatefulSets().Lister()
	nodeInformer, podInformer := all.Core().V1().Nodes().Informer(), pods.Core().V1().Pods().Informer()
	nodesSeen, err := nodeInformer.AddEventHandler(toolscache.ResourceEventHandlerFuncs{
		AddFunc:    func(o any) { s.nodeSeen(o.(*corev1.Node)) },
		UpdateFunc: func(_, o any) { s.nodeSeen(o.(*corev1.Node)) },
		DeleteFunc: func(o any) {
			if n, ok := last(o).(*corev1.Node); ok {
				s.cache.deleteNode(n.Name)
			}
		},
	})
	if err != nil {
		return err
	}
	podsSeen, err := podInformer.AddEventHandler(toolscache.ResourceEventHandlerFuncs{
		AddFunc: func(o any) { s.podSeen(o.(*corev1.Pod)) },
		UpdateFunc: func(old, o any) {
			if was, is := old.(*corev1.Pod), o.(*corev1.Pod); was.UID != is.UID { // deleted and made anew between two looks
				s.podGone(was)
			}
			s.podSeen(o.(*corev1.Pod))
		},
		DeleteFunc: func(o any) {
			if p, ok := last(o).(*corev1.Pod); ok {
				s.podGone(p)
			}
		},
	})
	if err != nil {
		return err
	}
	s.listed = []toolscache.InformerSynced{
		all.Apps().V1().ReplicaSets().Informer().HasSynced, all.Apps().V1().StatefulSets().Informer().HasSynced,
		nodesSeen.HasSynced, podsSeen.HasSynced, // the handlers', which come after the informers'
	}
	return s.informFilters(all)
}

// informFilters makes the informers of what pods' terms and volumes are about, and of disruption budgets.
func (s *Scheduler) informFilters(all informers.SharedInformerFactory) error {
	core, classes := all.Core().V1(), all.Storage().V1().StorageClasses()
	s.cache.listers = filters.Listers{
		Namespaces: core.Namespaces().Lister(), Claims: core.PersistentVolumeClaims().Lister(), Volumes: core.PersistentVolumes().Lister(), Classes: classes.Lister(),
	}
	s.budgets = all.Policy().V1().PodDisruptionBudgets().Lister()
	s.listed = append(s.listed, classes.Informer().HasSynced, all.Policy().V1().PodDisruptionBudgets().Informer().HasSynced)
	for _, informer := range []toolscache.SharedIndexInformer{core.Namespaces().Informer(), core.PersistentVolumeClaims().Informer(), core.PersistentVolumes().Informer()} {
		seen, err := informer.AddEventHandler(toolscache.ResourceEventHandlerFuncs{
			AddFunc: func(any) { s.retryUnfit() }, UpdateFunc: func(_, _ any) { s.retryUnfit() },
		})
		if err != nil {
			return err
		}
		s.listed = append(s.listed, seen.HasSynced)
	}
	return nil
}

// last returns the last known state of what was deleted.
func last(o any) any {
	if d, ok := o.(toolscache.DeletedFinalStateUnknown); ok {
		return d.Obj
	}
	return o
}

func (s *Scheduler) nodeSeen(n *corev1.Node) {
	if s.cache.setNode(n) {
		s.retryUnfit()
	}
}

func (s *Scheduler) podSeen(p *corev1.Pod) {
	if s.cfg.Shadow != nil {
		s.shadow(p)
	}
	placed, relabelled := s.cache.setPod(p)
	switch {
	case ended(p):
		s.podGone(p)
	case relabelled:
		s.retry((*filters.Pod).Social)
	case placed:
		s.retryHelped(p)
	case s.leading.Load() && s.wants(p):
		s.queue.Add(p.UID)
	}
}

func (s *Scheduler) podGone(p *corev1.Pod) {
	s.cache.deletePod(p.UID)
	s.mu.Lock()
	delete(s.unfit, p.UID)
	s.mu.Unlock()
	s.queue.Forget(p.UID)
	s.retryUnfit()
}

// wants reports whether the pod waits for this scheduler.
func (s *Scheduler) wants(p *corev1.Pod) bool {
	return p.Spec.SchedulerName == s.cfg.Name && p.Spec.NodeName == "" && p.DeletionTimestamp == nil && len(p.Spec.SchedulingGates) == 0
}

// retryUnfit queues the pods that fitted no node: something has changed.
func (s *Scheduler) retryUnfit() { s.retry(func(*filters.Pod) bool { return true }) }

// retryHelped queues those of them to which a pod that has been placed may have opened a node.
func (s *Scheduler) retryHelped(by *corev1.Pod) {
	s.retry(func(p *filters.Pod) bool { return p.HelpedBy(by) })
}

// retry queues them in the order of their turns: the first of them is taken at once if nothing else is under way.
func (s *Scheduler) retry(which func(*filters.Pod) bool) {
	s.mu.Lock()
	defer s.mu.Unlock()
	turns := map[types.UID]turn{}
	for uid, p := range s.unfit {
		if which(p) {
			turns[uid] = s.cache.order(uid)
			delete(s.unfit, uid)
		}
	}
	for _, uid := range slices.SortedFunc(maps.Keys(turns), func(a, b types.UID) int { return compareTurns(turns[a], turns[b]) }) {
		s.queue.Add(uid)
	}
}

// Watching is closed when Run knows the nodes and pods that there are. Requests before that are
// refused.
func (s *Scheduler) Watching() <-chan struct{} { return s.synced }

// Knows waits until the scheduler knows the nodes, or until ctx ends. Pods are told of by another watch, so that
// one may be seen before a node that is older.
func (s *Scheduler) Knows(ctx context.Context, nodes []string) error {
	for !s.cache.knows(nodes) {
		select {
		case <-ctx.Done():
			return fmt.Errorf("scheduler: not all of the nodes %q are known: %w", nodes, context.Cause(ctx))
		case <-time.After(knowPoll):
		}
	}
	return nil
}

func (s *Scheduler) watches() bool {
	select {
	case <-s.synced:
		return true
	default:
		return false
	}
}

// Run watches, and unless in shadow mode binds pods whenever it holds the lease, until ctx ends.
// It is called once.
func (s *Scheduler) Run(ctx context.Context) error {
	ctx, stop := context.WithCancel(ctx)
	defer stop()
	context.AfterFunc(ctx, func() { s.ending.Store(true) })
	for _, f := range s.factories {
		f.StartWithContext(ctx)
	}
	defer func() {
		stop()
		for _, f := range s.factories {
			f.Shutdown()
		}
	}()
	syncing, cancel := context.WithTimeout(ctx, syncTimeout)
	defer cancel()
	if !toolscache.WaitForCacheSync(syncing.Done(), s.listed...) {
		if ctx.Err() != nil {
			return nil
		}
		return fmt.Errorf("scheduler: the API server did not list its objects within %v", syncTimeout)
	}
	close(s.synced)
	s.log.Info("watching", "scheduler", s.cfg.Name, "policy", s.cfg.Policy.Name, "shadow", s.cfg.Shadow != nil)
	if err := s.broadcaster.StartRecordingToSinkWithContext(ctx); err != nil {
		return fmt.Errorf("scheduler: record events: %w", err)
	}
	defer s.broadcaster.Shutdown()
	defer s.queue.ShutDown()
	if s.cfg.Shadow != nil {
		<-ctx.Done()
		return s.decider.close()
	}
	return errors.Join(lease.Hold(ctx, s.client, s.cfg.Lease, s.watchdog, s.lead), s.decider.close())
}
