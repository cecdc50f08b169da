package compliance

import (
	"fmt"
	"testing"

	"github.com/kubernasium/kubernasium/server/wire"
)

// checkState loads the state of a vector in another session and continues, beyond an episode's end.
func (s *suite) checkState(t *testing.T) {
	const n = 2
	for _, mode := range []string{"NEXT_STEP", "SAME_STEP"} {
		p, _, ok := s.with(t, wire.CapState, 1, mode)
		if !ok {
			p.refused(p.ask(message{"t": "state", "eid": 1}), p.id, wire.UnknownMessage)
			p.refused(p.ask(message{"t": "load", "eid": 1, "state": []byte{0}}), p.id, wire.UnknownMessage)
			return
		}
		p.refused(p.ask(message{"t": "state", "eid": 1}), p.id, wire.NoState)
		portable := func(p *peer) (ask func(kind string, fields message) message) {
			t.Helper()
			made := p.do(message{"t": "make", "env": s.opts.Env, "n": n, "autoreset": mode, "max_episode_steps": limit, "state": true})
			if made["state"] != true {
				t.Logf("%s has no state", s.opts.Env)
				return nil
			}
			return func(kind string, fields message) message {
				fields["t"], fields["eid"] = kind, eidOf(made)
				return p.ask(fields)
			}
		}
		first := portable(p)
		if first == nil {
			return
		}
		q, _, _ := s.with(t, wire.CapState, 1, mode)
		second := portable(q)
		p.want(first("reset", message{"seed": 9}), "reset.ok")
		p.want(first("step", message{"a": int64s(0, 0)}), "step.ok")
		p.want(first("reset", message{"mask": []bool{false, true}}), "reset.ok")
		last := p.want(first("step", message{"a": int64s(0, 0)}), "step.ok")
		reply := p.want(first("state", message{}), "state.ok")
		state, ok := reply["state"].([]byte)
		if !ok || len(state) == 0 {
			t.Fatalf("%v has no state", reply)
		}
		for _, bad := range [][]byte{{}, []byte("x"), state[:len(state)-1], append(append([]byte{}, state...), 0)} {
			q.refused(second("load", message{"state": bad}), q.id, wire.BadState)
		}
		q.refused(second("load", message{}), q.id, wire.BadField)
		q.refused(second("load", message{"state": "x"}), q.id, wire.BadField)
		loaded := q.want(second("load", message{"state": state}), "load.ok")
		for _, key := range []string{"obs", "r", "te", "tr", "inv", "mask", "info"} {
			if got, want := fmt.Sprint(loaded[key]), fmt.Sprint(last[key]); got != want {
				t.Errorf("%s after load is %s, want %s", key, got, want)
			}
		}
		if run, _ := loaded["run"].(message); fmt.Sprint(run["l"]) != fmt.Sprint(array{wire.Int64, []int{n}, []float64{2, 1}}) {
			t.Errorf("run.l after load is %v, want [2 1]", run["l"])
		}
		for k := range 3 * limit {
			want, got := first("step", message{"a": int64s(0, 0)}), second("step", message{"a": int64s(0, 0)})
			p.want(want, "step.ok")
			delete(want, "id")
			delete(got, "id")
			if fmt.Sprint(got) != fmt.Sprint(want) {
				t.Fatalf("%s: step %d after load:\ngot  %v\nwant %v", mode, k, got, want)
			}
		}
	}
}
