package compliance

import (
	"fmt"
	"slices"
	"testing"

	"github.com/kubernasium/kubernasium/server/wire"
)

// copier opens a session with a vector whose environments can be copied. ok is false if the server
// cannot copy, or cannot copy this environment.
func (s *suite) copier(t *testing.T, n int, mode string) (p *peer, eid uint64, ok bool) {
	t.Helper()
	p, made, ok := s.with(t, wire.CapSnapshot, n, mode)
	if !ok {
		p.refused(p.ask(message{"t": "snapshot", "eid": 1}), p.id, wire.IsReserved)
		return nil, 0, false
	}
	if eid = eidOf(made); made["copies"] != true {
		p.refused(p.ask(message{"t": "snapshot", "eid": eid}), p.id, wire.CannotClone)
		p.refused(p.ask(message{"t": "fork", "eid": eid, "from": 0, "to": []int{0}}), p.id, wire.CannotClone)
		return nil, 0, false
	}
	return p, eid, true
}

// checkSnapshot restores a state twice and continues from it, beyond an episode's end.
func (s *suite) checkSnapshot(t *testing.T) {
	const n = 2
	for _, mode := range []string{"NEXT_STEP", "SAME_STEP"} {
		p, eid, ok := s.copier(t, n, mode)
		if !ok {
			return
		}
		ask := func(kind string, fields message) message {
			fields["t"], fields["eid"] = kind, eid
			return p.ask(fields)
		}
		step := func() message {
			t.Helper()
			reply := p.want(ask("step", message{"a": int64s(0, 0)}), "step.ok")
			delete(reply, "id")
			return reply
		}
		fresh := p.want(ask("snapshot", message{}), "snapshot.ok")
		p.want(ask("reset", message{"seed": 9}), "reset.ok")
		last := step()
		taken := p.want(ask("snapshot", message{}), "snapshot.ok")
		snap := taken["snap"].(float64)
		var played []string
		for range 3 * limit {
			played = append(played, fmt.Sprint(step()))
		}
		for range 2 {
			state := p.want(ask("restore", message{"snap": uint64(snap)}), "restore.ok")
			run, _ := state["run"].(message)
			if l, _ := run["l"].(array); !slices.Equal(l.data, []float64{1, 1}) {
				t.Errorf("run.l after restore is %v, want [1 1]", run["l"])
			}
			for _, key := range []string{"obs", "r", "te", "tr", "inv", "mask", "info"} {
				if got, want := fmt.Sprint(state[key]), fmt.Sprint(last[key]); got != want {
					t.Errorf("%s after restore is %s, want %s", key, got, want)
				}
			}
			for k, want := range played {
				if got := fmt.Sprint(step()); got != want {
					t.Fatalf("%s: step %d after restore:\ngot  %s\nwant %s", mode, k, got, want)
				}
			}
		}
		p.want(ask("restore", message{"snap": uint64(fresh["snap"].(float64))}), "restore.ok")
		p.refused(ask("step", message{"a": int64s(0, 0)}), p.id, wire.ResetNeeded)
		p.want(ask("forget", message{"snap": uint64(snap)}), "forget.ok")
		p.refused(ask("restore", message{"snap": uint64(snap)}), p.id, wire.UnknownSnap)
		p.refused(ask("forget", message{"snap": uint64(snap)}), p.id, wire.UnknownSnap)
		p.refused(ask("restore", message{"snap": 1 << 40}), p.id, wire.UnknownSnap)
		p.refused(ask("restore", message{}), p.id, wire.BadField)
		p.refused(ask("restore", message{"snap": "x"}), p.id, wire.BadField)
		p.want(ask("close", message{}), "close.ok")
		p.refused(ask("restore", message{"snap": uint64(fresh["snap"].(float64))}), p.id, wire.UnknownEID)
	}
}

// checkFork copies an environment: equal actions then give equal rows, also in later episodes.
func (s *suite) checkFork(t *testing.T) {
	const n = 3
	p, eid, ok := s.copier(t, n, "SAME_STEP")
	if !ok {
		return
	}
	p.do(message{"t": "reset", "eid": eid, "seed": []int{1, 2, 3}})
	fork := func(from, to any) message {
		return p.ask(message{"t": "fork", "eid": eid, "from": from, "to": to})
	}
	for _, bad := range [][2]any{{3, []int{0}}, {-1, []int{0}}, {nil, []int{0}}, {0, []int{}}, {0, []int{3}}, {0, []int{-1}}, {0, nil}, {0, 1}, {0, []int{0, 1, 2, 0}}} {
		p.refused(fork(bad[0], bad[1]), p.id, wire.BadField)
	}
	before := p.do(message{"t": "step", "eid": eid, "a": int64s(0, 0, 0)})
	reply := p.want(fork(2, []int{0}), "fork.ok")
	same := func(reply message) {
		t.Helper()
		if a, b := row(reply["obs"], 0, n), row(reply["obs"], 2, n); !slices.Equal(a, b) {
			t.Errorf("observations %v of the copy and %v of its original", a, b)
		}
		if r := reply["r"].(array).data; r[0] != r[2] {
			t.Errorf("rewards %v, want the first and the last equal", r)
		}
	}
	same(reply)
	if got, want := row(reply["obs"], 1, n), row(before["obs"], 1, n); !slices.Equal(got, want) {
		t.Errorf("the other environment shows %v after the fork, before %v", got, want)
	}
	for range 3 * limit {
		reply := p.do(message{"t": "step", "eid": eid, "a": int64s(0, 0, 0)})
		same(reply)
	}
}
