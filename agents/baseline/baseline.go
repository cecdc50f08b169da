// Package baseline plays the baselines of environments, and random actions, as policies.
package baseline

import (
	"errors"
	"fmt"
	"math/rand/v2"
	"runtime"
	"sync"

	"github.com/kubernasium/kubernasium/agents"
	"github.com/kubernasium/kubernasium/envs"
	"github.com/kubernasium/kubernasium/envs/pcg"
	"github.com/kubernasium/kubernasium/envs/space"
)

// RandomName is the name of the policy that [New] gives besides an environment's baselines.
const RandomName = "random"

// New returns the policy of the baseline of that name, or of random permitted actions, for
// the environments of v. It looks at their true state and so serves no others. seed is for
// random actions. The policy must see every batch.
func New(v *envs.Vec, name string, seed uint64) (agents.Policy, error) {
	if name == RandomName {
		_, act := v.Spaces()
		return &random{act: act, rng: rand.New(pcg.New(seed))}, nil
	}
	b, err := v.Spec().Baseline(name)
	if err != nil {
		return nil, err
	}
	p := &policy{v: v, name: name, errs: make([]error, v.NumEnvs())}
	for i := range v.NumEnvs() {
		rule, err := b.New(v.Env(i).Task())
		if err != nil {
			return nil, fmt.Errorf("baseline %s: %w", name, err)
		}
		p.rules = append(p.rules, rule)
	}
	return p, nil
}

// policy asks the rule of each environment.
type policy struct {
	v     *envs.Vec
	name  string
	rules []envs.Rule
	errs  []error
}

// Act implements [agents.Policy]. Rules run in parallel: a solver may take milliseconds.
func (p *policy) Act(b *envs.Batch, actions []float32) error {
	n := len(p.rules)
	k := len(actions) / n
	clear(p.errs) // a rule that is not asked now has not failed
	var wg sync.WaitGroup
	workers := min(n, runtime.GOMAXPROCS(0))
	for w := range workers {
		wg.Go(func() {
			for i := w; i < n; i += workers {
				if b.Done(i) && p.v.Autoreset() != envs.SameStep {
					continue // nothing to decide: the action is ignored, or a reset must come first
				}
				p.errs[i] = p.rules[i](p.v.Env(i).State(), b.Begins(i), actions[i*k:(i+1)*k])
			}
		})
	}
	wg.Wait()
	if err := errors.Join(p.errs...); err != nil {
		return fmt.Errorf("baseline %s: %w", p.name, err)
	}
	return nil
}

// random draws permitted actions uniformly.
type random struct {
	act space.Space
	rng *rand.Rand
}

// Act implements [agents.Policy].
func (r *random) Act(b *envs.Batch, actions []float32) error {
	n := len(b.Reward)
	k, m := len(actions)/n, len(b.Mask)/n
	for i := range n {
		r.act.Sample(r.rng, b.Mask[i*m:(i+1)*m], actions[i*k:(i+1)*k])
	}
	return nil
}
