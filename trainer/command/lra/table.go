package lra

import (
	"context"
	"fmt"
	"io"
	"math/rand/v2"
	"path/filepath"
	"strings"
	"time"

	"github.com/spf13/cobra"

	"github.com/kubernasium/kubernasium/envs/lra"
	"github.com/kubernasium/kubernasium/envs/lra/files"
	"github.com/kubernasium/kubernasium/envs/lra/interference"
	"github.com/kubernasium/kubernasium/envs/lra/planner"
	"github.com/kubernasium/kubernasium/envs/lra/throughput"
	"github.com/kubernasium/kubernasium/envs/pcg"
	"github.com/kubernasium/kubernasium/trainer/cli"
	"github.com/kubernasium/kubernasium/trainer/tracking"
)

// lraMean is what a method reaches on average.
type lraMean struct {
	Method         string  `json:"method"`
	Throughput     float64 `json:"throughput"` // of a container
	OfBound        float64 `json:"of_bound"`   // over the mean bound
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
		Args: cobra.NoArgs,
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
			if cli.WantJSON(cmd) {
				return cli.PrintJSON(cmd, means)
			}
			t := tracking.NewTable("method", ">throughput", ">of the bound", ">violations", ">µs a decision")
			for _, m := range means {
				t.Append(m.Method, fmt.Sprintf("%.4f", m.Throughput), fmt.Sprintf("%.1f %%", 100*m.OfBound), fmt.Sprintf("%.0f", m.Violations), fmt.Sprintf("%.2f", m.DecisionMicros))
			}
			return t.WriteText(cmd.OutOrStdout())
		},
	}
	o.add(cmd)
	cmd.Flags().IntVar(&rows, "rows", 30, "number of batches, from the first")
	cmd.Flags().IntVar(&containers, "containers", 0, "draw batches of so many containers by --seed, of equally likely applications, in place of published ones")
	return cmd
}

// lraMeans plays all methods on all batches; the last row is the bound.
func lraMeans(ctx context.Context, plan, score *lra.Table, constraints []interference.Constraint, nodes int, batches []lra.Counts, seed uint64) ([]lraMean, error) {
	means := make([]lraMean, len(lraMethods)+1)
	n := float64(len(batches))
	for i, batch := range batches {
		if err := ctx.Err(); err != nil {
			return nil, err
		}
		p, err := planner.NewProblem(plan, nodes, batch)
		if err != nil {
			return nil, err
		}
		q, err := planner.NewProblem(score, nodes, batch)
		if err != nil {
			return nil, err
		}
		containers := float64(batch.Total())
		for k, m := range lraMethods {
			start := time.Now()
			x, err := m.solve(ctx, p, constraints, rand.New(pcg.New(seed+uint64(i))))
			if err != nil {
				return nil, fmt.Errorf("%s on batch %d: %w", m.name, i, err)
			}
			means[k].DecisionMicros += time.Since(start).Seconds() * 1e6 / containers / n
			means[k].Method = m.name
			means[k].Throughput += q.Average(x) / n
			for _, s := range x {
				means[k].Violations += interference.Violations(constraints, s) / n
			}
		}
		start := time.Now()
		b, err := q.Bound()
		if err != nil {
			return nil, err
		}
		last := &means[len(lraMethods)]
		last.Method = "linear bound"
		last.Throughput += b.Value / containers / n
		last.DecisionMicros += time.Since(start).Seconds() * 1e6 / containers / n
	}
	for i := range means {
		means[i].OfBound = means[i].Throughput / means[len(lraMethods)].Throughput
	}
	return means, nil
}

// lraPrediction is the error of a predicted table.
type lraPrediction struct {
	Measured int                    `json:"measured_states"`
	HeldOut  *throughput.TableError `json:"held_out"` // of the states that were not measured; nil without --truth

	Extrapolated []throughput.Extrapolation `json:"extrapolated"` // where the profile tells nothing near
	Clipped      []throughput.Clipping      `json:"clipped"`      // predictions moved to the measured range
}

// warn says what of a prediction is not to be relied on.
func (p *lraPrediction) warn(w io.Writer) {
	features := map[string][]string{}
	for _, e := range p.Extrapolated {
		features[e.App] = append(features[e.App], e.String())
	}
	for _, app := range lra.Apps {
		if f := features[app]; len(f) > 0 {
			fmt.Fprintf(w, "warning: throughputs of %s are extrapolated: %s\n", app, strings.Join(f, "; "))
		}
	}
	for _, c := range p.Clipped {
		fmt.Fprintf(w, "warning: %d throughputs of %s, predicted as %.3g to %.3g, are clipped to the measured %.3g to %.3g\n",
			c.States, c.App, c.Lowest, c.Most, c.Low, c.High)
	}
}

func newLRAPredict() *cobra.Command {
	var profile, truth, out string
	cmd := &cobra.Command{
		Use:   "predict",
		Short: "Fill a partial profile: fit the regressor, write the node table, report the error on states it did not see",
		Long: `Fill a partial profile: fit the regressor, write the node table, report the error on states it did not see.

Predictions are clipped to the throughputs that were measured of their application. For each
application standard error has a warning with the numbers of containers that the profile does not
reach, and one if predictions were clipped; --json has the same as "extrapolated" and "clipped".`,
		Example: `  trainer lra predict --profile ../shared/data/metis/profile_p20_2008.csv \
    --truth ../shared/data/metis/node_table_true_6435.csv --out p20.csv`,
		Args: cobra.NoArgs,
		RunE: func(cmd *cobra.Command, _ []string) error {
			read := files.ReadProfileFile
			if filepath.Ext(profile) == ".npz" {
				read = files.ReadProfileNPZ
			}
			measured, err := read(profile)
			if err != nil {
				return err
			}
			r, err := throughput.FitRegressor(measured)
			if err != nil {
				return err
			}
			table, result := r.Table(), lraPrediction{Extrapolated: r.Extrapolations(), Clipped: r.Clippings()}
			result.warn(cmd.ErrOrStderr())
			for _, ok := range r.Measured {
				if ok {
					result.Measured++
				}
			}
			if truth != "" {
				t, err := files.ReadTableFile(truth)
				if err != nil {
					return err
				}
				e := throughput.Compare(table, t, func(s lra.State) bool { return !r.Measured[s] })
				result.HeldOut = &e
			}
			if out != "" {
				if err := cli.WriteTo(out, func(w io.Writer) error { return files.WriteTable(w, table) }); err != nil {
					return err
				}
			}
			if cli.WantJSON(cmd) {
				return cli.PrintJSON(cmd, result)
			}
			t := tracking.NewTable("what", ">value")
			t.Append("measured states", fmt.Sprint(result.Measured))
			if e := result.HeldOut; e != nil {
				t.Append("held-out states", fmt.Sprint(e.States))
				t.Append("their MSE", fmt.Sprintf("%.5f", e.MSE))
				t.Append("their MAE", fmt.Sprintf("%.4f", e.MAE))
				t.Append("of a node, for each container", fmt.Sprintf("%.4f", e.PerContainer))
			}
			return t.WriteText(cmd.OutOrStdout())
		},
	}
	f := cmd.Flags()
	f.StringVar(&profile, "profile", "", "CSV or NPZ file of the profile")
	f.StringVar(&truth, "truth", "", "CSV file of a complete node table to compare with")
	f.StringVarP(&out, "out", "o", "", "CSV file for the node table")
	if err := cmd.MarkFlagRequired("profile"); err != nil {
		panic(err) // a name that is not among the flags above
	}
	return cmd
}
