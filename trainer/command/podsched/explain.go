package podsched

import (
	"context"
	"fmt"

	"github.com/spf13/cobra"

	"github.com/kubernasium/kubernasium/agents/baseline"
	"github.com/kubernasium/kubernasium/envs"
	"github.com/kubernasium/kubernasium/envs/cluster"
	"github.com/kubernasium/kubernasium/trainer/cli"
	"github.com/kubernasium/kubernasium/trainer/play"
	"github.com/kubernasium/kubernasium/trainer/tracking"
)

// explainer is implemented by tasks that can tell what speaks for and against each node in the
// decision to come: a row for each, under the names of the columns.
type explainer interface {
	Explain(s *cluster.State) (columns []string, rows [][]string)
}

// explanation is the JSON of `podsched explain`.
type explanation struct {
	Env      string              `json:"env"`
	Decision int                 `json:"decision"` // from 0
	Nodes    []map[string]string `json:"nodes"`
	Choices  map[string]string   `json:"choices"` // node by baseline
}

func newPodschedExplain() *cobra.Command {
	var env, follow string
	var kwargs []string
	var seed uint64
	var decision int
	cmd := &cobra.Command{
		Use:   "explain",
		Short: "Explain a decision: what masks each node out, its scores, what each baseline would do",
		Example: `  trainer podsched explain --decision 40
  trainer podsched explain --env-kwargs pods:mixed --env-kwargs cpu_load:0.9 --decision 150 --follow First --json`,
		Args: cobra.NoArgs,
		RunE: func(cmd *cobra.Command, _ []string) error {
			opts, err := cli.ParseKwargs("env-kwargs", kwargs)
			if err != nil {
				return err
			}
			v, err := envs.Make(env, 1, envs.VecOptions{Options: opts, Autoreset: envs.Disabled})
			if err != nil {
				return err
			}
			defer v.Close()
			task, ok := v.Env(0).Task().(explainer)
			if !ok {
				return fmt.Errorf("%s does not explain its decisions", env)
			}
			if err := playTo(cmd, v, follow, seed, decision); err != nil {
				return err
			}
			columns, rows := task.Explain(v.Env(0).State())
			names, choices, err := choicesOf(cmd.Context(), v, rows)
			if err != nil {
				return err
			}
			if cli.WantJSON(cmd) {
				e := explanation{Env: v.Spec().ID, Decision: decision, Choices: map[string]string{}}
				for _, r := range rows {
					node := map[string]string{}
					for i, c := range columns {
						if r[i] != "" {
							node[c] = r[i]
						}
					}
					e.Nodes = append(e.Nodes, node)
				}
				for i, n := range names {
					e.Choices[n] = choices[i]
				}
				return cli.PrintJSON(cmd, e)
			}
			w := cmd.OutOrStdout()
			text, err := v.RenderANSI(0)
			if err != nil {
				return err
			}
			fmt.Fprintln(w, text)
			t := tracking.NewTable(columns...)
			for _, r := range rows {
				t.Append(r...)
			}
			if err := t.WriteText(w); err != nil {
				return err
			}
			fmt.Fprintln(w)
			t = tracking.NewTable("baseline", "chooses")
			for i, n := range names {
				t.Append(n, choices[i])
			}
			return t.WriteText(w)
		},
	}
	f := cmd.Flags()
	f.StringVar(&env, "env", "k8s/PodBalance-v0", "id of the environment")
	f.StringArrayVar(&kwargs, "env-kwargs", nil, "option key:value of the environment (repeat)")
	f.Uint64Var(&seed, "seed", play.CompareSeed, "random seed of the episode")
	f.IntVar(&decision, "decision", 0, "which decision of the episode to explain, from 0")
	f.StringVar(&follow, "follow", "KubeDefault", "baseline that plays up to it")
	return cmd
}

// playTo resets the environment of v and plays the given number of decisions by a baseline.
func playTo(cmd *cobra.Command, v *envs.Vec, name string, seed uint64, decisions int) error {
	if decisions < 0 {
		return fmt.Errorf("--decision is %d, want 0 or more", decisions)
	}
	p, err := baseline.New(v, name, seed)
	if err != nil {
		return err
	}
	b, err := v.Reset(cmd.Context(), envs.VecResetOptions{Seed: &seed})
	if err != nil {
		return err
	}
	actions := make([]float32, 1)
	for i := range decisions {
		if err := p.Act(b, actions); err != nil {
			return err
		}
		if b, err = v.Step(cmd.Context(), actions); err != nil {
			return err
		}
		if b.Done(0) {
			return fmt.Errorf("--decision is %d, but the episode has %d decisions", decisions, i+1)
		}
	}
	return nil
}

// choicesOf asks each baseline for the decision to come, as far as it can answer in the middle of
// an episode, and returns the names of the nodes that they choose.
func choicesOf(ctx context.Context, v *envs.Vec, rows [][]string) (names, choices []string, err error) {
	action := make([]float32, 1)
	for _, b := range v.Spec().Baselines {
		if b.Oracle {
			continue // it plans whole episodes
		}
		rule, err := b.New(v.Env(0).Task())
		if err != nil {
			continue // not for these options
		}
		if err := rule(ctx, v.Env(0).State(), false, action); err != nil {
			return nil, nil, fmt.Errorf("baseline %s: %w", b.Name, err)
		}
		choice := "none of the nodes" // an action after the last node: wait
		if i := int(action[0]); i < len(rows) {
			choice = rows[i][0]
		}
		names, choices = append(names, b.Name), append(choices, choice)
	}
	return names, choices, nil
}
