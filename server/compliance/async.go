package compliance

import (
	"fmt"
	"slices"
	"testing"

	"github.com/kubernasium/kubernasium/server/wire"
)

// rowText describes row j of n of a step's reply, without its infos.
func rowText(reply message, j, n int) string {
	return fmt.Sprint(row(reply["obs"], j, n), row(reply["r"], j, n), flag(reply, "te", j), flag(reply, "tr", j))
}

// checkAsync sends steps to some rows at a time and compares each row with lock-step.
func (s *suite) checkAsync(t *testing.T) {
	const n, steps = 3, 3 * limit
	p, made, ok := s.with(t, wire.CapAsync, n, "SAME_STEP")
	if !ok {
		p.refused(p.ask(message{"t": "send", "eid": 1, "a": int64s(0)}), p.id, wire.IsReserved)
		p.refused(p.ask(message{"t": "recv", "eid": 1}), p.id, wire.IsReserved)
		return
	}
	eid := eidOf(made)
	ask := func(kind string, fields message) message {
		fields["t"], fields["eid"] = kind, eid
		return p.ask(fields)
	}
	p.refused(ask("send", message{"a": int64s(0, 0, 0)}), p.id, wire.ResetNeeded)
	q, qid := s.make(t, n, "SAME_STEP", limit)
	p.want(ask("reset", message{"seed": 4}), "reset.ok")
	q.do(message{"t": "reset", "eid": qid, "seed": 4})
	p.refused(ask("recv", message{}), p.id, wire.NotSent)
	p.refused(ask("send", message{"idx": []int{0, n}, "a": int64s(0, 0)}), p.id, wire.BadField)
	p.refused(ask("send", message{"idx": []int{0, 1}, "a": int64s(0)}), p.id, wire.InvalidAction)
	p.refused(ask("send", message{"idx": []int{1, 1}, "a": int64s(0, 0)}), p.id, wire.Pending)
	var got, want [n][]string
	for range steps {
		reply := q.do(message{"t": "step", "eid": qid, "a": int64s(0, 0, 0)})
		for i := range n {
			want[i] = append(want[i], rowText(reply, i, n))
		}
	}
	p.want(ask("send", message{"a": int64s(0, 0, 0)}), "send.ok")
	p.refused(ask("step", message{"a": int64s(0, 0, 0)}), p.id, wire.Pending)
	p.refused(ask("reset", message{}), p.id, wire.Pending)
	p.refused(ask("recv", message{"min": 2, "max": 1}), p.id, wire.BadField)
	for pending := n; pending > 0; {
		reply := p.want(ask("recv", message{"max": 2}), "recv.ok")
		idx, _ := reply["idx"].(array)
		if k := len(idx.data); k < 1 || k > 2 || !slices.IsSorted(idx.data) {
			t.Fatalf("recv of at most 2 rows: %v", reply)
		}
		var again []int
		for j, x := range idx.data {
			i := int(x)
			got[i] = append(got[i], rowText(reply, j, len(idx.data)))
			if pending--; len(got[i]) < steps {
				again = append(again, i)
			}
		}
		if len(again) > 0 {
			p.want(ask("send", message{"idx": again, "a": make([]int, len(again))}), "send.ok")
			pending += len(again)
		}
	}
	if g, w := fmt.Sprint(got), fmt.Sprint(want); g != w {
		t.Errorf("rows of recv\n%s\nrows of lock-step\n%s", g, w)
	}
	none := ask("recv", message{"wait_ms": 0})
	p.refused(none, p.id, wire.NotSent)
	p.want(ask("step", message{"a": int64s(0, 0, 0)}), "step.ok")
}

// checkEnvError enables isolated failures, which changes nothing if no environment fails.
func (s *suite) checkEnvError(t *testing.T) {
	p, made, ok := s.with(t, wire.CapEnvError, 2, "SAME_STEP")
	if !ok {
		return
	}
	isolated := p.do(message{"t": "make", "env": s.opts.Env, "n": 2, "autoreset": "SAME_STEP", "max_episode_steps": limit, "env_error": true})
	for step := range 2 * limit {
		var replies [2]message
		for k, eid := range []uint64{eidOf(made), eidOf(isolated)} {
			request := message{"t": "step", "eid": eid, "a": int64s(0, 0)}
			if step == 0 {
				request = message{"t": "reset", "eid": eid, "seed": 8}
			}
			replies[k] = p.ask(request)
			if replies[k]["t"] == "err" {
				t.Fatal(replies[k])
			}
		}
		sameBatch(t, replies[1], replies[0])
	}
}

// checkObsKeys requests one part of a Dict observation at a time, and compares it with the whole.
func (s *suite) checkObsKeys(t *testing.T) {
	p, made, ok := s.with(t, wire.CapObsKeys, 2, "SAME_STEP")
	if !ok {
		return
	}
	make := func(keys any) message {
		return p.ask(message{"t": "make", "env": s.opts.Env, "n": 2, "autoreset": "SAME_STEP", "max_episode_steps": limit, "obs_keys": keys})
	}
	p.refused(make([]string{"no such part"}), p.id, wire.InvalidOption)
	whole, _ := made["obs_space"].(message)
	keys, _ := whole["keys"].([]any)
	p.do(message{"t": "reset", "eid": eidOf(made), "seed": 8})
	all := p.ask(message{"t": "step", "eid": eidOf(made), "a": int64s(0, 0)})
	for i, key := range keys {
		reply := make([]any{key})
		p.want(reply, "make.ok")
		space, _ := reply["obs_space"].(message)
		if g, w := fmt.Sprint(space["keys"], space["parts"]), fmt.Sprint([]any{key}, []any{whole["parts"].([]any)[i]}); g != w {
			t.Errorf("obs_keys [%v]: the space\n%s\nwant\n%s", key, g, w)
		}
		p.do(message{"t": "reset", "eid": eidOf(reply), "seed": 8})
		got := p.ask(message{"t": "step", "eid": eidOf(reply), "a": int64s(0, 0)})
		if g, w := fmt.Sprint(got["obs"]), fmt.Sprint(message{key.(string): all["obs"].(message)[key.(string)]}); g != w {
			t.Errorf("obs_keys [%v]: %s, want %s", key, g, w)
		}
		p.do(message{"t": "close", "eid": eidOf(reply)})
	}
}
