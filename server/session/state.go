package session

import (
	"context"

	"github.com/kubernasium/kubernasium/server/wire"
)

// roomOfState is the part of msg_in that a request load takes beside the state.
const roomOfState = 1 << 10

// state replies with the state of a vector as bytes.
func (s *Session) state(ctx context.Context, v *vector, eid uint64, f *wire.Frame) error {
	for name, p := range v.policies {
		if p.Remembers() {
			return about(eid, wire.Errorf(wire.NoState, "vector %d has used the policy %s, whose memory no state holds", eid, name))
		}
	}
	if len(v.snaps) > 0 {
		return about(eid, wire.Errorf(wire.NoState, "vector %d keeps %d snapshots, which no state holds", eid, len(v.snaps)))
	}
	_, end := s.share(ctx, v, &v.loads.state)
	defer end.end()
	data, err := v.vec.AppendState(nil, min(s.cfg.Limits.MsgIn, s.cfg.Limits.MsgOut)-roomOfState)
	if err != nil {
		return s.aboutVector(eid, err)
	}
	s.out.Head(3, wire.TypeState+wire.OK, f.ID)
	s.out.Str("state")
	s.out.Bin(data)
	s.large = len(data) > largeReply
	return nil
}

// load makes the environments of a vector what those of another one were, perhaps at another server.
func (s *Session) load(ctx context.Context, v *vector, eid uint64, f *wire.Frame) error {
	data, err := f.Bin("state")
	switch {
	case err != nil:
		return s.aboutVector(eid, err)
	case data == nil:
		return about(eid, wire.Errorf(wire.BadField, "field state is missing"))
	}
	ctx, end := s.share(ctx, v, &v.loads.load)
	defer end.end()
	b, seeded, err := v.vec.LoadState(ctx, data)
	if err != nil {
		return s.aboutVector(eid, err)
	}
	copy(v.seeded, seeded)
	v.layout.EncodeState(s.out, wire.TypeLoad, f.ID, (*wire.Rows)(b))
	return nil
}
