// Package lra holds the commands below `trainer lra`: placements of long-running applications by every method,
// and the trainings of Metis.
package lra

import (
	"fmt"
	"math/rand/v2"
	"os"
	"path/filepath"
	"strings"
	"time"

	"github.com/spf13/cobra"

	"github.com/kubernasium/kubernasium/envs/lra"
	"github.com/kubernasium/kubernasium/envs/lra/files"
	"github.com/kubernasium/kubernasium/envs/lra/interference"
	"github.com/kubernasium/kubernasium/envs/lra/planner"
	"github.com/kubernasium/kubernasium/envs/pcg"
	"github.com/kubernasium/kubernasium/trainer/sample"
)

// New returns the command lra.
func New() *cobra.Command {
	cmd := &cobra.Command{
		Use:   "lra",
		Short: "Place batches of long-running applications by baselines and exact solvers",
		Example: `  trainer lra milp --batch-set-size 200 --batch-choice 0
  trainer lra greedy --size large --batch-set-size 3000 --score-table ../shared/data/metis/node_table_true_6435.csv
  trainer lra medea --batch-set-size 300 --verbose --out logs/medea
  trainer lra interference --out logs/interference`,
	}
	for _, m := range planner.Methods {
		cmd.AddCommand(newLRAMethod(m))
	}
	for _, t := range lraTrainings {
		cmd.AddCommand(newLRATrain(t))
	}
	cmd.AddCommand(newLRATrainSub(), newLRAInterference(), newLRATable(), newLRALearned(), newLRAAdvantage(), newLRAPredict())
	return cmd
}

// lraFlags select a batch, nodes and tables.
type lraFlags struct {
	cmd                                                 *cobra.Command // for its context and standard error
	data, table, score, batches, constraints, out, size string
	setSize, choice                                     int
	seed                                                uint64
	verbose                                             bool
}

// addData adds the flag of the folder.
func (o *lraFlags) addData(cmd *cobra.Command, what string) {
	o.cmd = cmd
	cmd.Flags().StringVar(&o.data, "data", "", "folder with "+what+" (default: metis in the data folder, or a sample)")
}

func (o *lraFlags) add(cmd *cobra.Command) {
	f := cmd.Flags()
	o.addData(cmd, "node tables and batches")
	f.StringVar(&o.table, "node-table", "", "CSV file of the table for planning (default: node_table_rf_p20.csv in --data, or else node_table_p20.csv)")
	f.StringVar(&o.score, "score-table", "", "CSV file of the table for scoring (default: that of --node-table)")
	f.StringVar(&o.batches, "batches", "", "CSV file of batches (default: that of --batch-set-size in --data)")
	f.IntVar(&o.setSize, "batch-set-size", 200, "containers of the batches: 200, 300 or 400; 1000, 2000 or 3000 for 729 nodes")
	f.IntVar(&o.choice, "batch-choice", 0, "row of the batches, from 0")
	f.StringVar(&o.size, "size", "medium", "medium: 81 nodes; large: 729")
	f.StringVar(&o.constraints, "constraints", "", "CSV file of constraints (default: derived from the node table)")
	f.Uint64Var(&o.seed, "seed", 0, "seed of random choices")
	f.StringVarP(&o.out, "out", "o", "", "folder for placement.csv, nodes.csv and result.json")
	f.BoolVarP(&o.verbose, "verbose", "v", false, "print the nodes one by one")
}

// file returns the given path, or else the path of name in the data folder.
func (o *lraFlags) file(given, name string) (string, error) {
	if given != "" {
		return given, nil
	}
	dir, err := o.folder()
	return filepath.Join(dir, name), err
}

// folder returns the folder of tables and batches: the given one, or that of the data folder, or that of the
// sample.
func (o *lraFlags) folder() (string, error) {
	if o.data == "" {
		var err error
		if o.data, err = sample.Dir(o.cmd.Context(), o.cmd.ErrOrStderr(), "metis"); err != nil {
			return "", err
		}
	}
	return o.data, nil
}

// nodeTable returns the path of the node table for planning.
func (o *lraFlags) nodeTable() (string, error) {
	if o.table != "" {
		return o.table, nil
	}
	dir, err := o.folder()
	return sample.NodeTable(dir), err
}

// tables reads the tables for planning and scoring, and the constraints.
func (o *lraFlags) tables() (plan, score *lra.Table, constraints []interference.Constraint, err error) {
	path, err := o.nodeTable()
	if err != nil {
		return nil, nil, nil, err
	}
	if plan, err = files.ReadTableFile(path); err != nil {
		return nil, nil, nil, err
	}
	score = plan
	if o.score != "" {
		if score, err = files.ReadTableFile(o.score); err != nil {
			return nil, nil, nil, err
		}
	}
	if o.constraints == "" {
		return plan, score, interference.OfTable(plan), nil
	}
	constraints, err = files.ReadConstraintsFile(o.constraints)
	return plan, score, constraints, err
}

// batchSet reads the batches.
func (o *lraFlags) batchSet() ([]lra.Counts, string, error) {
	name := fmt.Sprintf("batch_set_%d.csv", o.setSize)
	if o.setSize == 3000 {
		name = "batch_set_3000_regenerated.csv" // the published one has batches of 6
	}
	path, err := o.file(o.batches, name)
	if err != nil {
		return nil, "", err
	}
	all, err := files.ReadBatchesFile(path)
	return all, path, err
}

// nodes returns the number of nodes.
func (o *lraFlags) nodes() (int, error) {
	n, ok := map[string]int{"medium": 81, "large": 729}[o.size]
	if !ok {
		return 0, fmt.Errorf("--size %q, want medium or large", o.size)
	}
	return n, nil
}

// load reads the selected batch as a problem, once by each table.
func (o *lraFlags) load() (plan, score *planner.Problem, constraints []interference.Constraint, err error) {
	nodes, err := o.nodes()
	if err != nil {
		return nil, nil, nil, err
	}
	t, truth, constraints, err := o.tables()
	if err != nil {
		return nil, nil, nil, err
	}
	all, path, err := o.batchSet()
	if err != nil {
		return nil, nil, nil, err
	}
	if o.choice < 0 || o.choice >= len(all) {
		return nil, nil, nil, fmt.Errorf("--batch-choice %d, want 0 to %d, the rows of %s", o.choice, len(all)-1, path)
	}
	if plan, err = planner.NewProblem(t, nodes, all[o.choice]); err != nil {
		return nil, nil, nil, err
	}
	score, err = planner.NewProblem(truth, nodes, all[o.choice])
	return plan, score, constraints, err
}

func newLRAMethod(m planner.Method) *cobra.Command {
	var o lraFlags
	cmd := &cobra.Command{
		Use: m.Name, Short: m.Doc,
		RunE: func(cmd *cobra.Command, _ []string) error {
			plan, score, constraints, err := o.load()
			if err != nil {
				return err
			}
			start := time.Now()
			x, err := m.Solve(cmd.Context(), plan, constraints, rand.New(pcg.New(o.seed)))
			if err != nil {
				return err
			}
			r, err := newLRAResult(m.Name, plan, score, constraints, x, time.Since(start))
			if err != nil {
				return err
			}
			return r.report(cmd, &o)
		},
	}
	o.add(cmd)
	return cmd
}

func newLRAInterference() *cobra.Command {
	var o lraFlags
	var counts, perApp string
	cmd := &cobra.Command{
		Use:   "interference",
		Short: "Derive the constraints of Medea and Paragon: interference_applist.csv and interference_rpslist.csv",
		Long: `Derive the constraints of Medea and Paragon from a profile of nodes with one or two applications.

The published pairwise profile gives the published files byte for byte; --node-table derives them
from a node table instead.`,
		RunE: func(cmd *cobra.Command, _ []string) error {
			constraints, err := o.derive(counts, perApp)
			if err != nil {
				return err
			}
			var list, curves strings.Builder
			if err := files.WriteConstraints(&list, constraints); err != nil {
				return err
			}
			if err := files.WriteCurves(&curves, constraints); err != nil {
				return err
			}
			if o.out == "" {
				_, err := fmt.Fprint(cmd.OutOrStdout(), list.String())
				return err
			}
			if err := os.MkdirAll(o.out, 0o755); err != nil {
				return err
			}
			if err := os.WriteFile(filepath.Join(o.out, "interference_applist.csv"), []byte(list.String()), 0o644); err != nil {
				return err
			}
			return os.WriteFile(filepath.Join(o.out, "interference_rpslist.csv"), []byte(curves.String()), 0o644)
		},
	}
	f := cmd.Flags()
	o.addData(cmd, "the pairwise profile")
	f.StringVar(&counts, "pairs", "", "CSV file of counts (default: the published one in --data)")
	f.StringVar(&perApp, "pairs-rps", "", "CSV file of the throughput of each application in the same rows")
	f.StringVar(&o.table, "node-table", "", "CSV file of a node table to derive from, instead of a pairwise profile")
	f.StringVarP(&o.out, "out", "o", "", "folder for the files; empty prints the list")
	return cmd
}

// derive derives constraints from the given table or pairwise profile.
func (o *lraFlags) derive(counts, perApp string) ([]interference.Constraint, error) {
	if o.table != "" {
		t, err := files.ReadTableFile(o.table)
		if err != nil {
			return nil, err
		}
		return interference.OfTable(t), nil
	}
	counts, err := o.file(counts, "0905-7app-2008-pairwise-normed.csv")
	if err != nil {
		return nil, err
	}
	if perApp, err = o.file(perApp, "0905-7app-2008-pairwise-normed-per-app.csv"); err != nil {
		return nil, err
	}
	pairs, err := files.ReadPairsFiles(counts, perApp)
	if err != nil {
		return nil, err
	}
	return pairs.Constraints()
}
