package main

import (
	"fmt"
	"maps"
	"slices"
	"strings"

	"github.com/spf13/cobra"

	"github.com/kubernasium/kubernasium/envs/podsched/gpu"
	"github.com/kubernasium/kubernasium/kwok/kubeyaml"
	"github.com/kubernasium/kubernasium/trainer/tracking"
)

func newPodschedSimulate() *cobra.Command {
	var workload, config string
	var seed int64
	cmd := &cobra.Command{
		Use:   "simulate",
		Short: "Place the pods of Kubernetes YAML onto its nodes by a scheduler configuration",
		Long: `Place the pods of Kubernetes YAML onto its nodes by a scheduler configuration.

Nodes and Pods are read from a file or a folder, by priority, then in the order in which they
stand there. Deployments, ReplicaSets, ReplicationControllers, StatefulSets, Jobs, CronJobs and
DaemonSets become pods as in Alibaba's open-simulator (Simon), after the Pods. The KubeSchedulerConfiguration enables score plugins with weights: those of
kube-scheduler, which are on by default, and the policies ` + strings.Join(gpu.PolicyNames(), ", ") + `
by their names (KubeResources and KubeDefault are sets of kube-scheduler's own). Simon's
configurations are read as they are: FGDScore and the like at score, Open-Gpu-Share with its
gpuSelMethod at reserve. A plugin that is enabled without what it needs is an error.`,
		Example: `  trainer podsched simulate -f cluster.yaml -s scheduler.yaml
  trainer podsched simulate -f manifests/ -s scheduler.yaml --json`,
		Args: cobra.NoArgs,
		RunE: func(cmd *cobra.Command, _ []string) error {
			if workload == "" || config == "" {
				return fmt.Errorf("-f and -s are needed: the cluster's Nodes and Pods, and a KubeSchedulerConfiguration")
			}
			c, err := kubeyaml.ReadConfig(config)
			if err != nil {
				return err
			}
			o, err := kubeyaml.Read(workload)
			if err != nil {
				return err
			}
			w, err := o.Workload()
			if err != nil {
				return err
			}
			profiles, err := c.Profiles(w)
			if err != nil {
				return err
			}
			report, err := gpu.Simulate(w.Nodes, w.Pods, profiles, seed)
			if err != nil {
				return err
			}
			for _, kind := range slices.Sorted(maps.Keys(o.Ignored)) {
				fmt.Fprintf(cmd.ErrOrStderr(), "%d of kind %s left out: neither a Node nor a Pod nor a workload\n", o.Ignored[kind], kind)
			}
			if wantJSON(cmd) {
				return printJSON(cmd, report)
			}
			return printSimulation(cmd, report)
		},
	}
	f := cmd.Flags()
	f.StringVarP(&workload, "filename", "f", "", "file or folder of Nodes, Pods and workloads")
	f.StringVarP(&config, "scheduler-config", "s", "", "file of a KubeSchedulerConfiguration")
	f.Int64Var(&seed, "seed", 0, "random seed of the plugin Random")
	return cmd
}

func printSimulation(cmd *cobra.Command, r *gpu.Report) error {
	t := tracking.NewTable("pod", "node", "devices")
	for _, p := range r.Placements {
		t.Append(p.Pod, p.Node, strings.Trim(fmt.Sprint(p.Devices), "[]"))
	}
	w := cmd.OutOrStdout()
	if err := t.WriteText(w); err != nil {
		return err
	}
	if len(r.Failed) > 0 {
		fmt.Fprintln(w)
		t = tracking.NewTable("failed pod", "why")
		for _, f := range r.Failed {
			t.Append(f.Pod, failure(r.Nodes, f.Reasons))
		}
		if err := t.WriteText(w); err != nil {
			return err
		}
	}
	percent := func(a, b int64) float64 {
		if b == 0 {
			return 0
		}
		return 100 * float64(a) / float64(b)
	}
	_, err := fmt.Fprintf(w, "\n%d placed, %d failed\nallocated: GPU %.2f %%, CPU %.2f %%, memory %.2f %%\nfragmented: %.0f of %d milli-GPU free\n",
		len(r.Placements), len(r.Failed), percent(r.MilliGPU, r.AllMilliGPU), percent(r.MilliCPU, r.AllMilliCPU), percent(r.MemoryMiB, r.AllMemoryMiB),
		r.FragMilliGPU, r.AllMilliGPU-r.MilliGPU)
	return err
}

// failure says why a pod was not placed, as kube-scheduler words it.
func failure(nodes int, reasons map[string]int) string {
	var parts []string
	for _, why := range slices.Sorted(maps.Keys(reasons)) {
		parts = append(parts, fmt.Sprintf("%d %s", reasons[why], why))
	}
	return fmt.Sprintf("0/%d nodes are available: %s", nodes, strings.Join(parts, ", "))
}
