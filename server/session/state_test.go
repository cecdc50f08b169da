package session

import (
	"bytes"
	"testing"

	"github.com/kubernasium/kubernasium/server/wire"
)

var hello17 = line{m{"t": "hello", "id": 1, "ver": []int{1, 7}}, m{"t": "welcome", "id": 1}}

// TestState: a state is loaded in a session of another server, and the steps after it are equal, as are the seeds of
// environments that continue their streams.
func TestState(t *testing.T) {
	var replies [2][]m
	var state []byte
	for k := range replies {
		s := newSession(t, newConfig())
		play(t, s, []line{
			hello17,
			{m{"t": "make", "id": 2, "env": "classic/CartPole-v1", "n": 2, "state": true}, m{"eid": 1, "state": true}},
		})
		if k == 0 {
			play(t, s, []line{
				{m{"t": "reset", "id": 3, "eid": 1, "seed": 5, "mask": []bool{true, false}}, m{"t": "reset.ok"}},
				{m{"t": "reset", "id": 4, "eid": 1}, m{"t": "reset.ok"}}, // row 1 with a seed of the server's
				{m{"t": "step", "id": 5, "eid": 1, "a": []int{0, 1}}, m{"t": "step.ok"}},
			})
			got := handle(t, s, m{"t": "state", "id": 6, "eid": 1})
			text, _ := got["state"].(string) // as the decoder of these tests returns bytes
			if state = []byte(text); len(state) == 0 {
				t.Fatalf("the reply %v has no state", got)
			}
		} else {
			got := handle(t, s, m{"t": "load", "id": 6, "eid": 1, "state": state})
			if run, _ := got["run"].(m); got["t"] != "load.ok" || !bytes.Equal(payload(run["l"]), []byte{1, 0, 0, 0, 0, 0, 0, 0, 1, 0, 0, 0, 0, 0, 0, 0}) {
				t.Fatalf("load is answered %v, want lengths of 1", got)
			}
		}
		for id, r := range []m{{"t": "step", "a": []int{1, 1}}, {"t": "reset"}, {"t": "step", "a": []int{0, 0}}} {
			r["id"], r["eid"] = 7+id, 1
			replies[k] = append(replies[k], handle(t, s, r))
		}
	}
	text := func(r m) string { return string(payload(r["obs"])) }
	for i, want := range replies[0] {
		if got := replies[1][i]; got["t"] != want["t"] || text(got) != text(want) {
			t.Errorf("reply %d after load: %v, want %v", i, got, want)
		}
		if replies[1][i]["seed"] != nil {
			t.Errorf("reply %d has a new seed", i)
		}
	}
}

func TestStateRefusals(t *testing.T) {
	cfg := newConfig()
	play(t, newSession(t, cfg), []line{ // 1.6 knows no state
		{m{"t": "hello", "id": 1, "ver": []int{1, 6}}, m{"t": "welcome", "ver": []any{1, 6}}},
		{m{"t": "make", "id": 2, "env": "classic/CartPole-v1", "state": true}, m{"eid": 1, "state": nil}},
		{m{"t": "state", "id": 3, "eid": 1}, refused(3, wire.UnknownMessage)},
		{m{"t": "load", "id": 4, "eid": 1, "state": []byte{1}}, refused(4, wire.UnknownMessage)},
	})
	s := newSession(t, cfg)
	play(t, s, []line{
		hello17,
		{m{"t": "make", "id": 2, "env": "test/Planned-v0", "n": 2}, m{"eid": 1, "state": nil}},
		{m{"t": "state", "id": 3, "eid": 1}, refused(3, wire.NoState)},
		{m{"t": "make", "id": 4, "env": "test/Planned-v0", "n": 2, "state": true}, m{"eid": 2, "state": true}},
		{m{"t": "reset", "id": 5, "eid": 2, "seed": 1}, m{"t": "reset.ok"}},
		{m{"t": "load", "id": 6, "eid": 2}, refused(6, wire.BadField)},
		{m{"t": "load", "id": 7, "eid": 2, "state": "text"}, refused(7, wire.BadField)},
		{m{"t": "load", "id": 8, "eid": 2, "state": []byte("bytes")}, refused(8, wire.BadState)},
		{m{"t": "load", "id": 9, "eid": 3, "state": []byte("bytes")}, refused(9, wire.UnknownEID)},
		{m{"t": "snapshot", "id": 10, "eid": 2}, m{"snap": 1}},
		{m{"t": "state", "id": 11, "eid": 2}, refused(11, wire.NoState)},
		{m{"t": "forget", "id": 12, "eid": 2, "snap": 1}, m{"t": "forget.ok"}},
		{m{"t": "state", "id": 13, "eid": 2}, m{"t": "state.ok"}},
		{m{"t": "send", "id": 14, "eid": 2, "a": []int{0, 0}}, m{"t": "send.ok"}},
		{m{"t": "state", "id": 15, "eid": 2}, refused(15, wire.Pending)},
		{m{"t": "recv", "id": 16, "eid": 2, "min": 2}, m{"t": "recv.ok"}},
		{m{"t": "state", "id": 17, "eid": 2}, m{"t": "state.ok"}},
		{m{"t": "policy", "id": 18, "eid": 2, "name": "random"}, m{"t": "policy.ok"}},
		{m{"t": "state", "id": 19, "eid": 2}, refused(19, wire.NoState)},
	})
	small := newConfig()
	small.Limits.MsgIn = roomOfState + 150 // two rows take more
	play(t, newSession(t, small), []line{
		hello17,
		{m{"t": "make", "id": 2, "env": "test/Planned-v0", "n": 2, "state": true}, m{"eid": 1}},
		{m{"t": "state", "id": 3, "eid": 1}, m{"t": "state.ok"}},
		{m{"t": "reset", "id": 4, "eid": 1}, m{"t": "reset.ok"}},
		{m{"t": "state", "id": 5, "eid": 1}, refused(5, wire.NoState)},
	})
}
