package lra

import (
	"context"
	"errors"
	"fmt"
	"io"
	"os"
	"path/filepath"
	"strconv"
	"time"

	"github.com/spf13/cobra"

	"github.com/kubernasium/kubernasium/agents/ppo"
	"github.com/kubernasium/kubernasium/agents/subscheduler"
	"github.com/kubernasium/kubernasium/envs/lra/files"
	"github.com/kubernasium/kubernasium/envs/lra/subcluster"
	"github.com/kubernasium/kubernasium/trainer/cli"
	"github.com/kubernasium/kubernasium/trainer/play"
	"github.com/kubernasium/kubernasium/trainer/run"
	"github.com/kubernasium/kubernasium/trainer/tracking"
)

// lraSubResult holds the results of a sub-scheduler by number of containers.
type lraSubResult struct {
	Model   string               `json:"model"`
	Seconds float64              `json:"seconds"` // of the training
	Counts  []subcluster.Quality `json:"counts"`
	Worse   []int                `json:"worse"` // numbers of containers at which round-robin is better
}

func newLRATrainSub() *cobra.Command {
	var o lraFlags
	var model, logFolder, imitate string
	var rows, steps int
	cmd := &cobra.Command{
		Use:   "train-sub",
		Short: "Metis: train a sub-scheduler for 27 nodes, and compare it with round-robin at every number of containers",
		Long: `Metis: train a sub-scheduler for 27 nodes, and compare it with round-robin at every number of containers.

One policy serves all of them: PPO in k8s/LRASubcluster-v0, whose batches have 1 to 216 containers, after
it has imitated the baseline --imitate. It fills a sub-cluster in the order of applications, and in
rounds with one container of each in turn, and keeps the better placement. --model skips the training.`,
		Example: `  trainer lra train-sub
  trainer lra train-high --subscheduler logs/ppo/k8s-LRASubcluster-v0_1/best_model.safetensors`,
		RunE: func(cmd *cobra.Command, _ []string) error {
			if rows < 1 {
				return fmt.Errorf("--rows %d, want at least 1", rows)
			}
			table, err := o.nodeTable()
			if err != nil {
				return err
			}
			r := &lraSubResult{Model: model}
			if model == "" {
				if err := r.train(cmd, table, imitate, steps, o.seed, logFolder); err != nil {
					return err
				}
			}
			err = r.compare(cmd.Context(), table, rows, o.seed)
			if err != nil && cmd.Context().Err() == nil {
				return err
			}
			if err := r.report(cmd, &o); err != nil {
				return err
			}
			if err != nil {
				return fmt.Errorf("%w: %d of %d numbers of containers are compared; --model %s compares them again", cli.ErrInterrupted, len(r.Counts), subcluster.Slots, r.Model)
			}
			return nil
		},
	}
	f := cmd.Flags()
	o.addData(cmd, "node tables")
	f.StringVar(&o.table, "node-table", "", "CSV file of the node table (default: node_table_rf_p20.csv in --data, or else node_table_p20.csv)")
	f.StringVar(&model, "model", "", "model to compare instead of training one")
	f.StringVar(&imitate, "imitate", "greedy", "baseline to imitate first; empty: none")
	f.IntVar(&steps, "n-timesteps", 0, "decisions to train for (default: the tuned number)")
	f.IntVar(&rows, "rows", 20, "random batches of each number of containers")
	f.Uint64Var(&o.seed, "seed", 1, "random seed of training and comparison")
	f.StringVarP(&logFolder, "log-folder", "f", "logs", "folder of logs and models")
	f.StringVarP(&o.out, "out", "o", "", "folder for subscheduler.csv")
	f.BoolVarP(&o.verbose, "verbose", "v", false, "print every number of containers")
	return cmd
}

// train trains a sub-scheduler on the table.
func (r *lraSubResult) train(cmd *cobra.Command, table, imitate string, steps int, seed uint64, folder string) error {
	start := time.Now()
	given := map[string]any{}
	if steps > 0 {
		given["n_timesteps"] = steps
	}
	params, err := run.ReadHyperparams(ppo.Algo, subscheduler.ID, "", given)
	if err != nil {
		return err
	}
	spec, err := play.Lookup(cmd.Context(), subscheduler.ID, nil)
	if err != nil {
		return err
	}
	t, err := run.New(cmd.Context(), spec, run.Config{
		Algo: ppo.Algo, Env: subscheduler.ID, Engine: play.EngineFused, Params: params, Seed: seed, Quiet: cli.WantJSON(cmd),
		EnvKwargs: map[string]any{"table": table, "containers": subcluster.Slots, "min_containers": 1},
		Imitate:   run.Imitation{Baseline: imitate, Steps: 60000, Epochs: 5, Rounds: 1},
		EvalFreq:  max(1, params.NTimesteps/run.CurvePoints), EvalEpisodes: 40, LogFolder: folder, Command: cli.CommandLine(cmd),
	}, cmd.ErrOrStderr())
	if err != nil {
		return err
	}
	defer t.Close()
	if err := t.Train(cmd.Context()); err != nil {
		if errors.Is(err, cli.ErrInterrupted) && t.Learner.NumTimesteps() > t.First { // the training has saved a checkpoint
			err = fmt.Errorf("%w of trainer train, and compare its model with --model FILE", err)
		}
		return err
	}
	if _, err := t.Result(cmd.Context()); err != nil {
		return err
	}
	r.Model, r.Seconds = t.BestModel(), time.Since(start).Seconds()
	return nil
}

// compare plays batches of every number of containers.
func (r *lraSubResult) compare(ctx context.Context, path string, rows int, seed uint64) error {
	table, err := files.ReadTableFile(path)
	if err != nil {
		return err
	}
	sub, err := subscheduler.Read(r.Model)
	if err != nil {
		return err
	}
	r.Counts, err = subcluster.Compare(ctx, table, sub, rows, seed)
	r.Worse = worse(r.Counts)
	return err
}

// worse returns the numbers of containers at which round-robin is better.
func worse(counts []subcluster.Quality) (containers []int) {
	for _, q := range counts {
		if q.Learned < q.RoundRobin {
			containers = append(containers, q.Containers)
		}
	}
	return containers
}

// report writes the requested file, and prints the comparison.
func (r *lraSubResult) report(cmd *cobra.Command, o *lraFlags) error {
	if o.out != "" {
		if err := os.MkdirAll(o.out, 0o755); err != nil {
			return err
		}
		if err := r.write(filepath.Join(o.out, "subscheduler.csv")); err != nil {
			return err
		}
	}
	return cli.Print(cmd, r, func(w io.Writer) error { return r.print(w, o.verbose) })
}

func (r *lraSubResult) print(w io.Writer, verbose bool) error {
	if r.Seconds > 0 {
		fmt.Fprintf(w, "trained in %.0f s\n", r.Seconds)
	}
	fmt.Fprintf(w, "model %s\nround-robin is better at %d of %d numbers of containers %v\n\n", r.Model, len(r.Worse), len(r.Counts), r.Worse)
	t := tracking.NewTable(">containers", ">learned", ">round-robin", ">greedy", ">greedy, both orders", ">linear bound")
	for _, c := range r.Counts {
		if verbose || c.Containers%20 == 10 || c.Containers == subcluster.Slots {
			t.Append(qualityRow(c)...)
		}
	}
	return t.WriteText(w)
}

func qualityRow(c subcluster.Quality) []string {
	row := []string{strconv.Itoa(c.Containers)}
	for _, v := range []float64{c.Learned, c.RoundRobin, c.Greedy, c.GreedyBoth, c.Bound} {
		row = append(row, fmt.Sprintf("%.4f", v))
	}
	return row
}

func (r *lraSubResult) write(path string) error {
	rows := make([][]string, len(r.Counts))
	for i, c := range r.Counts {
		rows[i] = qualityRow(c)
	}
	return cli.WriteCSV(path, []string{"containers", "learned", "roundrobin", "greedy", "greedy_both_orders", "lp_bound"}, rows)
}
