package client

import (
	"context"
	"fmt"
	"slices"

	"github.com/kubernasium/kubernasium/envs"
	"github.com/kubernasium/kubernasium/server/wire"
)

// A Baseline plays one of the environment's baselines, or random permitted actions, at the server.
// The Spec lists the names.
type Baseline struct {
	v    *VecEnv
	name string
	seed *uint64 // of random actions; nil once sent
	none []bool
}

// Baseline returns the named baseline. The name [envs.RandomName] draws random permitted actions
// from seed. The server checks the name at the first request.
func (v *VecEnv) Baseline(name string, seed uint64) *Baseline {
	return &Baseline{v: v, name: name, seed: &seed, none: make([]bool, v.layout.N)}
}

// Act writes the baseline's actions for the present states to actions, of length NumEnvs times the
// size of an action. It leaves rows unchanged in which there is nothing to decide;
// [Baseline.Decides] reports them. It does not change the environments, and returns the same
// actions until they step. Errors are those of [envs.Policies.Act], and [ErrUnsupported].
func (b *Baseline) Act(ctx context.Context, actions []float32) error {
	if err := b.v.can(wire.CapBaseline); err != nil {
		return err
	}
	if err := b.v.checkSize(len(actions), b.v.layout.N); err != nil {
		return err
	}
	if err := b.send(ctx); err != nil {
		return err
	}
	return b.receive(ctx, actions)
}

// checkSize rejects a length of actions that is wrong for n environments.
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
	b.stepped()
	return v.protocolError(v.layout.DecodePolicy(&v.frame, actions, b.none))
}

// Decides reports whether the last Act gave an action for environment i.
func (b *Baseline) Decides(i int) bool { return !b.none[i] }

// Step takes the baseline's step in every environment at the server, including plans. Errors are
// those of Act and of [VecEnv.Step].
func (b *Baseline) Step(ctx context.Context) (*envs.Batch, error) {
	if err := b.v.can(wire.CapBaseline); err != nil {
		return nil, err
	}
	if err := b.sendStep(ctx); err != nil {
		return nil, err
	}
	if err := b.receiveStep(ctx); err != nil {
		return nil, err
	}
	return b.v.batch, nil
}

func (b *Baseline) sendStep(ctx context.Context) error {
	v := b.v
	return v.request(ctx, &wire.StepByRequest{T: wire.TypeStep, ID: v.nextID(), EID: v.eid, Policy: b.name, Seed: b.seed})
}

func (b *Baseline) receiveStep(ctx context.Context) error {
	if err := b.v.receiveStep(ctx); err != nil {
		return err
	}
	b.stepped()
	return nil
}

// stepped records that the server has received the seed.
func (b *Baseline) stepped() {
	b.seed = nil
	b.v.journal.unresettable = b.v.journal.unresettable || b.name == envs.RandomName
}

// RolloutOptions are the arguments of [Baseline.Rollout]: one of Steps and Episodes.
type RolloutOptions struct {
	Steps       int  // of the vector
	Episodes    int  // per environment
	Transitions bool // return them, too
}

// Rollout takes many steps of the baseline at the server in one request. It returns the batch of
// the last step and the results of all steps, which equal those of single Steps. A rollout ends
// early at a limit of the server, at an episode's end in mode Disabled, and if the baseline cannot
// act.
func (b *Baseline) Rollout(ctx context.Context, opts RolloutOptions) (*envs.Batch, *wire.Rollout, error) {
	v := b.v
	if err := v.can(wire.CapRollout); err != nil {
		return nil, nil, err
	}
	req := &wire.RolloutRequest{
		T: wire.TypeRollout, ID: v.nextID(), EID: v.eid, Name: b.name, Seed: b.seed,
		Steps: opts.Steps, Episodes: opts.Episodes, Arrays: opts.Transitions,
	}
	if err := v.call(ctx, wire.TypeRollout+wire.OK, req, nil); err != nil {
		return nil, nil, v.checkPartial(err)
	}
	b.stepped()
	out, err := v.layout.DecodeRollout(&v.frame, (*wire.Rows)(v.batch))
	if err != nil {
		return nil, nil, v.protocolError(err)
	}
	v.rows.rolledOut(v.batch, v.mode)
	return v.batch, out, nil
}

// can returns an error if v is closed or the server lacks an optional part of the protocol.
func (v *VecEnv) can(part string) error {
	if v.closed {
		return envs.ErrClosed
	}
	return v.needs(part)
}

// needs returns an error if the server lacks an optional part of the protocol.
func (s *session) needs(part string) error {
	if !slices.Contains(s.caps, part) {
		return fmt.Errorf("%w: %s has no %s", ErrUnsupported, s.server, part)
	}
	return nil
}
