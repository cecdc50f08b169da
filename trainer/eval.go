package main

import (
	"errors"
	"fmt"

	"github.com/spf13/cobra"

	"github.com/kubernasium/kubernasium/agents"
	"github.com/kubernasium/kubernasium/agents/baseline"
	"github.com/kubernasium/kubernasium/agents/evaluation"
	"github.com/kubernasium/kubernasium/envs"
	"github.com/kubernasium/kubernasium/trainer/tracking"
)

// evalResult is what `eval --json` prints.
type evalResult struct {
	Policy    string               `json:"policy"`
	Env       string               `json:"env"`
	EnvKwargs map[string]any       `json:"env_kwargs"`
	Episodes  int                  `json:"episodes"`
	Seed      uint64               `json:"seed"`
	Mean      float64              `json:"mean"`
	Std       float64              `json:"std"`
	Returns   []float64            `json:"returns"`
	Lengths   []int64              `json:"lengths"`
	Metrics   map[string][]float64 `json:"metrics"` // of each episode
}

func newEval() *cobra.Command {
	var modelPath, baselineName, env string
	var kwargs []string
	var episodes int
	var seed uint64
	cmd := &cobra.Command{
		Use:   "eval",
		Short: "Play a model or a baseline on held-out episodes and print its returns",
		Example: `  trainer eval --model logs/ppo/classic-CartPole-v1_1/best_model.safetensors --episodes 100
  trainer eval --env k8s/GangWindow-v0 --baseline dynamic_mpc --json`,
		Args: cobra.NoArgs,
		RunE: func(cmd *cobra.Command, _ []string) error {
			if (modelPath == "") == (baselineName == "") {
				return errors.New("want one of --model and --baseline")
			}
			given, err := parseKwargs("env-kwargs", kwargs)
			if err != nil {
				return err
			}
			var paths []string
			if modelPath != "" {
				paths = []string{modelPath}
			}
			spec, opts, err := envOf(env, paths, given)
			if err != nil {
				return err
			}
			opts = heldOut(spec, opts, nil)
			v, err := envs.NewVec(spec, episodes, envs.VecOptions{Options: opts, Autoreset: envs.SameStep})
			if err != nil {
				return err
			}
			defer v.Close()
			name, policy, closePolicy, err := openPolicy(v, modelPath, baselineName, seed)
			if err != nil {
				return err
			}
			defer closePolicy()
			_, act := v.Spaces()
			r, err := evaluation.Play(cmd.Context(), v, policy, act.Size(), evaluation.Seeds(seed, episodes))
			if err != nil {
				return err
			}
			res := evalResult{
				Policy: name, Env: spec.ID, EnvKwargs: opts, Episodes: episodes, Seed: seed,
				Mean: tracking.Mean(r.Returns), Std: deviation(r.Returns), Returns: r.Returns, Lengths: r.Lengths,
				Metrics: map[string][]float64{},
			}
			for _, m := range spec.Metrics {
				res.Metrics[m.Column] = r.Column(spec.Column(m.Column))
			}
			if wantJSON(cmd) {
				return printJSON(cmd, res)
			}
			fmt.Fprintf(cmd.OutOrStdout(), "%s on %s: mean return %.2f ± %.2f over %d held-out episodes\n", name, spec.ID, res.Mean, res.Std, episodes)
			for _, m := range spec.Metrics {
				fmt.Fprintf(cmd.OutOrStdout(), "  mean %s %.2f %s\n", m.Column, tracking.Mean(res.Metrics[m.Column]), m.Unit)
			}
			return nil
		},
	}
	f := cmd.Flags()
	f.StringVar(&modelPath, "model", "", "model file")
	f.StringVar(&baselineName, "baseline", "", "baseline, or random")
	f.StringVar(&env, "env", "", "id of the environment (default: the model's)")
	f.StringArrayVar(&kwargs, "env-kwargs", nil, "option key:value of the environment (repeat; default: the model's)")
	f.IntVar(&episodes, "episodes", 100, "held-out episodes")
	f.Uint64Var(&seed, "seed", compareSeed, "random seed of the first episode")
	return cmd
}

// openPolicy returns the policy of a model file, or else of a baseline, for the environments
// of v.
func openPolicy(v *envs.Vec, modelPath, baselineName string, seed uint64) (name string, p agents.Policy, closePolicy func(), err error) {
	if modelPath == "" {
		p, err = baseline.New(v, baselineName, seed)
		return baselineName, p, func() {}, err
	}
	m, err := readModel(modelPath)
	if err != nil {
		return "", nil, nil, err
	}
	if err := m.checkSpaces(v); err != nil {
		return "", nil, nil, errors.Join(err, m.net.Close())
	}
	return modelName(modelPath, m.meta.Algo, true), m, func() { _ = m.net.Close() }, nil
}
