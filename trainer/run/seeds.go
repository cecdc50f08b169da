package run

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"io"
	"math"
	"os"
	"path/filepath"
	"runtime"
	"slices"
	"strconv"
	"strings"
	"time"

	"golang.org/x/sync/errgroup"

	"github.com/kubernasium/kubernasium/envs"
	"github.com/kubernasium/kubernasium/trainer/cli"
	"github.com/kubernasium/kubernasium/trainer/tracking"
)

// SeedsResult is the JSON of `train --seeds --json`.
type SeedsResult struct {
	Algo    string             `json:"algo"`
	Env     string             `json:"env"`
	Folder  string             `json:"folder"`
	Seconds float64            `json:"seconds"`   // of all trainings together
	Eval    *tracking.Estimate `json:"eval_mean"` // over the seeds whose trainings are complete, with its 95 % interval; null if there are none
	Seeds   []SeedResult       `json:"seeds"`
}

// SeedResult is the training with one seed.
type SeedResult struct {
	Seed uint64 `json:"seed"`
	Result
	Error string `json:"error,omitempty"`

	Best string `json:"-"` // path of the best model
	Err  error  `json:"-"`

	curve []Evaluation
}

// maxSeeds limits the trainings of one command.
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

// SeedsOf returns the seeds to train with: those of --seeds, which must include all seeds that have begun, or
// else those that have begun.
func (c *Config) SeedsOf(text string, begun []uint64) ([]uint64, error) {
	if text == "" {
		return begun, nil
	}
	seeds, err := parseSeeds(text)
	if err != nil {
		return nil, err
	}
	if c.Resume != "" && begun == nil {
		return nil, fmt.Errorf("--seeds with --resume %s, which is one training: want the folder in which --seeds has trained", c.Resume)
	}
	for _, s := range begun {
		if !slices.Contains(seeds, s) {
			return nil, fmt.Errorf("--seeds %s lacks %d, with which a training in %s was begun", text, s, c.Resume)
		}
	}
	return seeds, nil
}

// openSeeds creates the folder of several trainings, or opens that of resumed ones, and records their settings.
func (c *Config) openSeeds(seeds []uint64) (string, error) {
	folder := c.Resume
	if folder == "" {
		var err error
		if folder, err = NewFolder(filepath.Join(c.LogFolder, c.Algo), EnvName(c.Env)); err != nil {
			return "", err
		}
	}
	return folder, c.writeConfig(folder, seeds, 0)
}

// TrainSeeds trains once with each seed, jobs at a time (0: as many as there are cores). Each training has its
// own folder; TrainSeeds writes a table and the learning curves beside them, and shows progress on out. It
// returns an error if the set-up of a training fails, because then all would fail. Other errors are in the
// result.
func TrainSeeds(ctx context.Context, spec *envs.Spec, c Config, seeds []uint64, jobs int, out io.Writer) (*SeedsResult, error) {
	if jobs < 0 {
		return nil, fmt.Errorf("--n-jobs %d, want at least 1", jobs)
	}
	jobs = cmp.Or(jobs, runtime.GOMAXPROCS(0))
	c.NThreads = cmp.Or(c.NThreads, max(1, runtime.GOMAXPROCS(0)/min(jobs, len(seeds))))
	if c.Shared.File != "" {
		return c.trainShared(ctx, spec, seeds, jobs, out)
	}
	folder, err := c.openSeeds(seeds)
	if err != nil {
		return nil, err
	}
	begun := time.Now()
	bar := tracking.NewProgressBar(tracking.ProgressBarConfig{
		Out: out, Total: int64(c.Params.NTimesteps) * int64(len(seeds)), Terminal: tracking.IsTerminal(out), Quiet: c.Quiet,
	})
	defer bar.Close()
	total := cli.NewSumProgress(bar, make([]int64, len(seeds)))
	res := &SeedsResult{Algo: c.Algo, Env: spec.ID, Folder: folder, Seeds: make([]SeedResult, len(seeds))}
	g, running := errgroup.WithContext(ctx)
	g.SetLimit(jobs)
	for i, seed := range seeds {
		g.Go(func() error {
			one := c
			one.Seed, one.Folder, one.Bar = seed, filepath.Join(folder, fmt.Sprintf("seed_%d", seed)), total.Part(i)
			if err := one.resumeSeed(); err != nil {
				return err
			}
			var err error
			res.Seeds[i], err = trainSeed(running, ctx, spec, one, out)
			return err
		})
	}
	if err := g.Wait(); err != nil {
		return nil, err
	}
	res.Seconds = time.Since(begun).Seconds()
	res.estimate()
	return res, res.write()
}

// resumeSeed makes c resume from the training in its folder, or start again if the folder has no checkpoint. A
// complete training does nothing more.
func (c *Config) resumeSeed() error {
	if c.Resume == "" {
		return nil
	}
	var err error
	if c.Resume, err = newestCheckpoint(c.Folder, c.Env); err != nil || c.Resume != "" {
		return err
	}
	return os.RemoveAll(c.Folder)
}

// trainSeed trains with one seed until ctx ends. It returns an error only for a failed set-up, unless command,
// the context of all trainings, has ended.
func trainSeed(ctx, command context.Context, spec *envs.Spec, c Config, progress io.Writer) (SeedResult, error) {
	out := SeedResult{Seed: c.Seed}
	if ctx.Err() != nil {
		out.Err = fmt.Errorf("%w before it began: nothing is saved", cli.ErrInterrupted)
		out.Error = out.Err.Error()
		return out, nil
	}
	begun := time.Now()
	r, err := New(ctx, spec, c, progress)
	if err != nil && command.Err() != nil {
		out.Err = fmt.Errorf("%w before it began: nothing is saved", cli.ErrInterrupted)
		out.Error = out.Err.Error()
		return out, nil
	}
	if err != nil {
		return out, err
	}
	defer r.Close()
	if out.Err = r.Train(ctx); out.Err == nil {
		out.Result, out.Err = r.Result(ctx)
	}
	if out.Err != nil {
		out.Error = out.Err.Error()
	}
	out.Seconds, out.Best, out.curve = time.Since(begun).Seconds(), r.BestModel(), r.Curve
	return out, nil
}

// estimate computes the mean over the seeds whose trainings are complete.
func (res *SeedsResult) estimate() {
	var means []float64
	for _, s := range res.Seeds {
		if s.Err == nil {
			means = append(means, s.EvalMean)
		}
	}
	if len(means) == 0 {
		return
	}
	e := tracking.StudentT(means)
	if len(means) < 2 { // no interval, because JSON has no NaN
		e.Low, e.High = e.Mean, e.Mean
	}
	res.Eval = &e
}

// write writes the table and the learning curves to the folder.
func (res *SeedsResult) write() error {
	if err := cli.WriteTo(filepath.Join(res.Folder, "seeds.csv"), res.table().WriteCSV); err != nil {
		return err
	}
	s := res.series()
	if len(s.Steps) == 0 {
		return nil
	}
	title := fmt.Sprintf("%s on %s, episodes of evaluations, %d seeds", res.Algo, res.Env, len(res.Seeds))
	return tracking.LearningCurve(filepath.Join(res.Folder, "learning_curve.png"), title, []tracking.Series{s}, nil)
}

// series returns the mean over seeds, with its 95 % interval, at those steps at which all seeds were evaluated.
func (res *SeedsResult) series() tracking.Series {
	at := map[int][]float64{}
	var steps []int
	trained := 0
	for _, s := range res.Seeds {
		if s.Err != nil {
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
	for _, step := range steps { // the first seed's steps are sorted, and other seeds add no steps that all have
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

func (res *SeedsResult) table() *tracking.Table {
	t := tracking.NewTable(">seed", ">steps", ">seconds", ">mean return", ">std", "best model")
	for _, s := range res.Seeds {
		if s.Err != nil {
			what := "failed: "
			if errors.Is(s.Err, cli.ErrInterrupted) {
				what = "" // the row shows the error
			}
			t.Append(fmt.Sprint(s.Seed), "", "", "", "", what+s.Error)
			continue
		}
		t.Append(fmt.Sprint(s.Seed), fmt.Sprint(s.Timesteps), fmt.Sprintf("%.0f", s.Seconds), cli.Number(s.EvalMean), cli.Number(s.EvalStd), s.Best)
	}
	return t
}

// Print writes a row for each seed and a line for all of them.
func (res *SeedsResult) Print(w io.Writer) error {
	res.table().WriteText(w)
	trained := 0
	for _, s := range res.Seeds {
		if s.Err == nil {
			trained++
		}
	}
	of := fmt.Sprintf("%d seeds", trained)
	if trained < len(res.Seeds) {
		of = fmt.Sprintf("%d of %d seeds", trained, len(res.Seeds))
	}
	figures := "no mean return"
	if res.Eval != nil {
		figures = fmt.Sprintf("mean return %.2f, 95 %% interval over seeds %s", res.Eval.Mean, cli.Interval(res.Eval.Low, res.Eval.High, 2))
	}
	_, err := fmt.Fprintf(w, "\n%s on %s, %s in %.0f s: %s; logs in %s\n", res.Algo, res.Env, of, res.Seconds, figures, res.Folder)
	return err
}
