package trace

import (
	"cmp"
	"context"
	"fmt"
	"log/slog"
	"maps"
	"reflect"
	"sync"
	"time"

	corev1 "k8s.io/api/core/v1"
	policyv1 "k8s.io/api/policy/v1"
	schedulingv1 "k8s.io/api/scheduling/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/api/meta"
	"k8s.io/client-go/informers"
	"k8s.io/client-go/kubernetes"
	"k8s.io/client-go/tools/cache"

	"github.com/kubernasium/kubernasium/envs/dataset/clustertrace"
)

// Sink receives the events of a recording. [*clustertrace.Writer] is a Sink; others inspect events as they occur.
type Sink interface {
	// Template returns the number of a template, as [clustertrace.Writer.Template] does.
	Template(at time.Duration, t *clustertrace.Template) (int32, error)
	// Write writes an event, and numbers what it adds, as [clustertrace.Writer.Write] does.
	Write(e *clustertrace.Event) error
	// Flush is called at intervals.
	Flush() error
}

var _ Sink = (*clustertrace.Writer)(nil)

// Options configure a recording.
type Options struct {
	Start  time.Time           // start of the recording: Header.Start
	Salt   []byte              // hides names and labels; nil keeps them
	Before *clustertrace.Trace // the recording to continue; nil begins a new one
	Synced func()              // called when all existing objects have been recorded; may be nil
	Log    *slog.Logger        // nil discards
}

// flushEvery limits what a killed recorder loses.
const flushEvery = 5 * time.Second

// Record writes the cluster's events to sink until ctx ends, and then returns nil. It lists and watches, and
// changes nothing. It resumes a watch that ends, and records what it has missed when it learns of it. If a
// right is missing at the beginning, the error names it.
func Record(ctx context.Context, client kubernetes.Interface, sink Sink, o Options) error {
	o.Log = cmp.Or(o.Log, slog.New(slog.DiscardHandler))
	r := newRecorder(sink, o)
	if o.Before != nil {
		if err := r.resume(o.Before); err != nil {
			return err
		}
	}
	ctx, cancel := context.WithCancel(ctx)
	w := &watches{ctx: ctx, ch: make(chan func() error, 1024), fail: make(chan error, 1), log: o.Log}
	w.factory = informers.NewSharedInformerFactory(client, 0)
	var wait sync.WaitGroup
	wait.Go(func() { w.start(r, o) })
	err := r.run(ctx, w)
	cancel()
	w.factory.Shutdown()
	wait.Wait()
	return err
}

// run executes the functions that the watches send, one after another.
func (r *recorder) run(ctx context.Context, w *watches) error {
	flush := time.NewTicker(flushEvery)
	defer flush.Stop()
	for {
		select {
		case <-ctx.Done():
			return nil
		case err := <-w.fail:
			return err
		case <-flush.C:
			if err := r.sink.Flush(); err != nil {
				return err
			}
		case do := <-w.ch:
			if err := do(); err != nil {
				return err
			}
		}
	}
}

// watches holds the informers of a recording. Their handlers send functions for the recorder to ch.
type watches struct {
	ctx     context.Context
	factory informers.SharedInformerFactory
	ch      chan func() error
	fail    chan error
	log     *slog.Logger
}

func (w *watches) send(do func() error) {
	select {
	case w.ch <- do:
	case <-w.ctx.Done():
	}
}

// start starts the watches one after another, so that objects that pods refer to are known before the pods.
func (w *watches) start(r *recorder, o Options) {
	core := w.factory.Core().V1()
	for _, one := range []struct {
		kind     string
		informer func() cache.SharedIndexInformer // created just before the factory starts it
		handlers cache.ResourceEventHandler
	}{
		{"nodes", core.Nodes().Informer, handlers(w, r.node, r.nodeGone)},
		{"priorityclasses", w.factory.Scheduling().V1().PriorityClasses().Informer, handlers(w, r.class, func(*schedulingv1.PriorityClass) error { return nil })},
		{"poddisruptionbudgets", w.factory.Policy().V1().PodDisruptionBudgets().Informer, handlers(w, r.budget, r.budgetGone)},
		{"persistentvolumes", core.PersistentVolumes().Informer, handlers(w, r.volume, r.volumeGone)},
		{"persistentvolumeclaims", core.PersistentVolumeClaims().Informer, handlers(w, r.claim, r.claimGone)},
		{"pods", core.Pods().Informer, handlers(w, r.pod, r.podGone)},
	} {
		if !w.startOne(one.kind, one.informer(), one.handlers) {
			return
		}
	}
	w.send(func() error {
		if err := r.synced(); err != nil {
			return err
		}
		if o.Synced != nil {
			o.Synced()
		}
		return nil
	})
}

// startOne starts a watch and waits until it has sent the recorder all existing objects.
func (w *watches) startOne(kind string, informer cache.SharedIndexInformer, h cache.ResourceEventHandler) bool {
	for _, err := range []error{
		informer.SetTransform(strip),
		informer.SetWatchErrorHandlerWithContext(func(_ context.Context, _ *cache.Reflector, err error) {
			if (apierrors.IsForbidden(err) || apierrors.IsUnauthorized(err)) && !informer.HasSynced() {
				select {
				case w.fail <- fmt.Errorf("trace: record: list and watch %s: %w", kind, err):
				default:
				}
				return
			}
			w.log.Warn("watch ended; it is resumed", "kind", kind, "error", err)
		}),
	} {
		if err != nil { // fails only if the informer runs already, and this one is new
			w.fail <- err
			return false
		}
	}
	registration, err := informer.AddEventHandler(h)
	if err != nil {
		w.fail <- err
		return false
	}
	w.factory.StartWithContext(w.ctx)
	return cache.WaitForCacheSync(w.ctx.Done(), registration.HasSynced)
}

// strip removes fields that recordings never use, so that a large cluster fits into memory.
func strip(v any) (any, error) {
	if o, err := meta.Accessor(v); err == nil {
		o.SetManagedFields(nil)
	}
	return v, nil
}

// handlers returns handlers that send objects of one kind to the recorder.
func handlers[T any](w *watches, seen, gone func(T) error) cache.ResourceEventHandler {
	return cache.ResourceEventHandlerFuncs{
		AddFunc: func(v any) {
			if o, ok := v.(T); ok {
				w.send(func() error { return seen(o) })
			}
		},
		UpdateFunc: func(_, v any) {
			if o, ok := v.(T); ok {
				w.send(func() error { return seen(o) })
			}
		},
		DeleteFunc: func(v any) {
			if last, ok := v.(cache.DeletedFinalStateUnknown); ok {
				v = last.Obj
			}
			if o, ok := v.(T); ok {
				w.send(func() error { return gone(o) })
			}
		},
	}
}

// recorder converts objects to events. Only one goroutine at a time uses it.
type recorder struct {
	names
	sink  Sink
	start time.Time
	last  time.Duration
	log   *slog.Logger
	now   func() time.Time

	nodes   map[string]*recordedNode // by recorded name
	pods    map[podKey]*recordedPod
	awaited map[string]map[podKey]*corev1.Pod // bound to a node that has not been seen yet
	classes map[string]clustertrace.PriorityClass
	volumes map[string]*corev1.PersistentVolume
	pvcs    map[string]*corev1.PersistentVolumeClaim // by the volume to which they are bound
	claims  map[string]clustertrace.Claim
	budgets map[string]clustertrace.Budget // budgets that protect pods
	stale   map[string]clustertrace.Budget // of the continued recording, not seen yet
}

type recordedNode struct {
	number int32
	info   *clustertrace.Node
	seen   bool // since the recorder started
}

// podKey names a pod in the recording.
type podKey struct{ namespace, name string }

type recordedPod struct {
	uid                        string
	number, template           int32
	bound, ran, finished, seen bool
}

func newRecorder(sink Sink, o Options) *recorder {
	return &recorder{
		names: names{o.Salt}, sink: sink, start: o.Start, log: o.Log, now: time.Now,
		nodes: map[string]*recordedNode{}, pods: map[podKey]*recordedPod{}, awaited: map[string]map[podKey]*corev1.Pod{},
		classes: map[string]clustertrace.PriorityClass{}, volumes: map[string]*corev1.PersistentVolume{},
		pvcs: map[string]*corev1.PersistentVolumeClaim{}, claims: map[string]clustertrace.Claim{}, budgets: map[string]clustertrace.Budget{},
	}
}

// resume reads the recording to continue, and writes a gap after it.
func (r *recorder) resume(t *clustertrace.Trace) error {
	r.last = t.End
	for i := range t.Nodes {
		if n := &t.Nodes[i]; n.Removed == clustertrace.Never {
			r.nodes[n.Last().Name] = &recordedNode{number: int32(i), info: n.Last()}
		}
	}
	for i := range t.Pods {
		if p := &t.Pods[i]; p.Deleted == clustertrace.Never {
			r.pods[podKey{t.Templates[p.Template].Namespace, p.Name}] = &recordedPod{
				uid: p.UID, number: int32(i), template: p.Last(), bound: p.Bound != clustertrace.Never,
				ran: p.Started != clustertrace.Never, finished: p.Finished != clustertrace.Never,
			}
		}
	}
	r.classes = t.Classes
	for _, c := range t.Claims {
		r.claims[c.Namespace+"/"+c.Name] = c
	}
	r.budgets, r.stale = t.Budgets, maps.Clone(t.Budgets)
	return r.write(&clustertrace.Event{Kind: clustertrace.Gap})
}

// synced removes objects of the continued recording that the cluster no longer has.
func (r *recorder) synced() error {
	for key, p := range r.pods {
		if p.seen {
			continue
		}
		if err := r.deletePod(key, p, false); err != nil {
			return err
		}
	}
	for name, n := range r.nodes {
		if n.seen {
			continue
		}
		delete(r.nodes, name)
		if err := r.write(&clustertrace.Event{Kind: clustertrace.RemoveNode, Node: n.number}); err != nil {
			return err
		}
	}
	for _, b := range r.stale {
		if err := r.putBudget(&clustertrace.Budget{Namespace: b.Namespace, Name: b.Name}); err != nil {
			return err
		}
	}
	return r.sink.Flush()
}

// at returns the current time of the recording, which never decreases.
func (r *recorder) at() time.Duration {
	r.last = max(r.last, r.now().Sub(r.start))
	return r.last
}

func (r *recorder) write(e *clustertrace.Event) error {
	e.At = r.at()
	return r.sink.Write(e)
}

// minAge is the age from which an event has the API server's time, which has whole seconds, instead of the time
// at which the recorder saw it.
const minAge = 5 * time.Second

// ago returns how long ago something happened, or 0 if that is unknown or less than late.
func (r *recorder) ago(when time.Time) time.Duration {
	if when.IsZero() {
		return 0
	}
	if d := r.start.Add(r.at()).Sub(when); d > minAge {
		return d
	}
	return 0
}

func (r *recorder) node(o *corev1.Node) error {
	info, err := r.names.node(o)
	if err != nil {
		r.log.Warn("node is recorded without what it has", "error", err)
	}
	if err := info.Check(); err != nil {
		r.log.Warn("node is not recorded", "error", err)
		return nil
	}
	n := r.nodes[info.Name]
	e := clustertrace.Event{Kind: clustertrace.AddNode, Info: info}
	if n != nil {
		n.seen = true
		if reflect.DeepEqual(n.info, info) {
			return nil
		}
		e.Kind, e.Node = clustertrace.UpdateNode, n.number
	} else {
		e.Ago = r.ago(o.CreationTimestamp.Time)
	}
	if err := r.write(&e); err != nil {
		return err
	}
	r.nodes[info.Name] = &recordedNode{number: e.Node, info: info, seen: true}
	held := r.awaited[info.Name]
	delete(r.awaited, info.Name)
	for _, p := range held {
		if err := r.pod(p); err != nil {
			return err
		}
	}
	return nil
}

func (r *recorder) nodeGone(o *corev1.Node) error {
	name := r.hash(o.Name)
	n := r.nodes[name]
	if n == nil {
		return nil
	}
	delete(r.nodes, name)
	return r.write(&clustertrace.Event{Kind: clustertrace.RemoveNode, Node: n.number})
}

func (r *recorder) class(o *schedulingv1.PriorityClass) error {
	c := r.priorityClass(o)
	if r.classes[c.Name] == *c {
		return nil
	}
	r.classes[c.Name] = *c
	return r.write(&clustertrace.Event{Kind: clustertrace.AddClass, Class: c})
}

func (r *recorder) budget(o *policyv1.PodDisruptionBudget) error {
	b := r.names.budget(o)
	if err := b.Check(); err != nil {
		r.log.Warn("budget is not recorded", "error", err)
		return nil
	}
	return r.putBudget(b)
}

func (r *recorder) budgetGone(o *policyv1.PodDisruptionBudget) error {
	return r.putBudget(&clustertrace.Budget{Namespace: r.hash(o.Namespace), Name: r.hash(o.Name)})
}

func (r *recorder) putBudget(b *clustertrace.Budget) error {
	key := b.Namespace + "/" + b.Name
	delete(r.stale, key)
	if reflect.DeepEqual(r.budgets[key], *b) {
		return nil
	}
	r.budgets[key] = *b
	return r.write(&clustertrace.Event{Kind: clustertrace.AddBudget, Budget: b})
}

func (r *recorder) volume(o *corev1.PersistentVolume) error {
	r.volumes[o.Name] = o
	if c := r.pvcs[o.Name]; c != nil {
		return r.claim(c)
	}
	return nil
}

func (r *recorder) volumeGone(o *corev1.PersistentVolume) error {
	delete(r.volumes, o.Name)
	return nil
}

func (r *recorder) claim(o *corev1.PersistentVolumeClaim) error {
	if o.Spec.VolumeName != "" {
		r.pvcs[o.Spec.VolumeName] = o
	}
	c := r.names.claim(o, r.volumes[o.Spec.VolumeName])
	key := c.Namespace + "/" + c.Name
	if reflect.DeepEqual(r.claims[key], *c) {
		return nil
	}
	r.claims[key] = *c
	return r.write(&clustertrace.Event{Kind: clustertrace.AddClaim, Claim: c})
}

func (r *recorder) claimGone(o *corev1.PersistentVolumeClaim) error {
	delete(r.pvcs, o.Spec.VolumeName)
	return nil
}
