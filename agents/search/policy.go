package search

import (
	"context"
	"errors"
	"fmt"
	"strings"
	"sync"

	"github.com/kubernasium/kubernasium/agents"
	"github.com/kubernasium/kubernasium/envs"
)

// Policy searches in the environments of a Vec. It is an [agents.Policy] for this Vec only, and the next Step of the
// Vec must take its actions, since a baseline may leave a plan in the environments beside an action.
type Policy struct {
	ctx      context.Context // Act takes no context
	v        *envs.Vec
	searcher *Searcher

	baseline *envs.Policies // of the base policy in v; nil if that is a model
	advice   []float32      // its actions
	advisers []*envs.Policies
	advised  [][]float32 // their actions
}

var _ agents.Policy = (*Policy)(nil)

// New returns a search in the environments of v.
func New(ctx context.Context, v *envs.Vec, c Config) (*Policy, error) {
	if err := v.CanClone(); err != nil && c.Method != MethodPosterior {
		return nil, err
	}
	s, err := NewSearcher(v.Env(0), v.Spec(), c)
	if err != nil {
		return nil, err
	}
	p := &Policy{ctx: ctx, v: v, searcher: s, advice: make([]float32, v.NumEnvs())}
	if !c.OverModel() {
		if p.baseline, err = envs.NewPolicies(v, c.Base, uint64(c.Seed)); err != nil {
			return nil, err
		}
	}
	for name := range strings.SplitSeq(c.Advisers, "+") {
		if name == "" {
			continue
		}
		adviser, err := envs.NewPolicies(v, name, uint64(c.Seed))
		if err != nil {
			return nil, err
		}
		p.advisers, p.advised = append(p.advisers, adviser), append(p.advised, make([]float32, v.NumEnvs()))
	}
	return p, nil
}

// Act implements [agents.Policy].
func (p *Policy) Act(b *envs.Batch, actions []float32) error {
	for k, adviser := range p.advisers {
		if err := adviser.Act(p.ctx, p.advised[k]); err != nil {
			return err
		}
	}
	if p.baseline != nil {
		if err := p.baseline.Follow(p.ctx, p.advice); err != nil {
			return err
		}
	}
	if p.searcher.config.Method == MethodPosterior {
		return p.weigh(b, actions)
	}
	for i := range p.advice {
		if !p.v.Decides(i) {
			continue
		}
		if err := p.decide(i, b, actions); err != nil {
			return fmt.Errorf("environment %d: %w", i, err)
		}
	}
	return nil
}

// weigh writes the actions of MethodPosterior. Its goroutines share the environments.
func (p *Policy) weigh(b *envs.Batch, actions []float32) error {
	var wg sync.WaitGroup
	failed := make([]error, len(actions))
	for k, w := range p.searcher.weighers {
		wg.Go(func() {
			for i := k; i < len(actions); i += len(p.searcher.weighers) {
				if !p.v.Decides(i) {
					continue
				}
				chosen, err := w.choose(p.root(i, b))
				if err != nil {
					failed[i] = fmt.Errorf("environment %d: %w", i, err)
				}
				actions[i] = float32(chosen)
			}
		})
	}
	wg.Wait()
	return errors.Join(failed...)
}

// root returns the state of environment i.
func (p *Policy) root(i int, b *envs.Batch) Root {
	n := p.v.NumEnvs()
	m, k := len(b.Mask)/n, len(b.Obs)/n
	return Root{Env: p.v.Env(i), Obs: b.Obs[i*k : (i+1)*k], Mask: b.Mask[i*m : (i+1)*m], Step: b.EpisodeLength[i]}
}

// decide writes the action for environment i.
func (p *Policy) decide(i int, b *envs.Batch, actions []float32) error {
	r := p.root(i, b)
	if p.baseline == nil {
		if err := p.searcher.base.answer(r.Obs, r.Mask, p.advice[i:i+1]); err != nil {
			return err
		}
	}
	for _, advised := range p.advised {
		r.Advised = append(r.Advised, int(advised[i]))
	}
	r.Base = int(p.advice[i])
	chosen, err := p.searcher.Choose(p.ctx, r)
	if err != nil {
		return err
	}
	if actions[i] = float32(chosen); chosen != r.Base {
		if planner, ok := p.v.Env(i).Task().(envs.Planner); ok {
			planner.TakePlan() // discard the plan, which belongs to the base policy's action
		}
	}
	return nil
}
