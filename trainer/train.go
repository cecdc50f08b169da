package main

import (
	"errors"
	"fmt"
	"time"

	"github.com/spf13/cobra"

	"github.com/kubernasium/kubernasium/agents/algorithms"
	"github.com/kubernasium/kubernasium/envs"
)

// Seeds of episodes. Training seeds are the user's, from 0 up; those of the evaluations during
// a training, which choose the best model, and those of comparisons are others, so that no
// reported figure was selected on the episodes that it is measured on.
const (
	evalSeed    = 1_000_000_000
	compareSeed = 2_000_000_000
)

// trainConfig are the arguments of a training.
type trainConfig struct {
	algo, env    string
	engine       string
	params       hyperparams
	kwargs       map[string]any
	evalKwargs   map[string]any
	seed         uint64
	evalFreq     int // environment steps between evaluations; 0 is never
	evalEpisodes int
	saveFreq     int // environment steps between checkpoints; 0 is never
	logFolder    string
	resume       string
	imitate      imitateConfig
	warmStart    warmStartConfig
	transitions  string   // file of recorded transitions to start from; empty: none
	urls         []string // of servers to play on; nil is in this process
	quiet        bool     // no progress bar
	scroll       bool     // print each row of the logs
	threshold    *float64 // mean return of an evaluation at which the training stops; nil is none
	command      string   // as the user gave it, for args.yml
	folder       string   // of this training; empty makes a new one below logFolder
	stopAt       int      // timesteps at which to stop short of n_timesteps; 0 is never
	bar          progress // to report to; nil makes one
	changes      []string // of options that a resumed training has otherwise
}

// progress is told how far a training is.
type progress interface {
	Update(step int64)
	Episode(ret float64)
	Close() error
}

// trainResult is the last line of `train --json`.
type trainResult struct {
	Algo         string  `json:"algo"`
	Env          string  `json:"env"`
	Timesteps    int     `json:"timesteps"`
	Seconds      float64 `json:"seconds"` // of the training, evaluations included
	EvalMean     float64 `json:"eval_mean"`
	EvalStd      float64 `json:"eval_std"`
	EvalEpisodes int     `json:"eval_episodes"`
	Model        string  `json:"model"`
	Stopped      bool    `json:"stopped_early,omitempty"` // at the reward threshold
}

// coreCommands returns the commands that train, play and describe.
func coreCommands() []*cobra.Command {
	train, _ := trainCommand()
	return []*cobra.Command{train, newEval(), newCompare(), newEnvs(), newEnjoy(), newExport(), newRecord(), newLearning(), newCard()}
}

// trainCommand returns the command train, and the arguments that it reads its flags into.
func trainCommand() (*cobra.Command, *trainConfig) {
	var c trainConfig
	var kwargs, evalKwargs, params []string
	var file, seeds string
	var steps, compare, jobs int
	var threshold float64
	cmd := &cobra.Command{
		Use:   "train",
		Short: "Train an agent, with logs, evaluations on held-out episodes, and checkpoints",
		Example: `  trainer train --algo ppo --env classic/CartPole-v1
  trainer train --algo ppo --env k8s/GangWindow-v0 -n 200000 --seed 3 --env-kwargs windows:5
  trainer train --algo ppo --env k8s/GangWindow-v0 --params learning_rate:lin_0.0005 --params n_epochs:8
  trainer train --algo ppo --env k8s/GangWindow-v0 --compare 40     # then compare with every baseline
  trainer train --algo ppo --env classic/CartPole-v1 --reward-threshold 475    # stop when an evaluation reaches it
  trainer train --algo ppo --env classic/CartPole-v1 --seeds 1..5   # five trainings, as many at once as there are cores
  trainer train --algo ppo --env k8s/GangWindow-v0 --imitate static_2    # start from what a baseline does
  trainer train --algo dqn --env k8s/PodBalance-v0 --warm-start Greedy --warm-start-steps 5000    # a heuristic acts at first
  trainer train --algo dqn --env k8s/GangWindow-v0 --transitions recorded.safetensors    # start from recorded transitions
  trainer train --algo ppo --env k8s/GangWindow-v0 --url ws://127.0.0.1:8765 --url ws://127.0.0.1:8766
  trainer train --resume logs/ppo/k8s-GangWindow-v0_1/rl_model_100352_steps.safetensors    # go on from a checkpoint
  trainer train --resume logs/ppo/k8s-GangWindow-v0_1 -n 400000    # for longer, from the newest one
  trainer train --resume logs/ppo/classic-CartPole-v1_1            # with the trainings of --seeds that were interrupted`,
		Args: cobra.NoArgs,
		RunE: func(cmd *cobra.Command, _ []string) error {
			var err error
			if c.kwargs, err = parseKwargs("env-kwargs", kwargs); err != nil {
				return err
			}
			if c.evalKwargs, err = parseKwargs("eval-env-kwargs", evalKwargs); err != nil {
				return err
			}
			given, err := parseKwargs("params", params)
			if err != nil {
				return err
			}
			if cmd.Flags().Changed("n-timesteps") {
				given["n_timesteps"] = steps
			}
			if cmd.Flags().Changed("reward-threshold") {
				c.threshold = &threshold
			}
			var begun []uint64 // seeds of several trainings that are resumed
			if c.resume != "" {
				if begun, err = c.takeUp(cmd.Flags(), file, given); err != nil {
					return err
				}
			}
			spec, err := lookup(cmd.Context(), c.env, c.urls)
			if err != nil {
				return err
			}
			c.env, c.quiet = spec.ID, c.quiet || wantJSON(cmd)
			algo, err := algorithms.Get(c.algo)
			if err != nil {
				return err
			}
			if c.resume == "" {
				if c.params, err = readHyperparams(c.algo, c.env, file, given); err != nil {
					return err
				}
				if err := c.imitate.check(spec, c.urls); err != nil {
					return err
				}
			}
			if c.params.NEnvs < 1 || c.params.NTimesteps < 1 || c.evalEpisodes < 1 {
				return fmt.Errorf("n_envs %d, n_timesteps %d, eval-episodes %d: want at least 1 of each", c.params.NEnvs, c.params.NTimesteps, c.evalEpisodes)
			}
			if c.evalFreq < 0 || c.saveFreq < 0 {
				return fmt.Errorf("--eval-freq %d, --save-freq %d: want at least 0, which is never", c.evalFreq, c.saveFreq)
			}
			if compare < 0 || compare == 1 {
				return fmt.Errorf("--compare %d, want 0 for no comparison, or at least 2 episodes for an interval", compare)
			}
			if err := c.warmStart.check(spec, algo, c.urls); err != nil {
				return err
			}
			if c.transitions != "" && !algo.OffPolicy {
				return fmt.Errorf("--transitions with %s: only %s learns from what others recorded", c.algo, offPolicyNames())
			}
			if c.threshold != nil && c.evalFreq <= 0 {
				return errors.New("--reward-threshold is tested at evaluations, and --eval-freq 0 makes none")
			}
			c.command = commandLine(cmd)
			if seeds == "" && begun == nil {
				return trainAndReport(cmd, spec, c, compare)
			}
			list, err := c.seedsOf(cmd.Flags(), seeds, begun)
			if err != nil {
				return err
			}
			return trainSeedsAndReport(cmd, spec, c, list, jobs, compare)
		},
	}
	f := cmd.Flags()
	f.StringVar(&c.algo, "algo", "ppo", "algorithm")
	f.StringVar(&c.env, "env", "k8s/GangWindow-v0", "id of the environment")
	f.StringVar(&c.engine, "engine", engineFused, "engine of the network: fused, or gorgonia")
	f.IntVarP(&steps, "n-timesteps", "n", 0, "environment steps to train for (default: the tuned number)")
	f.Uint64Var(&c.seed, "seed", 0, "random seed of weights, actions and training episodes")
	f.StringVar(&seeds, "seeds", "", "train once with each of these seeds, such as 1..5 or 1,2,7, in parallel, and sum up")
	f.IntVar(&jobs, "n-jobs", 0, "trainings of --seeds at one time (default: the number of cores)")
	f.Float64Var(&threshold, "reward-threshold", 0, "stop when the mean return of an evaluation reaches this, as Stable-Baselines3's StopTrainingOnRewardThreshold")
	f.IntVar(&c.evalFreq, "eval-freq", 25000, "environment steps between evaluations; 0 is never")
	f.IntVar(&c.evalEpisodes, "eval-episodes", 10, "held-out episodes of an evaluation")
	f.IntVar(&c.saveFreq, "save-freq", 100000, "environment steps between checkpoints; 0 is never")
	f.StringVarP(&c.logFolder, "log-folder", "f", "logs", "folder of logs and models")
	f.StringArrayVar(&kwargs, "env-kwargs", nil, "option key:value of the environment (repeat)")
	f.StringArrayVar(&evalKwargs, "eval-env-kwargs", nil, "further option key:value for evaluation (repeat)")
	f.StringArrayVar(&params, "params", nil, "hyperparameter key:value (repeat)")
	f.StringVar(&file, "conf-file", "", "hyperparameters in place of the tuned ones: a YAML file of RL Zoo, the config.yml of a training, or the name of published ones (dqn: rl_zoo, rl_zoo_soft; ppo: cleanrl)")
	f.StringVar(&c.resume, "resume", "", "checkpoint to go on from, in its folder: it names algorithm, environment and hyperparameters; or the folder of a training, or of those of --seeds")
	f.StringArrayVar(&c.urls, "url", nil, "server to play on, such as ws://127.0.0.1:8765 (repeat to split the environments)")
	f.StringVar(&c.imitate.baseline, "imitate", "", "baseline, or model file, to imitate before the training")
	f.IntVar(&c.imitate.steps, "imitate-steps", 10000, "environment steps that it demonstrates, which do not count as the training's")
	f.IntVar(&c.imitate.epochs, "imitate-epochs", 10, "passes over them")
	f.StringVar(&c.imitate.rate, "imitate-learning-rate", "", "learning rate at it, such as 0.001, or lin_0.001 which falls to 0 (default: dqn that of its training, others 0.001)")
	f.StringVar(&c.warmStart.baseline, "warm-start", "", "baseline that acts at first, in the place of dqn's random actions")
	f.IntVar(&c.warmStart.steps, "warm-start-steps", 10000, "environment steps in which it acts, which are the first of the training's")
	f.StringVar(&c.transitions, "transitions", "", "file of recorded transitions that dqn's replay buffer starts with: see trainer record and python -m kubernasium.save_transitions")
	f.IntVar(&compare, "compare", 0, "afterwards, compare with every baseline on this many held-out episodes")
	return cmd, &c
}

// trainAndReport trains, compares if asked to, and prints what came of it.
func trainAndReport(cmd *cobra.Command, spec *envs.Spec, c trainConfig, compare int) error {
	ctx := cmd.Context()
	start := time.Now()
	r, err := newRun(ctx, spec, c, cmd.ErrOrStderr())
	if err != nil {
		return err
	}
	defer r.close()
	if err := r.train(ctx); err != nil {
		return err
	}
	result, err := r.result(ctx)
	if err != nil {
		return err
	}
	result.Seconds = time.Since(start).Seconds()
	if wantJSON(cmd) && compare == 0 {
		return printJSON(cmd, result)
	}
	w := cmd.OutOrStdout()
	if !wantJSON(cmd) {
		if result.Stopped {
			fmt.Fprintf(w, "stopped: the mean return of an evaluation, %.2f, reached the threshold %.2f\n", result.EvalMean, *c.threshold)
		}
		fmt.Fprintf(w, "%s on %s: %d steps in %.0f s, mean return %.2f ± %.2f over %s\n",
			result.Algo, result.Env, result.Timesteps, result.Seconds, result.EvalMean, result.EvalStd, episodesText(spec, heldOut(spec, c.kwargs, c.evalKwargs), result.EvalEpisodes))
	}
	if compare > 0 { // in this process: baselines look at the true state
		cc := compareConfig{spec: spec, trained: c.kwargs, given: c.evalKwargs, models: []string{r.bestModel()}, episodes: compare,
			seed: compareSeed, plot: r.path("comparison.png"), csv: r.path("comparison.csv")}
		if err := compareAndReport(cmd, cc, &result); err != nil {
			if errors.Is(err, errInterrupted) {
				err = fmt.Errorf("%w; the training is complete, and trainer compare --model %s compares it", err, r.bestModel())
			}
			return err
		}
	}
	if !wantJSON(cmd) {
		r.printFiles(w)
	}
	return nil
}
