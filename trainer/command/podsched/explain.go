package podsched

import (
	"context"
	"fmt"
	"io"
	"slices"

	"github.com/spf13/cobra"

	"github.com/kubernasium/kubernasium/agents/baseline"
	"github.com/kubernasium/kubernasium/board"
	"github.com/kubernasium/kubernasium/envs"
	"github.com/kubernasium/kubernasium/trainer/cli"
	"github.com/kubernasium/kubernasium/trainer/play"
	"github.com/kubernasium/kubernasium/trainer/tracking"
)

// explanation is the JSON of `podsched explain`.
type explanation struct {
	Env      string                   `json:"env"`
	Decision int                      `json:"decision"` // counted from 0
	Nodes    []map[string]string      `json:"nodes"`
	Choices  map[string]string        `json:"choices"`          // chosen node, by baseline and model
	Scores   map[string]*board.Scores `json:"scores,omitempty"` // scores of the actions, by model
}

func newPodschedExplain() *cobra.Command {
	var env, follow string
	var kwargs map[string]any
	var models []string
	var seed uint64
	var decision int
	cmd := &cobra.Command{
		Use:   "explain",
		Short: "Explain a decision: why each node is masked, its scores, and the baselines' choices",
		Example: `  trainer podsched explain --decision 40
  trainer podsched explain --env-kwargs pods:mixed --env-kwargs cpu_load:0.9 --decision 150 --follow First --json
  trainer podsched explain --model models/pretrained/k8s-PodBalance-v0/ppo.safetensors --decision 40`,
		RunE: func(cmd *cobra.Command, _ []string) error {
			v, err := envs.Make(env, 1, envs.VecOptions{Options: kwargs, Autoreset: envs.Disabled})
			if err != nil {
				return err
			}
			defer v.Close()
			task, ok := v.Env(0).Task().(envs.Explainer)
			if !ok {
				return fmt.Errorf("%s does not explain its decisions", env)
			}
			b, err := playTo(cmd, v, follow, seed, decision)
			if err != nil {
				return err
			}
			columns, rows := task.Explain(v.Env(0).State())
			names, choices, err := choicesOf(cmd.Context(), v, rows)
			if err != nil {
				return err
			}
			scores := map[string]*board.Scores{}
			for _, path := range models {
				name, choice, s, err := choiceOfModel(path, v, b, rows)
				if err != nil {
					return err
				}
				names, choices = append(names, name), append(choices, choice)
				if scores[name] = s; s != nil {
					columns, rows = addScores(columns, rows, name, s)
				}
			}
			e := explain(v.Spec().ID, decision, columns, rows, names, choices, scores)
			return cli.Print(cmd, e, func(w io.Writer) error {
				text, err := v.RenderANSI(0)
				if err != nil {
					return err
				}
				return writeExplanation(w, text, columns, rows, names, choices, scores)
			})
		},
	}
	f := cmd.Flags()
	f.StringVar(&env, "env", "k8s/PodBalance-v0", "id of the environment")
	cli.KwargsVar(f, &kwargs, "env-kwargs", "option key:value of the environment (repeat)")
	f.Uint64Var(&seed, "seed", play.CompareSeed, "random seed of the episode")
	f.IntVar(&decision, "decision", 0, "decision of the episode to explain, from 0")
	f.StringArrayVar(&models, "model", nil, "model file whose choice and scores to show besides those of the baselines (repeat)")
	f.StringVar(&follow, "follow", "KubeDefault", "baseline that plays up to the decision")
	return cmd
}

// explain returns an explanation in its JSON form.
func explain(env string, decision int, columns []string, rows [][]string, names, choices []string, scores map[string]*board.Scores) explanation {
	e := explanation{Env: env, Decision: decision, Choices: map[string]string{}, Scores: scores}
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
	return e
}

// writeExplanation writes the cluster, a table of its nodes and a table of the choices.
func writeExplanation(w io.Writer, cluster string, columns []string, rows [][]string, names, choices []string, scores map[string]*board.Scores) error {
	fmt.Fprintln(w, cluster)
	t := tracking.NewTable(columns...)
	for _, r := range rows {
		t.Append(r...)
	}
	t.WriteText(w)
	fmt.Fprintln(w)
	t = tracking.NewTable("policy", "chooses", ">value", ">entropy")
	for i, n := range names {
		value, entropy := "", ""
		if s := scores[n]; s != nil {
			value = cli.Number(s.Value)
			if s.Entropy != nil {
				entropy = cli.Number(*s.Entropy)
			}
		}
		t.Append(n, choices[i], value, entropy)
	}
	return t.WriteText(w)
}

// playTo resets the environment of v and plays the given number of decisions by a baseline. It returns the last
// batch.
func playTo(cmd *cobra.Command, v *envs.Vec, name string, seed uint64, decisions int) (*envs.Batch, error) {
	if decisions < 0 {
		return nil, fmt.Errorf("--decision is %d, want 0 or more", decisions)
	}
	if err := play.CheckSeed(seed, 1); err != nil {
		return nil, err
	}
	p, err := baseline.New(v, name, seed)
	if err != nil {
		return nil, err
	}
	b, err := v.Reset(cmd.Context(), envs.VecResetOptions{Seed: &seed})
	if err != nil {
		return nil, err
	}
	actions := make([]float32, 1)
	for i := range decisions {
		if err := p.Act(b, actions); err != nil {
			return nil, err
		}
		if b, err = v.Step(cmd.Context(), actions); err != nil {
			return nil, err
		}
		if b.Done(0) {
			return nil, fmt.Errorf("--decision is %d, but the episode has %d decisions", decisions, i+1)
		}
	}
	return b, nil
}

// choicesOf asks each baseline for the next decision, if it can answer in the middle of an episode, and returns
// the names of the nodes that they choose.
func choicesOf(ctx context.Context, v *envs.Vec, rows [][]string) (names, choices []string, err error) {
	action := make([]float32, 1)
	for _, b := range v.Spec().Baselines {
		if b.Clairvoyant {
			continue // it plans whole episodes
		}
		rule, err := b.New(v.Env(0).Task())
		if err != nil {
			continue // it does not support these options
		}
		if err := rule(ctx, v.Env(0).State(), false, action); err != nil {
			return nil, nil, fmt.Errorf("baseline %s: %w", b.Name, err)
		}
		names, choices = append(names, b.Name), append(choices, nodeOf(action[0], rows))
	}
	return names, choices, nil
}

// nodeOf names the node that an action chooses.
func nodeOf(action float32, rows [][]string) string {
	if i := int(action); i < len(rows) {
		return rows[i][0]
	}
	return "none of the nodes" // the action after the last node is to wait
}

// choiceOfModel asks a model for the next decision.
func choiceOfModel(path string, v *envs.Vec, b *envs.Batch, rows [][]string) (name, choice string, scores *board.Scores, err error) {
	m, err := play.ReadModelFor(path, v)
	if err != nil {
		return "", "", nil, err
	}
	defer m.Net.Close()
	action := make([]float32, 1)
	if err := m.Act(b, action); err != nil {
		return "", "", nil, err
	}
	return play.ModelName(path, m.Meta.Algo, true), nodeOf(action[0], rows), board.ScoresOf(m.Policy, b, len(b.Mask)), nil
}

// addScores inserts a model's scores of the nodes before the last column, the reason.
func addScores(columns []string, rows [][]string, name string, s *board.Scores) ([]string, [][]string) {
	last := len(columns) - 1
	columns = slices.Insert(slices.Clone(columns), last, name+" "+s.Kind)
	for i := range rows {
		cell := ""
		if v := s.Actions[i]; v != nil {
			cell = fmt.Sprintf("%.4f", *v)
		}
		rows[i] = slices.Insert(slices.Clone(rows[i]), last, cell)
	}
	return columns, rows
}
