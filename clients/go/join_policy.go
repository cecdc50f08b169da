package client

import (
	"context"

	"github.com/kubernasium/kubernasium/envs"
	"github.com/kubernasium/kubernasium/server/wire"
)

// A JoinedBaseline plays a baseline, or random permitted actions, at the servers of a [Joined].
type JoinedBaseline struct {
	j     *Joined
	parts []*Baseline
}

// Baseline is [VecEnv.Baseline]. Each server draws its own random actions, from the seed plus the
// row of its first environment, so they differ from those of a single server.
func (j *Joined) Baseline(name string, seed uint64) *JoinedBaseline {
	b := &JoinedBaseline{j: j}
	for i, p := range j.parts {
		b.parts = append(b.parts, p.Baseline(name, seed+uint64(j.first[i])))
	}
	return b
}

// Act is [Baseline.Act] on all servers concurrently.
func (b *JoinedBaseline) Act(ctx context.Context, actions []float32) error {
	j := b.j
	if err := j.parts[0].checkSize(len(actions), j.NumEnvs()); err != nil {
		return err
	}
	rows := func(i int) []float32 {
		k := j.parts[0].layout.ActSize
		return actions[j.first[i]*k : j.first[i+1]*k]
	}
	if err := b.check(); err != nil {
		return err
	}
	_, err := j.all(
		func(i int, _ *VecEnv) (bool, error) { return true, b.parts[i].send(ctx) },
		func(i int, _ *VecEnv) error { return b.parts[i].receive(ctx, rows(i)) })
	return err
}

func (b *JoinedBaseline) check() error {
	for _, p := range b.parts {
		if err := p.v.can(wire.CapBaseline); err != nil {
			return err
		}
	}
	return nil
}

// Decides is [Baseline.Decides].
func (b *JoinedBaseline) Decides(i int) bool {
	part, row := b.j.at(i)
	return b.parts[part].Decides(row)
}

// Step is [Baseline.Step] on all servers concurrently; see [Joined.Step].
func (b *JoinedBaseline) Step(ctx context.Context) (*envs.Batch, error) {
	if err := b.check(); err != nil {
		return nil, err
	}
	return b.j.all(
		func(i int, _ *VecEnv) (bool, error) { return true, b.parts[i].sendStep(ctx) },
		func(i int, _ *VecEnv) error { return b.parts[i].receiveStep(ctx) })
}
