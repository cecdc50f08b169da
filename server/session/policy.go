package session

import (
	"context"
	"maps"

	"github.com/kubernasium/kubernasium/envs"
	"github.com/kubernasium/kubernasium/server/wire"
)

// mostParametric bounds the baselines of a vector that have parameters in their names, of which there are any number.
const mostParametric = 64

// baseline returns the policies of the named baseline; the first call makes them. A seed restarts
// the stream of random actions, whose seed is 0 without one.
func (v *vector) baseline(name string, seed *uint64) (*envs.Policies, error) {
	r, ok := v.policies[name]
	if ok && (seed == nil || name != envs.RandomName) {
		return r, nil
	}
	if !ok {
		if err := v.forgetPolicies(); err != nil {
			return nil, err
		}
	}
	var from uint64
	if seed != nil {
		from = *seed
	}
	r, err := envs.NewPolicies(v.vec, name, from)
	if err != nil {
		return nil, err
	}
	if v.policies == nil {
		v.policies = map[string]*envs.Policies{}
	}
	v.policies[name] = r
	return r, nil
}

// forgetPolicies makes room for another baseline: it drops the policies that have no memory, if there are many. The error
// is [wire.TooMuchMemory] if all have one.
func (v *vector) forgetPolicies() error {
	most := len(v.vec.Spec().Baselines) + 1 + mostParametric // random is one
	if len(v.policies) < most {
		return nil
	}
	maps.DeleteFunc(v.policies, func(_ string, p *envs.Policies) bool { return !p.Remembers() })
	if n := len(v.policies); n >= most {
		return wire.Errorf(wire.TooMuchMemory, "%d baselines have been asked in this episode, want at most %d; reset the environments", n, most)
	}
	return nil
}

// named returns the policies of the baseline that the field key names.
func (v *vector) named(f *wire.Frame, key string) (*envs.Policies, error) {
	name, err := f.Str(key)
	if err != nil {
		return nil, err
	}
	if len(name) == 0 {
		return nil, wire.Errorf(wire.BadField, "field %s is missing", key)
	}
	seed, seeded, err := f.Uint("seed")
	if err != nil {
		return nil, err
	}
	if !seeded {
		return v.baseline(string(name), nil)
	}
	return v.baseline(string(name), &seed)
}

// policy replies with the actions that a baseline takes in the present state.
func (s *Session) policy(ctx context.Context, v *vector, eid uint64, f *wire.Frame) error {
	policies, err := v.named(f, "name")
	if err != nil {
		return s.aboutVector(eid, err)
	}
	ctx, end := s.share(ctx, v, &v.loads.policy)
	defer end.end()
	clear(v.actions)
	if err := policies.Act(ctx, v.actions); err != nil {
		return s.aboutVector(eid, err)
	}
	none := make([]bool, v.layout.N)
	for i := range none {
		none[i] = !v.vec.Decides(i)
	}
	v.layout.EncodePolicy(s.out, f.ID, v.actions, none)
	return nil
}

// stepsBy returns the policies of the baseline that takes a step, or nil if the step has actions.
func (s *Session) stepsBy(f *wire.Frame, v *vector) (*envs.Policies, error) {
	switch {
	case s.minor < 1 || f.Get("policy") == nil:
		return nil, nil
	case s.minor < 2:
		return nil, wire.Errorf(wire.IsReserved, "step has the field policy in a session of 1.%d; since 1.2 it names a baseline that steps in place of actions", s.minor)
	case f.Get("a") != nil:
		return nil, wire.Errorf(wire.BadField, "step has actions and names a baseline, want one of a and policy")
	}
	return v.named(f, "policy")
}
