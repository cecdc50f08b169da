package search

import (
	"context"
	"encoding/json"
	"fmt"

	"github.com/kubernasium/kubernasium/agents/trained"
	"github.com/kubernasium/kubernasium/envs"
)

// base is the policy that plays on in simulations: a baseline or a model. A model with LSTMs treats each state as the
// first of an episode.
type base struct {
	baseline  *envs.Baseline  // nil for a model
	model     *trained.Policy // nil for a baseline
	discount  float64
	values    bool // the model values the last states
	obs       []float32
	mask      []bool
	lastValue []float32
}

// newBase returns the base policy of a search in environments of spec with the spaces of task.
func newBase(spec *envs.Spec, task envs.Task, c *Config) (*base, error) {
	if !c.OverModel() {
		b, err := spec.Baseline(c.Base)
		if err == nil && b.Clairvoyant && !c.Clairvoyant {
			err = fmt.Errorf("search: base %s is clairvoyant; clairvoyant=true makes the search so, too", c.Base)
		}
		return &base{baseline: b, discount: 1}, err
	}
	obs, act := task.Spaces()
	model, err := trained.OpenFor(c.Base, obs, act)
	if err != nil {
		return nil, err
	}
	b := &base{model: model, discount: 1, values: c.Value}
	if c.Value {
		if b.discount, err = valueDiscount(model); err != nil {
			return nil, fmt.Errorf("search: value=true with %s: %w", c.Base, err)
		}
	}
	return b.clone()
}

// valueDiscount returns the discount of a model's values. It returns an error if they are not sums of rewards.
func valueDiscount(model *trained.Policy) (float64, error) {
	var training struct {
		Gamma      *float64 `json:"gamma"`
		NormReward bool     `json:"norm_reward"`
	}
	if err := json.Unmarshal(model.Model().Config, &training); err != nil {
		return 0, fmt.Errorf("hyperparameters: %w", err)
	}
	switch {
	case !model.HasValues():
		return 0, fmt.Errorf("a model of %s has no values of states", model.Model().Algo)
	case training.Gamma == nil:
		return 0, fmt.Errorf("the hyperparameters have no gamma")
	case training.NormReward:
		return 0, fmt.Errorf("its training normalized rewards (norm_reward), so its values are no sums of them")
	}
	return *training.Gamma, nil
}

// clone returns the policy for another goroutine.
func (b *base) clone() (*base, error) {
	c := *b
	if b.model == nil {
		return &c, nil
	}
	obs, _ := b.model.Spaces()
	c.obs, c.mask, c.lastValue = make([]float32, obs.Size()), make([]bool, b.model.MaskSize()), make([]float32, 1)
	var err error
	c.model, err = b.model.Clone()
	return &c, err
}

// begin returns the policy of an episode in e. It writes its actions to action.
func (b *base) begin(e *envs.Env, action []float32) (func(ctx context.Context, first bool) error, error) {
	if b.model != nil {
		return func(context.Context, bool) error {
			e.Observe(b.obs, b.mask)
			return b.answer(b.obs, b.mask, action)
		}, nil
	}
	policy, err := b.baseline.New(e.Task())
	return func(ctx context.Context, first bool) error { return policy(ctx, e.State(), first, action) }, err
}

// answer writes the model's action for one observation.
func (b *base) answer(obs []float32, mask []bool, action []float32) error {
	b.model.Begin()
	return b.model.Act(obs, mask, action)
}

// value returns the model's value of the state of e; 0 if it gives none.
func (b *base) value(e *envs.Env) (float64, error) {
	if !b.values {
		return 0, nil
	}
	e.Observe(b.obs, b.mask)
	b.model.Begin()
	err := b.model.Values(b.obs, b.lastValue)
	return float64(b.lastValue[0]), err
}
