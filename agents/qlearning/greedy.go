package qlearning

import (
	"encoding/json"
	"fmt"
	"slices"

	"github.com/kubernasium/kubernasium/agents"
	"github.com/kubernasium/kubernasium/agents/categorical"
	"github.com/kubernasium/kubernasium/agents/normalize"
	"github.com/kubernasium/kubernasium/agents/policies"
	"github.com/kubernasium/kubernasium/envs"
	"github.com/kubernasium/kubernasium/envs/space"
	"github.com/kubernasium/kubernasium/models"
)

// Head computes action values from a network's outputs.
type Head struct {
	Actions int // action values of one row

	width   int // outputs of one row
	dueling bool
}

// NewHead returns the Head of a network of [NetworkSpec].
func NewHead(spec models.Spec) Head {
	_, actions := spec.Head(spec.Heads[0].Name)
	_, value := spec.Head(policies.ValueHead)
	return Head{Actions: actions, width: spec.Outputs(), dueling: value == 1 && spec.Outputs() == actions+1}
}

// Values returns the action values of row i of out. With dueling heads, it computes V + A − mean A
// [2] in q.
func (h Head) Values(q, out []float32, i int) []float32 {
	row := out[i*h.width : (i+1)*h.width]
	if !h.dueling {
		return row
	}
	mean := 0.0
	for _, a := range row[:h.Actions] {
		mean += float64(a)
	}
	shift := float64(row[h.Actions]) - mean/float64(h.Actions)
	for a := range q {
		q[a] = float32(float64(row[a]) + shift)
	}
	return q
}

// Backward adds to dOut, the gradient of one row's outputs, the gradient g of the value of one action.
func (h Head) Backward(dOut []float32, action int, g float64) {
	if !h.dueling {
		dOut[action] += float32(g)
		return
	}
	share := g / float64(h.Actions)
	for a := range dOut[:h.Actions] {
		if a != action {
			dOut[a] -= float32(share)
		}
	}
	dOut[action] += float32(g - share)
	dOut[h.Actions] += float32(g)
}

// Greedy is a policy that chooses the permitted action of the highest value.
type Greedy struct {
	algo string
	net  models.Network
	head Head
	q    []float32             // of one row
	norm *normalize.Normalizer // of a model of Stable-Baselines3 with VecNormalize; nil: none
	obs  []float32             // normalized
}

var _ agents.Scorer = (*Greedy)(nil)

// NewGreedy returns the greedy policy of a network of [NetworkSpec] for the learner algo.
func NewGreedy(algo string, net models.Network, spec models.Spec) *Greedy {
	h := NewHead(spec)
	return &Greedy{algo: algo, net: net, head: h, q: make([]float32, h.Actions)}
}

// NewPolicy returns the greedy policy of a checkpoint of the learner algo, whose parameters net holds. Learners of action
// values do not normalize, but a model of Stable-Baselines3 may have statistics of VecNormalize. The error wraps
// [models.ErrMismatch] if the actions are not Discrete, with a value for each.
func NewPolicy(algo string, net models.Network, f models.File) (agents.Policy, error) {
	g := NewGreedy(algo, net, f.Meta.Spec)
	var d space.Description
	if err := json.Unmarshal([]byte(f.Meta.ActionSpace), &d); err != nil {
		return nil, fmt.Errorf("%s: %w: action space: %w", algo, models.ErrMismatch, err)
	}
	act, err := space.FromDescription(d)
	if err != nil {
		return nil, fmt.Errorf("%s: %w: %w", algo, models.ErrMismatch, err)
	}
	if a, ok := act.(space.Discrete); !ok || a.N != g.head.Actions {
		return nil, fmt.Errorf("%s: %w: %d action values for actions in %v", algo, models.ErrMismatch, g.head.Actions, act)
	}
	if g.norm, err = normalize.Load(f, f.Meta.Spec, 0, 1); err != nil {
		return nil, err
	}
	return g, nil
}

// Act implements [agents.Policy].
func (g *Greedy) Act(b *envs.Batch, actions []float32) error {
	out, err := g.net.Forward(g.normalized(b.Obs), len(b.Reward))
	if err != nil {
		return fmt.Errorf("%s: act: %w", g.algo, err)
	}
	m := g.head.Actions
	for i := range b.Reward {
		actions[i] = float32(categorical.Mode(g.head.Values(g.q, out, i), b.Mask[i*m:(i+1)*m]))
	}
	return nil
}

// normalized returns observations as the network reads them.
func (g *Greedy) normalized(obs []float32) []float32 {
	if g.norm == nil || !g.norm.Active() {
		return obs
	}
	g.obs = slices.Grow(g.obs[:0], len(obs))[:len(obs)]
	g.norm.Obs(g.obs, obs)
	return g.obs
}

// Scores implements [agents.Scorer]: the values of the actions.
func (g *Greedy) Scores(b *envs.Batch, scores []float32) error {
	out, err := g.net.Forward(g.normalized(b.Obs), len(b.Reward))
	if err != nil {
		return fmt.Errorf("%s: scores: %w", g.algo, err)
	}
	m := g.head.Actions
	for i := range b.Reward {
		copy(scores[i*m:(i+1)*m], g.head.Values(g.q, out, i))
	}
	return nil
}
