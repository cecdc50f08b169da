package core

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"strings"

	"github.com/spf13/cobra"

	"github.com/kubernasium/kubernasium/agents"
	"github.com/kubernasium/kubernasium/agents/baseline"
	"github.com/kubernasium/kubernasium/agents/replay"
	"github.com/kubernasium/kubernasium/envs"
	"github.com/kubernasium/kubernasium/envs/space"
	"github.com/kubernasium/kubernasium/trainer/cli"
	"github.com/kubernasium/kubernasium/trainer/play"
	"github.com/kubernasium/kubernasium/trainer/run"
)

// recordSeed separates recorded episodes from those of training, of evaluations and of
// comparisons.
const recordSeed = 750_000_000

// recordResult is what `record --json` prints.
type recordResult struct {
	File        string `json:"file"`
	Env         string `json:"env"`
	Policy      string `json:"policy"`
	Transitions int    `json:"transitions"`
	Episodes    int    `json:"episodes"` // that ended
}

func newRecord() *cobra.Command {
	var env, policy, model, out string
	var kwargs []string
	var steps int
	var seed uint64
	cmd := &cobra.Command{
		Use:   "record",
		Short: "Record the transitions of a baseline or model, for train --transitions",
		Long: `Record the transitions of a baseline, a model or random actions in an environment of discrete
actions, as a file that dqn's replay buffer can start with (train --transitions FILE).

The file is in the safetensors format, with a row for each transition: observations,
next_observations, actions, rewards, terminations, truncations, action_masks, next_action_masks.`,
		Example: `  trainer record --env k8s/PodBalance-v0 --policy Greedy -n 20000 --out greedy.safetensors
  trainer record --model models/pretrained/k8s-GangWindow-v0/ppo.safetensors -n 20000 --out ppo-steps.safetensors
  trainer train --algo dqn --env k8s/PodBalance-v0 --transitions greedy.safetensors`,
		Args: cobra.NoArgs,
		RunE: func(cmd *cobra.Command, _ []string) error {
			if out == "" || (policy == "") == (model == "") {
				return errors.New("want --out, and one of --policy and --model")
			}
			if steps < 1 {
				return fmt.Errorf("-n %d, want at least 1", steps)
			}
			given, err := cli.ParseKwargs("env-kwargs", kwargs)
			if err != nil {
				return err
			}
			var paths []string
			if model != "" {
				paths = []string{model}
			}
			id, trained, err := play.EnvOf(env, paths)
			if err != nil {
				return err
			}
			res, err := record(cmd.Context(), id, cli.MergeKwargs(trained, given), policy, model, steps, seed, out)
			if err != nil {
				return err
			}
			return cli.Printf(cmd, res, "%s: %d transitions of %s in %s, %d episodes ended\n", res.File, res.Transitions, res.Policy, res.Env, res.Episodes)
		},
	}
	f := cmd.Flags()
	f.StringVar(&env, "env", "", "id of the environment (default: the model's)")
	f.StringVar(&policy, "policy", "", "baseline, or random")
	f.StringVar(&model, "model", "", "model file")
	f.StringArrayVar(&kwargs, "env-kwargs", nil, "option key:value of the environment (repeat; default: the model's)")
	f.IntVarP(&steps, "steps", "n", 10000, "transitions to record")
	f.Uint64Var(&seed, "seed", 0, "random seed of the episodes")
	f.StringVar(&out, "out", "", "file to write")
	return cmd
}

// record plays one environment and writes its transitions.
func record(ctx context.Context, id string, options map[string]any, policy, path string, steps int, seed uint64, out string) (*recordResult, error) {
	spec, err := play.Lookup(ctx, id, nil)
	if err != nil {
		return nil, err
	}
	v, err := envs.NewVec(spec, 1, envs.VecOptions{Options: options, Autoreset: envs.SameStep})
	if err != nil {
		return nil, err
	}
	defer v.Close()
	_, act := v.Spaces()
	d, ok := act.(space.Discrete)
	if !ok {
		return nil, fmt.Errorf("record: %s has actions of kind %s, want discrete, which %s learns from", spec.ID, act.Describe().Kind, run.OffPolicyNames())
	}
	var player agents.Policy
	if path == "" {
		player, err = baseline.New(v, policy, seed)
	} else {
		var m *play.Model
		if m, err = play.ReadModelFor(path, v); err == nil {
			defer m.Net.Close()
			player, policy = m, m.Meta.Algo
		}
	}
	if err != nil {
		return nil, err
	}
	res := &recordResult{File: out, Env: spec.ID, Policy: policy}
	first := recordSeed + seed
	b, err := v.Reset(ctx, envs.VecResetOptions{Seed: &first})
	if err != nil {
		return nil, err
	}
	var t replay.Transitions
	for range steps {
		if b, err = recordStep(ctx, v, player, b, &t); err != nil {
			break
		}
		if b.Done(0) {
			res.Episodes++
		}
	}
	if err != nil && (ctx.Err() == nil || t.Len() == 0) {
		return nil, err
	}
	res.Transitions = t.Len()
	meta := run.TransitionsMeta{Env: spec.ID, Policy: strings.TrimSpace(policy)}
	if err := run.WriteTransitions(out, t, meta, d.N); err != nil {
		return nil, err
	}
	if err != nil {
		return nil, fmt.Errorf("%w: %s has %d of %d transitions; the same command starts over", cli.ErrInterrupted, out, t.Len(), steps)
	}
	return res, nil
}

// recordStep appends a step of the player in v, whose batch is b, to t.
func recordStep(ctx context.Context, v *envs.Vec, player agents.Policy, b *envs.Batch, t *replay.Transitions) (*envs.Batch, error) {
	if err := ctx.Err(); err != nil {
		return nil, err
	}
	action := make([]float32, 1)
	if err := player.Act(b, action); err != nil {
		return nil, err
	}
	obs, mask := slices.Clone(b.Obs), slices.Clone(b.Mask)
	b, err := v.Step(ctx, action)
	if err != nil {
		return nil, err
	}
	if b.Invalid[0] {
		return nil, fmt.Errorf("record: the action %v is masked out at transition %d", action[0], t.Len())
	}
	run.AppendStep(t, obs, mask, action[0], b)
	return b, nil
}
