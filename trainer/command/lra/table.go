package lra

import (
	"context"
	"fmt"
	"io"
	"math/rand/v2"
	"path/filepath"
	"time"

	"github.com/spf13/cobra"

	"github.com/kubernasium/kubernasium/envs/lra"
	"github.com/kubernasium/kubernasium/envs/lra/files"
	"github.com/kubernasium/kubernasium/envs/lra/interference"
	"github.com/kubernasium/kubernasium/envs/lra/planner"
	"github.com/kubernasium/kubernasium/envs/lra/throughput"
	"github.com/kubernasium/kubernasium/envs/pcg"
	"github.com/kubernasium/kubernasium/trainer/cli"
	"github.com/kubernasium/kubernasium/trainer/sample"
	"github.com/kubernasium/kubernasium/trainer/tracking"
)

// lraMean holds the means of a method.
type lraMean struct {
	Method         string  `json:"method"`
	Throughput     float64 `json:"throughput"` // of a container
	OfBound        float64 `json:"of_bound"`   // ratio to the mean bound
	Violations     float64 `json:"violations"`
	DecisionMicros float64 `json:"decision_micros"`
}

func newLRATable() *cobra.Command {
	var o lraFlags
	var rows, containers int
	cmd := &cobra.Command{
		Use:   "table",
		Short: "Compare all methods on several batches: mean throughputs and the linear bound",
		Example: `  trainer lra table --batch-set-size 200
  trainer lra table --containers 600 --rows 30 --seed 1 --node-table ../shared/data/metis/node_table_true_6435.csv`,
		RunE: func(cmd *cobra.Command, _ []string) error {
			if rows < 1 || containers < 0 {
				return fmt.Errorf("--rows %d, --containers %d: want at least 1 and 0", rows, containers)
			}
			nodes, err := o.nodes()
			if err != nil {
				return err
			}
			plan, score, constraints, err := o.tables()
			if err != nil {
				return err
			}
			var batches []lra.Counts
			if containers > 0 {
				batches = planner.DrawBatches(containers, rows, o.seed)
			} else if batches, _, err = o.batchSet(); err != nil {
				return err
			}
			if rows > len(batches) {
				return fmt.Errorf("--rows %d, want at most %d", rows, len(batches))
			}
			means, err := lraMeans(cmd.Context(), plan, score, constraints, nodes, batches[:rows], o.seed)
			if err != nil {
				return err
			}
			t := tracking.NewTable("method", ">throughput", ">of the bound", ">violations", ">µs a decision")
			for _, m := range means {
				t.Append(m.Method, fmt.Sprintf("%.4f", m.Throughput), fmt.Sprintf("%.1f %%", 100*m.OfBound), fmt.Sprintf("%.0f", m.Violations), fmt.Sprintf("%.2f", m.DecisionMicros))
			}
			return cli.Print(cmd, means, t.WriteText)
		},
	}
	o.add(cmd)
	cmd.Flags().IntVar(&rows, "rows", 30, "number of batches, from the first")
	cmd.Flags().IntVar(&containers, "containers", 0, "draw batches of this many containers by --seed, with equally likely applications, instead of published batches")
	return cmd
}

// lraMeans plays all methods on all batches. The last row is the bound.
func lraMeans(ctx context.Context, plan, score *lra.Table, constraints []interference.Constraint, nodes int, batches []lra.Counts, seed uint64) ([]lraMean, error) {
	trial := planner.Trial{
		Plan: plan, Score: score, Constraints: constraints, Nodes: nodes, Batches: batches, Now: time.Now,
		Rand: func(batch int) *rand.Rand { return rand.New(pcg.New(seed + uint64(batch))) },
	}
	results, err := trial.Run(ctx, planner.Methods)
	if err != nil {
		return nil, err
	}
	means := make([]lraMean, len(results))
	for i, r := range results {
		means[i] = lraMean{Method: r.Method, Violations: r.Violations, DecisionMicros: r.DecisionMicros}
		for _, v := range r.Throughput {
			means[i].Throughput += v / float64(len(batches))
		}
	}
	for i := range means {
		means[i].OfBound = means[i].Throughput / means[len(means)-1].Throughput
	}
	return means, nil
}

func newLRAPredict() *cobra.Command {
	var profile, truth, out string
	cmd := &cobra.Command{
		Use:   "predict",
		Short: "Fill a partial profile: fit the regressor, write the node table, report the error on unseen states",
		Long: `Fill a partial profile: fit the regressor, write the node table, report the error on unseen states.

Predictions are clipped to the measured range of throughputs of their application. For each application,
standard error has a warning with the numbers of containers beyond those of the profile, and one if
predictions were clipped; --json has the same as "extrapolated" and "clipped".`,
		Example: `  trainer lra predict --profile ../shared/data/metis/profile_p20_2008.csv \
    --truth ../shared/data/metis/node_table_true_6435.csv --out p20.csv`,
		RunE: func(cmd *cobra.Command, _ []string) error {
			if profile == "" {
				dir, err := sample.Dir(cmd.Context(), cmd.ErrOrStderr(), "metis")
				if err != nil {
					return err
				}
				profile = filepath.Join(dir, "profile_p20_2008.csv")
			}
			measured, err := files.ReadProfileFile(profile)
			if err != nil {
				return err
			}
			var complete *lra.Table
			if truth != "" {
				if complete, err = files.ReadTableFile(truth); err != nil {
					return err
				}
			}
			table, result, err := throughput.Predict(measured, complete)
			if err != nil {
				return err
			}
			for _, w := range result.Warnings() {
				fmt.Fprintf(cmd.ErrOrStderr(), "warning: %s\n", w)
			}
			if err := cli.WriteTo(out, func(w io.Writer) error { return files.WriteTable(w, table) }); err != nil {
				return err
			}
			t := tracking.NewTable("what", ">value")
			t.Append("measured states", fmt.Sprint(result.Measured))
			if e := result.HeldOut; e != nil {
				t.Append("held-out states", fmt.Sprint(e.States))
				t.Append("their MSE", fmt.Sprintf("%.5f", e.MSE))
				t.Append("their MAE", fmt.Sprintf("%.4f", e.MAE))
				t.Append("of a node, for each container", fmt.Sprintf("%.4f", e.PerContainer))
			}
			return cli.Print(cmd, result, t.WriteText)
		},
	}
	f := cmd.Flags()
	f.StringVar(&profile, "profile", "", "CSV or NPZ file of the profile (default: profile_p20_2008.csv of metis in the data folder, or a sample)")
	f.StringVar(&truth, "truth", "", "CSV file of a complete node table to compare with")
	f.StringVarP(&out, "out", "o", "", "CSV file for the node table")
	return cmd
}
