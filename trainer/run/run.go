// Package run trains. It holds the training loop for all learners, hyperparameters and settings, the log folder
// with checkpoints and logs, and resuming.
package run

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"io"
	"log/slog"
	"maps"
	"math"
	"runtime"
	"slices"
	"time"

	"github.com/kubernasium/kubernasium/agents"
	"github.com/kubernasium/kubernasium/agents/algorithms"
	"github.com/kubernasium/kubernasium/agents/evaluation"
	"github.com/kubernasium/kubernasium/envs"
	"github.com/kubernasium/kubernasium/trainer/cli"
	"github.com/kubernasium/kubernasium/trainer/play"
	"github.com/kubernasium/kubernasium/trainer/tracking"
)

// Run is a training: the loop for all learners, and its files.
type Run struct {
	Config
	spec    *envs.Spec
	v       envs.VecEnv
	evalV   envs.VecEnv
	Learner *Learner
	logs    *logs
	actions *actionLog
	out     io.Writer

	offline   bool          // the algorithm needs no environment
	heuristic agents.Policy // acts in the first warmStart.steps; nil: none

	begun    time.Time
	First    int          // timesteps at the start of this process
	Episodes Window       // the last 100 training episodes
	best     float64      // best mean return of an evaluation
	Curve    []Evaluation // evaluations so far
	nextEval int
	nextLog  int
	nextSave int
	rollouts int
	saved    string // the last checkpoint written, or the resumed one

	inexact     bool        // the resumed training differs from an uninterrupted one
	stateless   bool        // the user has been told that checkpoints lack the environments of servers
	loaded      *envs.Batch // first batch of servers that have loaded the checkpoint's environments
	printedSize bool        // the size of the replay buffer in checkpoints has been printed
	solved      bool        // the reward threshold has been reached
}

// logEvery is the minimum number of environment steps between two rows of the logs, because some algorithms
// update every few steps.
const logEvery = 200

// Evaluation is the result of one evaluation.
type Evaluation struct {
	Step    int
	Returns []float64
}

// New creates the environments, the learner and the log folder, or restores them from a checkpoint.
func New(ctx context.Context, spec *envs.Spec, c Config, out io.Writer) (*Run, error) {
	algo, err := algorithms.Get(c.Algo)
	if err != nil {
		return nil, err
	}
	if algo.Offline && c.Dataset == "" && c.Transitions == "" {
		return nil, fmt.Errorf("%s learns from recorded transitions: want --dataset, or --transitions", c.Algo)
	}
	if err := c.checkSeed(); err != nil {
		return nil, err
	}
	r := &Run{Config: c, spec: spec, out: out, begun: time.Now(), best: math.Inf(-1), offline: algo.Offline}
	r.v, err = play.OpenSaved(ctx, spec, c.Params.NEnvs, envs.VecOptions{Options: c.EnvKwargs, Autoreset: envs.SameStep, Log: true}, c.URLs, c.savedOnServers())
	if err != nil {
		return nil, err
	}
	r.evalV, err = play.OpenEnvs(ctx, spec, c.EvalEpisodes, envs.VecOptions{Options: play.Validation(spec, c.EnvKwargs, c.EvalEnvKwargs), Autoreset: envs.SameStep}, c.URLs)
	if err != nil {
		return nil, errors.Join(err, r.Close())
	}
	r.actions = newActionLog(r.v)
	obs, act := r.v.Spaces()
	r.Learner, err = NewLearner(c.Algo, c.Params, agents.EnvInfo{ID: spec.ID, Kwargs: c.EnvKwargs, Obs: obs, Act: act, NumEnvs: c.Params.NEnvs}, c.Engine, c.Seed)
	if err == nil {
		r.Learner.SetWorkers(cmp.Or(c.NThreads, runtime.GOMAXPROCS(0)))
		r.Learner.Share(r.v)
		err = r.openFolder(ctx)
	}
	if err != nil {
		return nil, errors.Join(err, r.Close())
	}
	r.nextEval, r.nextSave = following(r.First, c.EvalFreq), following(r.First, c.SaveFreq)
	if r.Bar == nil {
		r.Bar = tracking.NewProgressBar(tracking.ProgressBarConfig{
			Out: out, Total: int64(c.Params.NTimesteps), Start: int64(r.First), Terminal: tracking.IsTerminal(out), Quiet: c.Quiet,
		})
	}
	return r, nil
}

// following returns the first multiple of freq above step, or never if freq is 0.
func following(step, freq int) int {
	if freq <= 0 {
		return math.MaxInt
	}
	return (step/freq + 1) * freq
}

// Train runs the loop to its end. When ctx ends, it saves a checkpoint from which the training can resume, and
// returns cli.ErrInterrupted. Any other error names the last checkpoint.
func (r *Run) Train(ctx context.Context) error {
	err := r.loop(ctx)
	switch {
	case err == nil, errors.Is(err, cli.ErrInterrupted):
		return err
	case ctx.Err() != nil && r.Learner.NumTimesteps() == r.First:
		return fmt.Errorf("%w before the first timestep: nothing is saved, and the same command starts over", cli.ErrInterrupted)
	case r.saved == "":
		return fmt.Errorf("after %d timesteps: %w; no checkpoint was saved before", r.Learner.NumTimesteps(), err)
	}
	return fmt.Errorf("after %d timesteps: %w; the last checkpoint is %s", r.Learner.NumTimesteps(), err, r.saved)
}

// loop lets the learner act and learn.
func (r *Run) loop(ctx context.Context) error {
	b, err := r.start(ctx)
	if err != nil {
		return err
	}
	_, act := r.v.Spaces()
	actions := make([]float32, r.v.NumEnvs()*act.Size())
	end := r.Params.NTimesteps
	if r.StopAt > 0 {
		end = min(end, r.StopAt)
	}
	for done := r.First >= end || r.solved; !done; {
		if !r.offline {
			if b, err = r.step(ctx, b, actions); err != nil {
				return err
			}
		}
		metrics, err := r.Learner.Update()
		if err != nil {
			return err
		}
		if metrics == nil && !r.canPause() {
			continue
		}
		done = r.Learner.NumTimesteps() >= end // whole rollouts, as in Stable-Baselines3
		if err := r.afterUpdate(ctx, metrics, done); err != nil {
			return err
		}
		done = done || r.solved
	}
	r.Bar.Close()
	return r.finish()
}

// step lets the learner act once at b, and observe the resulting batch.
func (r *Run) step(ctx context.Context, b *envs.Batch, actions []float32) (*envs.Batch, error) {
	if err := checkObs(b); err != nil {
		return nil, err
	}
	if err := r.act(b, actions); err != nil {
		return nil, err
	}
	// An interrupt waits until the rollout is complete, because the learner cannot be saved before.
	next, err := r.v.Step(context.WithoutCancel(ctx), actions)
	if err != nil {
		return nil, err
	}
	r.actions.record(actions, next)
	if err := r.checkWarmStart(actions, next); err != nil {
		return nil, err
	}
	if err := r.Learner.Observe(next); err != nil {
		return nil, err
	}
	return next, r.recordEpisodes(next)
}

// canPause reports whether the learner can be saved as after an update, although it has not learned from the
// last step. That holds for DQN before learning_starts, which must not delay the training's end, interrupts,
// evaluations and checkpoints. It also holds for DQN at stopAt, in the middle of train_freq steps.
func (r *Run) canPause() bool {
	l, ok := r.Learner.Learner.(interface{ Collected() bool })
	return ok && (l.Collected() || r.StopAt > 0 && r.Learner.NumTimesteps() >= r.StopAt)
}

// checkObs returns an error for an observation that is not finite.
func checkObs(b *envs.Batch) error {
	for i, x := range b.Obs {
		if x-x != 0 { // NaN or infinite
			size := len(b.Obs) / len(b.Reward)
			return fmt.Errorf("environment %d: step %d of the episode: the observation is %v at index %d", i/size, b.EpisodeLength[i/size], x, i%size)
		}
	}
	return nil
}

// start resets the environments, after an imitation if there is one, or restores them from the checkpoint.
func (r *Run) start(ctx context.Context) (*envs.Batch, error) {
	if err := r.openWarmStart(); err != nil {
		return nil, err
	}
	if r.Resume == "" || r.offline {
		if err := r.loadTransitions(); err != nil {
			return nil, err
		}
	}
	if r.Resume != "" {
		return r.restore(ctx)
	}
	if r.Imitate.Baseline != "" {
		if err := r.imitateTeacher(ctx); err != nil {
			return nil, err
		}
	}
	return r.v.Reset(ctx, envs.VecResetOptions{Seed: &r.Seed})
}

func (r *Run) recordEpisodes(b *envs.Batch) error {
	step := r.Learner.NumTimesteps()
	for i := range b.Reward {
		if !b.Done(i) {
			continue
		}
		r.Episodes.add(b.EpisodeReturn[i], b.EpisodeLength[i])
		r.Bar.Episode(b.EpisodeReturn[i])
		if err := r.logs.monitor.Episode(int64(step), b.EpisodeReturn[i], int(b.EpisodeLength[i]), time.Now()); err != nil {
			return err
		}
	}
	return nil
}

// afterUpdate logs, evaluates and saves when due, and stops when ctx has ended. It always logs the last update;
// metrics are nil if nothing was learned.
func (r *Run) afterUpdate(ctx context.Context, metrics agents.Metrics, last bool) error {
	step := r.Learner.NumTimesteps()
	learned := metrics != nil
	if learned {
		r.rollouts++
	} else {
		metrics = agents.Metrics{}
	}
	r.Bar.Update(int64(step))
	evaluated := step >= r.nextEval
	if evaluated {
		r.nextEval = following(step, r.EvalFreq)
		eval, err := r.evaluate(context.WithoutCancel(ctx)) // a resumed training expects its row in the logs
		if err != nil {
			return err
		}
		maps.Copy(metrics, eval)
	}
	if evaluated || last || learned && step >= r.nextLog {
		r.nextLog = step + logEvery
		if err := r.log(step, metrics); err != nil {
			return err
		}
	}
	if ctx.Err() != nil {
		path := r.checkpointPath(step)
		if err := r.save(path); err != nil {
			return err
		}
		return fmt.Errorf("%w at %d timesteps; go on with --resume %s", cli.ErrInterrupted, step, path)
	}
	if step >= r.nextSave {
		r.nextSave = following(step, r.SaveFreq)
		return r.save(r.checkpointPath(step))
	}
	return nil
}

// log writes a row of the progress logs.
func (r *Run) log(step int, metrics agents.Metrics) error {
	elapsed := time.Since(r.begun).Seconds()
	metrics["time/time_elapsed"] = elapsed
	metrics["time/fps"] = float64(step-r.First) / elapsed
	metrics["time/iterations"] = float64(r.rollouts)
	if ret, length, ok := r.Episodes.Means(); ok {
		metrics["rollout/ep_rew_mean"], metrics["rollout/ep_len_mean"] = ret, length
	}
	histograms := r.actions.take(metrics)
	if r.Scroll {
		r.printRow(step, metrics)
	}
	return r.logs.write(int64(step), metrics, histograms)
}

// printRow prints a row of the logs, above the progress bar if there is one.
func (r *Run) printRow(step int, metrics agents.Metrics) {
	row := []any{"timesteps", step}
	for _, name := range slices.Sorted(maps.Keys(metrics)) {
		row = append(row, name, metrics[name])
	}
	slog.New(slog.NewTextHandler(r.output(), nil)).Info("update", row...)
}

// output returns the writer for lines: above the progress bar if there is one.
func (r *Run) output() io.Writer {
	if w, ok := r.Bar.(io.Writer); ok {
		return w
	}
	return r.out
}

// evaluate plays the greedy policy on the validation episodes and saves a new best model.
func (r *Run) evaluate(ctx context.Context) (agents.Metrics, error) {
	res, err := evaluation.Play(ctx, r.evalV, r.Learner.Greedy(), evaluation.Seeds(play.EvalSeed, r.EvalEpisodes))
	if err != nil {
		return nil, fmt.Errorf("evaluate: %w", err)
	}
	step, mean := r.Learner.NumTimesteps(), tracking.Mean(res.Returns)
	length := 0.0
	for _, l := range res.Lengths {
		length += float64(l) / float64(len(res.Lengths))
	}
	r.Curve = append(r.Curve, Evaluation{step, res.Returns})
	if err := r.logs.evaluations.Write(int64(step), res.Returns); err != nil {
		return nil, err
	}
	if mean > r.best {
		r.best = mean
		r.solved = r.Threshold != nil && mean >= *r.Threshold // only at a new best, as in Stable-Baselines3
		if err := r.saveBest(); err != nil {
			return nil, err
		}
	}
	return agents.Metrics{"eval/mean_reward": mean, "eval/mean_ep_length": length}, nil
}

// Result is the JSON of `train --json`.
type Result struct {
	Algo         string  `json:"algo"`
	Env          string  `json:"env"`
	Timesteps    int     `json:"timesteps"`
	Seconds      float64 `json:"seconds"` // of the training, including evaluations
	EvalMean     float64 `json:"eval_mean"`
	EvalStd      float64 `json:"eval_std"`
	EvalEpisodes int     `json:"eval_episodes"`
	Model        string  `json:"model"`
	Stopped      bool    `json:"stopped_early,omitempty"` // stopped at the reward threshold, before n_timesteps
	Reached      float64 `json:"-"`                       // best mean return of an evaluation, which the threshold is compared with
}

// Result evaluates the last policy.
func (r *Run) Result(ctx context.Context) (Result, error) {
	if n := len(r.Curve); n == 0 || r.Curve[n-1].Step != r.Learner.NumTimesteps() {
		if _, err := r.evaluate(ctx); err != nil {
			if ctx.Err() != nil {
				err = fmt.Errorf("%w in the last evaluation: the training is complete, and its model is %s", cli.ErrInterrupted, r.LastModel())
			}
			return Result{}, err
		}
	}
	if err := r.plot(); err != nil {
		return Result{}, err
	}
	last := r.Curve[len(r.Curve)-1]
	return Result{
		Algo: r.Algo, Env: r.spec.ID, Timesteps: r.Learner.NumTimesteps(),
		EvalMean: tracking.Mean(last.Returns), EvalStd: tracking.Deviation(last.Returns), EvalEpisodes: len(last.Returns), Model: r.LastModel(),
		Reached: r.best, Stopped: r.solved && r.Learner.NumTimesteps() < r.Params.NTimesteps,
	}, nil
}

// plot plots the learning curve of the evaluations.
func (r *Run) plot() error {
	s := tracking.Series{Name: r.Algo}
	for _, c := range r.Curve {
		e := tracking.Estimate{Mean: c.Returns[0], Low: c.Returns[0], High: c.Returns[0]}
		if len(c.Returns) > 1 {
			e = tracking.StudentT(c.Returns)
		}
		s.Steps = append(s.Steps, int64(c.Step))
		s.Mean, s.Low, s.High = append(s.Mean, e.Mean), append(s.Low, e.Low), append(s.High, e.High)
	}
	return tracking.LearningCurve(r.path("learning_curve.png"), r.Algo+" on "+r.spec.ID+", episodes of evaluations", []tracking.Series{s}, nil)
}

// Close releases everything. It may be called at any time.
func (r *Run) Close() error {
	var errs []error
	if r.Bar != nil {
		r.Bar.Close()
	}
	if r.logs != nil {
		errs = append(errs, r.logs.close())
	}
	if r.Learner != nil {
		errs = append(errs, r.Learner.Close())
	}
	for _, v := range []envs.VecEnv{r.v, r.evalV} {
		if v != nil {
			errs = append(errs, v.Close())
		}
	}
	return errors.Join(errs...)
}
