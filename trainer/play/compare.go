package play

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"path/filepath"
	"slices"
	"strings"
	"time"

	"github.com/kubernasium/kubernasium/agents/baseline"
	"github.com/kubernasium/kubernasium/agents/evaluation"
	"github.com/kubernasium/kubernasium/agents/search"
	"github.com/kubernasium/kubernasium/envs"
	"github.com/kubernasium/kubernasium/models"
	"github.com/kubernasium/kubernasium/trainer/cli"
	"github.com/kubernasium/kubernasium/trainer/tracking"
)

// CompareConfig configures a comparison: policies, environment and episodes.
type CompareConfig struct {
	Spec      *envs.Spec
	Trained   map[string]any // options of the models' training, to which those of the held-out split are added
	Given     map[string]any // options that override both
	Models    []string
	Baselines []string // nil: all, and random actions
	Searches  []string // in the form of [search.Parse]
	Episodes  int
	Seed      uint64
	URLs      []string // of servers to play on; nil plays in this process

	Ablate bool // also let each model play without its state

	// Sealed is the file that records uses of the sealed block. With it, the block's episodes from SealedFirst on
	// are played instead of those from Seed on.
	Sealed      string
	SealedFirst int
}

// Comparison is the JSON of `compare --json`.
type Comparison struct {
	Env          string         `json:"env"`
	EnvKwargs    map[string]any `json:"env_kwargs"`
	Episodes     int            `json:"episodes"`
	Seed         uint64         `json:"seed"`
	Metric       string         `json:"metric"`
	Lower        bool           `json:"lower_is_better"`
	URLs         []string       `json:"urls,omitempty"`
	BestBaseline string         `json:"best_baseline"`
	Rows         []Row          `json:"rows"` // best first
	Verdict      []string       `json:"verdict"`
	Sealed       string         `json:"sealed,omitempty"`   // a note on the use of the sealed block
	LeftOut      []string       `json:"left_out,omitempty"` // baselines that do not support these options, with the reason

	States []StateTest `json:"states,omitempty"` // with Ablate

	// Policies that did not play because of an interrupt.
	NotPlayed []string `json:"not_played,omitempty"`

	Trainings []Training `json:"trainings,omitempty"` // those of two or more seeds

	Metrics []envs.Metric `json:"-"` // the first is Metric
	columns []int         // their columns in info
	played  string        // number of episodes and their instances
}

// Row is one policy.
type Row struct {
	Policy     string             `json:"policy"`
	Kind       string             `json:"kind"` // "model", "baseline", "search" or "clairvoyant"
	Mean       float64            `json:"mean"` // of the metric
	Low        float64            `json:"low"`  // 95 % interval of the mean
	High       float64            `json:"high"`
	Difference *tracking.Estimate `json:"difference,omitempty"` // difference to the best baseline, paired by episode
	Claim      *Claim             `json:"claim,omitempty"`      // of a model or a search over one, corrected for the number of both
	Training   string             `json:"training,omitempty"`   // of those; models that differ only in their seeds share it
	MeanReturn float64            `json:"mean_return"`
	Metrics    map[string]float64 `json:"metrics,omitempty"` // means of all metrics
	Episodes   EpisodeValues      `json:"episodes"`

	Values []float64 `json:"-"` // of the metric, by episode
}

// learned reports whether the policy is a model or a search over one.
func (r *Row) learned() bool { return r.Kind == KindModel || r.Kind == KindSearch && r.Training != "" }

// EpisodeValues holds the results of a policy's episodes in seed order. The seeds are consecutive, from the
// comparison's first on.
type EpisodeValues struct {
	Returns []float64            `json:"returns"`
	Lengths []int64              `json:"lengths"`
	Metrics map[string][]float64 `json:"metrics,omitempty"` // by column
}

// Kinds of policies in a Row.
const (
	KindModel       = "model"
	KindBaseline    = "baseline"
	KindClairvoyant = "clairvoyant" // a baseline or a search that uses information no agent can have
	KindAblation    = "ablation"    // a model without its state
	KindSearch      = "search"      // a search over a baseline or a model, by package agents/search
)

// EnvOf returns the given id, or else that of the first model's environment, and the options that the first
// model was trained with, converted to this environment.
func EnvOf(id string, paths []string) (string, map[string]any, error) {
	trained := map[string]any{}
	if len(paths) > 0 {
		f, err := models.ReadFile(paths[0])
		if err != nil {
			return "", nil, err
		}
		if trained, err = (&Model{Path: paths[0], Meta: f.Meta}).EnvKwargs(); err != nil {
			return "", nil, err
		}
		id = cmp.Or(id, f.Meta.Env)
		trained = optionsFor(id, f.Meta.Env, trained)
	}
	if id == "" {
		return "", nil, errors.New("neither --env nor --model is given")
	}
	return id, trained, nil
}

// Compare plays every policy on the same episodes and ranks them. If it is interrupted, it returns the ranking
// of the policies that have played, with an error that wraps cli.ErrInterrupted.
func Compare(ctx context.Context, c CompareConfig) (*Comparison, error) {
	if c.Episodes < 2 {
		return nil, fmt.Errorf("--episodes %d, want at least 2 for an interval", c.Episodes)
	}
	if c.SealedFirst < 0 || c.SealedFirst > 0 && c.Sealed == "" {
		return nil, fmt.Errorf("--sealed-first %d, want an episode of the block that --sealed FILE plays, from 0 on", c.SealedFirst)
	}
	if c.Sealed != "" {
		c.Seed = SealedSeed + uint64(c.SealedFirst)
	} else if err := CheckSeed(c.Seed, c.Episodes); err != nil {
		return nil, err
	}
	kwargs := HeldOut(c.Spec, c.Trained, c.Given)
	v, err := OpenEnvs(ctx, c.Spec, c.Episodes, envs.VecOptions{Options: kwargs, Autoreset: envs.SameStep}, c.URLs)
	if err != nil {
		return nil, err
	}
	defer v.Close()
	res := &Comparison{Env: c.Spec.ID, EnvKwargs: kwargs, Episodes: c.Episodes, Seed: c.Seed, URLs: c.URLs, Metric: "return",
		Metrics: c.Spec.Ranking(kwargs), played: EpisodesText(c.Spec, kwargs, c.Episodes)}
	for _, m := range res.Metrics {
		res.columns = append(res.columns, v.Spec().Column(m.Column))
	}
	if len(res.Metrics) > 0 {
		res.Metric, res.Lower = res.Metrics[0].Column, res.Metrics[0].Lower
	}
	todo, err := c.players(ctx, v)
	if err != nil {
		return nil, err
	}
	if c.Sealed != "" {
		if res.Sealed, err = c.useSealed(c.Sealed, kwargs); err != nil {
			return nil, err
		}
	}
	for i, p := range todo {
		err := res.play(p)
		if err != nil && ctx.Err() != nil {
			for _, rest := range todo[i:] {
				res.NotPlayed = append(res.NotPlayed, rest.name)
			}
			res.rank()
			return res, fmt.Errorf("%w: %d of %d policies have played; the same command starts over, and --baseline NAME plays one that is missing", cli.ErrInterrupted, i, len(todo))
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
	training   string // of a model, or of a search over one
	optional   bool   // omitted if it does not support the environment's options
	play       func() (*evaluation.Result, error)
}

// players returns the policies to compare in v: models, then baselines.
func (c *CompareConfig) players(ctx context.Context, v envs.VecEnv) ([]player, error) {
	var all []player
	seeds := evaluation.Seeds(c.Seed, c.Episodes)
	var trained trainings
	for _, path := range c.Models {
		f, err := models.ReadFile(path)
		if err != nil {
			return nil, err
		}
		name := freeName(all, ModelName(path, f.Meta.Algo, len(c.Models) == 1))
		all = append(all, player{name: name, kind: KindModel, training: trained.of(f.Meta, nil), play: func() (*evaluation.Result, error) {
			m, err := ReadModelFor(path, v)
			if err != nil {
				return nil, err
			}
			r, err := evaluation.Play(ctx, v, m, seeds)
			return r, errors.Join(err, m.Net.Close())
		}})
		if c.Ablate {
			all = append(all, c.ablations(ctx, v, path, name)...)
		}
	}
	for _, name := range c.baselineNames() {
		kind := KindBaseline
		if b, err := c.Spec.Baseline(name); err == nil && b.Clairvoyant {
			kind = KindClairvoyant
		}
		all = append(all, player{name: name, kind: kind, optional: c.Baselines == nil, play: func() (*evaluation.Result, error) {
			if f := follow(ctx, v, name, c.Seed); f != nil {
				return evaluation.Play(ctx, f, f, seeds)
			}
			p, err := baseline.NewContext(ctx, v.(*envs.Vec), name, c.Seed)
			if err != nil {
				return nil, err
			}
			return evaluation.Play(ctx, v, p, seeds)
		}})
	}
	for _, text := range c.Searches {
		p, err := searchPlayer(ctx, v, text, seeds, &trained)
		if err != nil {
			return nil, err
		}
		all = append(all, p)
	}
	return all, nil
}

// searchPlayer returns the search that text describes. It copies the environments of this process.
func searchPlayer(ctx context.Context, v envs.VecEnv, text string, seeds []uint64, trained *trainings) (player, error) {
	config, err := search.Parse(text)
	if err != nil {
		return player{}, err
	}
	local, ok := v.(*envs.Vec)
	if !ok {
		return player{}, fmt.Errorf("--search %s: a search copies environments of this process, and plays none of a server", text)
	}
	config.Now = time.Now
	p, err := search.New(ctx, local, config)
	if err != nil {
		return player{}, err
	}
	out := player{name: text, kind: KindSearch, play: func() (*evaluation.Result, error) { return evaluation.Play(ctx, v, p, seeds) }}
	switch {
	case config.Clairvoyant:
		out.kind = KindClairvoyant
	case config.OverModel():
		f, err := models.ReadFile(config.Base)
		if err != nil {
			return player{}, err
		}
		out.training = trained.of(f.Meta, &config)
	}
	return out, nil
}

// baselineNames returns the given names, or all baselines and random actions.
func (c *CompareConfig) baselineNames() []string {
	if c.Baselines != nil {
		return c.Baselines
	}
	var names []string
	for _, b := range c.Spec.Baselines {
		names = append(names, b.Name)
	}
	if !slices.Contains(names, baseline.RandomName) {
		names = append(names, baseline.RandomName)
	}
	return names
}

// ModelName names a model by its algorithm and its file, or by its log folder if it is the best model of one. A
// single model, or one whose file has the algorithm's name, is named by its algorithm only.
func ModelName(path, algo string, alone bool) string {
	if alone {
		return algo
	}
	name := strings.TrimSuffix(filepath.Base(path), models.Ext)
	if name == "best_model" {
		name = filepath.Base(filepath.Dir(path))
	}
	if name == algo {
		return algo
	}
	return algo + " " + name
}

// freeName returns name, with a number if a policy has it already: state tests and readers of tables find policies by
// their names.
func freeName(taken []player, name string) string {
	free := name
	for k := 2; slices.ContainsFunc(taken, func(p player) bool { return p.name == free }); k++ {
		free = fmt.Sprintf("%s (%d)", name, k)
	}
	return free
}

// play adds the row of one policy.
func (res *Comparison) play(p player) error {
	r, err := p.play()
	if err != nil {
		return err
	}
	row := Row{Policy: p.name, Kind: p.kind, Training: p.training, MeanReturn: tracking.Mean(r.Returns), Values: r.Returns,
		Episodes: EpisodeValues{Returns: r.Returns, Lengths: r.Lengths}}
	for i, m := range res.Metrics {
		values := r.Column(res.columns[i])
		if row.Metrics == nil {
			row.Metrics, row.Episodes.Metrics, row.Values = map[string]float64{}, map[string][]float64{}, values
		}
		row.Metrics[m.Column], row.Episodes.Metrics[m.Column] = tracking.Mean(values), values
	}
	e := tracking.StudentT(row.Values)
	row.Mean, row.Low, row.High = e.Mean, e.Low, e.High
	res.Rows = append(res.Rows, row)
	return nil
}

// Better says whether lower or higher values of the metric are better.
func (res *Comparison) Better() string {
	if res.Lower {
		return "lower"
	}
	return "higher"
}
