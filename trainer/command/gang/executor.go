package gang

import (
	"context"
	"errors"
	"fmt"
	"io"
	"os"
	"strings"
	"time"

	"github.com/spf13/cobra"

	"github.com/kubernasium/kubernasium/envs/gang/profile"
	"github.com/kubernasium/kubernasium/kwok"
	"github.com/kubernasium/kubernasium/kwok/bsp"
	"github.com/kubernasium/kubernasium/kwok/bsp/local"
	"github.com/kubernasium/kubernasium/kwok/bsp/zkbarrier"
	"github.com/kubernasium/kubernasium/kwok/launch"
	"github.com/kubernasium/kubernasium/trainer/apiserver"
)

// executorFlags select the executor of real work.
type executorFlags struct {
	name      string
	workloads []string
	limit     time.Duration

	realTime   bool // of a run; the profile flags always need it
	replanCost string

	kubernetes bsp.KubernetesConfig
	laws       string   // file
	zookeeper  []string // servers
}

// kubernetesExecutor is the executor that can also use a clock other than wall time.
const kubernetesExecutor = "kubernetes"

// Cost of a re-planning that planners assume.
const (
	measuredCost = "measured"
	modelledCost = "modelled"
)

// executorOnly lists the flags that need --executor.
var executorOnly = []string{"workloads", "limit", "simulate", "noise-seed", "image", "service-account", "namespace", "zookeeper"}

func (o *executorFlags) add(cmd *cobra.Command) {
	f := cmd.Flags()
	f.StringVar(&o.name, "executor", "", "do real work in real time: local, as processes of this machine under CPU limits, or kubernetes, as Jobs")
	f.StringSliceVar(&o.workloads, "workloads", nil, "with --executor: stressors of stress-ng, each NAME or NAME:OPS, the operations for a workload of size 1")
	f.StringVar(&o.laws, "simulate", "", "with --executor kubernetes: JSON list of laws of durations; KWOK simulates their pods on a separate node")
	f.Uint64Var(&o.kubernetes.Seed, "noise-seed", 0, "with --simulate: random seed of the laws' noise; its standard deviation is their rms")
	f.StringVar(&o.kubernetes.Image, "image", "", "with --executor kubernetes: image of the worker (make gangworker), for pods on real nodes; needs --allow-real-nodes")
	f.StringVar(&o.kubernetes.ServiceAccount, "service-account", "gang-worker", "with --image: service account of the workers, which must be allowed to get and watch pods")
	f.StringSliceVar(&o.zookeeper, "zookeeper", nil, "with --image: ZooKeeper servers; workers run for all supersteps and synchronize by its double barrier")
	f.StringVar(&o.kubernetes.Namespace, "namespace", "", "with --executor kubernetes: namespace of the Jobs (default: a temporary one)")
	f.DurationVar(&o.limit, "limit", 10*time.Minute, "with --executor: time limit of a superstep, and of the start of its tasks")
}

// check returns an error for flags that need --executor if it is not given.
func (o *executorFlags) check(cmd *cobra.Command, others ...string) error {
	if o.name != "" {
		return nil
	}
	for _, name := range append(others, executorOnly...) {
		if cmd.Flags().Changed(name) {
			return fmt.Errorf("--%s is of real work: want --executor", name)
		}
	}
	return nil
}

// checkRun checks the flags of a run.
func (o *executorFlags) checkRun(cmd *cobra.Command) error {
	if o.replanCost != measuredCost && o.replanCost != modelledCost {
		return fmt.Errorf("--replan-cost %q, want %s or %s", o.replanCost, measuredCost, modelledCost)
	}
	return o.check(cmd, "log", "real-time", "replan-cost")
}

// open opens the executor.
func (o *executorFlags) open(ctx context.Context, server kwok.Options, progress io.Writer) (bsp.Executor, error) {
	switch o.name {
	case "local":
		return local.Open(ctx, nil)
	case kubernetesExecutor:
		return o.openKubernetes(ctx, server, progress)
	}
	return nil, fmt.Errorf("--executor %q, want local or %s", o.name, kubernetesExecutor)
}

// openKubernetes opens the executor on an API server. For simulated pods it starts a control plane unless the
// options name one.
func (o *executorFlags) openKubernetes(ctx context.Context, server kwok.Options, progress io.Writer) (_ bsp.Executor, err error) {
	c := o.kubernetes
	if (o.laws == "") == (c.Image == "") {
		return nil, errors.New("--executor kubernetes: want one of --simulate and --image")
	}
	if len(o.zookeeper) > 0 {
		if c.Image == "" {
			return nil, errors.New("--zookeeper is of real workers: want --image")
		}
		c.Barrier = o.barrier
	}
	e := &planeExecutor{}
	if o.laws != "" {
		if c.Laws, err = profile.ReadLaws(o.laws); err != nil {
			return nil, err
		}
		if server.Kubeconfig == "" && os.Getenv(kwok.KubeconfigVariable) == "" {
			if e.plane, err = apiserver.Start(ctx, launch.Options{}); err != nil {
				return nil, err
			}
			server.Kubeconfig = e.plane.Kubeconfig
			fmt.Fprintln(progress, "started a control plane")
		}
	}
	c.Server = server
	if e.Kubernetes, err = bsp.OpenKubernetes(ctx, c); err != nil {
		return nil, errors.Join(err, e.stop())
	}
	return e, nil
}

// barrier makes the barrier of a job.
func (o *executorFlags) barrier(name string, tasks []string) (bsp.Barrier, []string, error) {
	base := "/kubernasium/" + name
	b, err := zkbarrier.Open(o.zookeeper, base, tasks)
	return b, []string{"--zookeeper", strings.Join(o.zookeeper, ","), "--barrier", base}, err
}

// planeExecutor is an executor with its own control plane, if it started one.
type planeExecutor struct {
	*bsp.Kubernetes
	plane *launch.ControlPlane
}

func (e *planeExecutor) stop() error {
	if e.plane == nil {
		return nil
	}
	return e.plane.Stop()
}

// Close implements [bsp.Executor].
func (e *planeExecutor) Close() error { return errors.Join(e.Kubernetes.Close(), e.stop()) }
