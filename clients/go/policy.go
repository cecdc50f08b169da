package client

import (
	"context"
	"fmt"
	"slices"

	"github.com/kubernasium/kubernasium/envs"
	"github.com/kubernasium/kubernasium/server/wire"
)

// A Baseline is the decision rule of a baseline, or random permitted actions, at the server. The
// spec lists the names.
type Baseline struct {
	v          *VecEnv
	name       string
	seed       *uint64 // of random actions, to be sent
	none, plan []bool
}

// Baseline returns the baseline of that name, or with envs.RandomName random permitted actions,
// which seed is for. The server says at the first Act whether there is one.
func (v *VecEnv) Baseline(name string, seed uint64) *Baseline {
	n := v.layout.N
	return &Baseline{v: v, name: name, seed: &seed, none: make([]bool, n), plan: make([]bool, n)}
}

// Act writes the actions that the baseline takes at this moment to actions, of length NumEnvs
// times the size of an action. Rows that decide nothing keep what they have; [Baseline.Decides]
// tells them. Asking changes nothing in the environments, and at one moment the answer is the
// same. Errors are those of [envs.Rules.Act], and [ErrUnsupported].
func (b *Baseline) Act(ctx context.Context, actions []float32) error {
	v := b.v
	if v.closed {
		return envs.ErrClosed
	}
	if err := v.needs(wire.CapPolicy); err != nil {
		return err
	}
	if want := v.layout.N * v.layout.ActSize; len(actions) != want {
		return fmt.Errorf("client: actions of %d numbers for a baseline, want %d", len(actions), want)
	}
	req := &wire.PolicyRequest{T: wire.TypePolicy, ID: v.nextID(), EID: v.eid, Name: b.name, Seed: b.seed}
	if err := v.call(ctx, wire.TypePolicy+wire.OK, req, nil); err != nil {
		return err
	}
	b.seed = nil
	if err := v.layout.DecodePolicy(&v.frame, actions, b.none, b.plan); err != nil {
		return v.garbled(err)
	}
	return nil
}

// Decides reports whether environment i took an action at the moment of the last Act.
func (b *Baseline) Decides(i int) bool { return !b.none[i] }

// Plans reports whether the choice of the last Act in environment i is more than its action says.
func (b *Baseline) Plans(i int) bool { return b.plan[i] }

// Step is [VecEnv.Step], but that in the rows whose action is the one that Act has told at this
// moment, what the baseline plans beside it is carried out too. It returns [envs.ErrNotAsked] if
// Act was not called at this moment.
func (b *Baseline) Step(ctx context.Context, actions []float32) (*envs.Batch, error) {
	if err := b.v.checkActions(actions, 0); err != nil {
		return nil, err
	}
	if err := b.v.needs(wire.CapPolicy); err != nil {
		return nil, err
	}
	return b.v.step(ctx, actions, b.name)
}

// needs returns an error if the server lacks an optional part of the protocol.
func (s *session) needs(part string) error {
	if !slices.Contains(s.caps, part) {
		return fmt.Errorf("%w: %s has no %s", ErrUnsupported, s.server, part)
	}
	return nil
}
