package session

import (
	"context"
	"slices"

	"github.com/kubernasium/kubernasium/envs"
	"github.com/kubernasium/kubernasium/server/wire"
)

// snapshot is a state of a vector.
type snapshot struct {
	saved  *envs.Saved
	seeded []bool
}

// countSnaps adds n environments in snapshots.
func (s *Session) countSnaps(n int) {
	s.snaps += n
	s.cfg.Shared.Snaps.Add(int64(n))
}

// snapshot keeps the state of a vector.
func (s *Session) snapshot(ctx context.Context, v *vector, eid uint64, f *wire.Frame) error {
	if err := v.vec.CanClone(); err != nil {
		return s.aboutVector(eid, err)
	}
	n, limits := v.layout.N, &s.cfg.Limits
	if s.snaps+n > limits.Snapshots || !take(&s.cfg.Shared.Snaps, n, limits.SnapsServer) {
		return about(eid, wire.Errorf(wire.TooManySnaps, "a snapshot of %d environments beside %d of the session and %d of the server, want at most %d and %d; forget frees them",
			n, s.snaps, s.cfg.Shared.Snaps.Load(), limits.Snapshots, limits.SnapsServer))
	}
	kept, bytes := false, v.vec.Bytes()
	defer func() { // also if a task panics
		if !kept {
			s.cfg.Shared.Snaps.Add(-int64(n))
		}
	}()
	if !s.takeMemory(bytes) {
		return about(eid, s.tooMuch("a snapshot of %d environments of %s; forget frees others: they", n, v.vec.Spec().ID, bytes))
	}
	defer func() {
		if !kept {
			s.giveMemory(bytes)
		}
	}()
	ctx, end := s.share(ctx, v, &v.loads.snapshot)
	defer end.end()
	saved, err := v.vec.Save(ctx)
	if err != nil {
		return s.aboutVector(eid, err)
	}
	kept = true
	s.snaps += n
	s.nextSnap++
	if v.snaps == nil {
		v.snaps = map[uint64]*snapshot{}
	}
	v.snaps[s.nextSnap] = &snapshot{saved, slices.Clone(v.seeded)}
	s.out.Reset()
	return s.out.Encode(&wire.SnapshotReply{T: wire.TypeSnapshot + wire.OK, ID: f.ID, Snap: s.nextSnap})
}

// kept returns the id of the snapshot that a request names.
func (v *vector) kept(eid uint64, f *wire.Frame) (uint64, error) {
	id, given, err := f.Uint("snap")
	switch {
	case err != nil:
		return 0, err
	case !given:
		return 0, about(eid, wire.Errorf(wire.BadField, "field snap is missing"))
	case v.snaps[id] == nil:
		return 0, about(eid, wire.Errorf(wire.UnknownSnap, "vector %d has no snapshot %d", eid, id))
	}
	return id, nil
}

// restore returns a vector to the state of a snapshot.
func (s *Session) restore(v *vector, eid uint64, f *wire.Frame) error {
	id, err := v.kept(eid, f)
	if err != nil {
		return err
	}
	snap := v.snaps[id]
	b, err := v.vec.Load(snap.saved)
	if err != nil {
		return s.aboutVector(eid, err)
	}
	copy(v.seeded, snap.seeded)
	v.layout.EncodeState(s.out, wire.TypeRestore, f.ID, (*wire.Rows)(b))
	return nil
}

// forget frees a snapshot.
func (s *Session) forget(v *vector, eid uint64, f *wire.Frame) error {
	id, err := v.kept(eid, f)
	if err != nil {
		return err
	}
	delete(v.snaps, id)
	s.countSnaps(-v.layout.N)
	s.giveMemory(v.vec.Bytes())
	s.out.Head(2, wire.TypeForget+wire.OK, f.ID)
	return nil
}

// fork makes environments copies of another one of their vector.
func (s *Session) fork(v *vector, eid uint64, f *wire.Frame) error {
	from, given, err := f.Uint("from")
	if err != nil {
		return s.aboutVector(eid, err)
	}
	if !given || from >= uint64(v.layout.N) {
		return about(eid, wire.Errorf(wire.BadField, "from is no environment from 0 to %d", v.layout.N-1))
	}
	to, err := f.Rows(v.layout.N)
	if err != nil {
		return s.aboutVector(eid, err)
	}
	b, err := v.vec.Fork(int(from), to)
	if err != nil {
		return s.aboutVector(eid, err)
	}
	for _, i := range to {
		v.seeded[i] = v.seeded[from]
	}
	v.layout.EncodeState(s.out, wire.TypeFork, f.ID, (*wire.Rows)(b))
	return nil
}
