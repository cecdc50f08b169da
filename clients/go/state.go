package client

import (
	"context"
	"time"

	"github.com/kubernasium/kubernasium/server/wire"
)

// A client requests its environments' state, which shortens its journal, once the requests since the last state have
// taken stateEvery or stateBytes. Replaying them takes about as long.
var (
	stateEvery = time.Second
	stateBytes = maxJournal / 4

	stateShare time.Duration = 50 // requesting states takes at most 1/stateShare of the time
)

// keepState replaces the journal by the state of the environments when that is due. It ignores errors: the caller's
// request has succeeded, and the next one reports a lost connection.
func (v *VecEnv) keepState(ctx context.Context) {
	j := &v.journal
	due := j.cost >= max(stateEvery, stateShare*v.stateFor) || len(j.data)-j.asked >= stateBytes
	if !due || !v.portable || j.full || j.unresettable || v.broken != nil {
		return
	}
	begin := time.Now()
	_, _ = v.askState(ctx)
	v.stateFor = time.Since(begin)
	j.cost, j.asked = 0, len(j.data)
}

// askState requests the environments' state, which becomes the start of the journal.
func (v *VecEnv) askState(ctx context.Context) ([]byte, error) {
	var reply wire.StateReply
	id := v.nextID()
	if err := v.call(ctx, wire.TypeState+wire.OK, &wire.EIDRequest{T: wire.TypeState, ID: id, EID: v.eid}, &reply); err != nil {
		return nil, err
	}
	if j := &v.journal; !j.full && !j.unresettable {
		j.load(id, v.eid, reply.State)
		j.cost, j.asked = 0, len(j.data)
	}
	return reply.State, nil
}

// load replaces the requests after make by a state, the reply to request id.
func (j *journal) load(id, eid uint64, state []byte) {
	w := wire.NewWriter()
	wire.EncodeLoad(w, id, eid, state)
	j.keepMake()
	j.partial = false
	j.add(w.Bytes(), id, wire.TypeLoad+wire.OK)
}
