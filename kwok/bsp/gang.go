// Package bsp runs a bulk-synchronous job on an API server whose nodes KWOK simulates: the tasks of
// a superstep are batch/v1 Jobs, and the barrier is a watch on their completion.
//
// The pods of a superstep's Jobs, one for each task, start and wait. While they wait, the shares may be
// re-planned: the pods are resized in place, or the Jobs are deleted and created again. When all pods run, Gang
// releases them together: the annotation of KWOK's stage pod-complete-after sets each pod's end. Gang steps the
// clock from end to end. When all Jobs are complete, it creates those of the next superstep.
//
// # Time
//
// The clock is KWOK's, in a control plane that runs with --clock=stepped and has no other user. A pod's end is an
// instant of this clock, not a duration since KWOK has seen the pod. The clock stands still until the pods that
// end at that instant have ended. So the durations of supersteps are exact to the nanosecond, however slow the
// machine is. The clock also steps by the episode's cost of a re-planning; the re-planning's wall time is
// measured separately.
package bsp

import (
	"cmp"
	"context"
	"fmt"
	"slices"
	"strconv"
	"strings"
	"time"

	batchv1 "k8s.io/api/batch/v1"
	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/resource"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/kubernasium/kubernasium/envs/cluster"
	"github.com/kubernasium/kubernasium/kwok"
	"github.com/kubernasium/kubernasium/kwok/jobs"
	"github.com/kubernasium/kubernasium/kwok/stages"
)

const (
	callTimeout = 30 * time.Second
	container   = "task"
	image       = "kubernasium.io/simulated"
	memoryBytes = 1 << 40 // of the node, more than any job needs

	labelSuperstep = "kubernasium.io/superstep"
	labelTask      = "kubernasium.io/task" // its index

	// nudge is how long a pod may outlive its end before Gang tells KWOK to complete it at once. KWOK reads
	// the clock twice when it schedules an end; a clock step between the two reads delays the end.
	nudge = 2 * time.Second
)

// Method is a way to change the shares of tasks.
type Method string

// Methods of re-planning.
const (
	Resize          Method = "resize"           // pods in place, by the resize subresource
	RecreateAll     Method = "recreate"         // all Jobs are deleted and created again
	RecreateChanged Method = "recreate_changed" // those whose shares change
)

// Config holds the arguments of [Start].
type Config struct {
	Server   kwok.Options
	Tasks    []string // names
	Shares   []int64  // millicores of each task at the start
	MilliCPU int64    // of the node, at least the sum of the shares
	Method   Method
}

// Superstep holds the durations and shares of one superstep.
type Superstep struct {
	Shares    []int64         // new shares; nil keeps the current ones
	Penalty   time.Duration   // cost of the new shares in the episode
	Durations []time.Duration // of each task
}

// Replanning reports a change of shares.
type Replanning struct {
	Changed  int           // tasks whose shares changed
	Modelled time.Duration // its cost in the episode
	Wall     time.Duration // from the first call until all tasks ran with their shares
}

// Gang is a bulk-synchronous job. Only one goroutine at a time may use it.
type Gang struct {
	conf   Config
	space  *jobs.Space
	clock  *clock
	begin  time.Time // of the job, by its clock
	node   string
	shares []int64
	step   int
	names  []string // of the current superstep's Jobs, by task
	made   int      // Jobs created so far

	// launch creates the Jobs of tasks under names that it chooses; nil creates them one after another.
	launch func(ctx context.Context, all []*batchv1.Job, tasks []int) error
}

// Start makes a namespace, a node and the Jobs of the first superstep, and waits until all tasks run.
func Start(ctx context.Context, c Config) (_ *Gang, err error) {
	if len(c.Tasks) == 0 || len(c.Shares) != len(c.Tasks) {
		return nil, fmt.Errorf("bsp: %d shares for %d tasks, want one for each of at least one", len(c.Shares), len(c.Tasks))
	}
	if !slices.Contains([]Method{Resize, RecreateAll, RecreateChanged}, c.Method) {
		return nil, fmt.Errorf("bsp: method %q, want %s, %s or %s", c.Method, Resize, RecreateAll, RecreateChanged)
	}
	g := &Gang{conf: c, shares: slices.Clone(c.Shares), names: make([]string, len(c.Tasks))}
	if g.space, err = jobs.Open(ctx, c.Server, "gang-", ""); err != nil {
		return nil, err
	}
	defer func() {
		if err != nil {
			_ = g.space.Close() // report the first error
		}
	}()
	if g.clock, err = newClock(ctx, g.space.Client().CoreV1().RESTClient()); err != nil {
		return nil, err
	}
	g.begin = g.clock.now
	g.node = g.space.Namespace()
	if err = g.space.AddNode(ctx, g.node, cluster.Resources{MilliCPU: c.MilliCPU, MemoryBytes: memoryBytes}, int64(3*len(c.Tasks))); err != nil {
		return nil, err
	}
	if err = g.create(ctx, g.all()); err != nil {
		return nil, err
	}
	_, err = g.space.Running(ctx, g.names...)
	return g, err
}

// Jobs returns the number of Jobs created.
func (g *Gang) Jobs() int { return g.made }

// Elapsed returns the time since the start, by the clock of the episode.
func (g *Gang) Elapsed() time.Duration { return g.clock.now.Sub(g.begin) }

// Close deletes all objects of the job.
func (g *Gang) Close() error { return g.space.Close() }

// Step changes the shares if s has new ones, executes a superstep and, unless it is the last, creates the Jobs
// of the next. It returns the superstep's duration by the clock, and the re-planning or nil.
func (g *Gang) Step(ctx context.Context, s Superstep, last bool) (time.Duration, *Replanning, error) {
	if len(s.Durations) != len(g.names) || s.Shares != nil && len(s.Shares) != len(g.names) {
		return 0, nil, fmt.Errorf("bsp: %d durations and %d shares for %d tasks", len(s.Durations), len(s.Shares), len(g.names))
	}
	if _, err := g.space.Running(ctx, g.names...); err != nil {
		return 0, nil, err
	}
	var r *Replanning
	if s.Shares != nil {
		var err error
		if r, err = g.replan(ctx, s.Shares); err != nil {
			return 0, nil, fmt.Errorf("re-plan before superstep %d: %w", g.step, err)
		}
		r.Modelled = s.Penalty
		if err := g.clock.advanceTo(ctx, g.clock.now.Add(s.Penalty)); err != nil {
			return 0, nil, err
		}
	}
	begin := g.clock.now
	if err := g.execute(ctx, s.Durations); err != nil {
		return 0, nil, fmt.Errorf("superstep %d: %w", g.step, err)
	}
	done := slices.Clone(g.names)
	g.step++
	if !last {
		if err := g.create(ctx, g.all()); err != nil {
			return 0, nil, err
		}
	}
	return g.clock.now.Sub(begin), r, g.space.Delete(ctx, done...)
}

// execute releases all tasks together, steps the clock from end to end, and waits at the barrier.
func (g *Gang) execute(ctx context.Context, durations []time.Duration) error {
	begin := g.clock.now
	order := g.all() // of the tasks, by their ends
	slices.SortStableFunc(order, func(a, b int) int { return cmp.Compare(durations[a], durations[b]) })
	for _, k := range order {
		if err := g.endAt(ctx, k, begin.Add(durations[k]).Format(time.RFC3339Nano)); err != nil {
			return err
		}
	}
	for _, k := range order {
		if err := g.clock.advanceTo(ctx, begin.Add(durations[k])); err != nil {
			return err
		}
		if err := g.ended(ctx, k); err != nil {
			return err
		}
	}
	return g.space.Complete(ctx, g.names...)
}

// endAt sets the time, or the delay, of the end of task k's pod.
func (g *Gang) endAt(ctx context.Context, k int, when string) error {
	for _, p := range g.space.Pods(g.names[k]) {
		if err := g.space.PatchPod(ctx, p.Name, map[string]any{"metadata": map[string]any{"annotations": map[string]string{stages.Duration: when}}}); err != nil {
			return err
		}
	}
	return nil
}

// ended waits until task k's pod has succeeded.
func (g *Gang) ended(ctx context.Context, k int) error {
	succeeded := func() (string, error) {
		for _, p := range g.space.Pods(g.names[k]) {
			switch p.Status.Phase {
			case corev1.PodSucceeded:
			case corev1.PodFailed:
				return "", fmt.Errorf("bsp: pod %s failed: %s", p.Name, p.Status.Message)
			default:
				return fmt.Sprintf("pod %s is %s at the time of its end", p.Name, p.Status.Phase), nil
			}
		}
		return "", nil
	}
	soon, cancel := context.WithTimeout(ctx, nudge)
	err := g.space.Wait(soon, succeeded)
	cancel()
	if err == nil || soon.Err() == nil || ctx.Err() != nil {
		return err
	}
	if err := g.endAt(ctx, k, "0s"); err != nil {
		return err
	}
	return g.space.Wait(ctx, succeeded)
}

// replan changes the shares of the waiting tasks, and waits until all run with their new shares.
func (g *Gang) replan(ctx context.Context, shares []int64) (*Replanning, error) {
	var changed []int
	for k, s := range shares {
		if s != g.shares[k] {
			changed = append(changed, k)
		}
	}
	begin, before := time.Now(), slices.Clone(g.shares)
	copy(g.shares, shares)
	var err error
	switch {
	case g.conf.Method == RecreateAll:
		err = g.recreate(ctx, g.all())
	case len(changed) == 0:
	case g.conf.Method == RecreateChanged:
		err = g.recreate(ctx, changed)
	default:
		err = g.resize(ctx, changed, before)
	}
	return &Replanning{Changed: len(changed), Wall: time.Since(begin)}, err
}

// recreate deletes Jobs, waits until they are gone, because the node has room for only one of each, and creates
// them again.
func (g *Gang) recreate(ctx context.Context, tasks []int) error {
	old := make([]string, len(tasks))
	for i, k := range tasks {
		old[i] = g.names[k]
	}
	if err := g.space.Delete(ctx, old...); err != nil {
		return err
	}
	if err := g.space.Gone(ctx, old...); err != nil {
		return err
	}
	if err := g.create(ctx, tasks); err != nil {
		return err
	}
	_, err := g.space.Running(ctx, g.names...)
	return err
}

// resize resizes pods in place, shrinking pods first, and waits until they report their new shares.
func (g *Gang) resize(ctx context.Context, tasks []int, before []int64) error {
	for _, grow := range []bool{false, true} {
		for _, k := range tasks {
			if g.shares[k] > before[k] != grow {
				continue
			}
			amounts := map[string]any{"requests": g.amounts(k), "limits": g.amounts(k)}
			body := map[string]any{"spec": map[string]any{"containers": []any{map[string]any{"name": container, "resources": amounts}}}}
			for _, p := range g.space.Pods(g.names[k]) {
				if err := g.space.PatchPod(ctx, p.Name, body, "resize"); err != nil {
					return err
				}
			}
		}
	}
	return g.space.Wait(ctx, func() (string, error) {
		for _, k := range tasks {
			for _, p := range g.space.Pods(g.names[k]) {
				if have := allocated(p); have != g.shares[k] {
					return fmt.Sprintf("pod %s has %d millicores, want %d", p.Name, have, g.shares[k]), nil
				}
			}
		}
		return "", nil
	})
}

// allocated returns the millicores that the pod's container reports.
func allocated(p *corev1.Pod) int64 {
	for _, s := range p.Status.ContainerStatuses {
		if s.Name == container && s.Resources != nil {
			return s.Resources.Requests.Cpu().MilliValue()
		}
	}
	return 0
}

func (g *Gang) all() []int {
	all := make([]int, len(g.names))
	for k := range all {
		all[k] = k
	}
	return all
}

// create creates the Jobs of tasks for the current superstep, under new names.
func (g *Gang) create(ctx context.Context, tasks []int) error {
	var all []*batchv1.Job
	for _, k := range tasks {
		g.names[k] = fmt.Sprintf("%s-%d-%d", dnsName(g.conf.Tasks[k]), g.step, g.made)
		g.made++
		all = append(all, g.job(k))
	}
	if g.launch != nil {
		return g.launch(ctx, all, tasks)
	}
	for _, j := range all {
		if err := g.space.Create(ctx, j); err != nil {
			return err
		}
	}
	return nil
}

// job returns the Job of a task, whose pod waits.
func (g *Gang) job(k int) *batchv1.Job {
	labels := map[string]string{labelSuperstep: strconv.Itoa(g.step), labelTask: strconv.Itoa(k)}
	spec := corev1.PodSpec{
		RestartPolicy: corev1.RestartPolicyNever,
		Containers: []corev1.Container{{Name: container, Image: image, Resources: corev1.ResourceRequirements{
			Requests: g.amounts(k), Limits: g.amounts(k),
		}}},
	}
	if g.node != "" {
		g.space.Place(&spec, g.node)
	}
	return &batchv1.Job{
		ObjectMeta: metav1.ObjectMeta{Name: g.names[k], Labels: labels},
		Spec: batchv1.JobSpec{
			Parallelism: new(int32(1)), Completions: new(int32(1)), BackoffLimit: new(int32(0)),
			Template: corev1.PodTemplateSpec{
				ObjectMeta: metav1.ObjectMeta{Labels: labels, Annotations: map[string]string{stages.Duration: jobs.Hold}},
				Spec:       spec,
			},
		},
	}
}

func (g *Gang) amounts(k int) corev1.ResourceList {
	return corev1.ResourceList{corev1.ResourceCPU: *resource.NewMilliQuantity(g.shares[k], resource.DecimalSI)}
}

// dnsName makes text a valid part of an object's name.
func dnsName(text string) string {
	name := strings.Map(func(r rune) rune {
		if r >= 'a' && r <= 'z' || r >= '0' && r <= '9' {
			return r
		}
		return '-'
	}, strings.ToLower(text))
	return "task-" + name[:min(len(name), 30)]
}
