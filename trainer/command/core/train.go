package core

import (
	"errors"
	"fmt"
	"strings"
	"time"

	"github.com/spf13/cobra"

	"github.com/kubernasium/kubernasium/agents/algorithms"
	"github.com/kubernasium/kubernasium/trainer/cli"
	"github.com/kubernasium/kubernasium/trainer/minari"
	"github.com/kubernasium/kubernasium/trainer/play"
	"github.com/kubernasium/kubernasium/trainer/run"
)

// TrainCommand returns the command train, and the configuration that its flags set.
func TrainCommand() (*cobra.Command, *run.Config) {
	var c run.Config
	var params map[string]any
	var file, seeds string
	var steps, compare, jobs int
	var threshold float64
	var newest, dryRun bool
	var workload string
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
  trainer train --algo cql --dataset cartpole/mixed-v0 -n 20000    # learn from a dataset of Minari, without playing
  trainer train --algo ppo --env k8s/GangWindow-v0 --url ws://127.0.0.1:8765 --url ws://127.0.0.1:8766
  trainer train --resume logs/ppo/k8s-GangWindow-v0_1/rl_model_100352_steps.safetensors    # go on from a checkpoint
  trainer train --resume logs/ppo/k8s-GangWindow-v0_1 -n 400000    # for longer, from the newest one
  trainer train --algo ppo --env k8s/GangWindow-v0 --submit workload.yaml --dry-run    # as a JobSet of Kubernetes
  trainer train --resume logs/ppo/classic-CartPole-v1_1            # with the trainings of --seeds that were interrupted`,
		RunE: func(cmd *cobra.Command, _ []string) error {
			err := useTrainingFile(cmd.Flags())
			if err != nil {
				return err
			}
			if err := checkSubmit(cmd.Flags()); err != nil {
				return err
			}
			if c.NThreads < 0 {
				return fmt.Errorf("--n-threads %d, want at least 1", c.NThreads)
			}
			if cmd.Flags().Changed("n-timesteps") {
				params["n_timesteps"] = steps
			}
			if cmd.Flags().Changed("reward-threshold") {
				c.Threshold = &threshold
			}
			if c.Dataset != "" && c.Resume == "" {
				if err := useDataset(&c, cmd.Flags().Changed("env")); err != nil {
					return err
				}
			}
			if newest {
				if c.Resume != "" {
					return errors.New("--resume says what --resume-newest looks for: give one of them")
				}
				spec, err := play.Lookup(cmd.Context(), c.Env, c.URLs)
				if err != nil {
					return err
				}
				c.Env = spec.ID
				if c.Resume, err = c.Newest(); err != nil {
					return err
				}
			}
			var begun []uint64 // seeds of several resumed trainings
			if c.Resume != "" {
				if begun, err = c.LoadCheckpoint(run.Changes{Given: cmd.Flags().Changed, Conf: file, Params: params}); err != nil {
					return err
				}
			}
			spec, err := play.Lookup(cmd.Context(), c.Env, c.URLs)
			if err != nil {
				return err
			}
			c.Env, c.Quiet = spec.ID, c.Quiet || cli.WantJSON(cmd)
			var job *submission
			if workload != "" {
				if job, err = readWorkload(workload, cmd.Flags(), &c); err != nil {
					return err
				}
				c.URLs = job.URLs()
			}
			algo, err := algorithms.Get(c.Algo)
			if err != nil {
				return err
			}
			if c.Resume == "" {
				if c.Params, err = run.ReadHyperparams(c.Algo, c.Env, file, params); err != nil {
					return err
				}
				if err := c.Imitate.Check(spec, c.URLs); err != nil {
					return err
				}
			}
			if c.Params.NEnvs < 1 || c.Params.NTimesteps < 1 || c.EvalEpisodes < 1 {
				return fmt.Errorf("n_envs %d, n_timesteps %d, eval-episodes %d: want at least 1 of each", c.Params.NEnvs, c.Params.NTimesteps, c.EvalEpisodes)
			}
			if c.EvalFreq < 0 || c.SaveFreq < 0 {
				return fmt.Errorf("--eval-freq %d, --save-freq %d: want at least 0, which is never", c.EvalFreq, c.SaveFreq)
			}
			if compare < 0 || compare == 1 {
				return fmt.Errorf("--compare %d, want 0 for no comparison, or at least 2 episodes for an interval", compare)
			}
			if err := c.WarmStart.Check(spec, algo, c.URLs); err != nil {
				return err
			}
			if err := checkRecorded(c, algo); err != nil {
				return err
			}
			if c.Threshold != nil && c.EvalFreq <= 0 {
				return errors.New("--reward-threshold is tested at evaluations, and --eval-freq 0 makes none")
			}
			switch {
			case c.Shared.File == "":
			case seeds == "":
				return errors.New("--study shares the trainings of --seeds: give both")
			case c.Resume != "":
				return errors.New("--study goes without --resume: the same command resumes what its journal has")
			case c.Shared.Lease <= 0:
				return fmt.Errorf("--lease %v, want above 0", c.Shared.Lease)
			}
			c.Command = cli.CommandLine(cmd)
			several := seeds != "" || begun != nil
			var list []uint64
			if several {
				if cmd.Flags().Changed("seed") {
					return errors.New("--seeds starts several trainings: it goes without --seed")
				}
				if list, err = c.SeedsOf(seeds, begun); err != nil {
					return err
				}
			}
			if job != nil {
				return job.submit(cmd, spec, &c, dryRun)
			}
			if !several {
				return train(cmd, spec, c, compare)
			}
			return trainSeeds(cmd, spec, c, list, jobs, compare)
		},
	}
	f := cmd.Flags()
	f.StringVar(&c.Algo, "algo", "ppo", "algorithm: "+strings.Join(algorithms.Names(nil), ", ")+"; with --dataset: "+strings.Join(algorithms.OfflineNames(), ", "))
	f.StringVar(&c.Env, "env", "k8s/GangWindow-v0", "id of the environment")
	f.StringVar(&c.Engine, "engine", play.EngineFused, "engine of the network: fused, or gorgonia")
	f.IntVarP(&steps, "n-timesteps", "n", 0, "environment steps of the training (default: the tuned number)")
	f.Uint64Var(&c.Seed, "seed", 0, "random seed of weights, actions and training episodes")
	f.StringVar(&seeds, "seeds", "", "train once with each of these seeds, such as 1..5 or 1,2,7, in parallel, and summarize")
	f.StringVar(&c.Shared.File, "study", "", "with --seeds: journal that several processes share; each trains with seeds that no other has claimed")
	f.DurationVar(&c.Shared.Lease, "lease", time.Minute, "with --study: time after which other processes take over the seeds of a silent process")
	f.IntVar(&jobs, "n-jobs", 0, "parallel trainings of --seeds (default: the number of cores)")
	f.IntVar(&c.NThreads, "n-threads", 0, "goroutines of a training; results do not depend on it (default: the number of cores, divided among simultaneous trainings)")
	f.Float64Var(&threshold, "reward-threshold", 0, "stop when the mean return of an evaluation reaches this, as Stable-Baselines3's StopTrainingOnRewardThreshold")
	f.IntVar(&c.EvalFreq, "eval-freq", 25000, "environment steps between evaluations; 0: never")
	f.IntVar(&c.EvalEpisodes, "eval-episodes", 10, "held-out episodes per evaluation")
	f.IntVar(&c.SaveFreq, "save-freq", 100000, "environment steps between checkpoints; 0: never")
	f.StringVarP(&c.LogFolder, "log-folder", "f", "logs", "folder of logs and models")
	cli.KwargsVar(f, &c.EnvKwargs, "env-kwargs", "option key:value of the environment (repeat)")
	cli.KwargsVar(f, &c.EvalEnvKwargs, "eval-env-kwargs", "further option key:value for evaluation (repeat)")
	cli.KwargsVar(f, &params, "params", "hyperparameter key:value (repeat)")
	f.StringVar(&file, "conf-file", "", "hyperparameters instead of the tuned ones: a YAML file of RL Zoo, the config.yml of a training, or the name of published ones (dqn: rl_zoo, rl_zoo_soft; ppo: cleanrl); or a whole training, such as models/pretrained/classic-CartPole-v1/ppo.yml")
	f.StringVar(&c.Resume, "resume", "", "checkpoint to resume from, in its folder; it defines algorithm, environment and hyperparameters. Or the folder of a training, or of the trainings of --seeds")
	f.BoolVar(&newest, "resume-newest", false, "resume the newest training of --algo in --env below --log-folder that has a checkpoint, or else start one: for programs that restart this command")
	f.StringArrayVar(&c.URLs, "url", nil, "server to play on, such as ws://127.0.0.1:8765, or k8s+dns://name:port for all servers behind a name (repeat to split the environments)")
	f.StringVar(&workload, "submit", "", "run the training as a workload with environment servers that this YAML file describes (docs/scale.md): in the kubeconfig's cluster, or with kind: local as processes")
	f.BoolVar(&dryRun, "dry-run", false, "with --submit: print the manifests without applying them")
	f.StringVar(&c.Imitate.Baseline, "imitate", "", "baseline, model file or search, such as rollout:base=NAME, to imitate before the training")
	f.IntVar(&c.Imitate.Steps, "imitate-steps", 10000, "environment steps of the demonstrations, which do not count as steps of the training")
	f.IntVar(&c.Imitate.Epochs, "imitate-epochs", 10, "passes over the demonstrations")
	f.IntVar(&c.Imitate.Rounds, "imitate-rounds", 1, "imitations of a search one after the other; after the first, the model so far is the search's base (expert iteration)")
	f.StringVar(&c.Imitate.Rate, "imitate-learning-rate", "", "learning rate of the imitation, such as 0.001, or lin_0.001, which falls to 0 (default: dqn that of its training, others 0.001)")
	f.Float64Var(&c.Imitate.WeightDecay, "imitate-weight-decay", 0, "weight decay of the imitation, as of torch.optim.AdamW: it shrinks weights and biases by this part of the learning rate in each gradient step, against overfitting to few demonstrations")
	f.StringVar(&c.WarmStart.Baseline, "warm-start", "", "baseline that acts at first, instead of dqn's random actions")
	f.IntVar(&c.WarmStart.Steps, "warm-start-steps", 10000, "number of first environment steps in which it acts")
	f.StringVar(&c.Transitions, "transitions", "", "file of recorded transitions that dqn's replay buffer starts with: see trainer record and python -m kubernasium.save_transitions")
	f.StringVar(&c.Dataset, "dataset", "", "dataset of Minari to learn from, such as cartpole/mixed-v0, or its folder with a leading ./ or /: see trainer record")
	f.IntVar(&compare, "compare", 0, "then compare with every baseline on this many held-out episodes")
	return cmd, &c
}

// useDataset sets the environment and its options from the dataset, except for those that the command line
// sets.
func useDataset(c *run.Config, envGiven bool) error {
	folder, err := minari.Folder(c.Dataset)
	if err != nil {
		return err
	}
	m, err := minari.ReadMeta(folder)
	if err != nil {
		return err
	}
	if !envGiven {
		if m.Env == "" {
			return fmt.Errorf("%s does not say in which environment it was recorded: want --env", c.Dataset)
		}
		c.Env = m.Env
	}
	c.EnvKwargs = cli.MergeKwargs(m.EnvKwargs, c.EnvKwargs)
	return nil
}

// checkRecorded returns an error for recorded transitions that the algorithm cannot use, or for missing ones
// that it needs.
func checkRecorded(c run.Config, algo algorithms.Algorithm) error {
	switch given := c.Transitions != "" || c.Dataset != ""; {
	case c.Transitions != "" && c.Dataset != "":
		return errors.New("--transitions and --dataset, want one of them")
	case given && !algo.OffPolicy && !algo.Offline:
		return fmt.Errorf("--transitions or --dataset with %s: only %s learns, and %s learn, from what others recorded", c.Algo, run.OffPolicyNames(), strings.Join(algorithms.OfflineNames(), ", "))
	case algo.Offline && !given:
		return fmt.Errorf("%s learns from recorded transitions: want --dataset, or --transitions", c.Algo)
	case algo.Offline && c.Imitate.Baseline != "":
		return fmt.Errorf("--imitate with %s, which learns from a dataset: record one of %s, and give it as --dataset", c.Algo, c.Imitate.Baseline)
	}
	return nil
}
