package bsp

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"math"
	"strconv"
	"strings"
	"sync"
	"time"

	batchv1 "k8s.io/api/batch/v1"
	corev1 "k8s.io/api/core/v1"
	schedulingv1alpha2 "k8s.io/api/scheduling/v1alpha2"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/kubernasium/kubernasium/kwok/jobs"
	"github.com/kubernasium/kubernasium/kwok/stages"
)

// crew holds the Jobs of a superstep. It implements [Crew].
type crew struct {
	*Gang
	e     *Kubernetes
	job   Job
	there bool // the Jobs of the current superstep

	barrier Barrier  // of workers that run for all supersteps; nil: none
	args    []string // that describe the barrier to the workers
}

// launch creates Jobs that start together.
func (c *crew) launch(ctx context.Context, all []*batchv1.Job, tasks []int) error {
	if c.barrier != nil {
		if err := c.barrier.Expel(tasks); err != nil {
			return err
		}
	}
	group := ""
	if c.e.groups {
		var err error
		if group, err = c.group(ctx, len(all)); err != nil {
			return err
		}
	}
	names := make([]string, len(all))
	for i, j := range all {
		c.e.made++
		j.Name = fmt.Sprintf("%s-%d", j.Name, c.e.made)
		c.names[tasks[i]], names[i] = j.Name, j.Name
		spec := &j.Spec.Template.Spec
		if group == "" {
			j.Spec.Suspend = new(true)
		} else {
			spec.SchedulingGroup = &corev1.PodSchedulingGroup{PodGroupName: &group}
		}
		if c.e.conf.Laws == nil {
			c.real(spec, c.job.Works[tasks[i]])
		}
		if err := c.e.space.Create(ctx, j); err != nil {
			return err
		}
	}
	if group != "" {
		return nil
	}
	return c.e.space.Resume(ctx, names...)
}

// group creates a pod group.
func (c *crew) group(ctx context.Context, n int) (string, error) {
	c.e.made++
	g := &schedulingv1alpha2.PodGroup{ObjectMeta: metav1.ObjectMeta{Name: fmt.Sprintf("gang-%d", c.e.made)}}
	g.Spec.SchedulingPolicy.Gang = &schedulingv1alpha2.GangSchedulingPolicy{MinCount: int32(n)}
	asking, cancel := context.WithTimeout(ctx, callTimeout)
	defer cancel()
	if _, err := c.e.space.Client().SchedulingV1alpha2().PodGroups(c.e.space.Namespace()).Create(asking, g, metav1.CreateOptions{}); err != nil {
		return "", fmt.Errorf("create pod group %s: %w", g.Name, err)
	}
	c.e.started = append(c.e.started, g.Name)
	return g.Name, nil
}

// real completes the pod of a worker. The pod meets the restricted Pod Security Standard. Its root file system
// is read-only; stress-ng writes to /tmp.
func (c *crew) real(spec *corev1.PodSpec, w Work) {
	field := func(name, path string) corev1.EnvVar {
		return corev1.EnvVar{Name: name, ValueFrom: &corev1.EnvVarSource{FieldRef: &corev1.ObjectFieldSelector{FieldPath: path}}}
	}
	spec.ServiceAccountName = c.e.conf.ServiceAccount
	p := &spec.Containers[0]
	p.Image, p.Args = c.e.conf.Image, append([]string{"--work", w.String()}, c.args...)
	p.Env = []corev1.EnvVar{field("POD_NAME", "metadata.name"), field("POD_NAMESPACE", "metadata.namespace")}
	spec.SecurityContext = &corev1.PodSecurityContext{
		RunAsNonRoot: new(true), SeccompProfile: &corev1.SeccompProfile{Type: corev1.SeccompProfileTypeRuntimeDefault},
	}
	p.SecurityContext = &corev1.SecurityContext{
		AllowPrivilegeEscalation: new(false), ReadOnlyRootFilesystem: new(true), Capabilities: &corev1.Capabilities{Drop: []corev1.Capability{"ALL"}},
	}
	spec.Volumes = []corev1.Volume{{Name: "tmp", VolumeSource: corev1.VolumeSource{EmptyDir: &corev1.EmptyDirVolumeSource{}}}}
	p.VolumeMounts = []corev1.VolumeMount{{Name: "tmp", MountPath: "/tmp"}}
}

// ready creates the Jobs of the current superstep, unless they exist, and waits until all pods run.
func (c *crew) ready(ctx context.Context) error {
	if !c.there {
		if err := c.create(ctx, c.all()); err != nil {
			return err
		}
		c.there = true
	}
	if _, err := c.space.Running(ctx, c.names...); err != nil || c.barrier == nil {
		return err
	}
	return c.barrier.Join(ctx, c.job.Limit)
}

// late adds [ErrLate] to the error of a wait that exceeded its limit, and [ErrDead] to the error of a failed
// Job.
func (c *crew) late(err error) error {
	switch {
	case errors.Is(err, jobs.ErrTimeout):
		return fmt.Errorf("%w: %w", ErrLate, err)
	case errors.Is(err, jobs.ErrFailed):
		return fmt.Errorf("%w: %w", ErrDead, err)
	}
	return err
}

// Replan implements [Crew].
func (c *crew) Replan(ctx context.Context, milliCPU []int64) error {
	if err := CheckShares(milliCPU, c.e.MaxMilliCPU()); err != nil {
		return err
	}
	if err := c.ready(ctx); err != nil {
		return c.late(err)
	}
	_, err := c.replan(ctx, milliCPU)
	if err == nil && c.barrier != nil {
		err = c.barrier.Join(ctx, c.job.Limit)
	}
	return c.late(err)
}

// Superstep implements [Crew].
func (c *crew) Superstep(ctx context.Context, sizes []float64) ([]time.Duration, error) {
	if len(sizes) != len(c.names) {
		return nil, fmt.Errorf("bsp: %d sizes for %d tasks", len(sizes), len(c.names))
	}
	if err := c.ready(ctx); err != nil {
		return nil, fmt.Errorf("superstep %d: %w", c.step, c.late(err))
	}
	ops := make([]int64, len(sizes))
	for k, size := range sizes {
		var err error
		if ops[k], err = c.job.Works[k].Count(size); err != nil {
			return nil, err
		}
	}
	if c.barrier != nil {
		return c.barrier.Superstep(ctx, ops, c.job.Limit)
	}
	begins, err := c.release(ctx, sizes, ops)
	if err != nil {
		return nil, fmt.Errorf("superstep %d: release: %w", c.step, err)
	}
	durations, err := c.wait(ctx, begins)
	if err != nil {
		return nil, fmt.Errorf("superstep %d: %w", c.step, err)
	}
	c.step++
	c.there = false
	return durations, c.space.Delete(ctx, c.names...)
}

// release annotates all pods at the same time, and returns the times of the annotations.
func (c *crew) release(ctx context.Context, sizes []float64, ops []int64) ([]time.Time, error) {
	notes := make([]map[string]string, len(sizes))
	for k, size := range sizes {
		notes[k] = map[string]string{AnnotationOps: strconv.FormatInt(ops[k], 10)}
		if l := c.e.law(c.job.Works[k].Task); l != nil {
			s := l.Duration(size, float64(c.shares[k])) * math.Exp(l.RMS*c.e.rng.NormFloat64())
			notes[k][stages.Duration] = seconds(s).String()
		}
	}
	begins, errs := make([]time.Time, len(sizes)), make([]error, len(sizes))
	var wait sync.WaitGroup
	for k, note := range notes {
		wait.Go(func() {
			begins[k] = time.Now()
			for _, p := range c.space.Pods(c.names[k]) {
				errs[k] = c.space.PatchPod(ctx, p.Name, map[string]any{"metadata": map[string]any{"annotations": note}})
			}
		})
	}
	wait.Wait()
	return begins, errors.Join(errs...)
}

// wait waits until all pods have succeeded. It takes the durations from the workers' messages, or else measures
// them by the watch.
func (c *crew) wait(ctx context.Context, begins []time.Time) ([]time.Duration, error) {
	durations := make([]time.Duration, len(begins))
	var late []string
	err := c.space.Wait(ctx, func() (string, error) {
		late = late[:0]
		for k, name := range c.names {
			if durations[k] > 0 {
				continue
			}
			p, err := c.ended(name)
			if err != nil {
				return "", err
			}
			if p == nil {
				late = append(late, c.conf.Tasks[k])
				continue
			}
			durations[k] = max(1, time.Since(begins[k]))
			if s := message(p); s > 0 {
				durations[k] = seconds(s)
			}
		}
		return strings.Join(late, ", "), nil
	})
	if errors.Is(err, jobs.ErrTimeout) {
		err = fmt.Errorf("%w: %v after their release these have not ended: %s; give them more time or more CPU: %w", ErrLate, c.job.Limit, strings.Join(late, ", "), err)
	}
	return durations, err
}

// ended returns the pod of a Job that has succeeded, or nil while it runs.
func (c *crew) ended(name string) (*corev1.Pod, error) {
	pods := c.space.Pods(name)
	if len(pods) == 0 || c.space.Job(name) == nil {
		return nil, fmt.Errorf("%w: the pod of job %s is gone", ErrDead, name)
	}
	for _, p := range pods {
		switch {
		case p.Status.Phase == corev1.PodSucceeded:
			return p, nil
		case p.Status.Phase == corev1.PodFailed || p.DeletionTimestamp != nil:
			why := p.Status.Reason + " " + p.Status.Message
			for _, s := range p.Status.ContainerStatuses {
				if t := s.State.Terminated; t != nil {
					why += fmt.Sprintf(" exit status %d: %s %s", t.ExitCode, t.Reason, t.Message)
				}
			}
			return nil, fmt.Errorf("%w: pod %s is %s: %s", ErrDead, p.Name, p.Status.Phase, strings.TrimSpace(why))
		}
	}
	return nil, nil
}

// message returns the seconds that a worker reports, or 0 without a report.
func message(p *corev1.Pod) float64 {
	for _, s := range p.Status.ContainerStatuses {
		var r Result
		if t := s.State.Terminated; t != nil && json.Unmarshal([]byte(t.Message), &r) == nil && r.Seconds > 0 {
			return r.Seconds
		}
	}
	return 0
}

// Close implements [Crew]: it deletes the Jobs.
func (c *crew) Close() error {
	ctx, cancel := context.WithTimeout(context.Background(), callTimeout)
	defer cancel()
	var names []string
	for _, name := range c.names {
		if name != "" {
			names = append(names, name)
		}
	}
	var errs []error
	if c.barrier != nil {
		errs = append(errs, c.barrier.Close())
	}
	if err := c.space.Delete(ctx, names...); err != nil {
		return errors.Join(append(errs, err)...)
	}
	return errors.Join(append(errs, c.space.Gone(ctx, names...))...)
}
