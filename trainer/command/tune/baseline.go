package tune

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"maps"
	"math"
	"path/filepath"
	"slices"
	"strings"

	"github.com/spf13/cobra"
	"gonum.org/v1/gonum/optimize"

	"github.com/kubernasium/kubernasium/agents"
	"github.com/kubernasium/kubernasium/agents/baseline"
	"github.com/kubernasium/kubernasium/agents/evaluation"
	"github.com/kubernasium/kubernasium/envs"
	"github.com/kubernasium/kubernasium/envs/pcg"
	"github.com/kubernasium/kubernasium/trainer/cli"
	"github.com/kubernasium/kubernasium/trainer/play"
	"github.com/kubernasium/kubernasium/trainer/run"
	"github.com/kubernasium/kubernasium/trainer/tracking"
)

// searchName is the file, in the folder of a search for a baseline's parameters, from which the search can
// resume: a line of JSON with the search, and then one for each candidate that has played.
const searchName = "search.jsonl"

// search holds everything that determines the result of tuning a baseline.
type search struct {
	Baseline  string         `json:"baseline"` // the parameters in its name are not searched
	Env       string         `json:"env"`
	EnvKwargs map[string]any `json:"env_kwargs"`
	Seed      uint64         `json:"seed"`
	Timesteps int            `json:"n_timesteps"`   // environment steps of all candidates together
	Episodes  int            `json:"eval_episodes"` // of each candidate
}

// candidate is the result of a baseline with given parameters.
type candidate struct {
	Baseline   string    `json:"baseline"`
	Validation bool      `json:"validation,omitempty"` // on validation seeds, as a finalist
	Steps      int       `json:"steps"`
	Mean       float64   `json:"mean"`             // of the metric, or of the return if there is none
	Values     []float64 `json:"values,omitempty"` // of the episodes; for finalists only
	Error      string    `json:"error,omitempty"`  // why it could not play; then it has no mean
}

// baselineTuner searches for the parameters of a baseline.
type baselineTuner struct {
	*journal[search, candidate]
	spec   *envs.Spec
	base   *envs.Baseline // as named, with the parameters that are not searched
	space  []envs.Parameter
	fixed  map[string]any
	lower  bool
	column int // of the metric in info, or -1 for the return
	v      *envs.Vec
	bar    *tracking.ProgressBar
	steps  int         // of the candidates so far
	played int         // number of candidates so far, including those in the journal
	points [][]float64 // their points in the search space

	begun map[uint64]*evaluation.Episodes // by their first seed; of the current generation, or of the validation
}

// complete fills in defaults and checks the search.
func (s *search) complete() error {
	spec, err := envs.Lookup(s.Env)
	if err != nil {
		return err
	}
	s.Env = spec.ID
	if s.Timesteps == 0 {
		h, err := run.ReadHyperparams("ppo", s.Env, "", map[string]any{})
		if err != nil {
			return err
		}
		s.Timesteps = h.NTimesteps
	}
	if s.Timesteps < 1 || s.Episodes < 2 {
		return fmt.Errorf("n-timesteps %d, want at least 1; eval-episodes %d, want at least 2", s.Timesteps, s.Episodes)
	}
	return play.CheckSeed(s.Seed, s.Timesteps+s.Episodes) // an episode has at least one step
}

// newBaselineTuner returns the tuner of a search, without its journal.
func newBaselineTuner(s search) (*baselineTuner, error) {
	t := &baselineTuner{column: -1, fixed: map[string]any{}, begun: map[uint64]*evaluation.Episodes{}}
	var err error
	if t.spec, err = envs.Lookup(s.Env); err != nil {
		return nil, err
	}
	if _, err = t.spec.Baseline(s.Baseline); err != nil {
		return nil, err
	}
	name, given, fixed := strings.Cut(s.Baseline, ":")
	if t.base, err = t.spec.Baseline(name); err != nil {
		return nil, err
	}
	if fixed {
		if t.fixed, err = t.base.ParseParameters(given); err != nil {
			return nil, err
		}
	}
	for _, p := range t.base.Parameters() {
		if _, given := t.fixed[p.Name]; !given && (p.Low < p.High || len(p.Choices) > 1 || p.Type == "bool") {
			t.space = append(t.space, p)
		}
	}
	if len(t.space) == 0 {
		return nil, fmt.Errorf("baseline %s of %s has no parameters to search; `trainer envs %s` lists those that have", s.Baseline, s.Env, s.Env)
	}
	if metrics := t.spec.Ranking(s.EnvKwargs); len(metrics) > 0 {
		t.lower, t.column = metrics[0].Lower, t.spec.Column(metrics[0].Column)
	}
	if t.v, err = envs.NewVec(t.spec, s.Episodes, envs.VecOptions{Options: s.EnvKwargs, Autoreset: envs.SameStep}); err != nil {
		return nil, err
	}
	play.WarnOnce(t.v.Notes())
	return t, nil
}

func (t *baselineTuner) close() error { return errors.Join(t.v.Close(), t.journal.close()) }

// generation returns the size of a generation of candidates. All its candidates play the same episodes.
func (t *baselineTuner) generation() int { return 8 + 2*len(t.space) }

// tune searches by CMA-ES until the candidates have played the timesteps of the search. The first
// candidates are drawn around the defaults.
func (t *baselineTuner) tune(ctx context.Context) error {
	var failed error
	start := make([]float64, len(t.space))
	for i, p := range t.space {
		start[i] = unit(&p)
	}
	problem := optimize.Problem{
		Func: func(x []float64) float64 {
			if failed != nil || t.steps >= t.study.Timesteps { // Status ends the search
				return math.Inf(1)
			}
			t.points = append(t.points, slices.Clone(x))
			c, err := t.next(ctx, t.at(x))
			if failed = err; err != nil || c.Error != "" {
				return math.Inf(1)
			}
			if t.lower {
				return c.Mean
			}
			return -c.Mean
		},
		Status: func() (optimize.Status, error) {
			switch {
			case failed != nil:
				return optimize.Failure, failed
			case t.steps >= t.study.Timesteps:
				return optimize.FunctionEvaluationLimit, nil
			}
			return optimize.NotTerminated, nil
		},
	}
	_, err := optimize.Minimize(problem, start, &optimize.Settings{Converger: optimize.NeverTerminate{}}, &optimize.CmaEsChol{
		InitStepSize: 0.3, Population: t.generation(), Src: pcg.New(t.study.Seed),
	})
	if err = cmp.Or(failed, err); err != nil {
		return err
	}
	return t.validate(ctx)
}

// next plays the next candidate, or returns it from the journal.
func (t *baselineTuner) next(ctx context.Context, name string) (candidate, error) {
	c := candidate{Baseline: name}
	if t.played < len(t.results) {
		if c = t.results[t.played]; c.Baseline != name {
			return c, fmt.Errorf("candidate %d on record is %s, not %s: the search is of another trainer; begin it anew", t.played, c.Baseline, name)
		}
	} else {
		first := t.study.Seed + uint64(t.played/t.generation()*t.study.Episodes)
		if err := t.play(ctx, &c, first, 1); err != nil {
			return c, err
		}
		c.Values = nil
		if err := t.add(c); err != nil {
			return c, err
		}
	}
	t.played++
	t.steps += c.Steps
	t.bar.Update(int64(min(t.steps, t.study.Timesteps)))
	return c, nil
}

// play lets a candidate play one episode in each environment, the given number of times. Seeds count from
// first.
func (t *baselineTuner) play(ctx context.Context, c *candidate, first uint64, times int) error {
	c.Steps = 0
	end := first + uint64(times*t.study.Episodes)
	maps.DeleteFunc(t.begun, func(seed uint64, _ *evaluation.Episodes) bool { return seed < first || seed >= end })
	for k := range times {
		p, err := baseline.NewContext(ctx, t.v, c.Baseline, first)
		var r *evaluation.Result
		if err == nil {
			r, err = t.playFrom(ctx, p, first+uint64(k*t.study.Episodes))
		}
		switch {
		case ctx.Err() != nil:
			return cli.ErrInterrupted
		case errors.Is(err, envs.ErrBaseline): // the baseline does not accept these parameters
			c.Error = err.Error()
			c.Steps++ // otherwise a search whose candidates all fail would never end
			return nil
		case err != nil:
			return err
		}
		values := r.Returns
		if t.column >= 0 {
			values = r.Column(t.column)
		}
		c.Values = append(c.Values, values...)
		for _, n := range r.Lengths {
			c.Steps += int(n)
		}
	}
	c.Mean = tracking.Mean(c.Values)
	return nil
}

// keptBytes limits the memory for the beginnings of episodes, as the environments estimate it.
const keptBytes = 1 << 30

// playFrom plays one episode in each environment. All candidates of a generation play the same episodes, and so
// do all finalists. It keeps the beginnings of the episodes, because generating episodes and planning for them
// takes most of a search's time.
func (t *baselineTuner) playFrom(ctx context.Context, p agents.Policy, seed uint64) (*evaluation.Result, error) {
	e, seeds := t.begun[seed], evaluation.Seeds(seed, t.study.Episodes)
	if e == nil && int64(len(t.begun)+1)*t.v.Bytes() > keptBytes {
		return evaluation.Play(ctx, t.v, p, seeds)
	}
	if e == nil {
		var err error
		if e, err = evaluation.Begin(ctx, t.v, seeds); err != nil {
			return nil, err
		}
		t.begun[seed] = e
	}
	return e.Play(ctx, p)
}

// better orders candidates: first those that play, then by their means.
func (t *baselineTuner) better(a, b candidate) int {
	if a.Error != "" || b.Error != "" {
		return cmp.Compare(a.Error, b.Error)
	}
	if t.lower {
		return cmp.Compare(a.Mean, b.Mean)
	}
	return cmp.Compare(b.Mean, a.Mean)
}

// Numbers of candidates that play on validation seeds: the best of each of the last generations, and the best
// of all. Because a candidate may be best by luck, the mean of the better half of each of the last generations
// also plays. Each plays validationTimes as many episodes as before.
const (
	lastGenerations = 5
	bestOfAll       = 3
	validationTimes = 5
)

// finalists returns the names of the candidates that play on validation seeds, the given baseline first.
func (t *baselineTuner) finalists() []string {
	names := []string{t.study.Baseline}
	add := func(c candidate) {
		if c.Error == "" && !slices.Contains(names, c.Baseline) {
			names = append(names, c.Baseline)
		}
	}
	all := slices.Clone(t.results[:t.played])
	generations := slices.Collect(slices.Chunk(all, t.generation()))
	for k := max(0, len(generations)-lastGenerations); k < len(generations); k++ {
		add(slices.MinFunc(generations[k], t.better))
		add(candidate{Baseline: t.at(t.mean(k*t.generation(), generations[k]))})
	}
	slices.SortStableFunc(all, t.better)
	for _, c := range all[:min(bestOfAll, len(all))] {
		add(c)
	}
	return names
}

// mean returns the mean point of the better half of a generation. first is the index of its first candidate.
func (t *baselineTuner) mean(first int, generation []candidate) []float64 {
	order := make([]int, len(generation))
	for i := range order {
		order[i] = i
	}
	slices.SortStableFunc(order, func(i, j int) int { return t.better(generation[i], generation[j]) })
	half := order[:(len(order)+1)/2]
	mean := make([]float64, len(t.space))
	for _, i := range half {
		for k, x := range t.points[first+i] {
			mean[k] += reflected(x) / float64(len(half))
		}
	}
	return mean
}

// validate lets the finalists play on validation seeds.
func (t *baselineTuner) validate(ctx context.Context) error {
	names := t.finalists()
	for _, name := range names {
		if slices.ContainsFunc(t.results, func(c candidate) bool { return c.Validation && c.Baseline == name }) {
			continue
		}
		c := candidate{Baseline: name, Validation: true}
		if err := t.play(ctx, &c, play.EvalSeed, validationTimes); err != nil {
			return err
		}
		if err := t.add(c); err != nil {
			return err
		}
	}
	return nil
}

// begin returns the tuner of a search in a new folder.
func (s search) begin(logFolder string) (t *baselineTuner, folder string, err error) {
	if err = s.complete(); err != nil {
		return nil, "", err
	}
	if t, err = newBaselineTuner(s); err != nil {
		return nil, "", err
	}
	if folder, err = run.NewFolder(filepath.Join(logFolder, "tune", "baseline"), run.EnvName(s.Env)); err == nil {
		t.journal, err = createJournal[search, candidate](folder, searchName, s)
	}
	if err != nil {
		return nil, "", errors.Join(err, t.v.Close())
	}
	return t, folder, nil
}

// resumeSearch returns the tuner of the search in the folder.
func resumeSearch(folder string) (*baselineTuner, error) {
	j, err := resumeJournal(folder, searchName, func(*search, []candidate) error { return nil })
	if err != nil {
		return nil, err
	}
	t, err := newBaselineTuner(j.study)
	if err != nil {
		return nil, errors.Join(err, j.close())
	}
	t.journal = j
	return t, nil
}

// tuneAndReport searches in the folder and reports.
func (t *baselineTuner) tuneAndReport(cmd *cobra.Command, folder string) error {
	t.bar = tracking.NewProgressBar(tracking.ProgressBarConfig{
		Out: cmd.ErrOrStderr(), Total: int64(t.study.Timesteps), Terminal: tracking.IsTerminal(cmd.ErrOrStderr()), Quiet: cli.WantJSON(cmd),
	})
	err := t.tune(cmd.Context())
	t.bar.Close()
	if errors.Is(err, cli.ErrInterrupted) {
		return fmt.Errorf("%w; go on with trainer tune --resume %s", cli.ErrInterrupted, folder)
	}
	if err != nil {
		return err
	}
	res := t.result(folder)
	return cli.Print(cmd, res, res.print)
}

// at returns the name of the baseline with the parameters at a point of the search space.
func (t *baselineTuner) at(x []float64) string {
	values := maps.Clone(t.fixed)
	for i, p := range t.space {
		values[p.Name] = value(&p, x[i])
	}
	b, err := t.base.With(values)
	if err != nil {
		panic(err) // value returns only valid values
	}
	return b.Name
}
