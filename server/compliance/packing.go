package compliance

import (
	"fmt"
	"slices"
	"testing"

	"github.com/gorilla/websocket"
	"github.com/klauspost/compress/zstd"

	"github.com/kubernasium/kubernasium/server/wire"
)

// checkZstd requests compressed frames. Replies must decompress to those of an uncompressed session, and malicious
// frames must neither end the session nor take memory.
func (s *suite) checkZstd(t *testing.T) {
	enc, err := zstd.NewWriter(nil, zstd.WithSingleSegment(true)) // so that even the shortest frames contain their size
	if err != nil {
		t.Fatal(err)
	}
	packed := func(m message) []byte { return enc.EncodeAll(pack(t, m), nil) }
	plain := s.dial(t)
	plain.do(message{"t": "hello", "ver": []int{1, 999}})
	p := s.dial(t)
	welcome := p.do(message{"t": "hello", "ver": []int{1, 999}, "caps": []string{wire.CapZstd}})
	if caps, _ := welcome["caps"].([]any); !slices.Contains(caps, any(wire.CapZstd)) {
		t.Logf("the server has the parts %v, and so no %s", caps, wire.CapZstd)
		return
	}
	const n = 64
	for _, q := range []*peer{plain, p} {
		eid := eidOf(q.make(s.opts.Env, n, "SAME_STEP", limit))
		q.do(message{"t": "reset", "eid": eid, "seed": 8})
	}
	actions := make([]int64, n)
	for range 2 * limit {
		step := message{"t": "step", "eid": 1, "a": int64s(actions...)}
		want := plain.ask(step)
		p.id++
		step["id"] = p.id
		p.sendRaw(packed(step))
		got := p.receive()
		p.want(got, "step.ok")
		sameBatch(t, got, want)
	}
	t.Logf("%d of %d replies are compressed", p.packed, p.id)
	if plain.packed > 0 {
		t.Errorf("%d compressed replies in a session that has not asked for any", plain.packed)
	}
	for name, bad := range map[string][]byte{
		"a cut frame":              packed(message{"t": "ping", "id": p.id + 1})[:9],
		"nothing after the magic":  {0x28, 0xb5, 0x2f, 0xfd},
		"no map in it":             enc.EncodeAll([]byte("no map"), nil),
		"a compressed, packed map": enc.EncodeAll(packed(message{"t": "ping", "id": p.id + 1}), nil),
	} {
		p.sendRaw(bad)
		reply := p.receive()
		if reply["t"] != "err" || reply["id"] != float64(0) || reply["reason"] != string(wire.Malformed) {
			t.Errorf("%s: %v, want err %s with id 0", name, reply, wire.Malformed)
		}
	}
	p.alive()
	limits, _ := welcome["limits"].(message)
	most, _ := limits["msg_in"].(float64)
	p.sendRaw(enc.EncodeAll(make([]byte, int(most)+1), nil))
	if reply := p.receive(); fmt.Sprint(reply["reason"]) != string(wire.TooLarge) {
		t.Errorf("a compressed frame of more than msg_in: %v, want err %s", reply, wire.TooLarge)
	}
	p.closed(websocket.CloseMessageTooBig)

	old := s.dial(t) // a session without the part receives no compressed frames, and may not send any
	old.do(message{"t": "hello", "ver": []int{1, 5}, "caps": []string{wire.CapZstd}})
	old.sendRaw(packed(message{"t": "ping", "id": old.id + 1}))
	if reply := old.receive(); reply["reason"] != string(wire.Malformed) {
		t.Errorf("a compressed frame in a session of 1.5: %v, want err %s", reply, wire.Malformed)
	}
}
