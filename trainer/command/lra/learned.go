package lra

import (
	"context"
	"fmt"
	"io"
	"math/rand/v2"
	"slices"
	"time"

	"github.com/spf13/cobra"

	"github.com/kubernasium/kubernasium/agents"
	"github.com/kubernasium/kubernasium/agents/pricing"
	"github.com/kubernasium/kubernasium/envs"
	"github.com/kubernasium/kubernasium/envs/lra"
	"github.com/kubernasium/kubernasium/envs/lra/files"
	"github.com/kubernasium/kubernasium/envs/lra/planner"
	"github.com/kubernasium/kubernasium/envs/pcg"
	"github.com/kubernasium/kubernasium/trainer/cli"
	"github.com/kubernasium/kubernasium/trainer/play"
	"github.com/kubernasium/kubernasium/trainer/tracking"
)

// lraLearnedFlags select the instances on which learned prices are compared.
type lraLearnedFlags struct {
	lraFlags
	policies, baselines    []string
	envKwargs              map[string]any
	containers, rows, milp int
	online                 bool
	load                   float64
	reference              string
}

// lraScores holds the throughputs of a method on each batch or episode.
type lraScores struct {
	Method         string    `json:"method"`
	Throughput     float64   `json:"throughput"` // mean
	OfBound        float64   `json:"of_bound"`
	Gain           float64   `json:"gain"` // mean of the paired ratios to the reference
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

--seed draws batches of equally likely applications. The reference is the best of greedy in the order
of applications and in 20 random orders. With --online it is greedy on the same arrivals,
and the bound is that of the mean mix of containers. --baseline names baselines of k8s/LRAPricing-v0,
which set prices without learning.`,
		Example: `  trainer lra learned --policy A.safetensors --policy B.safetensors --containers 600 --seed 2026 --node-table FILE
  trainer lra learned --policy A.safetensors --online --load 0.9 --containers 3000 --node-table FILE`,
		RunE: func(cmd *cobra.Command, _ []string) error {
			if o.rows < 2 {
				return fmt.Errorf("--rows %d, want at least 2", o.rows)
			}
			if o.containers < 1 || o.milp < 0 {
				return fmt.Errorf("--containers %d, --milp-nodes %d: want at least 1 and 0", o.containers, o.milp)
			}
			play := o.batch
			if o.online {
				play = o.arrivals
			}
			player, table, err := o.player()
			if err != nil {
				return err
			}
			all, err := play(cmd.Context(), player, table)
			if err != nil {
				return err
			}
			if err := summarise(all, o.reference); err != nil {
				return err
			}
			t := tracking.NewTable("method", ">throughput", ">of the bound", ">over the reference", ">95 % interval", ">µs a decision")
			for _, s := range all {
				t.Append(s.Method, fmt.Sprintf("%.4f", s.Throughput), fmt.Sprintf("%.1f %%", 100*s.OfBound), fmt.Sprintf("%+.4f", s.Gain),
					fmt.Sprintf("%+.4f to %+.4f", s.GainLow, s.GainHigh), fmt.Sprintf("%.1f", s.DecisionMicros))
			}
			return cli.Print(cmd, all, t.WriteText)
		},
	}
	f := cmd.Flags()
	o.addData(cmd, "node tables")
	f.StringVar(&o.table, "node-table", "", "CSV file of the node table (default: node_table_rf_p20.csv in --data, or else node_table_p20.csv)")
	f.StringVar(&o.size, "size", "medium", "medium: 81 nodes; large: 729")
	f.StringArrayVar(&o.policies, "policy", nil, "model of k8s/LRAPricing-v0 (repeat)")
	f.StringArrayVar(&o.baselines, "baseline", []string{"mean_values", "duals", "rounded"}, "baseline of k8s/LRAPricing-v0 (repeat)")
	cli.KwargsVar(f, &o.envKwargs, "env-kwargs", "option key:value of k8s/LRAPricing-v0, such as scale:1 (repeat)")
	f.IntVar(&o.containers, "containers", 600, "containers of a batch; with --online, placements of an episode")
	f.IntVar(&o.rows, "rows", 30, "batches, or episodes")
	f.IntVar(&o.milp, "milp-nodes", 300, "branch-and-bound nodes of the integer program; 0 omits it")
	f.Uint64Var(&o.seed, "seed", 2026, "random seed of the batches, or of the first episode")
	f.BoolVar(&o.online, "online", false, "containers come and go")
	f.StringVar(&o.reference, "reference", "", "method to compare the others with, such as duals (default: the first)")
	f.Float64Var(&o.load, "load", 0.9, "mean fraction of used slots, with --online")
	return cmd
}

// summarise compares each method with the reference, which is the first method unless it is named. The last
// method is the bound.
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

// batch plays batches by methods that know the whole batch, and by prices.
func (o *lraLearnedFlags) batch(ctx context.Context, p *pricing.Player, table *lra.Table) ([]lraScores, error) {
	batches := planner.DrawBatches(o.containers, o.rows, o.seed)
	trial := planner.Trial{
		Plan: table, Score: table, Nodes: p.Nodes, Batches: batches, Now: time.Now,
		Rand: func(int) *rand.Rand { return rand.New(pcg.New(o.seed)) },
	}
	methods := []planner.Method{planner.BestGreedy("greedy, best of 21", 20), planner.Greedy(), planner.LocalSearch()}
	if o.milp > 0 {
		methods = append(methods, planner.Program(fmt.Sprintf("milp, %d nodes", o.milp), "", o.milp))
	}
	fixed, err := trial.Run(ctx, methods)
	if err != nil {
		return nil, err
	}
	played, err := p.Batches(ctx, batches, o.containers)
	if err != nil {
		return nil, err
	}
	var all []lraScores
	for _, r := range fixed[:len(methods)] {
		all = append(all, lraScores{Method: r.Method, Each: r.Throughput, DecisionMicros: r.DecisionMicros})
	}
	all = append(all, scoresOf(played, len(played)-len(o.policies))...)
	bound := fixed[len(methods)]
	return append(all, lraScores{Method: bound.Method, Each: bound.Throughput}), nil
}

// arrivals plays episodes in which containers arrive and leave.
func (o *lraLearnedFlags) arrivals(ctx context.Context, p *pricing.Player, table *lra.Table) ([]lraScores, error) {
	played, err := p.Arrivals(ctx, o.rows, o.containers, o.load)
	if err != nil {
		return nil, err
	}
	bound, err := planner.MeanMixBound(table, p.Nodes, o.load)
	if err != nil {
		return nil, err
	}
	return append(scoresOf(played, len(played)-len(o.policies)), lraScores{
		Method: "linear bound of the mean mix", Each: slices.Repeat([]float64{bound}, o.rows),
	}), nil
}

// scoresOf returns the scores of baselines and policies, and the mean of the policies, if there are any. The
// policies start at index first.
func scoresOf(played []pricing.Score, first int) []lraScores {
	if first < len(played) {
		played = append(played, pricing.Mean(fmt.Sprintf("mean of %d policies", len(played)-first), played[first:]))
	}
	all := make([]lraScores, len(played))
	for i, s := range played {
		all[i] = lraScores{Method: s.Method, Each: s.Throughput, DecisionMicros: s.DecisionMicros}
	}
	return all
}

// player returns a player for the policies, and the node table.
func (o *lraLearnedFlags) player() (*pricing.Player, *lra.Table, error) {
	if err := play.CheckSeed(o.seed, o.rows); err != nil {
		return nil, nil, err
	}
	nodes, err := o.nodes()
	if err != nil {
		return nil, nil, err
	}
	path, err := o.nodeTable()
	if err != nil {
		return nil, nil, err
	}
	table, err := files.ReadTableFile(path)
	return &pricing.Player{
		Table: path, Nodes: nodes, Options: o.envKwargs, Baselines: o.baselines, Policies: o.policies, Seed: o.seed, Now: time.Now,
		Open: func(name string, v *envs.Vec) (agents.Policy, io.Closer, error) {
			m, err := play.ReadModelFor(name, v)
			if err != nil {
				return nil, nil, err
			}
			return m, m.Net, nil
		},
	}, table, err
}
