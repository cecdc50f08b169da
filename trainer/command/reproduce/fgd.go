package reproduce

import (
	"context"
	"errors"
	"fmt"
	"io"
	"os"
	"path/filepath"
	"strings"

	"github.com/spf13/cobra"

	"github.com/kubernasium/kubernasium/envs/podsched/gpushare"
	"github.com/kubernasium/kubernasium/envs/podsched/gpushare/published"
	"github.com/kubernasium/kubernasium/trainer/cli"
	"github.com/kubernasium/kubernasium/trainer/sample"
	"github.com/kubernasium/kubernasium/trainer/tracking"
)

// fgdConfig holds the arguments of reproduce fgd --all.
type fgdConfig struct {
	published.Table
	data   string
	lists  []string // nil: all
	models []string
}

func newReproduceFGD() *cobra.Command {
	var nodes, pods, plots string
	var seed int64
	var all bool
	var c fgdConfig
	cmd := &cobra.Command{
		Use:   "fgd",
		Short: "Reproduce the tables of fragmentation gradient descent (Weng et al., USENIX ATC 2023)",
		Long: `Reproduce the tables of fragmentation gradient descent (Weng et al., USENIX ATC 2023).

Pods of the list arrive one after another, tuned to request --ratio times the GPUs of the nodes, and
each is placed at once or never. Point x of a curve is the mean over the arrivals at x % of the
cluster's GPUs requested, in percent of its GPUs. With --all, the command plays every list of a folder
with every policy and the ten published seeds.

A --model of k8s/GPUPodScheduling-v0 plays the same workloads, whatever number of nodes it was
trained with. Several models are one policy trained with several seeds: with --all their runs are
pooled, and the interval of the difference to FGD is over the models.`,
		Example: `  trainer reproduce fgd --nodes openb_node_list_gpu_node.csv --pods openb_pod_list_default.csv --policy FGD --seed 42 --json
  trainer reproduce fgd --all --data ../shared/data/openb
  trainer reproduce fgd --all --list gpuspec10 --policy FGD --policy Random --model models/pretrained/k8s-GPUPodScheduling-v0/ppo.safetensors --plot docs/img`,
		RunE: func(cmd *cobra.Command, _ []string) error {
			if c.Ratio < 0 || c.Ratio > 10 {
				return fmt.Errorf("--ratio is %v, want 0 (as it is) to 10", c.Ratio)
			}
			if !all {
				if (nodes == "") != (pods == "") {
					return errors.New("--nodes and --pods go together")
				}
				if plots != "" {
					return errors.New("--plot draws curves with bands over seeds and needs --all")
				}
				if len(c.lists) > 0 {
					return errors.New("--list selects among the lists of --all")
				}
				if nodes == "" {
					dir, err := c.folder(cmd)
					if err != nil {
						return err
					}
					nodes, pods = filepath.Join(dir, published.NodeFile), filepath.Join(dir, "openb_pod_list_default.csv")
				}
				return reproduceOne(cmd, nodes, pods, c, seed)
			}
			for _, name := range []string{"nodes", "pods", "seed"} {
				if cmd.Flags().Changed(name) {
					return errors.New("--" + name + " selects a single run, and --all is all of them")
				}
			}
			var err error
			if c.data, err = c.folder(cmd); err != nil {
				return err
			}
			if !cmd.Flags().Changed("policy") {
				c.Policies = gpushare.PolicyNames()
			}
			rows, err := reproduceAll(cmd.Context(), c)
			if len(rows) == 0 || err != nil && !errors.Is(err, cli.ErrInterrupted) {
				return err
			}
			return errors.Join(reportFGD(cmd, rows, c.At, plots), err)
		},
	}
	f := cmd.Flags()
	f.StringVar(&nodes, "nodes", "", "node list (default: "+published.NodeFile+" in --data)")
	f.StringVar(&pods, "pods", "", "pod list (default: openb_pod_list_default.csv in --data)")
	f.StringArrayVar(&c.Policies, "policy", []string{"FGD"}, "one of "+strings.Join(gpushare.PolicyNames(), ", ")+"; with --all, only this one (repeat; default: all)")
	f.Int64Var(&seed, "seed", published.FirstSeed, "random seed of the workload")
	f.Float64Var(&c.Ratio, "ratio", gpushare.DefaultRatio, "GPUs requested over GPUs of the nodes; 0 leaves the list unchanged")
	f.BoolVar(&all, "all", false, "play every list of --data with every policy and the seeds 42 to 51")
	f.StringVar(&c.data, "data", "", "folder of the lists (default: openb in the data folder, or a sample)")
	f.StringVar(&plots, "plot", "", "with --all, folder for a PNG of each list's curves")
	f.IntVar(&c.At, "at", 100, "percent arrived in the table of --all")
	f.StringArrayVar(&c.lists, "list", nil, "with --all, only this list, such as gpuspec10 (repeat)")
	f.StringArrayVar(&c.models, "model", nil, "model file; instead of --policy, or with --all besides it (repeat)")
	return cmd
}

// folder returns the folder of the lists.
func (c *fgdConfig) folder(cmd *cobra.Command) (string, error) {
	if c.data != "" {
		return c.data, nil
	}
	return sample.Dir(cmd.Context(), cmd.ErrOrStderr(), "openb")
}

// reportFGD plots the curves, if plots is a folder, and prints the tables.
func reportFGD(cmd *cobra.Command, rows []published.Row, at int, plots string) error {
	if plots != "" {
		if err := plotFGD(plots, rows); err != nil {
			return err
		}
	}
	return cli.Print(cmd, rows, func(w io.Writer) error {
		printFGDTable(w, rows, at)
		printFGDModels(w, rows, "FGD")
		return nil
	})
}

func reproduceOne(cmd *cobra.Command, nodeFile, podFile string, c fgdConfig, seed int64) error {
	if len(c.models) > 1 || len(c.Policies) > 1 || len(c.models) == 1 && cmd.Flags().Changed("policy") {
		return errors.New("one --policy or one --model plays a single run")
	}
	var run *gpushare.Run
	var err error
	if len(c.models) == 1 {
		run, err = reproduceModel(cmd.Context(), c.models[0], nodeFile, podFile, seed, c.Ratio)
	} else {
		run, err = cli.Computed(cmd.Context(), func() (*gpushare.Run, error) {
			return reproduceHeuristic(nodeFile, podFile, c.Policies[0], seed, c.Ratio)
		})
	}
	if err != nil {
		return err
	}
	t := tracking.NewTable(">arrived %", ">allocated %", ">fragmented %")
	for x := 0; x < len(run.Alloc); x += 10 {
		t.Append(fmt.Sprint(x), fmt.Sprintf("%.2f", run.Alloc[x]), fmt.Sprintf("%.2f", run.Frag[x]))
	}
	return cli.Print(cmd, run, func(w io.Writer) error {
		t.WriteText(w)
		_, err := fmt.Fprintf(w, "\n%s, seed %d: %d of %d pods failed; %d milli-GPU, %d milli-CPU, %d MiB allocated\n",
			run.Policy, run.Seed, run.Failed, run.Pods, run.MilliGPU, run.MilliCPU, run.MemoryMiB)
		return err
	})
}

func reproduceHeuristic(nodeFile, podFile, policy string, seed int64, ratio float64) (*gpushare.Run, error) {
	nodes, err := gpushare.ReadNodes(nodeFile)
	if err != nil {
		return nil, err
	}
	pods, err := gpushare.ReadPods(podFile)
	if err != nil {
		return nil, err
	}
	return gpushare.Reproduce(nodes, pods, policy, seed, ratio)
}

// reproduceAll plays the lists one after another. If ctx ends, it returns the rows of the complete lists, with
// an error that wraps cli.ErrInterrupted.
func reproduceAll(ctx context.Context, c fgdConfig) ([]published.Row, error) {
	trace, err := published.Read(c.data, c.lists...)
	if err != nil {
		return nil, err
	}
	if c.Learned, err = learned(c.models, c.Ratio); err != nil {
		return nil, err
	}
	var rows []published.Row
	for i := range trace.Lists {
		more, err := c.Play(ctx, trace, &trace.Lists[i])
		if err != nil && ctx.Err() != nil {
			return rows, fmt.Errorf("%w: %d of %d lists are complete; the same command starts over, and --list NAME plays one that is missing", cli.ErrInterrupted, i, len(trace.Lists))
		} else if err != nil {
			return nil, err
		}
		rows = append(rows, more...)
	}
	return rows, nil
}

// plotFrom is the first percent arrived in the plots: below it every policy allocates everything.
const plotFrom = 60

// plotFGD plots the allocation over percent arrived for each list: medians over seeds, with bands from the
// first to the third quartile.
func plotFGD(dir string, rows []published.Row) error {
	if err := os.MkdirAll(dir, 0o755); err != nil {
		return err
	}
	for len(rows) > 0 {
		list := rows[0].List
		var series []tracking.Series
		for len(rows) > 0 && rows[0].List == list {
			series = append(series, quartiles(&rows[0]))
			rows = rows[1:]
		}
		path := filepath.Join(dir, "fgd_"+list+".png")
		if err := tracking.Curves(path, "openb "+list, "GPUs requested so far, % of the cluster's", "GPUs allocated, %", series, nil); err != nil {
			return err
		}
	}
	return nil
}

func quartiles(row *published.Row) tracking.Series {
	s := tracking.Series{Name: row.Policy}
	for x := plotFrom; x < len(row.Runs[0].Alloc); x++ {
		low, median, high := row.Quartiles(x)
		s.Steps = append(s.Steps, int64(x))
		s.Low, s.Mean, s.High = append(s.Low, low), append(s.Mean, median), append(s.High, high)
	}
	return s
}

// printFGDTable prints a row for each list and a column for each policy.
func printFGDTable(w io.Writer, rows []published.Row, at int) {
	header := []string{"list"}
	for _, r := range rows {
		if r.List == rows[0].List {
			header = append(header, ">"+r.Policy)
		}
	}
	t := tracking.NewTable(header...)
	for i := 0; i < len(rows); i += len(header) - 1 {
		cells := []string{rows[i].List}
		for _, r := range rows[i:][:len(header)-1] {
			cells = append(cells, fmt.Sprintf("%.2f ± %.2f", r.Mean, r.SD))
		}
		t.Append(cells...)
	}
	fmt.Fprintf(w, "GPU allocation in %% at %d %% arrived, mean ± sample sd of seeds %d to %d\n\n", at, published.FirstSeed, published.LastSeed)
	t.WriteText(w)
}
