// Package tune holds the command `trainer tune`, which searches for hyperparameters.
package tune

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"io"
	"maps"
	"os"
	"path/filepath"
	"runtime"
	"slices"
	"strings"
	"time"

	"github.com/spf13/cobra"
	"github.com/spf13/pflag"
	"go.yaml.in/yaml/v3"
	"golang.org/x/sync/errgroup"

	"github.com/kubernasium/kubernasium/agents/algorithms"
	"github.com/kubernasium/kubernasium/envs"
	"github.com/kubernasium/kubernasium/models"
	"github.com/kubernasium/kubernasium/trainer/cli"
	"github.com/kubernasium/kubernasium/trainer/play"
	"github.com/kubernasium/kubernasium/trainer/run"
	sharedstudy "github.com/kubernasium/kubernasium/trainer/study"
	"github.com/kubernasium/kubernasium/trainer/tracking"
)

// tuneResult is the JSON of `tune --json`.
type tuneResult struct {
	Algo   string       `json:"algo"`
	Env    string       `json:"env"`
	Folder string       `json:"folder"`
	Conf   string       `json:"conf_file"` // the best hyperparameters, for train --conf-file
	Best   rungResult   `json:"best"`
	Trials []rungResult `json:"trials"` // the last rung of each, best first
}

// tuner runs a study.
type tuner struct {
	*journal[study, rungResult]
	spec   *envs.Spec
	space  searchSpace
	folder string
	jobs   int
	out    io.Writer
	total  *cli.SumProgress
	shared *sharedstudy.Study // shared with other processes; nil: not shared
}

// New returns the command tune.
func New() *cobra.Command {
	var s study
	var conf, spaceFile, logFolder, resume string
	var jobs int
	var base, sharedFile string
	var lease time.Duration
	cmd := &cobra.Command{
		Use:   "tune",
		Short: "Search for hyperparameters of an algorithm, or for parameters of a baseline",
		Long: `Search for hyperparameters: random trials with successive halving. With --baseline, search for a
baseline's parameters, so that agents are compared with equally tuned baselines.

All trials are trained for a short time. The best 1/reduction-factor of each rung resume and train
reduction-factor times as long, and the last reach --n-timesteps. A rung is ranked by the mean return
of held-out episodes. With 16 trials and a factor of 4, 16 are trained to 1/16 of the timesteps, 4 to 1/4
and 1 to the end, which costs as much as three whole trainings. All trials of a rung are trained for the
same number of steps, rounded up to a multiple of every trial's rollout, n_steps times n_envs. Trials of
reinforce, which learns from whole episodes, end with the running episodes.

Search spaces are data: trainer/searchspaces has the built-in ones, which --search-space replaces.
Hyperparameters of --params and --conf-file are not searched. Source: Jamieson and Talwalkar,
"Non-stochastic Best Arm Identification and Hyperparameter Optimization", AISTATS 2016.

With --study, several processes with the same arguments share one study, on one machine or on several with a shared
file system. FILE is a journal in Optuna's format. Each process claims trials that no other has claimed; other
processes take over the trials of a dead process after --lease. The best trial and all means equal those of a single
process.

With --baseline, CMA-ES searches the ranges of its parameters, which ` + "`trainer envs ID`" + ` lists; those that
the name gives, as in dynamic_mpc:lambda=1, are kept. All candidates of a generation play the same
episodes, of training seeds and of the environment's options as --env-kwargs gives them: none that
evaluations hold out. The search ends when the candidates have played --n-timesteps steps, by default as
many as ppo is trained for. Then the best of the last generations and of all play on validation seeds beside
the given baseline, and the best of these is the tuned one.`,
		Example: `  trainer tune --algo ppo --env classic/CartPole-v1 --n-trials 16
  trainer tune --algo a2c --env k8s/GangWindow-v0 -n 200000 --n-trials 27 --reduction-factor 3 --params n_envs:16
  trainer tune --baseline dynamic_mpc --env k8s/GangWindow-v0 -n 100000
  trainer tune --algo ppo --env classic/CartPole-v1 --n-trials 16 --study shared/cartpole.journal    # in several processes
  trainer tune --resume logs/tune/ppo/classic-CartPole-v1_1          # after Ctrl-C or a crash
  trainer train --algo ppo --env classic/CartPole-v1 --conf-file logs/tune/ppo/classic-CartPole-v1_1/best.yml --seeds 1..5`,
		RunE: func(cmd *cobra.Command, _ []string) error {
			jobs = cmp.Or(jobs, runtime.GOMAXPROCS(0))
			if jobs < 1 {
				return fmt.Errorf("--n-jobs %d, want at least 1", jobs)
			}
			if t, folder, err := baselineTunerOf(cmd, base, &s, logFolder, resume); t != nil || err != nil {
				if err != nil {
					return err
				}
				defer t.close()
				return t.tuneAndReport(cmd, folder)
			}
			t := &tuner{jobs: jobs, out: cmd.ErrOrStderr()}
			var err error
			if resume != "" {
				if err := onlyFlags(cmd, "resume", "n-jobs", "json"); err != nil {
					return err
				}
				t.folder = resume
				t.journal, err = resumeJournal(resume, journalName, checkStudy)
			} else if sharedFile != "" {
				if err = s.complete(conf, spaceFile); err == nil {
					err = t.join(sharedFile, s, lease)
				}
			} else if err = s.complete(conf, spaceFile); err == nil {
				t.folder, t.journal, err = newStudy(logFolder, s)
			}
			if err != nil {
				return err
			}
			defer t.close()
			return t.tuneAndReport(cmd)
		},
	}
	f := cmd.Flags()
	f.StringVar(&s.Algo, "algo", "ppo", "algorithm: "+strings.Join(algorithms.Names(nil), ", "))
	f.StringVar(&base, "baseline", "", "baseline whose parameters are searched, instead of an algorithm's hyperparameters")
	f.StringVar(&s.Env, "env", "k8s/GangWindow-v0", "id of the environment")
	f.StringVar(&s.Engine, "engine", play.EngineFused, "engine of the networks: fused, or gorgonia")
	f.IntVarP(&s.Timesteps, "n-timesteps", "n", 0, "environment steps of the last rung, or of all candidates of a baseline (default: those of the tuned training)")
	f.IntVar(&s.Trials, "n-trials", 16, "trials of the first rung")
	f.IntVar(&s.Reduction, "reduction-factor", 4, "one in this many trials of a rung is promoted")
	f.IntVar(&s.MinResource, "min-resource", 1000, "minimum environment steps of the first rung")
	f.IntVar(&s.EvalEpisodes, "eval-episodes", 20, "held-out episodes that rank a rung, or training episodes of a baseline's candidate")
	f.Uint64Var(&s.Seed, "seed", 0, "random seed of the search and of all trainings")
	f.IntVar(&jobs, "n-jobs", 0, "parallel trials (default: the number of cores)")
	cli.KwargsVar(f, &s.EnvKwargs, "env-kwargs", "option key:value of the environment (repeat)")
	cli.KwargsVar(f, &s.EvalKwargs, "eval-env-kwargs", "further option key:value for evaluation (repeat)")
	cli.KwargsVar(f, &s.Fixed, "params", "hyperparameter key:value that is not searched (repeat)")
	f.StringVar(&conf, "conf-file", "", "YAML file of hyperparameters that are not searched, in RL Zoo's format")
	f.StringVar(&spaceFile, "search-space", "", "YAML file of a search space, in the format of trainer/searchspaces (default: the algorithm's)")
	f.StringVarP(&logFolder, "log-folder", "f", "logs", "folder of logs and models")
	f.StringVar(&resume, "resume", "", "folder of a study to resume")
	f.StringVar(&sharedFile, "study", "", "journal of a study that several processes share; the trials' folders are in FILE.trials")
	f.DurationVar(&lease, "lease", time.Minute, "with --study: time after which other processes take over the trials of a silent process")
	return cmd
}

// baselineTunerOf returns the tuner and the folder of a search for a baseline's parameters, or nil if the
// command line describes a study of an algorithm.
func baselineTunerOf(cmd *cobra.Command, base string, s *study, logFolder, resume string) (*baselineTuner, string, error) {
	if resume != "" {
		if _, err := os.Stat(filepath.Join(resume, searchName)); err != nil {
			return nil, "", nil // the study reports the error
		}
		if err := onlyFlags(cmd, "resume", "json"); err != nil {
			return nil, "", err
		}
		t, err := resumeSearch(resume)
		return t, resume, err
	}
	if base == "" {
		return nil, "", nil
	}
	if err := onlyFlags(cmd, "baseline", "env", "env-kwargs", "n-timesteps", "eval-episodes", "seed", "log-folder", "json"); err != nil {
		return nil, "", err
	}
	return search{Baseline: base, Env: s.Env, EnvKwargs: s.EnvKwargs, Seed: s.Seed, Timesteps: s.Timesteps, Episodes: s.EvalEpisodes}.begin(logFolder)
}

// newStudy creates the folder and the journal of a study.
func newStudy(logFolder string, s study) (string, *journal[study, rungResult], error) {
	folder, err := run.NewFolder(filepath.Join(logFolder, "tune", s.Algo), run.EnvName(s.Env))
	if err != nil {
		return "", nil, err
	}
	j, err := createJournal[study, rungResult](folder, journalName, s)
	return folder, j, err
}

// onlyFlags returns an error for a given flag that is not one of names, because it would have no effect.
func onlyFlags(cmd *cobra.Command, names ...string) error {
	var err error
	cmd.Flags().Visit(func(f *pflag.Flag) {
		if !slices.Contains(names, f.Name) {
			err = fmt.Errorf("with --%s, --%s has no effect; it takes --%s", names[0], f.Name, strings.Join(names[1:], ", --"))
		}
	})
	return err
}

func (t *tuner) tuneAndReport(cmd *cobra.Command) error {
	var err error
	if t.spec, err = envs.Lookup(t.study.Env); err != nil {
		return err
	}
	if t.space, err = parseSearchSpace("search space", []byte(t.study.Space)); err != nil {
		return err
	}
	bar := t.progressBar(cmd)
	err = t.tune(cmd.Context())
	bar.Close()
	if errors.Is(err, cli.ErrInterrupted) && t.shared != nil {
		return fmt.Errorf("%w; other processes go on, and the same command joins them again", cli.ErrInterrupted)
	}
	if errors.Is(err, cli.ErrInterrupted) {
		return fmt.Errorf("%w; go on with trainer tune --resume %s", cli.ErrInterrupted, t.folder)
	}
	if err != nil {
		return err
	}
	res, err := t.result()
	if err != nil {
		return err
	}
	return cli.Print(cmd, res, res.print)
}

// progressBar shows the timesteps of all rungs together.
func (t *tuner) progressBar(cmd *cobra.Command) *tracking.ProgressBar {
	var total, done, before int64
	n := int64(t.study.Trials)
	for _, steps := range t.study.Rungs {
		total += n * (int64(steps) - before)
		n, before = max(1, n/int64(t.study.Reduction)), int64(steps)
	}
	steps := make([]int64, t.study.Trials)
	for _, r := range t.results {
		steps[r.Trial] = max(steps[r.Trial], int64(r.Timesteps))
	}
	for _, s := range steps {
		done += s
	}
	bar := tracking.NewProgressBar(tracking.ProgressBarConfig{
		Out: t.out, Total: total, Start: done, Terminal: tracking.IsTerminal(t.out), Quiet: cli.WantJSON(cmd),
	})
	t.total = cli.NewSumProgress(bar, steps)
	return bar
}

// tune trains one rung after another.
func (t *tuner) tune(ctx context.Context) error {
	trials := make([]int, t.study.Trials)
	for i := range trials {
		trials[i] = i
	}
	for rung, steps := range t.study.Rungs {
		if t.shared != nil {
			promoted, err := t.sharedRung(ctx, trials, rung, steps)
			if err != nil {
				return err
			}
			trials = promoted
			continue
		}
		results := make([]rungResult, len(trials))
		g, ctx := errgroup.WithContext(ctx)
		g.SetLimit(t.jobs)
		for i, trial := range trials {
			if r, ok := t.find(trial, rung); ok {
				results[i] = r
				continue
			}
			g.Go(func() error {
				var err error
				if results[i], err = t.train(ctx, trial, rung, steps); err != nil {
					return err
				}
				return t.add(results[i])
			})
		}
		if err := g.Wait(); err != nil {
			return err
		}
		if trials = promote(results, t.study.Reduction); len(trials) == 0 {
			return fmt.Errorf("all trials failed, the first with: %s", results[0].Error)
		}
	}
	return nil
}

// train trains a trial up to a rung, resuming from the previous rung. A failed trial also has a result; the
// error is only an interrupt.
func (t *tuner) train(ctx context.Context, trial, rung, steps int) (rungResult, error) {
	out := rungResult{Trial: trial, Rung: rung}
	if ctx.Err() != nil {
		return out, cli.ErrInterrupted
	}
	var err error
	if out.Params, err = t.study.params(t.space, trial); err == nil {
		err = t.trainTo(ctx, &out, steps)
	}
	if err != nil && ctx.Err() != nil { // an interrupt is no failure; the trial resumes from the previous rung
		return out, cli.ErrInterrupted
	}
	if err != nil {
		out.Error = err.Error()
	}
	return out, nil
}

func (t *tuner) trainTo(ctx context.Context, out *rungResult, steps int) error {
	s := &t.study
	given := maps.Clone(out.Params)
	algo, err := algorithms.Get(s.Algo)
	if err != nil {
		return err
	}
	if slices.Contains(run.FieldNames(algo.Defaults()), "checkpoint_replay_buffer") {
		given["checkpoint_replay_buffer"] = true // the next rung resumes exactly
	}
	h, err := run.ReadHyperparams(s.Algo, s.Env, "", given)
	if err != nil {
		return err
	}
	c := run.Config{
		Algo: s.Algo, Env: s.Env, Engine: s.Engine, Params: h, EnvKwargs: s.EnvKwargs, EvalEnvKwargs: s.EvalKwargs, Seed: s.Seed,
		EvalEpisodes: s.EvalEpisodes, Folder: filepath.Join(t.folder, fmt.Sprintf("trial_%d", out.Trial)),
		StopAt: steps, Bar: t.total.Part(out.Trial), Quiet: true, Command: "trainer tune",
	}
	if t.shared != nil {
		if err := t.attempt(&c, out); err != nil {
			return err
		}
	} else if out.Rung == 0 {
		if err := os.RemoveAll(c.Folder); err != nil { // from an interrupted attempt
			return err
		}
	} else {
		c.Resume = filepath.Join(c.Folder, run.EnvName(s.Env)+models.Ext)
	}
	r, err := run.New(ctx, t.spec, c, t.out)
	if err != nil {
		return err
	}
	defer r.Close()
	if err := r.Train(ctx); err != nil {
		return err
	}
	res, err := r.Result(ctx)
	out.Timesteps, out.Mean, out.Std = res.Timesteps, res.EvalMean, res.EvalStd
	return err
}

// result ranks the trials, and writes the best hyperparameters for train --conf-file.
func (t *tuner) result() (*tuneResult, error) {
	last := map[int]rungResult{}
	for _, r := range t.results {
		if old, ok := last[r.Trial]; !ok || r.Rung > old.Rung {
			last[r.Trial] = r
		}
	}
	trials := slices.SortedFunc(maps.Values(last), func(a, b rungResult) int {
		return cmp.Or(cmp.Compare(a.Error, b.Error), cmp.Compare(b.Rung, a.Rung), byMean(a, b)) // results without an error come first
	})
	res := &tuneResult{Algo: t.study.Algo, Env: t.study.Env, Folder: t.folder, Conf: filepath.Join(t.folder, "best.yml"), Best: trials[0], Trials: trials}
	text, err := res.yaml()
	if err != nil {
		return nil, err
	}
	return res, models.WriteFileAtomic(res.Conf, func(w io.Writer) error {
		_, err := io.WriteString(w, text)
		return err
	})
}

// yaml returns the best hyperparameters in RL Zoo's formatat.
func (res *tuneResult) yaml() (string, error) {
	text, err := yaml.Marshal(map[string]any{res.Env: res.Best.Params})
	return string(text), err
}

func (res *tuneResult) print(w io.Writer) error {
	table := tracking.NewTable(">trial", ">rung", ">steps", ">mean return", ">std", "hyperparameters")
	for _, r := range res.Trials {
		cells := []string{fmt.Sprint(r.Trial), fmt.Sprint(r.Rung), fmt.Sprint(r.Timesteps), cli.Number(r.Mean), cli.Number(r.Std)}
		if r.Error != "" {
			cells[2], cells[3], cells[4] = "", "failed", ""
		}
		var words []string
		for _, name := range slices.Sorted(maps.Keys(r.Params)) {
			words = append(words, fmt.Sprintf("%s:%v", name, r.Params[name]))
		}
		table.Append(append(cells, strings.Join(words, " "))...)
	}
	table.WriteText(w)
	text, err := res.yaml()
	if err != nil {
		return err
	}
	_, err = fmt.Fprintf(w, "\n# the best of %d trials, %.2f ± %.2f on held-out episodes: trainer train --algo %s --env %s --conf-file %s --seeds 1..5\n%s",
		len(res.Trials), res.Best.Mean, res.Best.Std, res.Algo, res.Env, res.Conf, text)
	return err
}
