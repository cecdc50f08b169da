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
	if err := b.check(actions); err != nil {
		return err
	}
	if err := b.send(ctx); err != nil {
		return err
	}
	return b.receive(ctx, actions)
}

// check refuses what Act cannot ask.
func (b *Baseline) check(actions []float32) error {
	v := b.v
	if v.closed {
		return envs.ErrClosed
	}
	if err := v.needs(wire.CapPolicy); err != nil {
		return err
	}
	return v.checkSize(len(actions), v.layout.N)
}

// checkSize refuses a number of numbers that is not that of the actions of n environments.
func (v *VecEnv) checkSize(numbers, n int) error {
	if want := n * v.layout.ActSize; numbers != want {
		return fmt.Errorf("client: actions of %d numbers for a baseline, want %d", numbers, want)
	}
	return nil
}

func (b *Baseline) send(ctx context.Context) error {
	v := b.v
	return v.request(ctx, &wire.PolicyRequest{T: wire.TypePolicy, ID: v.nextID(), EID: v.eid, Name: b.name, Seed: b.seed})
}

func (b *Baseline) receive(ctx context.Context, actions []float32) error {
	v := b.v
	if err := v.receive(ctx, wire.TypePolicy+wire.OK); err != nil {
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

// RolloutOptions are the arguments of [Baseline.Rollout]: one of Steps and Episodes.
type RolloutOptions struct {
	Steps       int  // of the vector
	Episodes    int  // that end in each environment
	Transitions bool // whether to return them
}

// Rollout takes many steps by the baseline at the server, in one request. It returns the batch of
// the last step and what the steps led to: the same as by Act and Step, one after the other. The
// server's limits, in mode Disabled an episode's end, and a moment at which the baseline cannot act
// may cut it.
func (b *Baseline) Rollout(ctx context.Context, opts RolloutOptions) (*envs.Batch, *wire.Rollout, error) {
	v := b.v
	if v.closed {
		return nil, nil, envs.ErrClosed
	}
	if err := v.needs(wire.CapRollout); err != nil {
		return nil, nil, err
	}
	req := &wire.RolloutRequest{
		T: wire.TypeRollout, ID: v.nextID(), EID: v.eid, Name: b.name, Seed: b.seed,
		Steps: opts.Steps, Episodes: opts.Episodes, Arrays: opts.Transitions,
	}
	if err := v.call(ctx, wire.TypeRollout+wire.OK, req, nil); err != nil {
		return nil, nil, err
	}
	b.seed = nil
	out, err := v.layout.DecodeRollout(&v.frame, (*wire.Rows)(v.batch))
	if err != nil {
		return nil, nil, v.garbled(err)
	}
	v.rows.rolled(v.batch, v.mode)
	return v.batch, out, nil
}

// needs returns an error if the server lacks an optional part of the protocol.
func (s *session) needs(part string) error {
	if !slices.Contains(s.caps, part) {
		return fmt.Errorf("%w: %s has no %s", ErrUnsupported, s.server, part)
	}
	return nil
}
