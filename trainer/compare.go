package main

import (
	"bytes"
	"cmp"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"path/filepath"
	"slices"
	"strings"

	"github.com/spf13/cobra"

	"github.com/kubernasium/kubernasium/agents"
	"github.com/kubernasium/kubernasium/agents/baseline"
	"github.com/kubernasium/kubernasium/agents/evaluation"
	"github.com/kubernasium/kubernasium/envs"
	"github.com/kubernasium/kubernasium/models"
	"github.com/kubernasium/kubernasium/trainer/tracking"
)

// compareConfig are the arguments of a comparison.
type compareConfig struct {
	spec      *envs.Spec
	kwargs    map[string]any // the held-out part is added
	evaluate  map[string]any // and these options then
	models    []string
	baselines []string // nil: all, and random actions
	episodes  int
	seed      uint64
	plot, csv string // files to write; empty: none
}

// comparison is what a comparison prints as JSON.
type comparison struct {
	Env          string          `json:"env"`
	EnvKwargs    map[string]any  `json:"env_kwargs"`
	Episodes     int             `json:"episodes"`
	Seed         uint64          `json:"seed"`
	Metric       string          `json:"metric"`
	Lower        bool            `json:"lower_is_better"`
	BestBaseline string          `json:"best_baseline"`
	Rows         []comparisonRow `json:"rows"` // best first
	Verdict      []string        `json:"verdict"`
	LeftOut      []string        `json:"left_out,omitempty"` // baselines that cannot serve these options, and why

	// With two or more models, such as the same training with several seeds: the mean over
	// models of their differences to the best baseline, and its interval over models.
	Models *estimate `json:"models,omitempty"`
}

// comparisonRow is one policy.
type comparisonRow struct {
	Policy     string             `json:"policy"`
	Kind       string             `json:"kind"` // "model", "baseline" or "oracle"
	Mean       float64            `json:"mean"` // of the metric
	Low        float64            `json:"low"`  // 95 % interval of the mean
	High       float64            `json:"high"`
	Difference *estimate          `json:"difference,omitempty"` // to the best baseline, pair by pair
	MeanReturn float64            `json:"mean_return"`
	Metrics    map[string]float64 `json:"metrics,omitempty"` // means of all metrics

	values []float64
}

type estimate struct {
	Mean float64 `json:"mean"`
	Low  float64 `json:"low"`
	High float64 `json:"high"`
}

const (
	kindModel    = "model"
	kindBaseline = "baseline"
	kindOracle   = "oracle"
)

func newCompare() *cobra.Command {
	var c compareConfig
	var env string
	var kwargs []string
	cmd := &cobra.Command{
		Use:   "compare",
		Short: "Rank models and baselines on the same held-out episodes",
		Long: `Rank models and baselines on the same held-out episodes.

Every policy plays episodes of the same seeds, so that differences are taken pair by pair.
Oracles know what no agent can: they are bounds, not competitors.`,
		Example: `  trainer compare --env k8s/GangWindow-v0 --episodes 40
  trainer compare --model logs/ppo/k8s-GangWindow-v0_1/best_model.safetensors --plot comparison.png
  trainer compare --env k8s/GangWindow-v0 --baseline dynamic_mpc --baseline static_2 --env-kwargs penalty:45`,
		Args: cobra.NoArgs,
		RunE: func(cmd *cobra.Command, _ []string) error {
			given, err := parseKwargs("env-kwargs", kwargs)
			if err != nil {
				return err
			}
			var id string
			if id, c.kwargs, err = envOf(env, c.models, given); err != nil {
				return err
			}
			if c.spec, err = envs.Lookup(id); err != nil {
				return err
			}
			return compareAndReport(cmd, c, nil)
		},
	}
	f := cmd.Flags()
	f.StringVar(&env, "env", "", "id of the environment (default: that of the first model)")
	f.StringArrayVar(&kwargs, "env-kwargs", nil, "option key:value of the environment (repeat; default: those of the first model)")
	f.StringArrayVar(&c.models, "model", nil, "model file (repeat)")
	f.StringArrayVar(&c.baselines, "baseline", nil, "baseline (repeat; default: all, and random actions)")
	f.IntVar(&c.episodes, "episodes", 40, "held-out episodes")
	f.Uint64Var(&c.seed, "seed", compareSeed, "random seed of the first episode")
	f.StringVar(&c.plot, "plot", "", "PNG file to draw")
	f.StringVar(&c.csv, "csv", "", "CSV file to write")
	return cmd
}

// envOf returns the id given or else that of the first model's environment, and its options:
// those that the first model was trained with, as that environment takes them, and those given.
func envOf(id string, paths []string, given map[string]any) (string, map[string]any, error) {
	kwargs := given
	if len(paths) > 0 {
		f, err := models.ReadFile(paths[0])
		if err != nil {
			return "", nil, err
		}
		trained, err := (&model{path: paths[0], meta: f.Meta}).kwargs()
		if err != nil {
			return "", nil, err
		}
		if id == "" {
			id = f.Meta.Env
		}
		kwargs = merge(optionsFor(id, f.Meta.Env, trained), given)
	}
	if id == "" {
		return "", nil, errors.New("neither --env nor --model is given")
	}
	return id, kwargs, nil
}

// compareAndReport compares, writes the files and prints the table, or JSON; trained is what
// a training before it came to, to which JSON adds the comparison, or nil.
func compareAndReport(cmd *cobra.Command, c compareConfig, trained any) error {
	res, err := compare(cmd.Context(), c)
	if err != nil {
		return err
	}
	if c.plot != "" {
		if err := res.draw(c.plot); err != nil {
			return err
		}
	}
	if c.csv != "" {
		if err := writeTo(c.csv, res.table().WriteCSV); err != nil {
			return err
		}
	}
	if wantJSON(cmd) {
		if trained == nil {
			return printJSON(cmd, res)
		}
		text, err := json.Marshal(trained)
		if err != nil {
			return err
		}
		var all map[string]any
		dec := json.NewDecoder(bytes.NewReader(text))
		dec.UseNumber() // a float64 has no room for every seed
		if err := dec.Decode(&all); err != nil {
			return err
		}
		all["comparison"] = res
		return printJSON(cmd, all)
	}
	return res.print(cmd.OutOrStdout())
}

// compare plays every policy on the same episodes and ranks them.
func compare(ctx context.Context, c compareConfig) (*comparison, error) {
	if c.episodes < 2 {
		return nil, fmt.Errorf("%d episodes, want at least 2 for an interval", c.episodes)
	}
	kwargs := heldOut(c.spec, c.kwargs, c.evaluate)
	v, err := envs.NewVec(c.spec, c.episodes, envs.VecOptions{Options: kwargs, Autoreset: envs.SameStep})
	if err != nil {
		return nil, err
	}
	defer v.Close()
	res := &comparison{Env: c.spec.ID, EnvKwargs: kwargs, Episodes: c.episodes, Seed: c.seed, Metric: "return"}
	if len(c.spec.Metrics) > 0 {
		res.Metric, res.Lower = c.spec.Metrics[0].Column, c.spec.Metrics[0].Lower
	}
	for _, path := range c.models {
		m, err := readModelFor(path, v)
		if err != nil {
			return nil, err
		}
		err = res.play(ctx, v, modelName(path, m.meta.Algo, len(c.models) == 1), kindModel, m)
		if err := errors.Join(err, m.net.Close()); err != nil {
			return nil, err
		}
	}
	if err := res.playBaselines(ctx, v, c); err != nil {
		return nil, err
	}
	res.rank()
	return res, nil
}

// modelName names a model by its algorithm and its file, or its log folder if it is the best
// of one; alone, or if its file has that name, it has the algorithm's name.
func modelName(path, algo string, alone bool) string {
	if alone {
		return algo
	}
	name := strings.TrimSuffix(filepath.Base(path), ".safetensors")
	if name == "best_model" {
		name = filepath.Base(filepath.Dir(path))
	}
	if name == algo {
		return algo
	}
	return algo + " " + name
}

func (res *comparison) playBaselines(ctx context.Context, v *envs.Vec, c compareConfig) error {
	names := c.baselines
	if names == nil {
		for _, b := range c.spec.Baselines {
			names = append(names, b.Name)
		}
		if !slices.Contains(names, baseline.RandomName) {
			names = append(names, baseline.RandomName)
		}
	}
	for _, name := range names {
		p, err := baseline.New(v, name, c.seed)
		if err != nil && c.baselines == nil {
			res.LeftOut = append(res.LeftOut, err.Error())
			continue
		}
		if err != nil {
			return err
		}
		kind := kindBaseline
		if b, err := c.spec.Baseline(name); err == nil && b.Oracle {
			kind = kindOracle
		}
		if err := res.play(ctx, v, name, kind, p); err != nil {
			return err
		}
	}
	return nil
}

// play adds the row of one policy.
func (res *comparison) play(ctx context.Context, v *envs.Vec, name, kind string, p agents.Policy) error {
	r, err := evaluation.Play(ctx, v, p, evaluation.Seeds(res.Seed, res.Episodes))
	if err != nil {
		return fmt.Errorf("play %s: %w", name, err)
	}
	row := comparisonRow{Policy: name, Kind: kind, MeanReturn: tracking.Mean(r.Returns), values: r.Returns}
	for _, m := range v.Spec().Metrics {
		values := r.Column(v.Spec().Column(m.Column))
		if row.Metrics == nil {
			row.Metrics, row.values = map[string]float64{}, values
		}
		row.Metrics[m.Column] = tracking.Mean(values)
	}
	e := tracking.StudentT(row.values)
	row.Mean, row.Low, row.High = e.Mean, e.Low, e.High
	res.Rows = append(res.Rows, row)
	return nil
}

// rank sorts the rows, finds the best baseline and takes the differences to it.
func (res *comparison) rank() {
	sign := -1.0
	if res.Lower {
		sign = 1
	}
	slices.SortStableFunc(res.Rows, func(a, b comparisonRow) int { return cmp.Compare(sign*a.Mean, sign*b.Mean) })
	i := slices.IndexFunc(res.Rows, func(r comparisonRow) bool { return r.Kind == kindBaseline })
	if i < 0 {
		return
	}
	best := res.Rows[i]
	res.BestBaseline = best.Policy
	var ofModels []float64
	for k := range res.Rows {
		row := &res.Rows[k]
		if k == i {
			continue
		}
		d := tracking.PairedDifference(row.values, best.values)
		row.Difference = &estimate{d.Mean, d.Low, d.High}
		if row.Kind == kindModel {
			res.Verdict = append(res.Verdict, res.judge(row, &best))
			ofModels = append(ofModels, d.Mean)
		}
	}
	if len(ofModels) > 1 {
		e := tracking.StudentT(ofModels)
		res.Models = &estimate{e.Mean, e.Low, e.High}
		res.Verdict = append(res.Verdict, fmt.Sprintf("%d models: mean difference to %s %+.2f, 95 %% interval over models %s",
			len(ofModels), best.Policy, e.Mean, interval(e.Low, e.High)))
	}
}

// judge says in words how a model compares with the best baseline.
func (res *comparison) judge(row, best *comparisonRow) string {
	d := *row.Difference
	if res.Lower {
		d = estimate{-d.Mean, -d.High, -d.Low}
	}
	percent := 100 * d.Mean / abs(best.Mean)
	switch {
	case d.Low > 0:
		return fmt.Sprintf("%s is better than the best baseline, %s, by %.2f %% (the 95 %% interval of the paired difference excludes 0)", row.Policy, best.Policy, percent)
	case d.High < 0:
		return fmt.Sprintf("%s is worse than the best baseline, %s, by %.2f %% (the 95 %% interval of the paired difference excludes 0)", row.Policy, best.Policy, -percent)
	}
	return fmt.Sprintf("%s is not better than the best baseline, %s: the difference of %+.2f %% is within its 95 %% interval", row.Policy, best.Policy, percent)
}

func abs(x float64) float64 { return max(x, -x) }
