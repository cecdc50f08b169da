package main

import (
	"context"
	"errors"
	"fmt"
	"math"
	"os"
	"path/filepath"
	"runtime"
	"slices"
	"strconv"
	"strings"
	"sync"
	"time"

	"github.com/spf13/cobra"
	"github.com/spf13/pflag"
	"golang.org/x/sync/errgroup"

	"github.com/kubernasium/kubernasium/envs"
	"github.com/kubernasium/kubernasium/trainer/tracking"
)

// seedsResult is what `train --seeds --json` prints.
type seedsResult struct {
	Algo    string       `json:"algo"`
	Env     string       `json:"env"`
	Folder  string       `json:"folder"`
	Seconds float64      `json:"seconds"`   // of all trainings together
	Eval    *estimate    `json:"eval_mean"` // over the seeds that were trained to their end, with its 95 % interval; null if none was
	Seeds   []seedResult `json:"seeds"`
}

// seedResult is the training with one seed.
type seedResult struct {
	Seed uint64 `json:"seed"`
	trainResult
	Error string `json:"error,omitempty"`

	best  string // best model
	curve []curveAt
	err   error
}

// maxSeeds bounds the trainings of one command.
const maxSeeds = 1000

// parseSeeds reads seeds of the form 1..5 or 1,2,7.
func parseSeeds(text string) ([]uint64, error) {
	wrong := fmt.Errorf("--seeds %q, want a range such as 1..5 or a list such as 1,2,7", text)
	if from, to, ok := strings.Cut(text, ".."); ok {
		a, errA := strconv.ParseUint(from, 10, 63)
		b, errB := strconv.ParseUint(to, 10, 63)
		switch {
		case errA != nil || errB != nil || b < a:
			return nil, wrong
		case b-a >= maxSeeds:
			return nil, fmt.Errorf("--seeds %q are more than %d", text, maxSeeds)
		}
		seeds := make([]uint64, b-a+1)
		for i := range seeds {
			seeds[i] = a + uint64(i)
		}
		return seeds, nil
	}
	var seeds []uint64
	seen := map[uint64]bool{}
	for _, word := range strings.Split(text, ",") {
		s, err := strconv.ParseUint(strings.TrimSpace(word), 10, 64)
		if err != nil {
			return nil, wrong
		}
		if seen[s] {
			return nil, fmt.Errorf("--seeds %q has %d twice", text, s)
		}
		seen[s] = true
		seeds = append(seeds, s)
	}
	return seeds, nil
}

// trainSeedsAndReport trains once with each seed, jobs at one time, each in its own folder, and
// prints a table of what came of them.
func trainSeedsAndReport(cmd *cobra.Command, spec *envs.Spec, c trainConfig, seeds []uint64, jobs, compare int) error {
	if jobs < 0 {
		return fmt.Errorf("--n-jobs %d, want at least 1", jobs)
	}
	if jobs == 0 {
		jobs = runtime.GOMAXPROCS(0)
	}
	folder, err := c.openSeeds(seeds)
	if err != nil {
		return err
	}
	res, err := trainSeeds(cmd, spec, c, folder, seeds, jobs)
	if err != nil {
		return err
	}
	if err := res.write(); err != nil {
		return err
	}
	var failed []error
	var models []string
	for _, s := range res.Seeds {
		if s.err != nil {
			failed = append(failed, fmt.Errorf("seed %d: %w", s.Seed, s.err))
		} else {
			models = append(models, s.best)
		}
	}
	if cmd.Context().Err() != nil {
		failed = append(failed, fmt.Errorf("all of them go on with --resume %s", folder))
	}
	if wantJSON(cmd) && (compare == 0 || len(models) == 0 || cmd.Context().Err() != nil) {
		return errors.Join(append(failed, printJSON(cmd, res))...)
	}
	if !wantJSON(cmd) {
		if err := res.print(cmd); err != nil {
			return err
		}
	}
	if compare > 0 && len(models) > 0 && cmd.Context().Err() == nil {
		cc := compareConfig{spec: spec, trained: c.kwargs, given: c.evalKwargs, models: models, episodes: compare, seed: compareSeed,
			plot: filepath.Join(folder, "comparison.png"), csv: filepath.Join(folder, "comparison.csv")}
		failed = append(failed, compareAndReport(cmd, cc, res))
	}
	return errors.Join(failed...)
}

// seedsOf returns the seeds to train with: those of --seeds, which are all that were begun and may be
// more, or those begun.
func (c *trainConfig) seedsOf(flags *pflag.FlagSet, text string, begun []uint64) ([]uint64, error) {
	if flags.Changed("seed") {
		return nil, errors.New("--seeds starts several trainings: it goes without --seed")
	}
	if text == "" {
		return begun, nil
	}
	seeds, err := parseSeeds(text)
	if err != nil {
		return nil, err
	}
	if c.resume != "" && begun == nil {
		return nil, fmt.Errorf("--seeds with --resume %s, which is one training: want the folder in which --seeds has trained", c.resume)
	}
	for _, s := range begun {
		if !slices.Contains(seeds, s) {
			return nil, fmt.Errorf("--seeds %s lacks %d, with which a training in %s was begun", text, s, c.resume)
		}
	}
	return seeds, nil
}

// openSeeds makes the folder of several trainings, or takes that of those that are resumed, and records
// what they are started with.
func (c *trainConfig) openSeeds(seeds []uint64) (string, error) {
	folder := c.resume
	if folder == "" {
		var err error
		if folder, err = newFolder(filepath.Join(c.logFolder, c.algo), envName(c.env)); err != nil {
			return "", err
		}
	}
	return folder, c.writeConfig(folder, seeds, 0)
}

// trainSeeds trains. The error is that of a training that could not be set up, as then none
// can; others are in the result.
func trainSeeds(cmd *cobra.Command, spec *envs.Spec, c trainConfig, folder string, seeds []uint64, jobs int) (*seedsResult, error) {
	begun := time.Now()
	bar := tracking.NewProgressBar(tracking.ProgressBarConfig{
		Out: cmd.ErrOrStderr(), Total: int64(c.params.NTimesteps) * int64(len(seeds)), Terminal: tracking.IsTerminal(cmd.ErrOrStderr()), Quiet: c.quiet,
	})
	defer bar.Close()
	total := newSumProgress(bar, make([]int64, len(seeds)))
	res := &seedsResult{Algo: c.algo, Env: spec.ID, Folder: folder, Seeds: make([]seedResult, len(seeds))}
	g, ctx := errgroup.WithContext(cmd.Context())
	g.SetLimit(jobs)
	for i, seed := range seeds {
		g.Go(func() error {
			one := c
			one.seed, one.folder, one.bar = seed, filepath.Join(folder, fmt.Sprintf("seed_%d", seed)), total.part(i)
			if err := one.resumeSeed(); err != nil {
				return err
			}
			var err error
			res.Seeds[i], err = trainSeed(ctx, cmd, spec, one)
			return err
		})
	}
	if err := g.Wait(); err != nil {
		return nil, err
	}
	res.Seconds = time.Since(begun).Seconds()
	res.estimate()
	return res, nil
}

// resumeSeed makes c resume from what a training in its folder has left, or start anew where that is
// nothing from which it can. One that was trained to its end has nothing more to do.
func (c *trainConfig) resumeSeed() error {
	if c.resume == "" {
		return nil
	}
	var err error
	if c.resume, err = newestCheckpoint(c.folder, c.env); err != nil || c.resume != "" {
		return err
	}
	return os.RemoveAll(c.folder)
}

// trainSeed trains with one seed. The error is one of its set-up.
func trainSeed(ctx context.Context, cmd *cobra.Command, spec *envs.Spec, c trainConfig) (seedResult, error) {
	out := seedResult{Seed: c.seed}
	if ctx.Err() != nil {
		out.err = fmt.Errorf("%w before it began: nothing is saved", errInterrupted)
		out.Error = out.err.Error()
		return out, nil
	}
	begun := time.Now()
	r, err := newRun(ctx, spec, c, cmd.ErrOrStderr())
	if err != nil && cmd.Context().Err() != nil {
		out.err = fmt.Errorf("%w before it began: nothing is saved", errInterrupted)
		out.Error = out.err.Error()
		return out, nil
	}
	if err != nil {
		return out, err
	}
	defer r.close()
	if out.err = r.train(ctx); out.err == nil {
		out.trainResult, out.err = r.result(ctx)
	}
	if out.err != nil {
		out.Error = out.err.Error()
	}
	out.Seconds, out.best, out.curve = time.Since(begun).Seconds(), r.bestModel(), r.curve
	return out, nil
}

// estimate takes the mean over the seeds that were trained to their end.
func (res *seedsResult) estimate() {
	var means []float64
	for _, s := range res.Seeds {
		if s.err == nil {
			means = append(means, s.EvalMean)
		}
	}
	if len(means) == 0 {
		return
	}
	e := estimate(tracking.StudentT(means))
	if len(means) < 2 { // no interval, which JSON could not say
		e.Low, e.High = e.Mean, e.Mean
	}
	res.Eval = &e
}

// write leaves the table and the learning curves in the folder.
func (res *seedsResult) write() error {
	if err := writeTo(filepath.Join(res.Folder, "seeds.csv"), res.table().WriteCSV); err != nil {
		return err
	}
	s := res.series()
	if len(s.Steps) == 0 {
		return nil
	}
	title := fmt.Sprintf("%s on %s, held-out episodes, %d seeds", res.Algo, res.Env, len(res.Seeds))
	return tracking.LearningCurve(filepath.Join(res.Folder, "learning_curve.png"), title, []tracking.Series{s}, nil)
}

// series is the mean over seeds, with its 95 % interval, at the steps at which all were
// evaluated.
func (res *seedsResult) series() tracking.Series {
	at := map[int][]float64{}
	var steps []int
	trained := 0
	for _, s := range res.Seeds {
		if s.err != nil {
			continue
		}
		trained++
		for _, c := range s.curve {
			if at[c.Step] == nil {
				steps = append(steps, c.Step)
			}
			at[c.Step] = append(at[c.Step], tracking.Mean(c.Returns))
		}
	}
	s := tracking.Series{Name: res.Algo}
	for _, step := range steps { // those of the first seed come in order, and others add none that all have
		if len(at[step]) != trained {
			continue
		}
		e := tracking.StudentT(at[step])
		if math.IsNaN(e.Low) {
			e.Low, e.High = e.Mean, e.Mean
		}
		s.Steps = append(s.Steps, int64(step))
		s.Mean, s.Low, s.High = append(s.Mean, e.Mean), append(s.Low, e.Low), append(s.High, e.High)
	}
	return s
}

func (res *seedsResult) table() *tracking.Table {
	t := tracking.NewTable(">seed", ">steps", ">seconds", ">mean return", ">std", "best model")
	for _, s := range res.Seeds {
		if s.err != nil {
			what := "failed: "
			if errors.Is(s.err, errInterrupted) {
				what = "" // the error says so
			}
			t.Append(fmt.Sprint(s.Seed), "", "", "", "", what+s.Error)
			continue
		}
		t.Append(fmt.Sprint(s.Seed), fmt.Sprint(s.Timesteps), fmt.Sprintf("%.0f", s.Seconds), number(s.EvalMean), number(s.EvalStd), s.best)
	}
	return t
}

func (res *seedsResult) print(cmd *cobra.Command) error {
	w := cmd.OutOrStdout()
	if err := res.table().WriteText(w); err != nil {
		return err
	}
	trained := 0
	for _, s := range res.Seeds {
		if s.err == nil {
			trained++
		}
	}
	of := fmt.Sprintf("%d seeds", trained)
	if trained < len(res.Seeds) {
		of = fmt.Sprintf("%d of %d seeds", trained, len(res.Seeds))
	}
	figures := "no mean return"
	if res.Eval != nil {
		figures = fmt.Sprintf("mean return %.2f, 95 %% interval over seeds %s", res.Eval.Mean, interval(res.Eval.Low, res.Eval.High))
	}
	_, err := fmt.Fprintf(w, "\n%s on %s, %s in %.0f s: %s; logs in %s\n", res.Algo, res.Env, of, res.Seconds, figures, res.Folder)
	return err
}

// sumProgress shows several trainings as one.
type sumProgress struct {
	bar *tracking.ProgressBar

	mu    sync.Mutex
	steps []int64 // of each training
}

// newSumProgress returns the progress of several trainings, which bar shows; steps are those that
// each has made.
func newSumProgress(bar *tracking.ProgressBar, steps []int64) *sumProgress {
	return &sumProgress{bar: bar, steps: steps}
}

// part returns what training i reports to.
func (s *sumProgress) part(i int) *partProgress { return &partProgress{s, i} }

// partProgress is the progress of one of several trainings.
type partProgress struct {
	sum *sumProgress
	i   int
}

func (p *partProgress) Episode(ret float64) { p.sum.bar.Episode(ret) }

func (p *partProgress) Update(step int64) {
	p.sum.mu.Lock()
	defer p.sum.mu.Unlock()
	p.sum.steps[p.i] = step
	total := int64(0)
	for _, s := range p.sum.steps {
		total += s
	}
	p.sum.bar.Update(total)
}

// Write prints lines above the bar.
func (p *partProgress) Write(b []byte) (int, error) { return p.sum.bar.Write(b) }

// Close does nothing: the bar is closed when all trainings are at their end.
func (p *partProgress) Close() error { return nil }
