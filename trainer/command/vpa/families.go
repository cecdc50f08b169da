package vpa

import (
	"context"
	"errors"
	"fmt"
	"slices"

	"github.com/spf13/cobra"
	"gonum.org/v1/gonum/stat/distuv"

	"github.com/kubernasium/kubernasium/envs"
	"github.com/kubernasium/kubernasium/envs/vpa/workload"
	"github.com/kubernasium/kubernasium/trainer/cli"
	"github.com/kubernasium/kubernasium/trainer/play"
	"github.com/kubernasium/kubernasium/trainer/tracking"
)

// familiesConfig are the arguments of `vpa families`.
type familiesConfig struct {
	models   []string
	baseline string
	types    []string
	kwargs   map[string]any
	evaluate map[string]any
	episodes int
	markdown string
}

// familyResult is a row of the table, which `vpa families --json` prints: the models' figures are
// means over the models.
type familyResult struct {
	Workload   string         `json:"workload"`
	Baseline   policyFigures  `json:"baseline"`
	Models     policyFigures  `json:"models"`
	Difference play.Estimate  `json:"difference"`      // of the models' mean cost to the baseline's, paired by episode
	OverModels *play.Estimate `json:"over_models"`     // the same with the interval over models; null for one
	Better     int            `json:"better"`          // models whose own paired interval excludes 0 in their favour
	MostOOMs   float64        `json:"most_ooms"`       // kills in all episodes of the model that has most
	MostBound  float64        `json:"most_ooms_upper"` // its upper 95 % bound of kills in an episode
	BaseBound  float64        `json:"baseline_ooms_upper"`
	OK         bool           `json:"ok"` // cheaper, and the bound of kills is no higher
}

// policyFigures are means over episodes.
type policyFigures struct {
	Cost      float64 `json:"cost"`
	Slack     float64 `json:"slack_pct"`
	Throttled float64 `json:"throttled_pct"`
	OOMs      float64 `json:"ooms"`
	Evictions float64 `json:"evictions"`
}

func (p *policyFigures) add(r *play.Row, weight float64) {
	p.Cost += weight * r.Mean
	p.Slack += weight * r.Metrics["slack_pct"]
	p.Throttled += weight * r.Metrics["throttled_pct"]
	p.OOMs += weight * r.Metrics["ooms"]
	p.Evictions += weight * r.Metrics["evictions"]
}

func newVPAFamilies() *cobra.Command {
	var c familiesConfig
	var kwargs, evaluate []string
	cmd := &cobra.Command{
		Use:   "families",
		Short: "Compare models with a recommender on each type of workload: cost, OOM kills, evictions",
		Long: `Compare models with a recommender on each type of workload: cost, OOM kills, evictions.

The models are one training with several seeds. All play the held-out episodes that trainer compare
plays. A row is in order if the models cost less in the mean, with a paired 95 % interval that excludes
0, and if the upper 95 % bound of OOM kills (exact, of a Poisson distribution) of the model that has
most is no higher than the recommender's.`,
		Example: `  trainer vpa families --model logs/ppo/k8s-VerticalPodAutoscaler-v0_1/seed_1/best_model.safetensors --markdown table.md
  trainer vpa families --model dqn.safetensors --baseline upstream_exact --workload-type azure`,
		Args: cobra.NoArgs,
		RunE: func(cmd *cobra.Command, _ []string) error {
			if len(c.models) == 0 {
				return errors.New("want --model")
			}
			var err error
			if c.kwargs, err = cli.ParseKwargs("env-kwargs", kwargs); err != nil {
				return err
			}
			if c.evaluate, err = cli.ParseKwargs("eval-env-kwargs", evaluate); err != nil {
				return err
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
			if c.markdown != "" {
				if err := cli.WriteTo(c.markdown, t.WriteMarkdown); err != nil {
					return err
				}
			}
			if cli.WantJSON(cmd) {
				return cli.PrintJSON(cmd, rows)
			}
			return t.WriteText(cmd.OutOrStdout())
		},
	}
	f := cmd.Flags()
	f.StringArrayVar(&c.models, "model", nil, "model file (repeat)")
	f.StringVar(&c.baseline, "baseline", "upstream", "recommender to compare with; upstream_exact on the discrete environment")
	f.StringSliceVar(&c.types, "workload-type", nil, "types of workloads (default: all)")
	f.StringArrayVar(&kwargs, "env-kwargs", nil, "option key:value of the environment (repeat; default: those of the first model)")
	f.StringArrayVar(&evaluate, "eval-env-kwargs", nil, "further option key:value for evaluation, such as split:train to choose hyperparameters by (repeat)")
	f.IntVar(&c.episodes, "episodes", 100, "held-out episodes of each type")
	f.StringVar(&c.markdown, "markdown", "", "file for the table")
	return cmd
}

// family compares on one type of workload.
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

// summarize makes a row of a comparison of models with one baseline.
func summarize(kind string, res *play.Comparison) (familyResult, error) {
	r := familyResult{Workload: kind, OverModels: res.Models}
	at := slices.IndexFunc(res.Rows, func(r play.Row) bool { return r.Kind != play.KindModel })
	base := &res.Rows[at]
	for _, name := range []string{"slack_pct", "throttled_pct", "ooms", "evictions"} {
		if _, ok := base.Metrics[name]; !ok {
			return r, fmt.Errorf("%s has no metric %s, want an environment of vertical pod autoscaling", res.Env, name)
		}
	}
	r.Baseline.add(base, 1)
	models := float64(len(res.Rows) - 1)
	n := float64(res.Episodes)
	mean := make([]float64, res.Episodes)
	for i := range res.Rows {
		row := &res.Rows[i]
		if i == at {
			continue
		}
		r.Models.add(row, 1/models)
		for k, v := range row.Values {
			mean[k] += v / models
		}
		if row.Difference != nil && row.Difference.High < 0 {
			r.Better++
		}
		r.MostOOMs = max(r.MostOOMs, n*row.Metrics["ooms"])
	}
	d := tracking.PairedDifference(mean, base.Values)
	r.Difference = play.Estimate(d)
	ours, theirs := poissonUpper(r.MostOOMs)/n, poissonUpper(n*base.Metrics["ooms"])/n
	r.MostBound, r.BaseBound = ours, theirs
	r.OK = d.High < 0 && ours <= theirs
	return r, nil
}

// poissonUpper returns the upper end of the exact 95 % interval of a Poisson distribution's mean,
// of which k events were seen.
//
// Source: F. Garwood, "Fiducial limits for the Poisson distribution", Biometrika 28, 1936.
func poissonUpper(k float64) float64 {
	return distuv.ChiSquared{K: 2*k + 2}.Quantile(0.975) / 2
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
		t.Append(r.Workload, cli.Number(b.Cost), cli.Number(m.Cost), fmt.Sprintf("%+.2f", r.Difference.Mean), cli.Interval(r.Difference.Low, r.Difference.High),
			fmt.Sprintf("%d of %d", r.Better, len(c.models)), pair("%.1f", b.Slack, m.Slack), pair("%.2f", b.Throttled, m.Throttled), pair("%.2f", b.OOMs, m.OOMs),
			pair("%.3f", r.BaseBound, r.MostBound), pair("%.1f", b.Evictions, m.Evictions), reached)
	}
	return t
}
