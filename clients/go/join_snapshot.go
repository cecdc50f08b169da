package client

import (
	"context"
	"errors"
	"fmt"

	"github.com/kubernasium/kubernasium/envs"
)

// A JoinedSnapshot is a state of a [Joined]. Each server keeps its part.
type JoinedSnapshot struct {
	j     *Joined
	parts []*Snapshot
}

// Snapshot is [VecEnv.Snapshot] on all servers.
func (j *Joined) Snapshot(ctx context.Context) (*JoinedSnapshot, error) {
	s := &JoinedSnapshot{j: j}
	for _, p := range j.parts {
		part, err := p.Snapshot(ctx)
		if err != nil {
			return nil, errors.Join(err, s.Forget(ctx))
		}
		s.parts = append(s.parts, part)
	}
	return s, nil
}

// Restore is [Snapshot.Restore] on all servers.
func (s *JoinedSnapshot) Restore(ctx context.Context) (*envs.Batch, error) {
	for _, part := range s.parts {
		if _, err := part.Restore(ctx); err != nil {
			return nil, err
		}
	}
	return s.j.batch, nil
}

// Forget is [Snapshot.Forget] on all servers.
func (s *JoinedSnapshot) Forget(ctx context.Context) error {
	var err error
	for _, part := range s.parts {
		err = errors.Join(err, part.Forget(ctx))
	}
	return err
}

// Fork is [VecEnv.Fork] for environments of one server. Its error wraps [envs.ErrCannotClone] if one of to is on another
// server than from: [Joined.Sizes] shows which environments are together.
func (j *Joined) Fork(ctx context.Context, from int, to []int) (*envs.Batch, error) {
	rows := make([]int, len(to))
	for _, i := range append([]int{from}, to...) {
		if i < 0 || i >= j.NumEnvs() {
			return nil, fmt.Errorf("client: fork of environment %d, want 0 to %d", i, j.NumEnvs()-1)
		}
	}
	part, row := j.at(from)
	for k, i := range to {
		other, r := j.at(i)
		if other != part {
			return nil, fmt.Errorf("client: fork of environment %d to %d: %w: they are on different servers", from, i, envs.ErrCannotClone)
		}
		rows[k] = r
	}
	if _, err := j.parts[part].Fork(ctx, row, rows); err != nil {
		return nil, err
	}
	return j.batch, nil
}
