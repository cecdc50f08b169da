package session

import (
	"bytes"
	"context"
	"testing"

	"github.com/google/go-cmp/cmp"

	"github.com/kubernasium/kubernasium/server/wire"
)

func TestSnapshotRefusals(t *testing.T) {
	cfg := newConfig()
	cfg.Limits.Snapshots, cfg.Limits.SnapsServer = 6, 8
	other := newSession(t, cfg)
	play(t, other, []line{
		hello12,
		{m{"t": "make", "id": 2, "env": "test/Planned-v0", "n": 4}, m{"eid": 1, "copies": true}},
		{m{"t": "snapshot", "id": 3, "eid": 1}, m{"t": "snapshot.ok", "snap": 1}},
	})
	play(t, newSession(t, cfg), []line{
		hello12,
		{m{"t": "snapshot", "id": 2, "eid": 1}, refused(2, wire.UnknownEID)},
		{m{"t": "make", "id": 3, "env": "test/Trouble-v0", "n": 2}, m{"eid": 1, "copies": nil}},
		{m{"t": "snapshot", "id": 4, "eid": 1}, refused(4, wire.CannotClone)},
		{m{"t": "fork", "id": 5, "eid": 1, "from": 0, "to": []int{1}}, refused(5, wire.CannotClone)},
		{m{"t": "make", "id": 6, "env": "test/Planned-v0", "n": 2}, m{"eid": 2}},
		{m{"t": "snapshot", "id": 7, "eid": 2}, m{"t": "snapshot.ok", "snap": 1}},
		{m{"t": "snapshot", "id": 8, "eid": 2}, m{"t": "snapshot.ok", "snap": 2}},
		{m{"t": "snapshot", "id": 9, "eid": 2}, refused(9, wire.TooManySnaps)}, // 4 of 6 here, but 8 of 8 of the server
		{m{"t": "restore", "id": 10, "eid": 2}, refused(10, wire.BadField)},
		{m{"t": "restore", "id": 11, "eid": 2, "snap": 3}, refused(11, wire.UnknownSnap)},
		{m{"t": "restore", "id": 12, "eid": 1, "snap": 1}, refused(12, wire.UnknownSnap)}, // of the other vector
		{m{"t": "restore", "id": 13, "eid": 2, "snap": -1}, refused(13, wire.BadField)},
		{m{"t": "forget", "id": 14, "eid": 2, "snap": 1}, m{"t": "forget.ok", "id": 14}},
		{m{"t": "forget", "id": 15, "eid": 2, "snap": 1}, refused(15, wire.UnknownSnap)},
		{m{"t": "restore", "id": 16, "eid": 2, "snap": 1}, refused(16, wire.UnknownSnap)},
		{m{"t": "snapshot", "id": 17, "eid": 2}, m{"snap": 3}}, // ids are not used again
		{m{"t": "fork", "id": 18, "eid": 2, "from": 2, "to": []int{1}}, refused(18, wire.BadField)},
		{m{"t": "fork", "id": 19, "eid": 2, "to": []int{1}}, refused(19, wire.BadField)},
		{m{"t": "fork", "id": 20, "eid": 2, "from": 0}, refused(20, wire.BadField)},
		{m{"t": "fork", "id": 21, "eid": 2, "from": 0, "to": 1}, refused(21, wire.BadField)},
		{m{"t": "fork", "id": 22, "eid": 2, "from": 0, "to": []int{}}, refused(22, wire.BadField)},
		{m{"t": "fork", "id": 23, "eid": 2, "from": 0, "to": []int{1, 1, 1}}, refused(23, wire.BadField)},
		{m{"t": "fork", "id": 24, "eid": 2, "from": 0, "to": []any{1, "x"}}, refused(24, wire.BadField)},
		{m{"t": "fork", "id": 25, "eid": 2, "from": 0, "to": []int{2}}, refused(25, wire.BadField)},
		{m{"t": "close", "id": 26, "eid": 2}, m{"t": "close.ok"}}, // frees its snapshots
		{m{"t": "make", "id": 27, "env": "test/Planned-v0", "n": 4}, m{"eid": 3}},
		{m{"t": "snapshot", "id": 28, "eid": 3}, m{"t": "snapshot.ok"}},
		{m{"t": "snapshot", "id": 29, "eid": 3}, refused(29, wire.TooManySnaps)},
		{m{"t": "reset", "id": 30, "eid": 3}, m{"t": "reset.ok"}},
	})
	if err := other.Close(); err != nil {
		t.Fatal(err)
	}
	if n := cfg.Shared.Snaps.Load(); n != 4 {
		t.Errorf("%d environments in snapshots, want 4: the open session's", n)
	}
	ended, cancel := context.WithCancel(ctx)
	cancel()
	s := newSession(t, cfg)
	play(t, s, []line{hello12, {m{"t": "make", "id": 2, "env": "test/Planned-v0", "n": 2}, m{"eid": 1}}})
	if got := unpack(t, answer(ended, s, pack(t, m{"t": "snapshot", "id": 3, "eid": 1}))); got["reason"] != string(wire.WasCancelled) {
		t.Errorf("a snapshot whose connection has ended: %v, want %s", got, wire.WasCancelled)
	}
	if n := cfg.Shared.Snaps.Load(); n != 4 {
		t.Errorf("%d environments in snapshots after a refusal, want 4", n)
	}
}

// A session of 1.0 knows forget no more than any other name.
func TestSnapshotIsOfMinor1(t *testing.T) {
	play(t, newSession(t, newConfig()), []line{
		helloLine,
		{m{"t": "snapshot", "id": 2, "eid": 1}, refused(2, wire.IsReserved)},
		{m{"t": "fork", "id": 3, "eid": 1}, refused(3, wire.IsReserved)},
		{m{"t": "forget", "id": 4, "eid": 1}, refused(4, wire.UnknownMessage)},
	})
}

// Episodes of three steps that pay their actions: hand-worked.
func TestSnapshotAndFork(t *testing.T) {
	s := newSession(t, newConfig())
	play(t, s, []line{
		hello12,
		{m{"t": "make", "id": 2, "env": "test/Planned-v0", "n": 2}, m{"eid": 1}},
		{m{"t": "reset", "id": 3, "eid": 1}, m{"t": "reset.ok"}},
		{m{"t": "step", "id": 4, "eid": 1, "a": []int{1, 2}}, m{"t": "step.ok"}},
		{m{"t": "snapshot", "id": 5, "eid": 1}, m{"snap": 1}},
	})
	step := func(id int, a ...int) []byte {
		t.Helper()
		return bytes.Clone(answer(ctx, s, pack(t, m{"t": "step", "id": id, "eid": 1, "a": a})))
	}
	first := [][]byte{step(1000, 1, 0), step(1001, 2, 0), step(1002, 0, 0), step(1003, 1, 1)} // the second ends, the third resets
	got := handle(t, s, m{"t": "restore", "id": 1004, "eid": 1, "snap": 1})
	run := got["run"].(m)
	for name, tc := range map[string][2]any{
		"t": {got["t"], "restore.ok"}, "r": {floats(got["r"]), []float64{1, 2}},
		"run.r": {floats(run["r"]), []float64{1, 2}}, "run.l": {ints(run["l"]), []int64{1, 1}},
		"obs": {payload(got["obs"]), []byte{0, 0, 0x80, 0x3f, 0, 0, 0x80, 0x3f}}, // 1.0
		"te":  {got["te"], nil}, "ep": {got["ep"], nil},
	} {
		if diff := cmp.Diff(tc[1], tc[0]); diff != "" {
			t.Errorf("%s of restore.ok (-want +got):\n%s", name, diff)
		}
	}
	for k, a := range [][]int{{1, 0}, {2, 0}, {0, 0}, {1, 1}} {
		want := bytes.Replace(first[k], []byte{0xcd, byte((1000 + k) >> 8), byte((1000 + k) & 0xff)}, []byte{0xcd, byte((1005 + k) >> 8), byte((1005 + k) & 0xff)}, 1)
		if got := step(1005+k, a...); !bytes.Equal(got, want) {
			t.Errorf("step %d after restore: %x, before %x", k, got, want)
		}
	}
	handle(t, s, m{"t": "restore", "id": 1009, "eid": 1, "snap": 1})
	got = handle(t, s, m{"t": "fork", "id": 1010, "eid": 1, "from": 1, "to": []int{0}})
	if run := got["run"].(m); got["t"] != "fork.ok" || !cmp.Equal(floats(run["r"]), []float64{2, 2}) || !cmp.Equal(floats(got["r"]), []float64{2, 2}) {
		t.Errorf("fork: %v, want the sums and rewards of row 1 in both", got)
	}
	step(1011, 0, 0)
	got = handle(t, s, m{"t": "step", "id": 1012, "eid": 1, "a": []int{1, 2}})
	if ep := got["ep"].(m); !cmp.Equal(floats(ep["r"]), []float64{3, 4}) {
		t.Errorf("the episode's end after the fork: %v, want returns 2+0+1 and 2+0+2", got)
	}
	// A snapshot of an episode's end has its flags; one of before the first reset needs a reset again.
	play(t, s, []line{
		{m{"t": "snapshot", "id": 1013, "eid": 1}, m{"snap": 2}},
		{m{"t": "make", "id": 1014, "env": "test/Planned-v0", "n": 1}, m{"eid": 2}},
		{m{"t": "snapshot", "id": 1015, "eid": 2}, m{"snap": 3}},
		{m{"t": "reset", "id": 1016, "eid": 2}, m{"t": "reset.ok"}},
		{m{"t": "restore", "id": 1017, "eid": 2, "snap": 3}, m{"t": "restore.ok"}},
		{m{"t": "step", "id": 1018, "eid": 2, "a": 0}, refused(1018, wire.ResetNeeded)},
	})
	got = handle(t, s, m{"t": "restore", "id": 1019, "eid": 1, "snap": 2})
	if te := got["te"]; te == nil || !cmp.Equal(payload(te), []byte{1, 1}) {
		t.Errorf("restore of an episode's end: %v, want te", got)
	}
	// A baseline that was asked before is asked again.
	play(t, s, []line{
		{m{"t": "step", "id": 1020, "eid": 1, "a": []int{0, 0}}, m{"t": "step.ok"}}, // resets
		{m{"t": "policy", "id": 1021, "eid": 1, "name": "planner"}, m{"t": "policy.ok"}},
		{m{"t": "fork", "id": 1022, "eid": 1, "from": 0, "to": []int{1}}, m{"t": "fork.ok"}},
	})
	got = handle(t, s, m{"t": "step", "id": 1023, "eid": 1, "policy": "planner"})
	if r := floats(got["r"]); !cmp.Equal(r, []float64{100, 100}) {
		t.Errorf("rewards %v, want the planner's 100", r)
	}
}
