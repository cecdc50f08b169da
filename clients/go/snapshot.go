package client

import (
	"context"
	"fmt"
	"slices"

	"github.com/kubernasium/kubernasium/envs"
	"github.com/kubernasium/kubernasium/server/wire"
)

// A Snapshot is a state of a vector, kept by the server.
type Snapshot struct {
	v    *VecEnv
	id   uint64
	rows rows // at the snapshot
}

func (r *rows) clone() rows {
	return rows{slices.Clone(r.seeded), slices.Clone(r.running), slices.Clone(r.ended), slices.Clone(r.ret), slices.Clone(r.length)}
}

// Snapshot saves the state of all environments at the server, with random generators, autoreset and
// statistics, until it is forgotten or v is closed. Its error wraps [envs.ErrCannotClone] if the
// environments cannot be copied, [ErrBusy] if the server permits no more snapshots, or
// [ErrUnsupported].
func (v *VecEnv) Snapshot(ctx context.Context) (*Snapshot, error) {
	if err := v.can(wire.CapSnapshot); err != nil {
		return nil, err
	}
	var reply wire.SnapshotReply
	req := &wire.EIDRequest{T: wire.TypeSnapshot, ID: v.nextID(), EID: v.eid}
	if err := v.call(ctx, wire.TypeSnapshot+wire.OK, req, &reply); err != nil {
		return nil, err
	}
	return &Snapshot{v, reply.Snap, v.rows.clone()}, nil
}

// Restore restores the state of the snapshot, and returns the batch without final observations.
// From there, equal actions lead to equal batches.
func (s *Snapshot) Restore(ctx context.Context) (*envs.Batch, error) {
	v := s.v
	if err := v.state(ctx, wire.TypeRestore, &wire.SnapRequest{T: wire.TypeRestore, ID: v.nextID(), EID: v.eid, Snap: s.id}); err != nil {
		return nil, err
	}
	v.rows = s.rows.clone()
	return v.batch, nil
}

// Forget frees the snapshot, which cannot be restored afterwards.
func (s *Snapshot) Forget(ctx context.Context) error {
	v := s.v
	if err := v.can(wire.CapSnapshot); err != nil {
		return err
	}
	return v.call(ctx, wire.TypeForget+wire.OK, &wire.SnapRequest{T: wire.TypeForget, ID: v.nextID(), EID: v.eid, Snap: s.id}, nil)
}

// Fork makes the environments in to copies of environment from, including its random generator, and
// returns the batch like Restore. Equal actions lead to equal rows. Errors are those of Snapshot.
func (v *VecEnv) Fork(ctx context.Context, from int, to []int) (*envs.Batch, error) {
	for _, i := range append([]int{from}, to...) {
		if i < 0 || i >= v.layout.N {
			return nil, fmt.Errorf("client: fork of environment %d, want 0 to %d", i, v.layout.N-1)
		}
	}
	if err := v.state(ctx, wire.TypeFork, &wire.ForkRequest{T: wire.TypeFork, ID: v.nextID(), EID: v.eid, From: from, To: to}); err != nil {
		return nil, err
	}
	r := &v.rows
	for _, i := range to {
		r.seeded[i], r.running[i], r.ended[i], r.ret[i], r.length[i] = r.seeded[from], r.running[from], r.ended[from], r.ret[from], r.length[from]
	}
	return v.batch, nil
}

// state sends a request whose reply is the batch of the environments.
func (v *VecEnv) state(ctx context.Context, kind string, request any) error {
	if err := v.can(wire.CapSnapshot); err != nil {
		return err
	}
	if err := v.call(ctx, kind+wire.OK, request, nil); err != nil {
		return err
	}
	return v.protocolError(v.layout.DecodeState(&v.frame, (*wire.Rows)(v.batch)))
}
