package lra

import (
	"context"
	"errors"
	"fmt"
	"math/rand/v2"
	"os"
	"path/filepath"
	"slices"
	"strconv"
	"time"

	"github.com/spf13/cobra"

	"github.com/kubernasium/kubernasium/agents"
	"github.com/kubernasium/kubernasium/agents/baseline"
	"github.com/kubernasium/kubernasium/agents/evaluation"
	"github.com/kubernasium/kubernasium/envs"
	"github.com/kubernasium/kubernasium/envs/lra"
	"github.com/kubernasium/kubernasium/envs/lra/files"
	"github.com/kubernasium/kubernasium/envs/lra/planner"
	"github.com/kubernasium/kubernasium/envs/lra/world"
	"github.com/kubernasium/kubernasium/envs/pcg"
	"github.com/kubernasium/kubernasium/trainer/cli"
	"github.com/kubernasium/kubernasium/trainer/play"
	"github.com/kubernasium/kubernasium/trainer/tracking"
)

// lraLearnedFlags say what learned prices are compared on.
type lraLearnedFlags struct {
	lraFlags
	policies               []string
	containers, rows, milp int
	online                 bool
	load                   float64
	reference              string
}

// lraScores are the throughputs of a method on each batch or episode.
type lraScores struct {
	Method         string    `json:"method"`
	Throughput     float64   `json:"throughput"` // mean
	OfBound        float64   `json:"of_bound"`
	Gain           float64   `json:"gain"` // over the reference, mean of the pairs
	GainLow        float64   `json:"gain_low"`
	GainHigh       float64   `json:"gain_high"` // 95 % interval of Student's t
	DecisionMicros float64   `json:"decision_micros"`
	Each           []float64 `json:"each"`
}

func newLRALearned() *cobra.Command {
	var o lraLearnedFlags
	cmd := &cobra.Command{
		Use:   "learned",
		Short: "Compare learned prices with greedy, local search, the integer program and the linear bound",
		Long: `Compare learned prices with greedy, local search, the integer program and the linear bound.

Batches of equally likely applications are drawn by --seed. The reference is the best of greedy
in the order of applications and in 20 random ones; with --online, greedy on the same arrivals,
and the bound is that of the mean mix of containers; mean_values are prices without learning.`,
		Example: `  trainer lra learned --policy A.safetensors --policy B.safetensors --containers 600 --seed 2026 --node-table FILE
  trainer lra learned --policy A.safetensors --online --load 0.9 --containers 3000 --node-table FILE`,
		Args: cobra.NoArgs,
		RunE: func(cmd *cobra.Command, _ []string) error {
			if o.rows < 2 || len(o.policies) == 0 {
				return fmt.Errorf("--rows %d and %d policies, want at least 2 and 1", o.rows, len(o.policies))
			}
			if o.containers < 1 || o.milp < 0 {
				return fmt.Errorf("--containers %d, --milp-nodes %d: want at least 1 and 0", o.containers, o.milp)
			}
			play := o.batch
			if o.online {
				play = o.arrivals
			}
			all, err := play(cmd.Context())
			if err != nil {
				return err
			}
			if err := summarise(all, o.reference); err != nil {
				return err
			}
			if cli.WantJSON(cmd) {
				return cli.PrintJSON(cmd, all)
			}
			t := tracking.NewTable("method", ">throughput", ">of the bound", ">over the reference", ">95 % interval", ">µs a decision")
			for _, s := range all {
				t.Append(s.Method, fmt.Sprintf("%.4f", s.Throughput), fmt.Sprintf("%.1f %%", 100*s.OfBound), fmt.Sprintf("%+.4f", s.Gain),
					fmt.Sprintf("%+.4f to %+.4f", s.GainLow, s.GainHigh), fmt.Sprintf("%.1f", s.DecisionMicros))
			}
			return t.WriteText(cmd.OutOrStdout())
		},
	}
	f := cmd.Flags()
	f.StringVar(&o.data, "data", "", "folder with node tables (default: metis in the data folder)")
	f.StringVar(&o.table, "node-table", "", "CSV file of the node table (default: node_table_rf_p20.csv in --data)")
	f.StringVar(&o.size, "size", "medium", "medium: 81 nodes; large: 729")
	f.StringArrayVar(&o.policies, "policy", nil, "model of k8s/LRAPricing-v0 (repeat)")
	f.IntVar(&o.containers, "containers", 600, "of a batch; with --online, placements of an episode")
	f.IntVar(&o.rows, "rows", 30, "batches, or episodes")
	f.IntVar(&o.milp, "milp-nodes", 300, "nodes of branch and bound of the integer program; 0 leaves it out")
	f.Uint64Var(&o.seed, "seed", 2026, "random seed of the batches, or of the first episode")
	f.BoolVar(&o.online, "online", false, "containers come and go")
	f.StringVar(&o.reference, "reference", "", "method that the others are compared with, such as mean_values with --online (default: the first)")
	f.Float64Var(&o.load, "load", 0.9, "share of the slots in use on average, with --online")
	return cmd
}

const (
	pricingID  = "k8s/LRAPricing-v0"
	meanValues = "mean_values" // its baseline that has learned nothing
)

// summarise compares each method with the reference, which is the first if it is not named; the
// last is the bound.
func summarise(all []lraScores, reference string) error {
	bound := tracking.Mean(all[len(all)-1].Each)
	ref := 0
	if reference != "" {
		if ref = slices.IndexFunc(all, func(s lraScores) bool { return s.Method == reference }); ref < 0 {
			return fmt.Errorf("--reference %q, want one of the methods in the table without it", reference)
		}
	}
	for i := range all {
		s := &all[i]
		gains := make([]float64, len(s.Each))
		for k, v := range s.Each {
			gains[k] = v - all[ref].Each[k]
		}
		e := tracking.StudentT(gains)
		s.Throughput = tracking.Mean(s.Each)
		s.OfBound, s.Gain, s.GainLow, s.GainHigh = s.Throughput/bound, e.Mean, e.Low, e.High
	}
	return nil
}

// meanOf returns the mean of the policies.
func meanOf(policies []lraScores) lraScores {
	m := lraScores{Method: fmt.Sprintf("mean of %d policies", len(policies)), Each: make([]float64, len(policies[0].Each))}
	for _, p := range policies {
		m.DecisionMicros += p.DecisionMicros / float64(len(policies))
		for k, v := range p.Each {
			m.Each[k] += v / float64(len(policies))
		}
	}
	return m
}

// batch plays batches.
func (o *lraLearnedFlags) batch(ctx context.Context) ([]lraScores, error) {
	nodes, err := o.nodes()
	if err != nil {
		return nil, err
	}
	path, err := o.nodeTable()
	if err != nil {
		return nil, err
	}
	table, err := files.ReadTableFile(path)
	if err != nil {
		return nil, err
	}
	batches := planner.DrawBatches(o.containers, o.rows, o.seed)
	fixed, err := o.solve(ctx, table, nodes, batches)
	if err != nil {
		return nil, err
	}
	dir, err := os.MkdirTemp("", "lra")
	if err != nil {
		return nil, err
	}
	defer os.RemoveAll(dir)
	file := filepath.Join(dir, "batches.csv")
	rows := make([][]string, len(batches))
	for i, b := range batches {
		for _, k := range b {
			rows[i] = append(rows[i], strconv.Itoa(k))
		}
	}
	if err := cli.WriteCSV(file, lra.Apps[:], rows); err != nil {
		return nil, err
	}
	policies := make([]lraScores, len(o.policies))
	unlearned := lraScores{Method: meanValues}
	for row := range batches {
		kwargs := map[string]any{"table": path, "nodes": nodes, "batches": file, "batch": row}
		scores, micros, err := o.play(ctx, kwargs, 1)
		if err != nil {
			return nil, err
		}
		s, took, err := o.playBaseline(ctx, pricingID, meanValues, kwargs, 1)
		if err != nil {
			return nil, err
		}
		unlearned.Each = append(unlearned.Each, s[0])
		unlearned.DecisionMicros += took / float64(o.containers*o.rows)
		for k := range policies {
			policies[k].Method = o.policies[k]
			policies[k].Each = append(policies[k].Each, scores[k][0])
			policies[k].DecisionMicros += micros[k] / float64(o.containers*o.rows)
		}
	}
	last := len(fixed) - 1
	all := append(append(fixed[:last:last], unlearned), policies...)
	return append(all, meanOf(policies), fixed[last]), nil
}

// solve plays the methods that know the batch; the last is the bound.
func (o *lraLearnedFlags) solve(ctx context.Context, table *lra.Table, nodes int, batches []lra.Counts) ([]lraScores, error) {
	methods := []struct {
		name  string
		place func(p *planner.Problem) (planner.Placement, error)
	}{
		{"greedy, best of 21", func(p *planner.Problem) (planner.Placement, error) {
			return p.BestGreedy(ctx, 20, rand.New(pcg.New(o.seed)))
		}},
		{"greedy", func(p *planner.Problem) (planner.Placement, error) {
			return p.Place(planner.AppOrder(p.Batch), p.Greedy)
		}},
		{"local-search", func(p *planner.Problem) (planner.Placement, error) { return localSearch(ctx, p) }},
		{fmt.Sprintf("milp, %d nodes", o.milp), func(p *planner.Problem) (planner.Placement, error) {
			return solve(ctx, p, planner.SolveOptions{Nodes: o.milp})
		}},
	}
	if o.milp == 0 {
		methods = methods[:3]
	}
	all := make([]lraScores, len(methods)+1)
	for _, b := range batches {
		if err := ctx.Err(); err != nil {
			return nil, err
		}
		p, err := planner.NewProblem(table, nodes, b)
		if err != nil {
			return nil, err
		}
		for k, m := range methods {
			start := time.Now()
			x, err := m.place(p)
			if err != nil {
				return nil, err
			}
			all[k].Method = m.name
			all[k].DecisionMicros += time.Since(start).Seconds() * 1e6 / float64(o.containers*o.rows)
			all[k].Each = append(all[k].Each, p.Average(x))
		}
		bound, err := p.Bound()
		if err != nil {
			return nil, err
		}
		last := &all[len(methods)]
		last.Method = "linear bound"
		last.Each = append(last.Each, bound.Value/float64(o.containers))
	}
	return all, nil
}

// play lets every policy play n episodes at once and returns their throughputs and the
// microseconds that the policy took with its environments.
func (o *lraLearnedFlags) play(ctx context.Context, kwargs map[string]any, n int) (scores [][]float64, micros []float64, err error) {
	spec, err := envs.Lookup(pricingID)
	if err != nil {
		return nil, nil, err
	}
	v, err := envs.NewVec(spec, n, envs.VecOptions{Options: kwargs, Autoreset: envs.SameStep})
	if err != nil {
		return nil, nil, err
	}
	defer v.Close()
	for _, path := range o.policies {
		m, err := play.ReadModelFor(path, v)
		if err != nil {
			return nil, nil, err
		}
		s, took, err := throughputs(ctx, v, m, evaluation.Seeds(o.seed, n))
		if err := errors.Join(err, m.Net.Close()); err != nil {
			return nil, nil, err
		}
		scores, micros = append(scores, s), append(micros, took)
	}
	return scores, micros, nil
}

// playBaseline is play for a baseline of an environment.
func (o *lraLearnedFlags) playBaseline(ctx context.Context, env, name string, kwargs map[string]any, n int) (scores []float64, micros float64, err error) {
	v, err := envs.Make(env, n, envs.VecOptions{Options: kwargs, Autoreset: envs.SameStep})
	if err != nil {
		return nil, 0, err
	}
	p, err := baseline.New(v, name, o.seed)
	if err == nil {
		scores, micros, err = throughputs(ctx, v, p, evaluation.Seeds(o.seed, n))
	}
	return scores, micros, errors.Join(err, v.Close())
}

// throughputs plays an episode in each environment.
func throughputs(ctx context.Context, v *envs.Vec, p agents.Policy, seeds []uint64) ([]float64, float64, error) {
	start := time.Now()
	r, err := evaluation.Play(ctx, v, p, seeds)
	if err != nil {
		return nil, 0, err
	}
	return r.Column(v.Spec().Column("throughput")), time.Since(start).Seconds() * 1e6, nil
}

// arrivals plays episodes in which containers come and go.
func (o *lraLearnedFlags) arrivals(ctx context.Context) ([]lraScores, error) {
	nodes, err := o.nodes()
	if err != nil {
		return nil, err
	}
	path, err := o.nodeTable()
	if err != nil {
		return nil, err
	}
	kwargs := map[string]any{"table": path, "nodes": nodes, "arrivals": world.ArrivalsOnline, "load": o.load, "containers": o.containers}
	decisions := float64(o.containers * o.rows)
	var all []lraScores
	for _, of := range []struct{ env, baseline string }{
		{"k8s/LRAPlacement-v0", "greedy"}, {"k8s/LRAPlacement-v0", "least_loaded"}, {pricingID, meanValues},
	} {
		s, micros, err := o.playBaseline(ctx, of.env, of.baseline, kwargs, o.rows)
		if err != nil {
			return nil, err
		}
		all = append(all, lraScores{Method: of.baseline, Each: s, DecisionMicros: micros / decisions})
	}
	scores, micros, err := o.play(ctx, kwargs, o.rows)
	if err != nil {
		return nil, err
	}
	var policies []lraScores
	for k, s := range scores {
		policies = append(policies, lraScores{Method: o.policies[k], Each: s, DecisionMicros: micros[k] / decisions})
	}
	table, err := files.ReadTableFile(path)
	if err != nil {
		return nil, err
	}
	bound, err := planner.MeanMixBound(table, nodes, o.load)
	if err != nil {
		return nil, err
	}
	last := lraScores{Method: "linear bound of the mean mix"}
	for range o.rows {
		last.Each = append(last.Each, bound)
	}
	return append(append(all, policies...), meanOf(policies), last), nil
}
