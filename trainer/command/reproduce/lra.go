package reproduce

import (
	"errors"
	"fmt"
	"os"
	"path/filepath"

	"github.com/spf13/cobra"

	"github.com/kubernasium/kubernasium/envs/lra/files"
	"github.com/kubernasium/kubernasium/envs/lra/published"
	"github.com/kubernasium/kubernasium/envs/lra/subcluster"
	"github.com/kubernasium/kubernasium/trainer/cli"
	"github.com/kubernasium/kubernasium/trainer/sample"
	"github.com/kubernasium/kubernasium/trainer/tracking"
)

func newReproduceLRA() *cobra.Command {
	var table, batches, sub string
	var row, nodes int
	cmd := &cobra.Command{
		Use:   "lra",
		Short: "Place a published batch of long-running applications by every deterministic method",
		Long: `Place a published batch of long-running applications by every deterministic method.

Prints the average throughput of a container for round-robin, greedy, the linear bound and the
integer optimum (within 5e-5), and, with the published sub-schedulers, for an equal split over
sub-clusters of 27 nodes that they fill: Metis before its training.`,
		Example: `  trainer reproduce lra --node-table ../shared/data/metis/node_table_rf_p20.csv \
    --batches ../shared/data/metis/batch_set_200.csv --row 0 --nodes 81 \
    --subscheduler ../shared/data/metis/metis_subscheduler_weights.npz --json`,
		RunE: func(cmd *cobra.Command, _ []string) error {
			if (table == "") != (batches == "") {
				return errors.New("--node-table and --batches go together")
			}
			if table == "" {
				dir, err := sample.Dir(cmd.Context(), cmd.ErrOrStderr(), "metis")
				if err != nil {
					return err
				}
				table, batches = sample.NodeTable(dir), filepath.Join(dir, "batch_set_200.csv")
				if published := filepath.Join(dir, "metis_subscheduler_weights.npz"); sub == "" && isFile(published) {
					sub = published
				}
			}
			t, err := files.ReadTableFile(table)
			if err != nil {
				return err
			}
			all, err := files.ReadBatchesFile(batches)
			if err != nil {
				return err
			}
			if row < 0 || row >= len(all) {
				return fmt.Errorf("--row %d, want 0 to %d, the rows of %s", row, len(all)-1, batches)
			}
			var s subcluster.Scheduler
			if sub != "" {
				if s, err = subcluster.ReadNetworks(sub); err != nil {
					return err
				}
			}
			r, err := published.Reproduce(cmd.Context(), t, nodes, all[row], s)
			if err != nil {
				return err
			}
			out := tracking.NewTable("method", ">throughput of a container")
			out.Append("round-robin", fmt.Sprintf("%.6f", r.RoundRobin))
			out.Append("greedy", fmt.Sprintf("%.6f", r.Greedy))
			if r.MetisDemoPlusSub != nil {
				out.Append("equal split, published sub-schedulers", fmt.Sprintf("%.6f", *r.MetisDemoPlusSub))
			}
			out.Append("integer optimum", fmt.Sprintf("%.6f", r.MILP))
			out.Append("linear bound", fmt.Sprintf("%.6f", r.LPBound))
			return cli.Print(cmd, r, out.WriteText)
		},
	}
	f := cmd.Flags()
	f.StringVar(&table, "node-table", "", "CSV file: counts, throughput of each application, total of the node (default: that of metis in the data folder, or a sample)")
	f.StringVar(&batches, "batches", "", "CSV file with a batch in each row (default: batch_set_200.csv of metis in the data folder, or a sample)")
	f.IntVar(&row, "row", 0, "row of the batch, from 0")
	f.IntVar(&nodes, "nodes", 81, "number of nodes")
	f.StringVar(&sub, "subscheduler", "", "NPZ file of the published sub-schedulers (default: that of metis in the data folder, if neither table nor batches are given)")
	return cmd
}

func isFile(path string) bool {
	info, err := os.Stat(path)
	return err == nil && info.Mode().IsRegular()
}
