package core

import (
	"context"
	"errors"
	"fmt"
	"math/rand/v2"
	"path/filepath"
	"slices"
	"strings"

	"github.com/spf13/cobra"

	"github.com/kubernasium/kubernasium/agents"
	"github.com/kubernasium/kubernasium/agents/replay"
	"github.com/kubernasium/kubernasium/envs"
	"github.com/kubernasium/kubernasium/envs/pcg"
	"github.com/kubernasium/kubernasium/envs/space"
	"github.com/kubernasium/kubernasium/trainer/cli"
	"github.com/kubernasium/kubernasium/trainer/minari"
	"github.com/kubernasium/kubernasium/trainer/play"
	"github.com/kubernasium/kubernasium/trainer/run"
)

// recordSeed separates recorded episodes from those of training, evaluations and comparisons.
const recordSeed = 750_000_000

// recordResult is the JSON of `record --json`.
type recordResult struct {
	File        string `json:"file,omitempty"`
	Dataset     string `json:"dataset,omitempty"`
	Env         string `json:"env"`
	Policy      string `json:"policy"`
	Transitions int    `json:"transitions"`
	Episodes    int    `json:"episodes"` // number that ended
}

// recording holds the arguments of `trainer record`.
type recording struct {
	env           string         // empty: the model's
	options       map[string]any // options of the environment
	policy, model string         // either a model or a baseline
	epsilon       float64        // probability of a random action instead of the policy's
	steps         int
	seed          uint64
	urls          []string // of a server to play on; nil plays in this process
	out, dataset  string   // output files; at least one
}

func newRecord() *cobra.Command {
	var c recording
	cmd := &cobra.Command{
		Use:   "record",
		Short: "Record the transitions of a baseline or model, for train --dataset and --transitions",
		Long: `Record the transitions of a baseline, a model or random actions in an environment.

--dataset writes a dataset of Minari 0.5 in its Arrow format, with actions of every kind, Dict observations and
action masks (infos["action_mask"]). minari.load_dataset(ID) and trainer train --dataset ID read it. It is stored
in ~/.minari/datasets, or in the folder of the environment variable MINARI_DATASETS_PATH. A name with a leading
./ or / is a folder.

--out writes discrete actions as a file that dqn's replay buffer can start with (train --transitions FILE). The
file is in the safetensors format, with a row for each transition: observations, next_observations, actions,
rewards, terminations, truncations, action_masks, next_action_masks.`,
		Example: `  trainer record --model models/pretrained/classic-CartPole-v1/ppo.safetensors --epsilon 0.5 -n 20000 --dataset cartpole/mixed-v0
  trainer train --algo cql --dataset cartpole/mixed-v0
  trainer record --env k8s/PodBalance-v0 --policy Greedy -n 20000 --out greedy.safetensors
  trainer record --model models/pretrained/k8s-GangWindow-v0/ppo.safetensors -n 20000 --out ppo-steps.safetensors
  trainer record --env k8s/PodBalanceKwok-v0 --policy Greedy -n 200 --dataset kwok/greedy-v0 --url ws://127.0.0.1:8765
  trainer train --algo dqn --env k8s/PodBalance-v0 --transitions greedy.safetensors`,
		RunE: func(cmd *cobra.Command, _ []string) error {
			if c.out == "" && c.dataset == "" || (c.policy == "") == (c.model == "") {
				return errors.New("want --out or --dataset, and one of --policy and --model")
			}
			if c.steps < 1 || !(c.epsilon >= 0 && c.epsilon <= 1) {
				return fmt.Errorf("-n %d, want at least 1; --epsilon %v, want 0 to 1", c.steps, c.epsilon)
			}
			res, err := c.record(cmd.Context())
			if err != nil {
				return err
			}
			return cli.Printf(cmd, res, "%s: %d transitions of %s in %s, %d episodes ended\n",
				strings.Trim(res.File+", "+res.Dataset, ", "), res.Transitions, res.Policy, res.Env, res.Episodes)
		},
	}
	f := cmd.Flags()
	f.StringVar(&c.env, "env", "", "id of the environment (default: the model's)")
	f.StringVar(&c.policy, "policy", "", "baseline, or random")
	f.StringVar(&c.model, "model", "", "model file")
	f.Float64Var(&c.epsilon, "epsilon", 0, "probability of a random permitted action instead of the policy's")
	cli.KwargsVar(f, &c.options, "env-kwargs", "option key:value of the environment (repeat; default: the model's)")
	f.IntVarP(&c.steps, "steps", "n", 10000, "transitions to record")
	f.Uint64Var(&c.seed, "seed", 0, "random seed of the episodes")
	f.StringArrayVar(&c.urls, "url", nil, "server to play on, such as ws://127.0.0.1:8765")
	f.StringVar(&c.out, "out", "", "file to write, for train --transitions")
	f.StringVar(&c.dataset, "dataset", "", "dataset of Minari to write, such as cartpole/mixed-v0, or its folder with a leading ./ or /")
	return cmd
}

// recorder plays one environment and keeps its transitions.
type recorder struct {
	recording
	v envs.VecEnv
	// following is v, or applies a baseline's whole choice at a server.
	following envs.VecEnv
	player    agents.Policy
	act       space.Space
	rng       *rand.Rand
	t         replay.Transitions
}

// record plays one environment and writes its transitions.
func (c recording) record(ctx context.Context) (*recordResult, error) {
	if err := play.CheckSeed(recordSeed+c.seed, 1); err != nil {
		return nil, err
	}
	if c.dataset != "" {
		if err := minari.Free(c.dataset); err != nil {
			return nil, err
		}
	}
	conf := play.Config{Model: c.model, Baseline: c.policy, Env: c.env, Seed: c.seed, URLs: c.urls}
	spec, trained, err := conf.TrainedEnv(ctx)
	if err != nil {
		return nil, err
	}
	c.options = cli.MergeKwargs(trained, c.options)
	v, err := play.OpenEnvs(ctx, spec, 1, envs.VecOptions{Options: c.options, Autoreset: envs.SameStep}, c.urls)
	if err != nil {
		return nil, err
	}
	defer v.Close()
	obs, act := v.Spaces()
	d, discrete := act.(space.Discrete)
	if !discrete && c.out != "" {
		return nil, fmt.Errorf("record: %s has actions of kind %s, want discrete, which %s learns from; --dataset records all", spec.ID, act.Describe().Kind, run.OffPolicyNames())
	}
	r := &recorder{recording: c, v: v, following: conf.Follow(ctx, v), act: act, rng: rand.New(pcg.New(c.seed ^ recordStream))}
	name, player, closePlayer, err := play.OpenPolicy(ctx, r.following, conf)
	if err != nil {
		return nil, err
	}
	defer closePlayer()
	r.player, c.policy = player, name
	res := &recordResult{File: c.out, Dataset: c.dataset, Env: spec.ID, Policy: c.policy}
	err = r.play(ctx, res)
	t := r.t
	if err != nil && (ctx.Err() == nil || t.Len() == 0) {
		return nil, err
	}
	res.Transitions = t.Len()
	if c.out != "" {
		meta := run.TransitionsMeta{Env: spec.ID, Policy: strings.TrimSpace(c.policy)}
		if err := run.WriteTransitions(c.out, t, meta, d.N); err != nil {
			return nil, err
		}
	}
	if c.dataset != "" {
		m := minari.Meta{ID: c.dataset, Env: spec.ID, EnvKwargs: c.options, Algorithm: strings.TrimSpace(c.policy)}
		if minari.IsPath(c.dataset) {
			m.ID = filepath.Base(c.dataset)
		}
		if err := minari.Write(c.dataset, m, obs, act, minari.Episodes(t, obs, act)); err != nil {
			return nil, err
		}
	}
	if err != nil {
		return nil, fmt.Errorf("%w: %s has %d of %d transitions; the same command starts over", cli.ErrInterrupted, c.out+c.dataset, t.Len(), c.steps)
	}
	return res, nil
}

// recordStream separates the random numbers of --epsilon from those of the policy. Its value is arbitrary.
const recordStream = 0x7265_636f

// play plays the steps.
func (r *recorder) play(ctx context.Context, res *recordResult) error {
	b, err := r.v.Reset(ctx, envs.VecResetOptions{Seed: new(recordSeed + r.seed)})
	if err != nil {
		return err
	}
	for range r.steps {
		if b, err = r.step(ctx, b); err != nil {
			return err
		}
		if b.Done(0) {
			res.Episodes++
		}
	}
	return nil
}

// step takes a step from the batch b and appends it to the transitions.
func (r *recorder) step(ctx context.Context, b *envs.Batch) (*envs.Batch, error) {
	if err := ctx.Err(); err != nil {
		return nil, err
	}
	action := make([]float32, r.act.Size())
	random := r.epsilon > 0 && r.rng.Float64() < r.epsilon
	if !random || r.model != "" { // a recurrent model must see every batch; a baseline's actions must be taken
		if err := r.player.Act(b, action); err != nil {
			return nil, err
		}
	}
	if random {
		mask := b.Mask
		if len(mask) == 0 {
			mask = nil
		}
		r.act.Sample(r.rng, mask, action)
	}
	obs, mask := slices.Clone(b.Obs), slices.Clone(b.Mask)
	v := r.following
	if random {
		v = r.v
	}
	b, err := v.Step(ctx, action)
	if err != nil {
		return nil, err
	}
	if b.Invalid[0] {
		return nil, fmt.Errorf("record: the action %v is masked out at transition %d", action, r.t.Len())
	}
	run.AppendStep(&r.t, obs, mask, action, b)
	return b, nil
}
