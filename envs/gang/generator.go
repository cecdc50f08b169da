package gang

import (
	"context"
	"fmt"
	"math"
	"math/rand/v2"
	"path/filepath"
	"sync"

	"github.com/kubernasium/kubernasium/envs"
	"github.com/kubernasium/kubernasium/envs/cluster"
	"github.com/kubernasium/kubernasium/envs/gang/planner"
	"github.com/kubernasium/kubernasium/envs/gang/profile"
	"github.com/kubernasium/kubernasium/envs/gang/published"
	"github.com/kubernasium/kubernasium/envs/gang/series"
	"github.com/kubernasium/kubernasium/envs/pcg"
)

// source draws the instances of episodes. It is shared by all environments made together and
// is safe for concurrent use.
type source struct {
	opts   Options
	model  *profile.Model
	laws   []profile.Law     // of the model's profile, for noise and errors; nil without them
	series []series.Scaled   // of files; empty generates
	fixed  *planner.Instance // of compatible dynamics
	pool   []pooled
	notes  []string // of the files
}

// pooled is an instance that is made when first drawn.
type pooled struct {
	mu       sync.Mutex
	instance *planner.Instance
}

// newSource completes the options and loads the files that they name.
func newSource(o Options) (*source, error) {
	if err := o.complete(); err != nil {
		return nil, err
	}
	s := &source{opts: o, pool: make([]pooled, o.Instances)}
	if o.Dynamics == DynamicsCompatible {
		return s, s.loadCompatible()
	}
	measured, err := s.loadProfile()
	if err != nil {
		return nil, err
	}
	if spare := o.TotalCPU - len(measured.Tasks)*o.StartCPU; spare < 0 || spare%o.IncrementCPU != 0 || spare/o.IncrementCPU > profile.MaxIncrements {
		return nil, fmt.Errorf("%w: total_cpu_m is %d, want start_cpu_m, %d, for each of the profile's %d tasks and a multiple of increment_cpu_m, %d, more, at most %d times it",
			envs.ErrInvalidOption, o.TotalCPU, o.StartCPU, len(measured.Tasks), o.IncrementCPU, profile.MaxIncrements)
	}
	if s.model, err = profile.NewModel(measured, o.modelConfig()); err != nil {
		return nil, err
	}
	if o.Noise > 0 || o.StragglerProb > 0 || o.profileErrors() {
		for k := range measured.Tasks {
			law := profile.FitLaw(measured, k)
			if math.IsInf(law.RMS, 1) {
				return nil, fmt.Errorf("%w: noise, straggler_prob, scale_error and exponent_error are by the laws of the profile's tasks, and the points of %s determine none",
					envs.ErrInvalidOption, law.Task)
			}
			s.laws = append(s.laws, law)
		}
	}
	if o.Data != "" {
		err = s.loadSeries()
	}
	return s, err
}

func (s *source) loadCompatible() error {
	d, err := published.ReadDataset(s.opts.Data)
	if err != nil {
		return err
	}
	s.model = d.Model
	trace := d.Forecast
	if s.opts.Forecaster == series.Perfect {
		trace = d.Actual
	}
	s.fixed, err = planner.NewInstance(context.Background(), d.Model, trace, s.opts.Windows, s.opts.Horizon)
	if err != nil {
		return err
	}
	c := s.opts.compatible()
	return c.Validate(s.fixed)
}

// compatible returns the options as those of a [Compatible].
func (o *Options) compatible() published.Compatible {
	return published.Compatible{
		Actions: o.Windows + 1, Columns: o.Horizon, Low: o.DurationLow, High: o.DurationHigh,
		Penalty: o.Penalty, First: o.First, Steps: o.Steps,
	}
}

func (s *source) loadProfile() (*profile.Profile, error) {
	switch {
	case s.opts.Profile != "":
		return profile.Read(s.opts.Profile)
	case s.opts.Data != "":
		return profile.Read(filepath.Join(s.opts.Data, "profile", "workload_profiling.csv"))
	}
	return profile.Generate(rand.New(pcg.New(uint64(s.opts.ProfileSeed)))), nil
}

func (s *source) loadSeries() error {
	names, err := published.SeriesNames(s.opts.Data, s.opts.Series)
	if err != nil {
		return err
	}
	for _, name := range names {
		one, err := s.loadOne(name)
		if err != nil {
			return err
		}
		s.series = append(s.series, one)
	}
	return nil
}

func (s *source) loadOne(name string) (series.Scaled, error) {
	path := filepath.Join(s.opts.Data, "series", name+".csv")
	need := series.HeldOutRows + s.span() + 1 // rows: a training part that holds at least one episode
	read, err := series.Read(path, need)
	if err != nil {
		return series.Scaled{}, err
	}
	if holes := read.Holes(); holes != "" {
		s.notes = append(s.notes, holes)
	}
	raw := series.Raw{Name: path, Values: read.Values, Day: read.StepsPerDay()}
	if s.opts.Forecaster == series.FromFile {
		raw.File, err = series.ReadForecasts(filepath.Join(s.opts.Data, "forecasts", name+"_forecasts.csv"), series.ForecastRows)
		if err != nil {
			return series.Scaled{}, err
		}
		if raw.File.Columns < s.opts.columns() {
			return series.Scaled{}, fmt.Errorf("gang: %s: %d columns, want at least %d", raw.File.Name, raw.File.Columns, s.opts.columns())
		}
	}
	one, err := s.fit(raw, len(raw.Values)-series.HeldOutRows)
	if err != nil {
		return series.Scaled{}, err
	}
	if _, n := s.starts(&one); n < 1 {
		return series.Scaled{}, fmt.Errorf("gang: %s: no room for an episode of %d steps in the %s part of its %d rows, after the %d that the forecaster looks back",
			path, s.opts.Steps, s.opts.Split, len(raw.Values), one.Forecaster.History())
	}
	return one, nil
}

// span returns how many rows an episode needs: its steps, the observation after the last, and the predictions made
// there.
func (s *source) span() int { return s.opts.Steps + s.opts.columns() }

// part returns the rows of the split, first … end-1.
func (s *source) part(one *series.Scaled) (first, end int) {
	validation := max(s.span(), one.Train/3) // a third of the training's rows, or more if an episode needs more
	switch s.opts.Split {
	case SplitValidation:
		return max(1, one.Train-validation), one.Train
	case SplitFit:
		return 1, one.Train - validation
	case SplitHeldOut:
		return one.Train, len(one.Values)
	}
	return 1, one.Train // forecasts need a value before them
}

// starts returns the range of rows at which an episode may begin. Its predictions must be of existing rows; forecasts
// of a file must be made at rows that the file has.
func (s *source) starts(one *series.Scaled) (first, n int) {
	first, end := s.part(one)
	first = max(first, one.Forecaster.History())
	if one.Forecaster.Kind == series.FromFile {
		end = min(end, one.Train+one.File.Len()+s.opts.columns()-1)
	}
	return first, end - s.span() + 1 - first
}

// These separate the instances of the other splits from those of the training split, even for equal seeds. Their values
// are arbitrary.
const (
	splitStream      = 0x9e3779b97f4a7c15
	validationStream = 0xd1b54a32d192ed03
)

// draw returns the instance of an episode.
func (s *source) draw(ctx context.Context, rng *rand.Rand) (*planner.Instance, error) {
	switch {
	case s.fixed != nil:
		return s.fixed, nil
	case len(s.pool) == 0:
		seed := rng.Uint64()
		if s.opts.Split != SplitTrain && s.opts.Split != SplitFit { // validation and held-out episodes have other seeds
			seed ^= splitStream
		}
		return s.make(ctx, seed)
	}
	i := rng.IntN(len(s.pool))
	p := &s.pool[i]
	p.mu.Lock()
	defer p.mu.Unlock()
	if p.instance != nil {
		return p.instance, nil
	}
	seed := uint64(i)
	switch s.opts.Split {
	case SplitValidation:
		seed ^= validationStream
	case SplitHeldOut:
		seed ^= splitStream
	}
	in, err := s.make(ctx, seed)
	if err != nil {
		return nil, err
	}
	in.KeepScaled()
	p.instance = in
	return in, nil
}

// checkEvery is the number of supersteps between checks of the context.
const checkEvery = 1 << 12

// make makes the instance of a seed, or returns the error of ctx once that has ended.
func (s *source) make(ctx context.Context, seed uint64) (*planner.Instance, error) {
	rng := rand.New(pcg.New(seed))
	columns, tasks := s.opts.columns(), s.model.NumTasks()
	tr := &planner.Trace{Steps: s.opts.Steps + 1, Columns: columns, Tasks: tasks}
	tr.Planned = make([]float64, tr.Steps*columns*tasks)
	tr.True = make([]float64, tr.Steps*tasks)
	order := rng.Perm(max(len(s.series), 1))
	row := make([]float64, columns)
	for k := range tasks {
		var one series.Scaled
		first := series.GeneratedHistory
		if len(s.series) == 0 {
			raw := series.Generate(rng, series.GeneratedHistory+s.span())
			var err error
			if one, err = s.fit(raw, series.GeneratedHistory); err != nil {
				return nil, err
			}
		} else {
			one = s.series[order[k%len(order)]]
			from, n := s.starts(&one)
			first = from + rng.IntN(n)
		}
		tr.Day = append(tr.Day, one.Day)
		tr.Past = append(tr.Past, one.Before(first, planner.PastSteps))
		for t := range tr.Steps {
			if t%checkEvery == 0 && ctx.Err() != nil {
				return nil, ctx.Err()
			}
			at := first + t
			tr.True[t*tasks+k] = one.Size(one.Values[at])
			one.Forecaster.Row(&one.Raw, at, row)
			for h, v := range row {
				tr.Planned[(t*columns+h)*tasks+k] = one.Size(v)
			}
		}
	}
	model := s.model
	if s.opts.profileErrors() {
		var err error
		if model, err = profile.NewModel(profile.Perturb(model.Profile(), s.laws, s.opts.ScaleError, s.opts.ExponentError, rng), model.Config()); err != nil {
			return nil, err
		}
	}
	in, err := planner.NewInstance(ctx, model, tr, s.opts.Windows, s.opts.Horizon)
	if err == nil {
		in.ExecuteBy(s.model)
	}
	return in, err
}

// profileErrors reports whether planners and observations see another profile than the true one.
func (o *Options) profileErrors() bool { return o.ScaleError > 0 || o.ExponentError > 0 }

// fit fits scaler and forecaster on the first train values of a series.
func (s *source) fit(raw series.Raw, train int) (series.Scaled, error) {
	return series.Fit(s.opts.Forecaster, raw, train, [2]float64{s.opts.SizeLow, s.opts.SizeHigh})
}

// Begin implements [envs.Task].
func (t *Task) Begin(ctx context.Context, c cluster.Cluster, rng *rand.Rand) error {
	var err error
	if t.in, err = t.src.draw(ctx, rng); err != nil {
		return err
	}
	t.rng = rng
	t.first = 0
	if t.compatible() {
		t.first = t.opts.First
	}
	t.step, t.since, t.planned = 0, math.MaxInt, false
	t.window, t.bottleneck, t.checkpoints = 0, 0, 0
	t.duration, t.penalty, t.total = 0, 0, 0
	t.expected = math.NaN()
	clear(t.levels)
	if err := t.prepare(ctx); err != nil {
		return err
	}
	return t.pods.Create(ctx, c, t.levels)
}

// prepare computes what the next observation shows, while there is a context; Observe has none.
func (t *Task) prepare(ctx context.Context) error { return t.in.Prepare(ctx, t.Step(), 1) }
