package gang

import (
	"context"
	"fmt"
	"slices"
	"strconv"

	"github.com/spf13/cobra"

	"github.com/kubernasium/kubernasium/envs"
	"github.com/kubernasium/kubernasium/trainer/cli"
	"github.com/kubernasium/kubernasium/trainer/play"
	"github.com/kubernasium/kubernasium/trainer/tracking"
)

// regretConfig holds the arguments of `gang regret`.
type regretConfig struct {
	given     map[string]any
	penalties []float64
	policies  []string
	reference string
	episodes  int
	seed      uint64
	csv       string
	plot      string
}

// regret is how much longer a policy takes than the reference at one penalty.
type regret struct {
	Policy  string            `json:"policy"`
	Penalty float64           `json:"penalty"`
	Seconds tracking.Estimate `json:"seconds"` // mean of the episodes' differences, with a 95 % interval
	Percent float64           `json:"percent"` // relative to the reference's mean
}

func newGangRegret() *cobra.Command {
	var c regretConfig
	cmd := &cobra.Command{
		Use:   "regret",
		Short: "Measure the regret of planners against the perfect plan, by the cost of a plan",
		Long: `Measure the regret of planners against the perfect plan, by the cost of a plan.

For each penalty, all policies play the same held-out episodes of ` + gangEnv + ` as the reference, which
knows the true sizes. The regret is by how many seconds they take longer, episode by episode.`,
		Example: `  trainer gang regret
  trainer gang regret --penalties 0,15 --baseline rhc_tuned --baseline afhc_tuned --episodes 40
  trainer gang regret --env-kwargs data:../shared/data/gang --plot regret.png --csv regret.csv`,
		RunE: func(cmd *cobra.Command, _ []string) error {
			all, err := c.run(cmd.Context())
			if err != nil {
				return err
			}
			if err := cli.WriteTo(c.csv, regretRows(all).WriteCSV); err != nil {
				return err
			}
			if c.plot != "" {
				if err := c.draw(all); err != nil {
					return err
				}
			}
			return cli.Print(cmd, all, c.table(all).WriteText)
		},
	}
	f := cmd.Flags()
	cli.KwargsVar(f, &c.given, "env-kwargs", "option key:value of the environment (repeat)")
	f.Float64SliceVar(&c.penalties, "penalties", []float64{0, 5, 15, 45, 95}, "costs of a plan in seconds, ascending")
	f.StringArrayVar(&c.policies, "baseline", []string{"dynamic_mpc_tuned", "dynamic_mpc", "rhc_tuned", "chc_tuned", "chc", "afhc_tuned", "afhc", "threshold_tuned", "static_3"}, "baseline (repeat)")
	f.StringVar(&c.reference, "reference", "one_time:local_search=true", "baseline whose plan counts as perfect")
	f.IntVar(&c.episodes, "episodes", 20, "held-out episodes per penalty")
	f.Uint64Var(&c.seed, "seed", play.CompareSeed, "random seed of the first episode")
	f.StringVar(&c.csv, "csv", "", "CSV file with a row for each policy and penalty")
	f.StringVar(&c.plot, "plot", "", "PNG file: regret by penalty")
	return cmd
}

// run returns the regrets, ordered by policy and penalty.
func (c *regretConfig) run(ctx context.Context) ([]regret, error) {
	ascends := len(c.penalties) > 0
	for i := 1; i < len(c.penalties); i++ {
		ascends = ascends && c.penalties[i] > c.penalties[i-1]
	}
	if !ascends {
		return nil, fmt.Errorf("--penalties %v, want one or more in ascending order", c.penalties)
	}
	if _, set := c.given["penalty"]; set {
		return nil, fmt.Errorf("--env-kwargs penalty:%v, want --penalties %v in its place", c.given["penalty"], c.given["penalty"])
	}
	spec, err := envs.Lookup(gangEnv)
	if err != nil {
		return nil, err
	}
	var all []regret
	for _, penalty := range c.penalties {
		res, err := play.Compare(ctx, play.CompareConfig{
			Spec: spec, Given: cli.MergeKwargs(c.given, map[string]any{"penalty": penalty}), Episodes: c.episodes, Seed: c.seed,
			Baselines: append([]string{c.reference}, c.policies...),
		})
		if err != nil {
			return nil, err
		}
		values := map[string][]float64{}
		for _, row := range res.Rows {
			values[row.Policy] = row.Values
		}
		best := values[c.reference]
		for _, policy := range c.policies {
			e := tracking.PairedDifference(values[policy], best)
			all = append(all, regret{policy, penalty, e, 100 * e.Mean / tracking.Mean(best)})
		}
	}
	slices.SortStableFunc(all, func(a, b regret) int {
		return slices.Index(c.policies, a.Policy) - slices.Index(c.policies, b.Policy)
	})
	return all, nil
}

// table returns a row for each policy with a column for each penalty.
func (c *regretConfig) table(all []regret) *tracking.Table {
	names := []string{"seconds above " + c.reference}
	for _, p := range c.penalties {
		names = append(names, fmt.Sprintf("penalty %v s", p))
	}
	t := tracking.NewTable(names...)
	for rows := range slices.Chunk(all, len(c.penalties)) {
		cells := []string{rows[0].Policy}
		for _, r := range rows {
			cells = append(cells, fmt.Sprintf("%.0f [%.0f, %.0f] %.1f %%", r.Seconds.Mean, r.Seconds.Low, r.Seconds.High, r.Percent))
		}
		t.Append(cells...)
	}
	return t
}

// regretRows returns a row for each policy and penalty.
func regretRows(all []regret) *tracking.Table {
	t := tracking.NewTable("policy", ">penalty", ">mean", ">low", ">high", ">percent")
	text := func(x float64) string { return strconv.FormatFloat(x, 'g', -1, 64) }
	for _, r := range all {
		t.Append(r.Policy, text(r.Penalty), text(r.Seconds.Mean), text(r.Seconds.Low), text(r.Seconds.High), text(r.Percent))
	}
	return t
}

// draw plots the regrets over the penalty.
func (c *regretConfig) draw(all []regret) error {
	var lines []tracking.Series
	for rows := range slices.Chunk(all, len(c.penalties)) {
		line := tracking.Series{Name: rows[0].Policy}
		for _, r := range rows {
			line.Steps = append(line.Steps, int64(r.Penalty))
			line.Mean, line.Low, line.High = append(line.Mean, r.Seconds.Mean), append(line.Low, r.Seconds.Low), append(line.High, r.Seconds.High)
		}
		lines = append(lines, line)
	}
	title := fmt.Sprintf("Seconds above %s, mean of %d episodes with 95 %% intervals", c.reference, c.episodes)
	return tracking.Curves(c.plot, title, "penalty of a plan in seconds", "regret in seconds", lines, nil)
}
