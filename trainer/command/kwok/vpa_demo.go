package kwok

import (
	"context"
	"errors"
	"fmt"
	"math"
	"math/rand/v2"
	"strings"
	"time"

	"github.com/spf13/cobra"

	"github.com/kubernasium/kubernasium/envs/cluster"
	"github.com/kubernasium/kubernasium/envs/pcg"
	"github.com/kubernasium/kubernasium/envs/vpa/pods"
	"github.com/kubernasium/kubernasium/envs/vpa/workload"
	"github.com/kubernasium/kubernasium/kwok/metricsapi"
	"github.com/kubernasium/kubernasium/kwok/vpa"
	"github.com/kubernasium/kubernasium/trainer/cli"
)

// vpaDemo holds the flags of `kwok vpa demo`.
type vpaDemo struct {
	recommenderFlags
	demo  vpa.DemoConfig
	kind  string
	data  string
	steps int
	seed  uint64
	ratio [2]float64 // ratio of limits to requests of CPU and memory
}

func newKwokVPADemo() *cobra.Command {
	var c vpaDemo
	cmd := &cobra.Command{
		Use:   "demo",
		Short: "Play a workload on a Deployment with an autoscaler, in lock-step",
		Long: `Play a workload on a Deployment with a VerticalPodAutoscaler: in each step its pods use the workload's
amounts, which metrics.k8s.io reports; the recommender writes status, and upstream's updater resizes or evicts
pods (bin/vpa-upstream, built by make vpa-upstream). Time is the workload's, so that a day takes as long as the
API server needs; the updater's limits of age, such as twelve hours, count real time. At first, pods request
their usage of the first step.`,
		Example: `  trainer kwok vpa demo --baseline upstream --workload step --steps 60
  trainer kwok vpa demo --model FILE --mode Recreate --data usage.csv   # the control plane must call webhooks`,
		RunE: func(cmd *cobra.Command, _ []string) error { return c.run(cmd) },
	}
	c.add(cmd)
	f := cmd.Flags()
	f.StringVar(&c.kind, "workload", "random_walk", strings.Join(workload.Types(), ", "))
	f.StringVar(&c.data, "data", "", "file or folder of a trace to play instead, its first workload")
	f.IntVar(&c.steps, "steps", 60, "steps to play")
	f.DurationVar(&c.demo.Step, "step", time.Minute, "time between steps, as in the metrics")
	f.Uint64Var(&c.seed, "seed", 0, "random seed of the workload")
	f.IntVar(&c.demo.Replicas, "replicas", 2, "pods of the Deployment")
	f.StringVar(&c.demo.Mode, "mode", pods.ModeInPlaceOrRecreate, "updateMode of the autoscaler: Off, Initial, Recreate, InPlaceOrRecreate or InPlace")
	f.StringVar(&c.demo.Namespace, "namespace", "vpa-demo", "prefix of the temporary namespace")
	f.StringVar(&c.demo.Deployment, "name", "app", "name of the Deployment and the autoscaler")
	f.Float64Var(&c.ratio[0], "limit-ratio-cpu", 2, "ratio of CPU limit to request at the start; 0: no limit")
	f.Float64Var(&c.ratio[1], "limit-ratio-memory", 2, "ratio of memory limit to request at the start; 0: no limit")
	f.BoolVar(&c.upstream.Admission, "admission", true, "give new pods the target, by a webhook; mode InPlace needs none")
	return cmd
}

func (c *vpaDemo) run(cmd *cobra.Command) (err error) {
	ctx := cmd.Context()
	if c.steps < 1 || c.demo.Replicas < 1 || c.demo.Step < time.Second {
		return fmt.Errorf("--steps is %d, --replicas %d and --step %v, want at least 1, 1 and 1s", c.steps, c.demo.Replicas, c.demo.Step)
	}
	if c.demo.Usage, err = c.usage(); err != nil {
		return err
	}
	first := c.demo.Usage[0]
	c.demo.Requests = cluster.Resources{MilliCPU: max(first.MilliCPU, 1), MemoryBytes: max(first.MemoryBytes, 1)}
	c.demo.Limits = cluster.Resources{
		MilliCPU:    int64(math.Ceil(c.ratio[0] * float64(c.demo.Requests.MilliCPU))),
		MemoryBytes: int64(math.Ceil(c.ratio[1] * float64(c.demo.Requests.MemoryBytes))),
	}
	if c.demo.Recommender, err = c.open(ctx); err != nil {
		return err
	}
	c.demo.Upstream = c.upstream
	c.demo.Upstream.Updater, c.demo.Upstream.MinReplicas = true, 1
	c.demo.Start = time.Date(1970, 1, 5, 0, 0, 0, 0, time.UTC) // a Monday, as at the start of an episode
	rc := c.demo.Recommender.REST
	if err := vpa.Install(ctx, rc); err != nil {
		return err
	}
	s, err := metricsapi.Start(ctx, metricsapi.Config{REST: rc, Window: c.demo.Step})
	if err != nil {
		return err
	}
	defer func() { err = errors.Join(err, s.Close()) }()
	var all []vpa.DemoStep
	var total vpa.Report
	w := cmd.OutOrStdout()
	if !cli.WantJSON(cmd) {
		fmt.Fprintf(w, "%4s  %16s  %16s  %16s  %s\n", "step", "used", "target", "requested", "pods")
	}
	err = vpa.Demo(ctx, c.demo, func(one vpa.DemoStep) {
		all = append(all, one)
		total.Add(one.Report)
		if !cli.WantJSON(cmd) {
			printDemoStep(cmd, &one)
		}
	})
	if err != nil {
		return err
	}
	if cli.WantJSON(cmd) {
		return cli.PrintJSON(cmd, all)
	}
	_, err = fmt.Fprintf(w, "%d steps of %v: %d recommendations, %d pods evicted, %d resized\n", len(all), c.demo.Step, total.Recommended, total.Evicted, total.Resized)
	return err
}

func printDemoStep(cmd *cobra.Command, s *vpa.DemoStep) {
	show := func(milli, bytes int64) string { return fmt.Sprintf("%d m %6.0f Mi", milli, float64(bytes)/(1<<20)) }
	target, requested := "", ""
	if s.Status != nil {
		target = show(s.Status.Target.Cpu().MilliValue(), s.Status.Target.Memory().Value())
	}
	if len(s.Pods) > 0 {
		requested = show(s.Pods[0].Requests.MilliCPU, s.Pods[0].Requests.MemoryBytes)
	}
	var events []string
	for _, e := range []struct {
		n    int
		what string
	}{{s.Report.Evicted, "evicted"}, {s.Report.Resized, "resized"}, {s.Killed, "killed for memory"}} {
		if e.n > 0 {
			events = append(events, fmt.Sprintf("%d %s", e.n, e.what))
		}
	}
	fmt.Fprintf(cmd.OutOrStdout(), "%4d  %16s  %16s  %16s  %s\n", s.Step, show(s.Usage.MilliCPU, s.Usage.MemoryBytes), target, requested, strings.Join(events, ", "))
}

// usage returns the workload to play.
func (c *vpaDemo) usage() ([]cluster.Resources, error) {
	if c.data == "" {
		config := workload.Draw(c.kind, c.steps, c.demo.Step.Seconds(), rand.New(pcg.New(c.seed)))
		if err := config.Validate(); err != nil {
			return nil, err
		}
		return config.Append(context.Background(), nil, rand.New(pcg.New(c.seed+1))), nil
	}
	all, _, err := workload.ReadFiles(c.data, "", workload.Grid{Interval: c.demo.Step, MaxGap: time.Hour})
	if err != nil {
		return nil, err
	}
	if len(all[0].Usage) < c.steps {
		return nil, fmt.Errorf("%s: workload %q has %d samples of %v, want %d for --steps", c.data, all[0].ID, len(all[0].Usage), c.demo.Step, c.steps)
	}
	return all[0].Usage[:c.steps], nil
}
