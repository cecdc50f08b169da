package client

import (
	"context"
	"time"

	"github.com/kubernasium/kubernasium/server/wire"
)

// A client asks for its environments' state, so that it need not repeat what came before, once the requests since the
// last one have taken the time stateEvery, or have stateBytes. To repeat them at another server takes about as long.
var (
	stateEvery = time.Second
	stateBytes = maxJournal / 4

	stateShare time.Duration = 50 // states take at most one part in so many of the requests' time
)

// keepState replaces the journal by the state of the environments when that is due. An error is none of the caller's
// request, and a lost connection is reported by the next one.
func (v *VecEnv) keepState(ctx context.Context) {
	j := &v.journal
	due := j.cost >= max(stateEvery, stateShare*v.stateFor) || len(j.data)-j.asked >= stateBytes
	if !due || !v.portable || j.full || j.streams || v.broken != nil {
		return
	}
	begin := time.Now()
	_, _ = v.askState(ctx)
	v.stateFor = time.Since(begin)
	j.cost, j.asked = 0, len(j.data)
}

// askState returns the server's bytes of the environments' state, with which the journal begins from now on.
func (v *VecEnv) askState(ctx context.Context) ([]byte, error) {
	var reply wire.StateReply
	id := v.nextID()
	if err := v.call(ctx, wire.TypeState+wire.OK, &wire.EIDRequest{T: wire.TypeState, ID: id, EID: v.eid}, &reply); err != nil {
		return nil, err
	}
	if j := &v.journal; !j.full && !j.streams {
		j.load(id, v.eid, reply.State)
		j.cost, j.asked = 0, len(j.data)
	}
	return reply.State, nil
}

// load replaces what came after make by a state, which the request id has returned.
func (j *journal) load(id, eid uint64, state []byte) {
	w := wire.NewWriter()
	wire.EncodeLoad(w, id, eid, state)
	j.toMake()
	j.torn = false
	j.add(w.Bytes(), id, wire.TypeLoad+wire.OK)
}
