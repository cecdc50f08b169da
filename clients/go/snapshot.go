package client

import (
	"context"
	"fmt"
	"slices"

	"github.com/kubernasium/kubernasium/envs"
	"github.com/kubernasium/kubernasium/server/wire"
)

// A Snapshot is a state of a vector that the server keeps.
type Snapshot struct {
	v    *VecEnv
	id   uint64
	rows rows // as they were
}

func (r *rows) clone() rows {
	return rows{slices.Clone(r.seeded), slices.Clone(r.running), slices.Clone(r.ended), slices.Clone(r.ret), slices.Clone(r.length)}
}

// Snapshot has the server keep the state of all environments, random generators, autoreset and
// statistics included, until it is forgotten or v is closed. Its error wraps
// [envs.ErrCannotClone] for environments that cannot be copied, [ErrBusy] for more snapshots than
// the server permits, and [ErrUnsupported].
func (v *VecEnv) Snapshot(ctx context.Context) (*Snapshot, error) {
	if err := v.copies(); err != nil {
		return nil, err
	}
	var reply wire.SnapshotReply
	req := &wire.EIDRequest{T: wire.TypeSnapshot, ID: v.nextID(), EID: v.eid}
	if err := v.call(ctx, wire.TypeSnapshot+wire.OK, req, &reply); err != nil {
		return nil, err
	}
	return &Snapshot{v, reply.Snap, v.rows.clone()}, nil
}

func (v *VecEnv) copies() error {
	if v.closed {
		return envs.ErrClosed
	}
	return v.needs(wire.CapSnapshot)
}

// Restore returns the vector to the state of the snapshot, and its batch without the last observations
// of episodes that ended in it. From there equal actions lead to equal batches.
func (s *Snapshot) Restore(ctx context.Context) (*envs.Batch, error) {
	v := s.v
	if err := v.state(ctx, wire.TypeRestore, &wire.SnapRequest{T: wire.TypeRestore, ID: v.lastID + 1, EID: v.eid, Snap: s.id}); err != nil {
		return nil, err
	}
	v.rows = s.rows.clone()
	return v.batch, nil
}

// Forget frees the snapshot, which cannot be restored any more.
func (s *Snapshot) Forget(ctx context.Context) error {
	v := s.v
	if err := v.copies(); err != nil {
		return err
	}
	return v.call(ctx, wire.TypeForget+wire.OK, &wire.SnapRequest{T: wire.TypeForget, ID: v.nextID(), EID: v.eid, Snap: s.id}, nil)
}

// Fork makes the environments of to copies of environment from, random generator included, and
// returns the batch as Restore does: equal actions lead to equal rows. Errors are those of
// Snapshot.
func (v *VecEnv) Fork(ctx context.Context, from int, to []int) (*envs.Batch, error) {
	for _, i := range append([]int{from}, to...) {
		if i < 0 || i >= v.layout.N {
			return nil, fmt.Errorf("client: fork of environment %d, want 0 to %d", i, v.layout.N-1)
		}
	}
	if err := v.state(ctx, wire.TypeFork, &wire.ForkRequest{T: wire.TypeFork, ID: v.lastID + 1, EID: v.eid, From: from, To: to}); err != nil {
		return nil, err
	}
	r := &v.rows
	for _, i := range to {
		r.seeded[i], r.running[i], r.ended[i], r.ret[i], r.length[i] = r.seeded[from], r.running[from], r.ended[from], r.ret[from], r.length[from]
	}
	return v.batch, nil
}

// state makes a request, of the next id, whose reply is the state of the environments.
func (v *VecEnv) state(ctx context.Context, kind string, request any) error {
	if err := v.copies(); err != nil {
		return err
	}
	v.nextID()
	if err := v.call(ctx, kind+wire.OK, request, nil); err != nil {
		return err
	}
	if err := v.layout.DecodeState(&v.frame, (*wire.Rows)(v.batch)); err != nil {
		return v.garbled(err)
	}
	return nil
}
