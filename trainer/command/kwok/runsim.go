package kwok

import (
	"fmt"
	"strconv"
	"time"

	"github.com/spf13/cobra"

	"github.com/kubernasium/kubernasium/kwok"
	"github.com/kubernasium/kubernasium/trainer/apiserver"
	"github.com/kubernasium/kubernasium/trainer/cli"
)

func newKwokRunSim() *cobra.Command {
	var c kwok.SimConfig
	var out string
	cmd := &cobra.Command{
		Use:   "runsim",
		Short: "Deploy the workload for a scheduler that runs elsewhere",
		Long: `Deploy the workload of pod balancing for a scheduler that runs elsewhere: deployments of 5 to
15 pods of 1 CPU and 2 Gi, one after another, until the nodes' CPU, memory or pods reach a load.
Then the deployments are deleted, and it starts over, --cluster_resets times.`,
		Example: `  trainer kwok runsim --scheduler_name default-scheduler --interval 0s   # the real kube-scheduler
  trainer kwok runsim --cpu_load 0.5 --cluster_resets 5 --out deployments.csv`,
		RunE: func(cmd *cobra.Command, _ []string) error {
			for _, l := range []struct {
				name  string
				value float64
			}{{"cpu_load", c.CPULoad}, {"mem_load", c.MemoryLoad}, {"pod_load", c.PodLoad}} {
				if !(l.value > 0 && l.value <= 1) {
					return fmt.Errorf("--%s is %v, want more than 0 and at most 1", l.name, l.value)
				}
			}
			if c.Resets < 1 || c.Nodes < 0 {
				return fmt.Errorf("--cluster_resets is %d and --node_count %d, want at least 1 and 0", c.Resets, c.Nodes)
			}
			all, err := kwok.RunSim(cmd.Context(), c, func(d kwok.SimDeployment, l kwok.Load) {
				fmt.Fprintf(cmd.ErrOrStderr(), "reset %d, %s: %d pods placed after %.2f s; CPU %.1f %%, memory %.1f %%, pods %.1f %%\n",
					d.Reset, d.Name, d.Replicas, d.Placed, 100*l.CPU, 100*l.Memory, 100*l.Pods)
			})
			if err := printDeployments(cmd, out, all); err != nil {
				return err
			}
			if err != nil && cmd.Context().Err() != nil {
				return fmt.Errorf("%w: %d deployments are reported; `kwok cleancluster --namespace %s` deletes what is left in the cluster", cli.ErrInterrupted, len(all), c.Namespace)
			}
			return err
		},
	}
	f := cmd.Flags()
	f.Float64Var(&c.CPULoad, "cpu_load", 0.20, "requested fraction of the nodes' CPU at which they count as full")
	f.Float64Var(&c.MemoryLoad, "mem_load", 0.20, "requested fraction of their memory at which they count as full")
	f.Float64Var(&c.PodLoad, "pod_load", 0.20, "fraction of their maximum number of pods at which they count as full")
	f.IntVar(&c.Resets, "cluster_resets", 2, "how often to fill and empty them")
	f.StringVar(&c.SchedulerName, "scheduler_name", "custom-scheduler", "scheduler of the pods")
	f.IntVar(&c.Nodes, "node_count", 10, "nodes of 64 CPU and 256 Gi to create, worker-0 and so on, unless they exist")
	f.DurationVar(&c.Interval, "interval", 40*time.Second, "time between deployments")
	f.DurationVar(&c.Patience, "patience", 5*time.Minute, "maximum time that pods may be pending")
	f.StringVar(&c.Namespace, "namespace", "default", "namespace of the deployments")
	f.Uint64Var(&c.Seed, "seed", 0, "random seed of the numbers of replicas")
	f.StringVarP(&out, "out", "o", "", "CSV file of the deployments, which k8s/PodBalance-v0 reads by its option deployments")
	apiserver.Flags(cmd, &c.Server)
	return cmd
}

// printDeployments prints the deployments, and writes them to the file out unless it is "".
func printDeployments(cmd *cobra.Command, out string, all []kwok.SimDeployment) error {
	if err := writeDeployments(out, all); err != nil {
		return err
	}
	resets := 0
	if len(all) > 0 {
		resets = all[len(all)-1].Reset + 1
	}
	return cli.Printf(cmd, all, "%d deployments in %d resets\n", len(all), resets)
}

// writeDeployments writes the columns that the environment reads, and the times until pods were bound.
func writeDeployments(path string, all []kwok.SimDeployment) error {
	var rows [][]string
	for _, d := range all {
		rows = append(rows, []string{d.Name, strconv.Itoa(d.Replicas), "1000m", "2Gi", strconv.Itoa(d.Reset), strconv.FormatFloat(d.Placed, 'f', 3, 64)})
	}
	return cli.WriteCSV(path, []string{"name", "pod_count", "cpu_request", "mem_request", "reset", "placed_s"}, rows)
}

func newKwokCleanCluster() *cobra.Command {
	var o kwok.Options
	var namespace string
	var all bool
	cmd := &cobra.Command{
		Use:   "cleancluster",
		Short: "Delete the deployments and pods that runsim has left",
		RunE: func(cmd *cobra.Command, _ []string) error {
			return kwok.Clean(cmd.Context(), o, namespace, all)
		},
	}
	cmd.Flags().StringVar(&namespace, "namespace", "default", "namespace to clean")
	cmd.Flags().BoolVar(&all, "all", false, "delete every deployment, replica set and pod of the namespace, not only runsim's")
	apiserver.Flags(cmd, &o)
	return cmd
}
