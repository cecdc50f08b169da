// Package profile collects profiles of long-running applications that interfere. It launches a combination of
// containers on a node as batch/v1 Jobs, lets them warm up, loads them, measures their throughput, deletes them
// and continues with the next combination.
//
// A state file keeps the measurements. An interrupted collection resumes: it first deletes the Jobs that it
// left behind, and does not repeat measurements in the file.
package profile

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"strings"
	"sync"
	"time"

	"golang.org/x/sync/errgroup"
	batchv1 "k8s.io/api/batch/v1"
	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/resource"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/kubernasium/kubernasium/envs/cluster"
	"github.com/kubernasium/kubernasium/envs/lra"
	"github.com/kubernasium/kubernasium/envs/lra/throughput"
	"github.com/kubernasium/kubernasium/kwok"
	"github.com/kubernasium/kubernasium/kwok/jobs"
	"github.com/kubernasium/kubernasium/kwok/poll"
	"github.com/kubernasium/kubernasium/kwok/stages"
)

// Sizes of the node and the container in the published profile.
const (
	containerMilliCPU    = 2000
	containerMemoryBytes = 8 << 30
	attempts             = 3 // attempts of a measurement that fails
	tearDownTimeout      = 5 * time.Minute
)

// labelApp labels the Jobs and pods of a collection with their application.
const labelApp = "kubernasium.io/profile-app"

// Config holds the arguments of [Collect].
type Config struct {
	Server       kwok.Options
	Namespace    string                            // of the Jobs; "" creates one and deletes it with the collection
	Nodes        []string                          // existing nodes, each for one combination at a time; empty creates NewNodes
	NewNodes     int                               // number of KWOK nodes to create
	Pods         map[string]corev1.PodTemplateSpec // by application; missing ones are simulated
	Combinations []lra.Counts                      // to measure; see Combinations and WithAlone
	Repeats      int                               // number of measurements of each combination, at least 1
	WarmUp       time.Duration                     // time between the start of the containers and the load
	Load         Load
	StateFile    string
	Done         func(Progress) // called after each measurement, unless nil
}

// Progress is the progress of a collection.
type Progress struct {
	Counts   lra.Counts
	Err      error // why the combination could not be measured
	Measured int   // measurements so far
	Of       int   // measurements in total
}

// Result is the result of [Collect].
type Result struct {
	Profile  []throughput.Measurement
	Resumed  int          // measurements that the state file already had
	Measured int          // measurements of this call
	Failed   []lra.Counts // combinations that could not be measured; the next collection retries them
}

// Collect makes the missing measurements, and returns the profile of all measurements in the state file. It
// omits a combination that cannot be measured. An application that cannot be measured alone is an error,
// because all its throughputs are relative to that measurement. Errors of the API server and of ctx end the
// collection; Collect returns them after it has deleted the containers.
func Collect(ctx context.Context, c Config) (_ *Result, err error) {
	if err := c.validate(); err != nil {
		return nil, err
	}
	s, err := openState(c.StateFile, fmt.Sprintf("%s; after %v", c.Load.Setting(), c.WarmUp))
	if err != nil {
		return nil, err
	}
	if s.Namespace == "" {
		s.Namespace = c.Namespace
	} else if c.Namespace != "" && c.Namespace != s.Namespace {
		return nil, fmt.Errorf("profile: the collection of %s is in namespace %s, not %s", c.StateFile, s.Namespace, c.Namespace)
	}
	k := &collector{Config: c, state: s, result: &Result{Resumed: len(s.Measurements)}}
	if k.space, err = jobs.Open(ctx, c.Server, "profile-", s.Namespace); err != nil {
		return nil, err
	}
	defer func() { err = errors.Join(err, k.close()) }()
	if err := k.prepare(ctx); err != nil {
		return nil, err
	}
	if err := k.measureAll(ctx); err != nil {
		return nil, err
	}
	k.result.Profile, err = s.profile()
	return k.result, err
}

func (c *Config) validate() error {
	if c.Load == nil || c.Repeats < 1 || c.WarmUp < 0 || len(c.Nodes) == 0 && c.NewNodes < 1 || c.StateFile == "" {
		return fmt.Errorf("profile: %d repeats, warm-up %v, nodes %q and %d new ones, state file %q: want a load, at least 1, 0 and one node, and a file",
			c.Repeats, c.WarmUp, c.Nodes, c.NewNodes, c.StateFile)
	}
	for app := range c.Pods {
		if !slices.Contains(lra.Apps[:], app) {
			return fmt.Errorf("profile: a pod for application %q, want one of %q", app, lra.Apps)
		}
	}
	return nil
}

// collector is the state of a call of Collect.
type collector struct {
	Config
	space *jobs.Space

	mu     sync.Mutex // guards the fields below
	state  *state
	result *Result
	total  int
}

// key identifies a measurement.
type key struct {
	counts lra.Counts
	try    int
}

// prepare records the namespace before it launches anything there, deletes the leftovers of an earlier
// collection, and creates nodes.
func (k *collector) prepare(ctx context.Context) error {
	k.state.Namespace = k.space.Namespace()
	if err := k.state.write(k.StateFile); err != nil {
		return err
	}
	left := k.space.Names(labelApp)
	if err := k.space.Delete(ctx, left...); err != nil {
		return err
	}
	if err := k.space.Gone(ctx, left...); err != nil {
		return err
	}
	if len(k.Nodes) > 0 {
		return nil
	}
	for i := range k.NewNodes {
		name := fmt.Sprintf("%s-%d", k.space.Namespace(), i)
		size := cluster.Resources{MilliCPU: lra.MaxSlots * containerMilliCPU, MemoryBytes: lra.MaxSlots * containerMemoryBytes}
		if err := k.space.AddNode(ctx, name, size, 4*lra.MaxSlots); err != nil {
			return err
		}
		k.Nodes = append(k.Nodes, name)
	}
	return nil
}

// close deletes the namespace if the collection created it, and then removes it from the state.
func (k *collector) close() error {
	if err := k.space.Close(); err != nil || k.Namespace != "" {
		return err
	}
	k.state.Namespace = ""
	return k.state.write(k.StateFile)
}

// measureAll measures one combination after another on each node.
func (k *collector) measureAll(ctx context.Context) error {
	there := map[key]bool{}
	for _, m := range k.state.Measurements {
		there[key{m.Counts, m.Try}] = true
	}
	var todo []key
	for try := range k.Repeats {
		for _, c := range k.Combinations {
			k.total++
			if !there[key{c, try}] {
				todo = append(todo, key{c, try})
			}
		}
	}
	queue := make(chan key, len(todo))
	for _, t := range todo {
		queue <- t
	}
	close(queue)
	group, ctx := errgroup.WithContext(ctx)
	for _, node := range k.Nodes {
		group.Go(func() error {
			for t := range queue {
				if ctx.Err() != nil {
					return context.Cause(ctx)
				}
				m, err := k.tries(ctx, node, t)
				if err := k.record(ctx, t, m, err); err != nil {
					return err
				}
			}
			return nil
		})
	}
	return group.Wait()
}

// loadError is an error of one measurement.
type loadError struct{ err error }

func (e *loadError) Error() string { return e.err.Error() }
func (e *loadError) Unwrap() error { return e.err }

// tries measures a combination, and retries if the load fails.
func (k *collector) tries(ctx context.Context, node string, t key) (m measurement, err error) {
	for range attempts {
		m, err = k.measure(ctx, node, t)
		if _, ok := errors.AsType[*loadError](err); !ok || errors.Is(err, jobs.ErrTimeout) || ctx.Err() != nil {
			return m, err
		}
	}
	return m, err
}

// record adds a measurement to the state file, or a failure to the result.
func (k *collector) record(ctx context.Context, t key, m measurement, err error) error {
	k.mu.Lock()
	defer k.mu.Unlock()
	var failure *loadError
	switch {
	case err == nil:
		k.state.Measurements = append(k.state.Measurements, m)
		k.result.Measured++
		if err := k.state.write(k.StateFile); err != nil {
			return err
		}
	case ctx.Err() == nil && errors.As(err, &failure) && t.counts.Total() > 1:
		k.result.Failed = append(k.result.Failed, t.counts)
	default:
		return err
	}
	if k.Done != nil {
		k.Done(Progress{t.counts, err, len(k.state.Measurements), k.total})
	}
	return nil
}

// measure launches a combination, lets it warm up, loads it, and always deletes it.
func (k *collector) measure(ctx context.Context, node string, t key) (m measurement, err error) {
	var names, apps []string
	for a, n := range t.counts {
		if n > 0 {
			names, apps = append(names, jobName(t, lra.Apps[a])), append(apps, lra.Apps[a])
		}
	}
	defer func() {
		ctx, cancel := context.WithTimeout(context.WithoutCancel(ctx), tearDownTimeout)
		defer cancel()
		tearDown := k.space.Delete(ctx, names...)
		if tearDown == nil {
			tearDown = k.space.Gone(ctx, names...)
		}
		if tearDown != nil {
			err = tearDown // an error of the API server, not of the load
		}
	}()
	for i, name := range names {
		if err := k.space.Create(ctx, k.job(name, apps[i], node, t.counts)); err != nil {
			return m, err
		}
	}
	running, err := k.space.Running(ctx, names...)
	if errors.Is(err, jobs.ErrFailed) || errors.Is(err, jobs.ErrTimeout) {
		return m, &loadError{fmt.Errorf("profile: combination %v: %w", t.counts, err)}
	}
	if err != nil {
		return m, err
	}
	var containers []Container
	for i, name := range names {
		for _, p := range running[name] {
			containers = append(containers, Container{apps[i], p.Name, p.Namespace, p.Spec.NodeName, p.Status.PodIP})
		}
	}
	if poll.Sleep(ctx, k.WarmUp) != nil {
		return m, context.Cause(ctx)
	}
	answers, err := k.Load.Measure(ctx, t.counts, t.try, containers)
	if err == nil && len(answers) != len(containers) {
		err = fmt.Errorf("%d answers for %d containers", len(answers), len(containers))
	}
	if err != nil {
		return m, &loadError{fmt.Errorf("profile: combination %v: %w", t.counts, err)}
	}
	return summarize(t, containers, answers), nil
}

// summarize returns the mean over the containers of each application.
func summarize(t key, containers []Container, answers []Answer) measurement {
	m := measurement{Counts: t.counts, Try: t.try}
	for i, c := range containers {
		for a, app := range lra.Apps {
			if app == c.App {
				n := float64(t.counts[a])
				m.RPS[a] += answers[i].RPS / n
				m.RT50[a] += answers[i].RT50 / n
				m.RT99[a] += answers[i].RT99 / n
			}
		}
	}
	return m
}

// jobName names the Job of an application in a combination, with a digit for each application.
func jobName(t key, app string) string {
	digits := strings.Trim(strings.ReplaceAll(fmt.Sprint(t.counts), " ", ""), "[]")
	return fmt.Sprintf("%s-%s-%d", app, digits, t.try)
}

// job returns the Job of an application's containers.
func (k *collector) job(name, app, node string, c lra.Counts) *batchv1.Job {
	template, ok := k.Pods[app]
	template = *template.DeepCopy()
	if !ok {
		size := corev1.ResourceList{
			corev1.ResourceCPU:    *resource.NewMilliQuantity(containerMilliCPU, resource.DecimalSI),
			corev1.ResourceMemory: *resource.NewQuantity(containerMemoryBytes, resource.BinarySI),
		}
		template.Spec.Containers = []corev1.Container{{
			Name: app, Image: "kubernasium.io/simulated", Resources: corev1.ResourceRequirements{Requests: size, Limits: size},
		}}
	}
	if template.Labels == nil {
		template.Labels = map[string]string{}
	}
	if template.Annotations == nil {
		template.Annotations = map[string]string{}
	}
	template.Labels[labelApp] = app
	template.Annotations[stages.Duration] = jobs.Hold
	if template.Spec.RestartPolicy != corev1.RestartPolicyOnFailure {
		template.Spec.RestartPolicy = corev1.RestartPolicyNever // a Job may not have Always
	}
	k.space.Place(&template.Spec, node)
	var n int32
	for a := range lra.Apps {
		if lra.Apps[a] == app {
			n = int32(c[a])
		}
	}
	return &batchv1.Job{
		ObjectMeta: metav1.ObjectMeta{Name: name, Labels: map[string]string{labelApp: app}},
		Spec:       batchv1.JobSpec{Parallelism: &n, Completions: &n, BackoffLimit: new(int32), Template: template},
	}
}
