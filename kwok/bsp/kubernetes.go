package bsp

import (
	"context"
	"errors"
	"fmt"
	"math/rand/v2"
	"slices"
	"time"

	corev1 "k8s.io/api/core/v1"
	schedulingv1alpha2 "k8s.io/api/scheduling/v1alpha2"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/kubernasium/kubernasium/envs/cluster"
	"github.com/kubernasium/kubernasium/envs/gang/profile"
	"github.com/kubernasium/kubernasium/envs/pcg"
	"github.com/kubernasium/kubernasium/kwok"
	"github.com/kubernasium/kubernasium/kwok/jobs"
)

// AnnotationOps is the annotation that releases a worker's pod; its value is the number of operations of the
// superstep.
const AnnotationOps = "kubernasium.io/gang-ops"

// simulatedMilliCPU is the capacity of the node that simulated pods run on.
const simulatedMilliCPU = 1_000_000

// A Barrier synchronizes workers that run for many supersteps; package zkbarrier implements it. Its methods
// return errors that wrap ErrDead and ErrLate.
type Barrier interface {
	// Join waits until all tasks have joined.
	Join(ctx context.Context, limit time.Duration) error
	// Expel removes the workers of tasks, given by index, so that new workers can join in their place.
	Expel(tasks []int) error
	// Superstep gives each task its number of operations, releases all together, and waits for all.
	Superstep(ctx context.Context, ops []int64, limit time.Duration) ([]time.Duration, error)
	Close() error
}

// Result is the message that a worker leaves in its container's status when it ends.
type Result struct {
	Seconds float64 `json:"seconds"` // of its work
}

// KubernetesConfig holds the arguments of [OpenKubernetes].
type KubernetesConfig struct {
	Server         kwok.Options
	Namespace      string        // "" creates one and deletes it with the executor
	Laws           []profile.Law // of simulated pods, on a KWOK node; nil runs real pods
	Seed           uint64        // of the laws' noise
	Image          string        // of the worker; for real pods only
	ServiceAccount string        // of real pods; must be allowed to get and watch the pods of the namespace

	// Barrier makes the barrier at which the real workers of the named job meet, and returns the arguments
	// that point the workers to it. If Barrier is nil, annotations release the pods of each superstep.
	Barrier func(name string, tasks []string) (b Barrier, args []string, err error)
}

// Kubernetes runs jobs as batch/v1 Jobs, one for each task and superstep. It implements [Executor].
//
// The Jobs of a superstep start together. Where the API server has pod groups, they form one, so that all pods
// get nodes or none. Elsewhere they are created suspended, and resumed when all exist. When all pods run, an
// annotation releases each.
type Kubernetes struct {
	conf    KubernetesConfig
	space   *jobs.Space
	node    string // of simulated pods
	most    int64
	version string
	groups  bool // the API server has pod groups
	rng     *rand.Rand
	made    int      // pod groups and Jobs
	started []string // pod groups
}

var _ Executor = (*Kubernetes)(nil)

// OpenKubernetes connects to an API server.
func OpenKubernetes(ctx context.Context, c KubernetesConfig) (_ *Kubernetes, err error) {
	if c.Laws == nil && (c.Image == "" || !c.Server.AllowRealNodes) {
		return nil, errors.New("bsp: want laws for simulated pods, or an image for real ones and leave to use real nodes")
	}
	e := &Kubernetes{conf: c, rng: rand.New(pcg.New(c.Seed))}
	if e.space, err = jobs.Open(ctx, c.Server, "gang-", c.Namespace); err != nil {
		return nil, err
	}
	defer func() {
		if err != nil {
			err = errors.Join(err, e.space.Close())
		}
	}()
	if err := e.discover(); err != nil {
		return nil, err
	}
	if c.Laws == nil {
		return e, e.capacity(ctx)
	}
	e.node, e.most = e.space.Namespace(), simulatedMilliCPU
	return e, e.space.AddNode(ctx, e.node, cluster.Resources{MilliCPU: e.most, MemoryBytes: memoryBytes}, 3*maxTasks)
}

// discover reads the version of the API server, and whether it has pod groups.
func (e *Kubernetes) discover() error {
	d := e.space.Client().Discovery()
	v, err := d.ServerVersion()
	if err != nil {
		return fmt.Errorf("bsp: version of the API server: %w", err)
	}
	e.version = v.GitVersion
	list, err := d.ServerResourcesForGroupVersion(schedulingv1alpha2.SchemeGroupVersion.String())
	if apierrors.IsNotFound(err) {
		return nil
	}
	if err != nil {
		return fmt.Errorf("bsp: pod groups of the API server: %w", err)
	}
	e.groups = slices.ContainsFunc(list.APIResources, func(r metav1.APIResource) bool { return r.Name == "podgroups" })
	return nil
}

// capacity sums the millicores of the nodes that accept pods.
func (e *Kubernetes) capacity(ctx context.Context) error {
	nodes, err := e.space.Client().CoreV1().Nodes().List(ctx, metav1.ListOptions{})
	if err != nil {
		return err
	}
	e.most = sumMilliCPU(nodes.Items)
	return nil
}

// sumMilliCPU sums the millicores of the nodes that accept pods without tolerations.
func sumMilliCPU(nodes []corev1.Node) (sum int64) {
	for i := range nodes {
		n := &nodes[i]
		repels := slices.ContainsFunc(n.Spec.Taints, func(t corev1.Taint) bool { return t.Effect != corev1.TaintEffectPreferNoSchedule })
		if !n.Spec.Unschedulable && !repels {
			sum += n.Status.Allocatable.Cpu().MilliValue()
		}
	}
	return sum
}

// Setting implements [Executor].
func (e *Kubernetes) Setting() string {
	start, pods := "suspended Jobs", e.conf.Image
	if e.conf.Barrier != nil {
		pods += " at a barrier"
	}
	if e.groups {
		start = "pod groups"
	}
	if e.conf.Laws != nil {
		pods = fmt.Sprintf("simulated by %v with seed %d", e.conf.Laws, e.conf.Seed)
	}
	return fmt.Sprintf("Kubernetes %s, %s, %s", e.version, start, pods)
}

// MaxMilliCPU implements [Executor].
func (e *Kubernetes) MaxMilliCPU() int64 { return e.most }

// Close implements [Executor].
func (e *Kubernetes) Close() error {
	ctx, cancel := context.WithTimeout(context.Background(), callTimeout)
	defer cancel()
	var errs []error
	for _, name := range e.started {
		err := e.space.Client().SchedulingV1alpha2().PodGroups(e.space.Namespace()).Delete(ctx, name, metav1.DeleteOptions{})
		if err != nil && !apierrors.IsNotFound(err) {
			errs = append(errs, err)
		}
	}
	return errors.Join(append(errs, e.space.Close())...)
}

// Start implements [Executor].
func (e *Kubernetes) Start(ctx context.Context, j Job) (_ Crew, err error) {
	if err := j.Check(e.MaxMilliCPU()); err != nil {
		return nil, err
	}
	c := Config{Shares: j.MilliCPU, Method: j.Method}
	for _, w := range j.Works {
		c.Tasks = append(c.Tasks, w.Task)
		if e.conf.Laws != nil && e.law(w.Task) == nil {
			return nil, fmt.Errorf("bsp: no law to simulate task %s", w.Task)
		}
	}
	k := &crew{e: e, job: j, Gang: &Gang{conf: c, space: e.space, node: e.node, shares: slices.Clone(j.MilliCPU), names: make([]string, len(c.Tasks))}}
	k.Gang.launch = k.launch
	e.space.Patience = j.Limit
	if e.conf.Barrier != nil {
		e.made++
		if k.barrier, k.args, err = e.conf.Barrier(fmt.Sprintf("%s-%d", e.space.Namespace(), e.made), c.Tasks); err != nil {
			return nil, err
		}
	}
	if err := k.late(k.ready(ctx)); err != nil {
		return nil, errors.Join(fmt.Errorf("start of the gang: %w", err), k.Close())
	}
	return k, nil
}

func (e *Kubernetes) law(task string) *profile.Law {
	for i := range e.conf.Laws {
		if e.conf.Laws[i].Task == task {
			return &e.conf.Laws[i]
		}
	}
	return nil
}
