package session

import (
	"context"

	"github.com/kubernasium/kubernasium/envs"
	"github.com/kubernasium/kubernasium/server/wire"
)

// baseline returns the rules of the baseline of that name, which are made when they are first
// asked for. A seed begins the stream of random actions anew; without one it begins at 0.
func (v *vector) baseline(name string, seed *uint64) (*envs.Rules, error) {
	if r, ok := v.rules[name]; ok && (seed == nil || name != envs.RandomName) {
		return r, nil
	}
	var from uint64
	if seed != nil {
		from = *seed
	}
	r, err := envs.NewRules(v.vec, name, from)
	if err != nil {
		return nil, err
	}
	if v.rules == nil {
		v.rules = map[string]*envs.Rules{}
	}
	v.rules[name] = r
	return r, nil
}

// named returns the rules of the baseline that a request names.
func (v *vector) named(f *wire.Frame) (*envs.Rules, error) {
	name, err := f.Str("name")
	if err != nil {
		return nil, err
	}
	if len(name) == 0 {
		return nil, wire.Errorf(wire.BadField, "field name is missing")
	}
	seed, seeded, err := f.Uint("seed")
	if err != nil {
		return nil, err
	}
	if !seeded {
		return v.baseline(string(clip(name)), nil)
	}
	return v.baseline(string(clip(name)), &seed)
}

// policy tells what a baseline does at this moment.
func (s *Session) policy(ctx context.Context, f *wire.Frame) error {
	v, eid, err := s.vector(f)
	if err != nil {
		return err
	}
	rules, err := v.named(f)
	if err != nil {
		return s.aboutVector(eid, err)
	}
	clear(v.actions)
	if err := rules.Act(ctx, v.actions); err != nil {
		return s.aboutVector(eid, err)
	}
	none, plan := make([]bool, v.layout.N), make([]bool, v.layout.N)
	for i := range v.layout.N {
		none[i], plan[i] = !v.vec.Decides(i), rules.Plans(i)
	}
	v.layout.EncodePolicy(s.out, f.ID, v.actions, none, plan)
	return nil
}

// follows returns the rules of the baseline that a step names, or nil.
func (s *Session) follows(f *wire.Frame, v *vector) (*envs.Rules, error) {
	if s.minor < 1 || f.Get("policy") == nil {
		return nil, nil
	}
	name, err := f.Str("policy")
	if err != nil {
		return nil, err
	}
	if r, ok := v.rules[string(name)]; ok {
		return r, nil
	}
	return nil, wire.Errorf(wire.NotAsked, "baseline %q was not asked", clip(name))
}
