package vpa

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"slices"

	"github.com/spf13/cobra"

	"github.com/kubernasium/kubernasium/envs"
	"github.com/kubernasium/kubernasium/envs/vpa/families"
	"github.com/kubernasium/kubernasium/envs/vpa/workload"
	"github.com/kubernasium/kubernasium/trainer/cli"
	"github.com/kubernasium/kubernasium/trainer/play"
	"github.com/kubernasium/kubernasium/trainer/tracking"
)

// familiesConfig holds the arguments of `vpa families`.
type familiesConfig struct {
	models   []string
	baseline string
	types    []string
	kwargs   map[string]any
	evaluate map[string]any
	episodes int
	markdown string
}

// familyResult is a row of the table, in the JSON of `vpa families --json`. The models' figures are means over
// the models.
type familyResult struct {
	Workload   string             `json:"workload"`
	Baseline   families.Figures   `json:"baseline"`
	Models     families.Figures   `json:"models"`
	Difference tracking.Estimate  `json:"difference"`      // models' mean cost minus the baseline's, paired by episode
	OverModels *tracking.Estimate `json:"over_models"`     // the same, with the interval over seeds and episodes; null unless the models are one training with several seeds
	Better     int                `json:"better"`          // number of models that are better, corrected for the number of models
	MostOOMs   float64            `json:"most_ooms"`       // kills of the model with the most kills, over all episodes
	MostBound  float64            `json:"most_ooms_upper"` // upper 95 % bound of that model's kills per episode
	BaseBound  float64            `json:"baseline_ooms_upper"`
	OK         bool               `json:"ok"` // the models cost less, and their bound of kills is not higher
}

func newVPAFamilies() *cobra.Command {
	var c familiesConfig
	cmd := &cobra.Command{
		Use:   "families",
		Short: "Compare models with a recommender on each type of workload: cost, OOM kills, evictions",
		Long: `Compare models with a recommender on each type of workload: cost, OOM kills, evictions.

The models are one training with several seeds. All play the held-out episodes of trainer compare. A row
passes if the models' mean cost is lower, with a paired 95 % interval that excludes 0, and if the upper
95 % bound of OOM kills (exact, for a Poisson distribution) of the model with the most kills is not higher
than the recommender's.`,
		Example: `  trainer vpa families --model logs/ppo/k8s-VerticalPodAutoscaler-v0_1/seed_1/best_model.safetensors --markdown table.md
  trainer vpa families --model dqn.safetensors --baseline upstream_exact --workload-type azure`,
		RunE: func(cmd *cobra.Command, _ []string) error {
			if len(c.models) == 0 {
				return errors.New("want --model")
			}
			if len(c.types) == 0 {
				c.types = workload.Types()
			}
			var rows []familyResult
			for _, kind := range c.types {
				r, err := c.family(cmd.Context(), kind)
				if err != nil {
					return fmt.Errorf("%s: %w", kind, err)
				}
				rows = append(rows, r)
			}
			t := c.table(rows)
			if err := cli.WriteTo(c.markdown, t.WriteMarkdown); err != nil {
				return err
			}
			return cli.Print(cmd, rows, t.WriteText)
		},
	}
	f := cmd.Flags()
	f.StringArrayVar(&c.models, "model", nil, "model file (repeat)")
	f.StringVar(&c.baseline, "baseline", "upstream", "recommender to compare with; upstream_exact on the discrete environment")
	f.StringSliceVar(&c.types, "workload-type", nil, "types of workloads (default: all)")
	cli.KwargsVar(f, &c.kwargs, "env-kwargs", "option key:value of the environment (repeat; default: those of the first model)")
	cli.KwargsVar(f, &c.evaluate, "eval-env-kwargs", "further option key:value for evaluation, such as split:train to choose hyperparameters (repeat)")
	f.IntVar(&c.episodes, "episodes", 100, "held-out episodes per type")
	f.StringVar(&c.markdown, "markdown", "", "Markdown file for the table")
	return cmd
}

// family compares the models and the baseline on one type of workload.
func (c *familiesConfig) family(ctx context.Context, kind string) (familyResult, error) {
	id, trained, err := play.EnvOf("", c.models)
	if err != nil {
		return familyResult{}, err
	}
	spec, err := envs.Lookup(id)
	if err != nil {
		return familyResult{}, err
	}
	res, err := play.Compare(ctx, play.CompareConfig{Spec: spec, Trained: trained, Given: cli.MergeKwargs(c.kwargs, map[string]any{"workload": kind}, c.evaluate), Models: c.models,
		Baselines: []string{c.baseline}, Episodes: c.episodes, Seed: play.CompareSeed})
	if err != nil {
		return familyResult{}, err
	}
	return summarize(kind, res)
}

// summarize makes a row from a comparison of models with one baseline.
func summarize(kind string, res *play.Comparison) (familyResult, error) {
	r := familyResult{Workload: kind}
	if len(res.Trainings) == 1 {
		r.OverModels = res.Trainings[0].Difference
	}
	var base families.Plays
	var models []families.Plays
	for i := range res.Rows {
		row := &res.Rows[i]
		p, err := families.NewPlays(row.Values, row.Mean, row.Metrics)
		if err != nil {
			return r, fmt.Errorf("%s has %w", res.Env, err)
		}
		if row.Kind != play.KindModel {
			base = p
			continue
		}
		models = append(models, p)
		if row.Claim.Better() {
			r.Better++
		}
	}
	mean := families.Mean(models)
	worst := slices.MaxFunc(models, func(a, b families.Plays) int { return cmp.Compare(a.Kills(), b.Kills()) })
	d := tracking.PairedDifference(mean.Costs, base.Costs)
	r.Baseline, r.Models, r.Difference = base.Figures, mean.Figures, d
	r.MostOOMs, r.MostBound, r.BaseBound = worst.Kills(), worst.KillsUpper(), base.KillsUpper()
	r.OK = d.High < 0 && r.MostBound <= r.BaseBound
	return r, nil
}

func (c *familiesConfig) table(rows []familyResult) *tracking.Table {
	t := tracking.NewTable("type", ">"+c.baseline, ">models", ">difference", ">95 % interval", ">better", ">slack %", ">throttled %", ">OOMs", ">bound", ">evictions", "reached")
	pair := func(format string, a, b float64) string { return fmt.Sprintf(format+" → "+format, a, b) }
	for _, r := range rows {
		reached := "no"
		if r.OK {
			reached = "yes"
		}
		b, m := &r.Baseline, &r.Models
		t.Append(r.Workload, cli.Number(b.Cost), cli.Number(m.Cost), fmt.Sprintf("%+.2f", r.Difference.Mean), cli.Interval(r.Difference.Low, r.Difference.High, 2),
			fmt.Sprintf("%d of %d", r.Better, len(c.models)), pair("%.1f", b.Slack, m.Slack), pair("%.2f", b.Throttled, m.Throttled), pair("%.2f", b.OOMs, m.OOMs),
			pair("%.3f", r.BaseBound, r.MostBound), pair("%.1f", b.Evictions, m.Evictions), reached)
	}
	return t
}
