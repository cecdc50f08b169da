package play

import (
	"context"
	"errors"
	"fmt"
	"math/rand/v2"
	"slices"

	"github.com/kubernasium/kubernasium/agents"
	"github.com/kubernasium/kubernasium/agents/evaluation"
	"github.com/kubernasium/kubernasium/envs"
	"github.com/kubernasium/kubernasium/envs/space"
	"github.com/kubernasium/kubernasium/trainer/tracking"
)

// The state test compares a model with two variants that ignore the state. One always takes the model's mean or
// most frequent action; the other sees the observations of other environments.
const (
	constantName = " (constant action)"
	shuffledName = " (observations shuffled)"
)

// StateTest reports whether a model uses its state.
type StateTest struct {
	Model    string            `json:"model"`
	Constant tracking.Estimate `json:"constant"` // the model's metric minus that of its constant action
	Shuffled tracking.Estimate `json:"shuffled"` // the model's metric minus that on shuffled observations
	P        float64           `json:"p_holm"`   // the larger of both p-values, one-sided, corrected for all tests of the comparison
	Uses     bool              `json:"uses_state"`
}

// ablations returns the two ablations of a model.
func (c *CompareConfig) ablations(ctx context.Context, v envs.VecEnv, path, name string) []player {
	seeds := evaluation.Seeds(c.Seed, c.Episodes)
	with := func(play func(m *Model) (*evaluation.Result, error)) func() (*evaluation.Result, error) {
		return func() (*evaluation.Result, error) {
			m, err := ReadModelFor(path, v)
			if err != nil {
				return nil, err
			}
			r, err := play(m)
			return r, errors.Join(err, m.Net.Close())
		}
	}
	return []player{
		{name: name + constantName, kind: KindAblation, play: with(func(m *Model) (*evaluation.Result, error) {
			_, act := v.Spaces()
			r := newActionRecorder(m, act)
			if _, err := evaluation.Play(ctx, v, r, evaluation.Seeds(EvalSeed, c.Episodes)); err != nil {
				return nil, err
			}
			return evaluation.Play(ctx, v, r.constant(), seeds)
		})},
		{name: name + shuffledName, kind: KindAblation, play: with(func(m *Model) (*evaluation.Result, error) {
			return evaluation.Play(ctx, v, &shuffled{policy: m, rng: rand.New(rand.NewPCG(c.Seed, 1))}, seeds)
		})},
	}
}

// actionRecorder counts the actions of a policy.
type actionRecorder struct {
	agents.Policy
	sums   []float64 // for a Box, by element
	counts [][]int   // for other spaces, by part and choice
	rows   float64
}

func newActionRecorder(p agents.Policy, act space.Space) *actionRecorder {
	r := &actionRecorder{Policy: p}
	switch act := act.(type) {
	case space.Discrete:
		r.counts = [][]int{make([]int, act.N)}
	case space.MultiDiscrete:
		for _, n := range act.NVec {
			r.counts = append(r.counts, make([]int, n))
		}
	default:
		r.sums = make([]float64, act.Size())
	}
	return r
}

func (r *actionRecorder) Act(b *envs.Batch, actions []float32) error {
	if err := r.Policy.Act(b, actions); err != nil {
		return err
	}
	size := len(r.sums) + len(r.counts)
	for i, a := range actions {
		if r.counts != nil {
			r.counts[i%size][int(a)]++
		} else {
			r.sums[i%size] += float64(a)
		}
	}
	r.rows += float64(len(actions) / size)
	return nil
}

// constant returns the policy of the mean action or, in each part of a discrete one, of the most frequent
// choice that the mask permits.
func (r *actionRecorder) constant() agents.Policy {
	c := &constantAction{}
	for _, s := range r.sums {
		c.mean = append(c.mean, float32(s/r.rows))
	}
	for _, counts := range r.counts {
		order := make([]int, len(counts))
		for k := range order {
			order[k] = k
		}
		slices.SortStableFunc(order, func(a, b int) int { return counts[b] - counts[a] })
		c.order = append(c.order, order)
	}
	return c
}

type constantAction struct {
	mean  []float32
	order [][]int // choices of each part, the most frequent first
}

func (c *constantAction) Act(b *envs.Batch, actions []float32) error {
	n, size := len(b.Reward), len(c.mean)+len(c.order)
	masks := len(b.Mask) / n
	for i := range n {
		row, mask := actions[i*size:(i+1)*size], b.Mask[i*masks:(i+1)*masks]
		copy(row, c.mean)
		for part, order := range c.order {
			row[part] = float32(order[0])
			if len(mask) == 0 {
				continue
			}
			if k := slices.IndexFunc(order, func(choice int) bool { return mask[choice] }); k >= 0 {
				row[part] = float32(order[k])
			}
			mask = mask[len(order):]
		}
	}
	return nil
}

// shuffled shows a policy the observations of other environments, in a new order at each step. Each environment
// keeps its own mask.
type shuffled struct {
	policy agents.Policy
	rng    *rand.Rand
	obs    []float32
}

func (s *shuffled) Act(b *envs.Batch, actions []float32) error {
	n := len(b.Reward)
	size := len(b.Obs) / n
	s.obs = s.obs[:0]
	for _, i := range s.rng.Perm(n) {
		s.obs = append(s.obs, b.Obs[i*size:(i+1)*size]...)
	}
	other := *b
	other.Obs = s.obs
	return s.policy.Act(&other, actions)
}

// testStates evaluates the models whose ablations have played.
func (res *Comparison) testStates() {
	var p []float64
	for _, row := range res.Rows {
		if row.Kind != KindModel {
			continue
		}
		find := func(what string) int {
			return slices.IndexFunc(res.Rows, func(r Row) bool { return r.Policy == row.Policy+what && r.Kind == KindAblation })
		}
		constant, shuffled := find(constantName), find(shuffledName)
		if constant < 0 || shuffled < 0 {
			continue
		}
		of := func(i int) (tracking.Estimate, float64) {
			t := tracking.PairedTest(row.Values, res.Rows[i].Values)
			if res.Lower {
				return t.Estimate, t.Below
			}
			return t.Estimate, t.Above
		}
		s := StateTest{Model: row.Policy}
		var pConstant, pShuffled float64
		s.Constant, pConstant = of(constant)
		s.Shuffled, pShuffled = of(shuffled)
		p = append(p, max(pConstant, pShuffled))
		res.States = append(res.States, s)
	}
	for i, adjusted := range tracking.Holm(p) {
		s := &res.States[i]
		s.P, s.Uses = adjusted, adjusted <= Alpha/2
		says := "does not show that it uses its state"
		if s.Uses {
			says = "uses its state"
		}
		res.Verdict = append(res.Verdict, fmt.Sprintf("%[1]s %[2]s: difference to its own constant action %+.[3]*[4]f, to itself on shuffled observations %+.[3]*[5]f (p = %.2[6]g)",
			s.Model, says, res.Decimals(), s.Constant.Mean, s.Shuffled.Mean, s.P))
	}
}
