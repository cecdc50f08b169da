package lra

import (
	"context"
	"encoding/json"
	"fmt"
	"io"
	"os"
	"path/filepath"
	"strconv"
	"time"

	"github.com/spf13/cobra"

	"github.com/kubernasium/kubernasium/envs/lra"
	"github.com/kubernasium/kubernasium/envs/lra/interference"
	"github.com/kubernasium/kubernasium/envs/lra/planner"
	"github.com/kubernasium/kubernasium/trainer/cli"
	"github.com/kubernasium/kubernasium/trainer/tracking"
)

// lraResult holds the results of a method on a batch.
type lraResult struct {
	Method         string       `json:"method"`
	Nodes          int          `json:"nodes"`
	Batch          lra.Counts   `json:"batch"`
	Throughput     float64      `json:"throughput"`      // of a container, by the score table
	Planned        float64      `json:"planned"`         // the same by the plan table
	Bound          float64      `json:"lp_bound"`        // of the throughput
	Violations     float64      `json:"violations"`      // of the constraints, weighted
	Seconds        float64      `json:"seconds"`         // of the whole placement
	DecisionMicros float64      `json:"decision_micros"` // of a container
	Placement      []lra.Counts `json:"placement"`
	Episodes       int          `json:"episodes,omitempty"` // number of episodes of a training
	Curve          []lraPoint   `json:"curve,omitempty"`    // updates of a training

	problem     *planner.Problem
	states      planner.Placement
	constraints []interference.Constraint
	model       func(w io.Writer) error // writes the trained model; nil if there is none
}

// newLRAResult describes the placement x, which took the given time.
func newLRAResult(method string, plan, score *planner.Problem, constraints []interference.Constraint, x planner.Placement, took time.Duration) (*lraResult, error) {
	containers := float64(plan.Batch.Total())
	r := &lraResult{
		Method: method, Nodes: len(x), Batch: plan.Batch, Seconds: took.Seconds(), DecisionMicros: took.Seconds() / containers * 1e6,
		Throughput: score.Average(x), Planned: plan.Average(x), problem: score, states: x, constraints: constraints,
	}
	bound, err := score.Bound(context.Background())
	if err != nil {
		return nil, err
	}
	r.Bound = bound.Value / containers
	for _, s := range x {
		r.Violations += interference.Violations(constraints, s)
		r.Placement = append(r.Placement, s.Counts())
	}
	return r, nil
}

// report writes the requested files, and prints the result.
func (r *lraResult) report(cmd *cobra.Command, o *lraFlags) error {
	if o.out != "" {
		if err := r.write(o.out); err != nil {
			return err
		}
	}
	return cli.Print(cmd, r, func(w io.Writer) error { return r.print(w, o.verbose) })
}

func (r *lraResult) print(w io.Writer, verbose bool) error {
	t := tracking.NewTable("what", ">value")
	t.Append("throughput of a container", fmt.Sprintf("%.6f", r.Throughput))
	t.Append("as planned", fmt.Sprintf("%.6f", r.Planned))
	t.Append("linear bound", fmt.Sprintf("%.6f", r.Bound))
	t.Append("share of the bound", fmt.Sprintf("%.2f %%", 100*r.Throughput/r.Bound))
	t.Append("weighted violations", fmt.Sprint(r.Violations))
	if r.Episodes > 0 {
		t.Append("episodes", fmt.Sprint(r.Episodes))
	}
	t.Append("time", fmt.Sprintf("%.4f s", r.Seconds))
	t.Append("time of a decision", fmt.Sprintf("%.2f µs", r.DecisionMicros))
	if err := t.WriteText(w); err != nil || !verbose {
		return err
	}
	fmt.Fprintln(w)
	header := []string{">node"}
	for _, app := range lra.Apps {
		header = append(header, ">"+app)
	}
	t = tracking.NewTable(append(header, ">throughput", ">each", ">violations")...)
	for _, row := range r.nodeRows() {
		t.Append(row...)
	}
	return t.WriteText(w)
}

// nodeRows returns a row for each node: counts, total throughput, throughput of each container, violations.
func (r *lraResult) nodeRows() [][]string {
	var all [][]string
	for i, s := range r.states {
		row := []string{strconv.Itoa(i)}
		for _, k := range s.Counts() {
			row = append(row, strconv.Itoa(k))
		}
		v := r.problem.Value(planner.Placement{s})
		all = append(all, append(row, fmt.Sprintf("%.6f", v), fmt.Sprintf("%.6f", v/float64(max(1, s.Total()))), fmt.Sprint(interference.Violations(r.constraints, s))))
	}
	return all
}

// write writes the placement matrix, the breakdown by nodes, and the result.
func (r *lraResult) write(dir string) error {
	if err := os.MkdirAll(dir, 0o755); err != nil {
		return err
	}
	nodes := r.nodeRows()
	matrix := make([][]string, len(nodes))
	for i, row := range nodes {
		matrix[i] = row[1 : 1+lra.NumApps]
	}
	header := append([]string{"node"}, lra.Apps[:]...)
	if err := cli.WriteCSV(filepath.Join(dir, "placement.csv"), lra.Apps[:], matrix); err != nil {
		return err
	}
	if err := cli.WriteCSV(filepath.Join(dir, "nodes.csv"), append(header, "throughput", "each", "violations"), nodes); err != nil {
		return err
	}
	if r.model != nil {
		if err := r.writeTraining(dir); err != nil {
			return err
		}
	}
	text, err := json.MarshalIndent(r, "", "  ")
	if err != nil {
		return err
	}
	return os.WriteFile(filepath.Join(dir, "result.json"), append(text, '\n'), 0o644)
}
