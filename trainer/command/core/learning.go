package core

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"io"
	"path/filepath"
	"runtime"
	"slices"
	"strconv"
	"strings"
	"time"

	"github.com/spf13/cobra"
	"golang.org/x/sync/errgroup"

	"github.com/kubernasium/kubernasium/agents/algorithms"
	"github.com/kubernasium/kubernasium/trainer/cli"
	"github.com/kubernasium/kubernasium/trainer/play"
	"github.com/kubernasium/kubernasium/trainer/run"
	"github.com/kubernasium/kubernasium/trainer/tracking"
)

// learningConfig holds the arguments of `trainer learning`.
type learningConfig struct {
	seed      uint64 // the first seed
	seeds     int
	ownSeeds  bool // a gate with seeds of its own uses those
	episodes  int
	jobs      int
	logFolder string
	csv       string
	markdown  string
	plots     string
}

// errGate is wrapped by the error of a gate that was not reached.
var errGate = errors.New("not reached")

func newLearning() *cobra.Command {
	var c learningConfig
	var only []string
	cmd := &cobra.Command{
		Use:   "learning",
		Short: "Train every algorithm with several seeds and compare with published results",
		Example: `  trainer learning                                   # the gates: five seeds each, twenty of DQN, some minutes
  trainer learning --only dqn --seed 101 --seeds 20  # one algorithm, other seeds`,
		RunE: func(cmd *cobra.Command, _ []string) error {
			if c.seeds < 1 || c.episodes < 1 || c.jobs < 1 {
				return fmt.Errorf("seeds %d, episodes %d, jobs %d: want at least 1 of each", c.seeds, c.episodes, c.jobs)
			}
			chosen, err := chooseGates(only)
			if err != nil {
				return err
			}
			if f := cmd.Flags(); !f.Changed("seed") && !f.Changed("seeds") {
				c.ownSeeds = true
			}
			runs, err := c.trainAll(cmd.Context(), chosen, cmd.ErrOrStderr())
			if err != nil && cmd.Context().Err() != nil {
				return c.interrupted(cmd, chosen, runs)
			}
			if err != nil {
				return err
			}
			return c.report(cmd, chosen, runs)
		},
	}
	f := cmd.Flags()
	f.StringArrayVar(&only, "only", nil, "algorithms, or names of rows of the table (default: all)")
	f.Uint64Var(&c.seed, "seed", 1, "first random seed (default: 1; for DQN's gate 601)")
	f.IntVar(&c.seeds, "seeds", 5, "number of seeds (default: 5; for DQN's gate 20)")
	f.IntVar(&c.episodes, "eval-episodes", 100, "held-out episodes per evaluation")
	f.IntVar(&c.jobs, "jobs", runtime.GOMAXPROCS(0), "number of parallel trainings")
	f.StringVarP(&c.logFolder, "log-folder", "f", filepath.Join("logs", "learning"), "folder of logs and models")
	f.StringVar(&c.csv, "csv", "", "CSV file with a row for each evaluation")
	f.StringVar(&c.markdown, "markdown", "", "Markdown file for the table")
	f.StringVar(&c.plots, "plots", "", "folder for a plot of each algorithm: learning_<algo>.png")
	return cmd
}

// chooseGates returns the gates of the given algorithms or names, or all. An argument is one of them, or
// several separated by commas. Some names contain a comma.
func chooseGates(only []string) ([]gate, error) {
	if len(only) == 0 {
		return gates, nil
	}
	wanted := map[string]bool{}
	for _, arg := range only {
		words := []string{arg}
		if !slices.ContainsFunc(gates, func(g gate) bool { return g.name == arg }) {
			words = strings.Split(arg, ",")
		}
		var missing []string
		for _, w := range words {
			found := false
			for _, g := range gates {
				if w == g.name || w == g.algo {
					wanted[g.name], found = true, true
				}
			}
			if !found {
				missing = append(missing, w)
			}
		}
		if len(missing) == len(words) { // it may be one name with commas
			missing = []string{arg}
		}
		if len(missing) > 0 {
			return nil, fmt.Errorf("--only: no row %q; want an algorithm, %s, or a row: %s", missing[0], strings.Join(algorithms.Names(nil), ", "), rowNames())
		}
	}
	return slices.DeleteFunc(slices.Clone(gates), func(g gate) bool { return !wanted[g.name] }), nil
}

// rowNames lists the names of the gates.
func rowNames() string {
	var names []string
	for _, g := range gates {
		names = append(names, strconv.Quote(g.name))
	}
	return strings.Join(names, ", ")
}

// learned is the result of one training.
type learned struct {
	seed    uint64
	curve   []run.Evaluation
	train   float64 // mean return of the last 100 episodes of training
	seconds float64
}

// last returns the mean return of the last policy.
func (l *learned) last() float64 { return tracking.Mean(l.curve[len(l.curve)-1].Returns) }

// trainAll trains for each gate with each seed, jobs at a time, and reports progress to w.
func (c *learningConfig) trainAll(ctx context.Context, gates []gate, w io.Writer) ([][]learned, error) {
	runs := make([][]learned, len(gates))
	group, ctx := errgroup.WithContext(ctx)
	group.SetLimit(c.jobs)
	lines := make(chan string)
	printed := make(chan struct{})
	go func() {
		for line := range lines {
			fmt.Fprintln(w, line)
		}
		close(printed)
	}()
	for i, g := range gates {
		seeds := c.seedsOf(g)
		runs[i] = make([]learned, seeds.n)
		for k := range seeds.n {
			group.Go(func() error {
				seed := seeds.first + uint64(k)
				l, err := c.trainOne(ctx, g, seed)
				if err != nil {
					return fmt.Errorf("%s, seed %d: %w", g.name, seed, err)
				}
				runs[i][k] = l
				lines <- fmt.Sprintf("%s, seed %d: %.2f after %.0f s", g.name, l.seed, l.last(), l.seconds)
				return nil
			})
		}
	}
	err := group.Wait()
	close(lines)
	<-printed
	return runs, err
}

// seedsOf returns the random seeds of a gate's trainings.
func (c *learningConfig) seedsOf(g gate) seedRange {
	if c.ownSeeds && g.seeds.n > 0 {
		return g.seeds
	}
	return seedRange{c.seed, c.seeds}
}

// interrupted reports the complete trainings, and returns the interrupt.
func (c *learningConfig) interrupted(cmd *cobra.Command, chosen []gate, runs [][]learned) error {
	var gates []gate
	var complete [][]learned
	n, of := 0, 0
	for i, g := range chosen {
		of += c.seedsOf(g).n
		some := slices.DeleteFunc(runs[i], func(l learned) bool { return len(l.curve) == 0 })
		if n += len(some); len(some) > 0 {
			gates, complete = append(gates, g), append(complete, some)
		}
	}
	var err error
	if n > 0 {
		if err = c.report(cmd, gates, complete); errors.Is(err, errGate) {
			err = nil // includes missing trainings
		}
	}
	return errors.Join(fmt.Errorf("%w: %d of %d trainings are complete, in %s; the same command starts over, and --only and --seed choose those that are missing",
		cli.ErrInterrupted, n, of, c.logFolder), err)
}

func (c *learningConfig) trainOne(ctx context.Context, g gate, seed uint64) (learned, error) {
	if err := ctx.Err(); err != nil {
		return learned{}, err
	}
	begun := time.Now()
	spec, err := play.Lookup(ctx, g.env, nil)
	if err != nil {
		return learned{}, err
	}
	params, err := run.ReadHyperparams(g.algo, g.env, g.conf, nil)
	if err != nil {
		return learned{}, err
	}
	r, err := run.New(ctx, spec, run.Config{
		Algo: g.algo, Env: g.env, Engine: play.EngineFused, Params: params, Seed: seed, Quiet: true,
		EvalFreq: params.NTimesteps / run.CurvePoints, EvalEpisodes: c.episodes,
		LogFolder: filepath.Join(c.logFolder, cmp.Or(g.conf, "tuned")),
	}, io.Discard)
	if err != nil {
		return learned{}, err
	}
	defer r.Close()
	if err := r.Train(ctx); err != nil {
		return learned{}, err
	}
	if _, err := r.Result(ctx); err != nil {
		return learned{}, err
	}
	train, _, _ := r.Episodes.Means()
	return learned{seed, r.Curve, train, time.Since(begun).Seconds()}, nil
}

// report prints the table and writes the requested files. It returns an error that wraps errGate if a gate was
// not reached.
func (c *learningConfig) report(cmd *cobra.Command, gates []gate, runs [][]learned) error {
	results := resultsOf(gates, runs)
	table := resultTable(results)
	if err := cli.Print(cmd, results, table.WriteText); err != nil {
		return err
	}
	if err := cli.WriteTo(c.markdown, table.WriteMarkdown); err != nil {
		return err
	}
	if err := cli.WriteTo(c.csv, evaluationTable(gates, runs).WriteCSV); err != nil {
		return err
	}
	if c.plots != "" {
		if err := plotLearning(c.plots, gates, runs); err != nil {
			return err
		}
	}
	var missed []string
	for _, r := range results {
		if !r.OK {
			missed = append(missed, r.Training+": "+r.Reached)
		}
	}
	if len(missed) > 0 {
		return fmt.Errorf("%w: %s", errGate, strings.Join(missed, "; "))
	}
	return nil
}

// learningResult is a row of the table, in the JSON of `learning --json`.
type learningResult struct {
	Training   string    `json:"training"`
	Timesteps  int       `json:"timesteps"`
	Returns    []float64 `json:"returns"`    // of the last policy, by seed
	Mean       float64   `json:"mean"`       // over the seeds
	TrainMean  float64   `json:"train_mean"` // of the last 100 episodes of each training
	Seconds    float64   `json:"seconds"`    // of a training, on average
	Reached    string    `json:"reached"`    // result of the gate, in words
	OK         bool      `json:"ok"`         // the gate is reached, or has no criterion
	Comparison bool      `json:"comparison"` // the gate has no criterion
}

func resultsOf(gates []gate, runs [][]learned) []learningResult {
	results := make([]learningResult, len(gates))
	for i, g := range gates {
		r := &results[i]
		var seconds []float64
		for _, l := range runs[i] {
			r.Returns, seconds = append(r.Returns, l.last()), append(seconds, l.seconds)
			r.Timesteps = l.curve[len(l.curve)-1].Step
		}
		r.Training, r.Comparison = g.name, g.bar == noBar
		r.Mean, r.TrainMean, r.Seconds = tracking.Mean(r.Returns), tracking.Mean(trainReturns(runs[i])), tracking.Mean(seconds)
		r.Reached, r.OK = g.bar.verdict(runs[i])
	}
	return results
}

func resultTable(results []learningResult) *tracking.Table {
	t := tracking.NewTable("training", ">steps", "last policy by seed", ">mean", ">training's last 100", ">seconds each", "reached")
	for _, r := range results {
		bySeed := make([]string, len(r.Returns))
		for k, x := range r.Returns {
			bySeed[k] = fmt.Sprintf("%.0f", x)
		}
		reached := r.Reached
		switch {
		case r.Comparison:
			reached += ", for comparison"
		case !r.OK:
			reached += ": missed"
		}
		t.Append(r.Training, fmt.Sprint(r.Timesteps), strings.Join(bySeed, " "), cli.Number(r.Mean), cli.Number(r.TrainMean),
			fmt.Sprintf("%.1f", r.Seconds), reached)
	}
	return t
}

// evaluationTable returns a row for each evaluation.
func evaluationTable(gates []gate, runs [][]learned) *tracking.Table {
	t := tracking.NewTable("training", "seed", "step", "episodes", "mean_return")
	for i, g := range gates {
		for _, r := range runs[i] {
			for _, e := range r.curve {
				t.Append(g.name, fmt.Sprint(r.seed), fmt.Sprint(e.Step), fmt.Sprint(len(e.Returns)), cli.Number(tracking.Mean(e.Returns)))
			}
		}
	}
	return t
}

// plotLearning draws a plot for each algorithm. It shows the mean over the seeds of each gate, and a band from
// the lowest to the highest seed.
func plotLearning(folder string, gates []gate, runs [][]learned) error {
	series := map[string][]tracking.Series{}
	for i, g := range gates {
		series[g.algo] = append(series[g.algo], seriesOf(fmt.Sprintf("%s, %d seeds", g.name, len(runs[i])), runs[i]))
	}
	for algo, s := range series {
		title := fmt.Sprintf("%s on %s, mean and range over seeds", strings.ToUpper(algo), cartPole)
		path := filepath.Join(folder, "learning_"+algo+".png")
		if err := tracking.LearningCurve(path, title, s, []tracking.HLine{{Name: "solved", Value: solved}}); err != nil {
			return err
		}
	}
	return nil
}

// seriesOf returns the mean, the lowest and the highest seed at each evaluation.
func seriesOf(name string, runs []learned) tracking.Series {
	s := tracking.Series{Name: name}
	for k, e := range runs[0].curve {
		means := make([]float64, len(runs))
		for i, r := range runs {
			means[i] = tracking.Mean(r.curve[k].Returns)
		}
		s.Steps = append(s.Steps, int64(e.Step))
		s.Mean, s.Low, s.High = append(s.Mean, tracking.Mean(means)), append(s.Low, slices.Min(means)), append(s.High, slices.Max(means))
	}
	return s
}
