package main

import (
	"bytes"
	"cmp"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"math"
	"path/filepath"
	"slices"
	"strings"

	"github.com/spf13/cobra"

	"github.com/kubernasium/kubernasium/agents/baseline"
	"github.com/kubernasium/kubernasium/agents/evaluation"
	"github.com/kubernasium/kubernasium/envs"
	"github.com/kubernasium/kubernasium/models"
	"github.com/kubernasium/kubernasium/trainer/tracking"
)

// compareConfig are the arguments of a comparison.
type compareConfig struct {
	spec      *envs.Spec
	trained   map[string]any // options of the models' training, to which the held-out part is added
	given     map[string]any // options that win over both
	models    []string
	baselines []string // nil: all, and random actions
	episodes  int
	seed      uint64
	urls      []string // of servers to play on; nil is in this process
	plot, csv string   // files to write; empty: none
}

// comparison is what a comparison prints as JSON.
type comparison struct {
	Env          string          `json:"env"`
	EnvKwargs    map[string]any  `json:"env_kwargs"`
	Episodes     int             `json:"episodes"`
	Seed         uint64          `json:"seed"`
	Metric       string          `json:"metric"`
	Lower        bool            `json:"lower_is_better"`
	URLs         []string        `json:"urls,omitempty"`
	BestBaseline string          `json:"best_baseline"`
	Rows         []comparisonRow `json:"rows"` // best first
	Verdict      []string        `json:"verdict"`
	LeftOut      []string        `json:"left_out,omitempty"` // baselines that cannot serve these options, and why

	// Policies that an interrupt left no time for.
	NotPlayed []string `json:"not_played,omitempty"`

	// With two or more models, such as the same training with several seeds: the mean over
	// models of their differences to the best baseline, and its interval over models.
	Models *estimate `json:"models,omitempty"`

	metrics []envs.Metric // the first is Metric
	columns []int         // of info, likewise
	played  string        // how many episodes of which instances
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
	var kwargs, evalKwargs []string
	cmd := &cobra.Command{
		Use:   "compare",
		Short: "Rank models and baselines on the same held-out episodes",
		Long: `Rank models and baselines on the same held-out episodes.

Every policy plays episodes of the same seeds, so that differences are taken pair by pair.
Oracles know what no agent can: they are bounds, not competitors.`,
		Example: `  trainer compare --env k8s/GangWindow-v0 --episodes 40
  trainer compare --model logs/ppo/k8s-GangWindow-v0_1/best_model.safetensors --plot comparison.png
  trainer compare --env k8s/GangWindow-v0 --baseline dynamic_mpc --baseline static_2 --env-kwargs penalty:45
  trainer compare --env k8s/GangWindow-v0 --env-kwargs split:train            # on the instances of trainings
  trainer compare --model FILE --url ws://127.0.0.1:8765                      # on a server`,
		Args: cobra.NoArgs,
		RunE: func(cmd *cobra.Command, _ []string) error {
			given, err := parseKwargs("env-kwargs", kwargs)
			if err != nil {
				return err
			}
			evaluate, err := parseKwargs("eval-env-kwargs", evalKwargs)
			if err != nil {
				return err
			}
			c.given = merge(given, evaluate)
			var id string
			if id, c.trained, err = envOf(env, c.models); err != nil {
				return err
			}
			if c.spec, err = lookup(cmd.Context(), id, c.urls); err != nil {
				return err
			}
			return compareAndReport(cmd, c, nil)
		},
	}
	f := cmd.Flags()
	f.StringVar(&env, "env", "", "id of the environment (default: that of the first model)")
	f.StringArrayVar(&kwargs, "env-kwargs", nil, "option key:value of the environment (repeat; default: those of the first model, on held-out instances)")
	f.StringArrayVar(&evalKwargs, "eval-env-kwargs", nil, "further option key:value, as of train; wins over --env-kwargs (repeat)")
	f.StringArrayVar(&c.models, "model", nil, "model file (repeat)")
	f.StringArrayVar(&c.baselines, "baseline", nil, "baseline (repeat; default: all, and random actions)")
	f.IntVar(&c.episodes, "episodes", 40, "held-out episodes")
	f.Uint64Var(&c.seed, "seed", compareSeed, "random seed of the first episode")
	f.StringArrayVar(&c.urls, "url", nil, "server to play on, such as ws://127.0.0.1:8765 (repeat to split the environments)")
	f.StringVar(&c.plot, "plot", "", "PNG file to draw")
	f.StringVar(&c.csv, "csv", "", "CSV file to write")
	return cmd
}

// envOf returns the id given or else that of the first model's environment, and the options that
// the first model was trained with, as that environment takes them.
func envOf(id string, paths []string) (string, map[string]any, error) {
	trained := map[string]any{}
	if len(paths) > 0 {
		f, err := models.ReadFile(paths[0])
		if err != nil {
			return "", nil, err
		}
		if trained, err = (&model{path: paths[0], meta: f.Meta}).kwargs(); err != nil {
			return "", nil, err
		}
		if id == "" {
			id = f.Meta.Env
		}
		trained = optionsFor(id, f.Meta.Env, trained)
	}
	if id == "" {
		return "", nil, errors.New("neither --env nor --model is given")
	}
	return id, trained, nil
}

// compareAndReport compares, writes the files and prints the table, or JSON; trained is what
// a training before it came to, to which JSON adds the comparison, or nil. Of an interrupted
// comparison it reports the policies that have played, and returns the interrupt.
func compareAndReport(cmd *cobra.Command, c compareConfig, trained any) error {
	res, err := compare(cmd.Context(), c)
	if err != nil && (res == nil || len(res.Rows) == 0) {
		return err
	}
	return errors.Join(res.report(cmd, c, trained), err)
}

// report writes the files and prints the table, or JSON.
func (res *comparison) report(cmd *cobra.Command, c compareConfig, trained any) error {
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

// compare plays every policy on the same episodes and ranks them. Interrupted, it returns the
// ranking of those that have played, with an error that wraps errInterrupted.
func compare(ctx context.Context, c compareConfig) (*comparison, error) {
	if c.episodes < 2 {
		return nil, fmt.Errorf("--episodes %d, want at least 2 for an interval", c.episodes)
	}
	kwargs := heldOut(c.spec, c.trained, c.given)
	v, err := openEnvs(ctx, c.spec, c.episodes, envs.VecOptions{Options: kwargs, Autoreset: envs.SameStep}, c.urls)
	if err != nil {
		return nil, err
	}
	defer v.Close()
	res := &comparison{Env: c.spec.ID, EnvKwargs: kwargs, Episodes: c.episodes, Seed: c.seed, URLs: c.urls, Metric: "return",
		metrics: c.spec.Ranking(kwargs), played: episodesText(c.spec, kwargs, c.episodes)}
	for _, m := range res.metrics {
		res.columns = append(res.columns, v.Spec().Column(m.Column))
	}
	if len(res.metrics) > 0 {
		res.Metric, res.Lower = res.metrics[0].Column, res.metrics[0].Lower
	}
	todo, err := c.players(ctx, v)
	if err != nil {
		return nil, err
	}
	for i, p := range todo {
		err := res.play(p)
		if err != nil && ctx.Err() != nil {
			for _, rest := range todo[i:] {
				res.NotPlayed = append(res.NotPlayed, rest.name)
			}
			res.rank()
			return res, fmt.Errorf("%w: %d of %d policies have played; the same command starts over, and --baseline NAME plays one that is missing", errInterrupted, i, len(todo))
		}
		if err != nil && p.optional && errors.Is(err, envs.ErrBaseline) {
			res.LeftOut = append(res.LeftOut, err.Error())
			continue
		}
		if err != nil {
			return nil, fmt.Errorf("play %s: %w", p.name, err)
		}
	}
	res.rank()
	return res, nil
}

// player is a policy of a comparison.
type player struct {
	name, kind string
	optional   bool // left out if it cannot serve the options of the environment
	play       func() (*evaluation.Result, error)
}

// players are the policies to compare in v: models, and then baselines.
func (c *compareConfig) players(ctx context.Context, v envs.VecEnv) ([]player, error) {
	var all []player
	seeds := evaluation.Seeds(c.seed, c.episodes)
	for _, path := range c.models {
		f, err := models.ReadFile(path)
		if err != nil {
			return nil, err
		}
		all = append(all, player{name: modelName(path, f.Meta.Algo, len(c.models) == 1), kind: kindModel, play: func() (*evaluation.Result, error) {
			m, err := readModelFor(path, v)
			if err != nil {
				return nil, err
			}
			r, err := evaluation.Play(ctx, v, m, seeds)
			return r, errors.Join(err, m.net.Close())
		}})
	}
	for _, name := range c.baselineNames() {
		kind := kindBaseline
		if b, err := c.spec.Baseline(name); err == nil && b.Oracle {
			kind = kindOracle
		}
		all = append(all, player{name: name, kind: kind, optional: c.baselines == nil, play: func() (*evaluation.Result, error) {
			if f := follow(ctx, v, name, c.seed); f != nil {
				return evaluation.Play(ctx, f, f, seeds)
			}
			p, err := baseline.NewContext(ctx, v.(*envs.Vec), name, c.seed)
			if err != nil {
				return nil, err
			}
			return evaluation.Play(ctx, v, p, seeds)
		}})
	}
	return all, nil
}

// baselineNames are those given, or all, and random actions.
func (c *compareConfig) baselineNames() []string {
	if c.baselines != nil {
		return c.baselines
	}
	var names []string
	for _, b := range c.spec.Baselines {
		names = append(names, b.Name)
	}
	if !slices.Contains(names, baseline.RandomName) {
		names = append(names, baseline.RandomName)
	}
	return names
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

// play adds the row of one policy.
func (res *comparison) play(p player) error {
	r, err := p.play()
	if err != nil {
		return err
	}
	row := comparisonRow{Policy: p.name, Kind: p.kind, MeanReturn: tracking.Mean(r.Returns), values: r.Returns}
	for i, m := range res.metrics {
		values := r.Column(res.columns[i])
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

// judge says in words how a model compares with the best baseline. What has a sign has that of the
// table: of the model's mean less the baseline's.
func (res *comparison) judge(row, best *comparisonRow) string {
	d := *row.Difference
	better, worse := d.Low > 0, d.High < 0
	if res.Lower {
		better, worse = worse, better
	}
	percent := 100 * d.Mean / math.Abs(best.Mean)
	switch {
	case better:
		return fmt.Sprintf("%s is better than the best baseline, %s, by %.2f %% (the 95 %% interval of the paired difference excludes 0)", row.Policy, best.Policy, math.Abs(percent))
	case worse:
		return fmt.Sprintf("%s is worse than the best baseline, %s, by %.2f %% (the 95 %% interval of the paired difference excludes 0)", row.Policy, best.Policy, math.Abs(percent))
	}
	return fmt.Sprintf("%s is not better than the best baseline, %s: the difference of %+.2f %% is within its 95 %% interval", row.Policy, best.Policy, percent)
}

// better says which direction of the metric is.
func (res *comparison) better() string {
	if res.Lower {
		return "lower"
	}
	return "higher"
}
