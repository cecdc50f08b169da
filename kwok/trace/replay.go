package trace

import (
	"cmp"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"log/slog"
	"maps"
	"slices"
	"strings"
	"time"

	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/client-go/kubernetes"
	"k8s.io/client-go/util/retry"

	"github.com/kubernasium/kubernasium/envs/dataset/clustertrace"
	"github.com/kubernasium/kubernasium/kwok/kubeyaml"
	"github.com/kubernasium/kubernasium/kwok/poll"
	"github.com/kubernasium/kubernasium/kwok/stages"
)

// ReplayOptions configure a replay.
type ReplayOptions struct {
	Speed     float64 // factor of the recording's speed; 0 does not wait
	Scheduler string  // scheduler that places the pods; empty binds them to their recorded nodes
	Log       *slog.Logger
}

// Report is the result of a replay.
type Report struct {
	Nodes    int     `json:"nodes"` // nodes added
	Pods     int     `json:"pods"`  // pods created
	Bound    int     `json:"bound"`
	Finished int     `json:"finished"`
	Deleted  int     `json:"deleted"`
	Skipped  int     `json:"skipped"` // events that the API server rejected; the log has the reasons
	LateS    float64 `json:"late_s"`  // longest delay of an event
	Seconds  float64 `json:"seconds"`
}

const (
	nobody     = "kubernasium-replay" // scheduler name of the pods that Replay binds
	sweepEvery = 10 * time.Second
	startWait  = 30 * time.Second // time in which KWOK must run a pod
)

// Replay replays a recording in a control plane whose nodes KWOK simulates. It creates nodes, priority classes,
// namespaces and pods, and binds the pods to their recorded nodes. With a scheduler it does not bind; a pod
// then runs for its recorded duration, and finished pods are deleted. It does not replay persistent volumes. If
// the recording is truncated, Replay plays the readable part, and then returns an error that wraps
// [clustertrace.ErrCut].
func Replay(ctx context.Context, client kubernetes.Interface, path string, o ReplayOptions) (Report, error) {
	o.Log = cmp.Or(o.Log, slog.New(slog.DiscardHandler))
	if o.Scheduler != "" && o.Speed == 0 {
		return Report{}, errors.New("trace: replay for a scheduler needs a speed: pods that run for no time tell nothing")
	}
	whole, err := clustertrace.Load(path)
	if whole == nil {
		return Report{}, err
	}
	r, err := clustertrace.Open(path)
	if err != nil {
		return Report{}, err
	}
	p := &player{ReplayOptions: o, client: client, trace: whole, reader: r, made: map[string]bool{}, created: map[podKey]bool{}, updated: map[int32]int32{}, begin: time.Now(), swept: time.Now()}
	err = errors.Join(p.play(ctx), r.Close())
	p.report.Seconds = time.Since(p.begin).Seconds()
	return p.report, err
}

// player replays one recording.
type player struct {
	ReplayOptions
	client  kubernetes.Interface
	trace   *clustertrace.Trace
	reader  *clustertrace.Reader
	report  Report
	made    map[string]bool // existing namespaces and priority classes
	created map[podKey]bool // pods
	updated map[int32]int32 // by pod: its template since its last update
	begin   time.Time
	swept   time.Time
}

func (p *player) play(ctx context.Context) error {
	for {
		e, err := p.reader.Next()
		if errors.Is(err, io.EOF) {
			return nil
		}
		if err != nil {
			return err
		}
		if err := p.wait(ctx, e.At); err != nil {
			return err
		}
		if p.Scheduler != "" && time.Since(p.swept) > sweepEvery {
			if err := p.sweep(ctx); err != nil {
				return err
			}
		}
		if err := p.do(ctx, &e); err != nil {
			if status := apierrors.APIStatus(nil); !errors.As(err, &status) || ctx.Err() != nil {
				return fmt.Errorf("trace: replay line %d: %w", p.reader.Line(), err)
			}
			p.report.Skipped++
			p.Log.Warn("event is not replayed", "line", p.reader.Line(), "kind", e.Kind, "error", err)
		}
	}
}

// wait waits until the time of an event.
func (p *player) wait(ctx context.Context, at time.Duration) error {
	if p.Speed == 0 {
		return ctx.Err()
	}
	due := p.begin.Add(time.Duration(float64(at) / p.Speed))
	left := time.Until(due)
	if left <= 0 {
		p.report.LateS = max(p.report.LateS, -left.Seconds())
		return ctx.Err()
	}
	return poll.Sleep(ctx, left)
}

// count adds 1 to n if there is no error, and returns the error.
func count(n *int, err error) error {
	if err == nil {
		*n++
	}
	return err
}

// do replays an event.
func (p *player) do(ctx context.Context, e *clustertrace.Event) error {
	switch e.Kind {
	case clustertrace.AddClass:
		return p.class(ctx, e.Class)
	case clustertrace.AddNode:
		_, err := p.client.CoreV1().Nodes().Create(ctx, nodeObject(e.Info), metav1.CreateOptions{})
		return count(&p.report.Nodes, err)
	case clustertrace.UpdateNode:
		return p.updateNode(ctx, e.Info)
	case clustertrace.RemoveNode:
		return p.client.CoreV1().Nodes().Delete(ctx, p.trace.Nodes[e.Node].Last().Name, metav1.DeleteOptions{})
	case clustertrace.AddPod:
		return p.create(ctx, e)
	case clustertrace.UpdatePod:
		return p.update(ctx, e)
	case clustertrace.BindPod:
		if p.Scheduler != "" {
			return nil
		}
		return p.bind(ctx, e)
	case clustertrace.FinishPod:
		if p.Scheduler != "" && p.ran(e.Pod) {
			return nil // KWOK completes the pod when its duration has passed
		}
		return p.finish(ctx, e)
	case clustertrace.DeletePod:
		return p.delete(ctx, e)
	}
	return nil
}

// pod returns the namespace and the name of a pod.
func (p *player) pod(i int32) (namespace, name string) {
	pod := &p.trace.Pods[i]
	return cmp.Or(p.trace.Templates[pod.Template].Namespace, corev1.NamespaceDefault), pod.Name
}

// ran reports whether a pod was bound and has finished, so that its duration is known.
func (p *player) ran(i int32) bool {
	life := &p.trace.Pods[i]
	return life.Bound != clustertrace.Never && life.Finished != clustertrace.Never
}

// once creates an object unless it has created it before.
func (p *player) once(key string, create func() error) error {
	if p.made[key] {
		return nil
	}
	if err := create(); err != nil && !apierrors.IsAlreadyExists(err) {
		return err
	}
	p.made[key] = true
	return nil
}

func (p *player) class(ctx context.Context, c *clustertrace.PriorityClass) error {
	return p.once("class/"+c.Name, func() error {
		_, err := p.client.SchedulingV1().PriorityClasses().Create(ctx, classObject(c), metav1.CreateOptions{})
		return err
	})
}

func (p *player) create(ctx context.Context, e *clustertrace.Event) error {
	t := p.trace.Templates[e.Template]
	scheduler := cmp.Or(p.Scheduler, nobody)
	o, err := podObject(e.Name, t, scheduler)
	if err != nil {
		return err
	}
	if life := &p.trace.Pods[e.Pod]; p.Scheduler != "" && p.ran(e.Pod) {
		from := min(life.Started, life.Finished)
		if life.Started == clustertrace.Never {
			from = life.Bound
		}
		o.Annotations[stages.Duration] = time.Duration(float64(life.Finished-from) / p.Speed).String()
	}
	if err := p.once("namespace/"+o.Namespace, func() error {
		_, err := p.client.CoreV1().Namespaces().Create(ctx, &corev1.Namespace{ObjectMeta: metav1.ObjectMeta{Name: o.Namespace}}, metav1.CreateOptions{})
		return err
	}); err != nil {
		return err
	}
	if name := classOf(t); name != t.PriorityClass {
		if err := p.class(ctx, &clustertrace.PriorityClass{Name: name, Value: t.Priority}); err != nil {
			return err
		}
	}
	pods, key := p.client.CoreV1().Pods(o.Namespace), podKey{o.Namespace, o.Name}
	_, err = pods.Create(ctx, o, metav1.CreateOptions{})
	if apierrors.IsAlreadyExists(err) && p.Scheduler != "" && p.created[key] {
		// A pod of a StatefulSet replaces an earlier one, which runs late in the replay or waits for sweep.
		if err := p.remove(ctx, key); err != nil && !apierrors.IsNotFound(err) {
			return err
		}
		_, err = pods.Create(ctx, o, metav1.CreateOptions{})
	}
	p.created[key] = p.created[key] || err == nil
	return count(&p.report.Pods, err)
}

// remove deletes a pod at once.
func (p *player) remove(ctx context.Context, key podKey) error {
	return p.client.CoreV1().Pods(key.namespace).Delete(ctx, key.name, metav1.DeleteOptions{GracePeriodSeconds: new(int64(0))})
}

func (p *player) bind(ctx context.Context, e *clustertrace.Event) error {
	namespace, name := p.pod(e.Pod)
	b := &corev1.Binding{
		ObjectMeta: metav1.ObjectMeta{Name: name, Namespace: namespace},
		Target:     corev1.ObjectReference{Kind: "Node", Name: p.trace.Nodes[e.Node].Last().Name},
	}
	if len(e.Devices) > 0 {
		key, value := kubeyaml.DeviceAnnotation(&corev1.Pod{}, e.Devices)
		b.Annotations = map[string]string{key: value}
	}
	return count(&p.report.Bound, p.client.CoreV1().Pods(namespace).Bind(ctx, b, metav1.CreateOptions{}))
}

// finish ends a pod. KWOK completes it; the phase of a failed pod is set once it runs.
func (p *player) finish(ctx context.Context, e *clustertrace.Event) error {
	namespace, name := p.pod(e.Pod)
	if e.Phase == clustertrace.Succeeded && p.trace.Pods[e.Pod].Bound != clustertrace.Never {
		err := p.patch(ctx, namespace, name, map[string]any{"metadata": map[string]any{"annotations": map[string]any{stages.Duration: "0s"}}})
		return count(&p.report.Finished, err)
	}
	if p.trace.Pods[e.Pod].Bound != clustertrace.Never {
		if err := p.running(ctx, namespace, name); err != nil {
			return err
		}
	}
	return count(&p.report.Finished, p.patch(ctx, namespace, name, map[string]any{"status": map[string]any{"phase": e.Phase}}, "status"))
}

// running waits until KWOK has started a pod. Otherwise KWOK would overwrite the pod's final phase.
func (p *player) running(ctx context.Context, namespace, name string) error {
	for begin := time.Now(); ; {
		o, err := p.client.CoreV1().Pods(namespace).Get(ctx, name, metav1.GetOptions{})
		if err != nil || o.Status.Phase != corev1.PodPending || time.Since(begin) > startWait {
			return err
		}
		if err := poll.Sleep(ctx, 20*time.Millisecond); err != nil {
			return err
		}
	}
}

func (p *player) delete(ctx context.Context, e *clustertrace.Event) error {
	if p.Scheduler != "" && p.ran(e.Pod) {
		return nil // sweep also deletes it when it finishes in the replay
	}
	namespace, name := p.pod(e.Pod)
	return count(&p.report.Deleted, p.remove(ctx, podKey{namespace, name}))
}

// sweep deletes finished pods.
func (p *player) sweep(ctx context.Context) error {
	p.swept = time.Now()
	for _, key := range slices.Sorted(maps.Keys(p.made)) {
		name, ok := strings.CutPrefix(key, "namespace/")
		if !ok {
			continue
		}
		if err := p.client.CoreV1().Pods(name).DeleteCollection(ctx, metav1.DeleteOptions{GracePeriodSeconds: new(int64(0))},
			metav1.ListOptions{FieldSelector: "status.phase=" + string(corev1.PodSucceeded)}); err != nil {
			return err
		}
	}
	return nil
}

// update changes a pod's labels, removes its scheduling gates and resizes it.
func (p *player) update(ctx context.Context, e *clustertrace.Event) error {
	namespace, name := p.pod(e.Pod)
	number, ok := p.updated[e.Pod]
	if !ok {
		number = p.trace.Pods[e.Pod].Template
	}
	before, now := p.trace.Templates[number], p.trace.Templates[e.Template]
	labels, gates := map[string]any{}, []any{}
	for key := range before.Labels {
		labels[key] = nil // removes it
	}
	for key, value := range now.Labels {
		labels[key] = value
	}
	if p.Scheduler != "" {
		for _, gate := range before.Gates {
			if !slices.Contains(now.Gates, gate) {
				gates = append(gates, map[string]any{"$patch": "delete", "name": gate})
			}
		}
	}
	patch := map[string]any{"metadata": map[string]any{"labels": labels}}
	if len(gates) > 0 {
		patch["spec"] = map[string]any{"schedulingGates": gates}
	}
	if err := p.patch(ctx, namespace, name, patch); err != nil {
		return err
	}
	p.updated[e.Pod] = e.Template
	resources := containers(now)[0].Resources
	return p.patch(ctx, namespace, name, map[string]any{"spec": map[string]any{"containers": []any{
		map[string]any{"name": "main", "resources": resources},
	}}}, "resize")
}

func (p *player) patch(ctx context.Context, namespace, name string, v any, subresource ...string) error {
	text, err := json.Marshal(v)
	if err != nil {
		return err
	}
	_, err = p.client.CoreV1().Pods(namespace).Patch(ctx, name, types.StrategicMergePatchType, text, metav1.PatchOptions{}, subresource...)
	return err
}

// updateNode updates a node.
func (p *player) updateNode(ctx context.Context, n *clustertrace.Node) error {
	nodes, want := p.client.CoreV1().Nodes(), nodeObject(n)
	return retry.RetryOnConflict(retry.DefaultRetry, func() error { // KWOK writes the node's status, too
		have, err := nodes.Get(ctx, n.Name, metav1.GetOptions{})
		if err != nil {
			return err
		}
		have.Labels, have.Annotations, have.Spec.Taints, have.Spec.Unschedulable = want.Labels, want.Annotations, want.Spec.Taints, want.Spec.Unschedulable
		if have, err = nodes.Update(ctx, have, metav1.UpdateOptions{}); err != nil {
			return err
		}
		have.Status.Allocatable, have.Status.Capacity = want.Status.Allocatable, want.Status.Capacity
		_, err = nodes.UpdateStatus(ctx, have, metav1.UpdateOptions{})
		return err
	})
}
