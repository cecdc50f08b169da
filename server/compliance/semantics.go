package compliance

import (
	"fmt"
	"maps"
	"slices"
	"testing"

	"github.com/kubernasium/kubernasium/server/wire"
)

func (s *suite) checkPipelining(t *testing.T) {
	p, eid := s.make(t, 2, "SAME_STEP", 0)
	p.do(message{"t": "reset", "eid": eid, "seed": 1})
	var ids []uint64
	for range 4 {
		ids = append(ids, p.send(message{"t": "step", "eid": eid, "a": int64s(0, 0)}))
	}
	ping := p.send(message{"t": "ping"})
	var steps []uint64
	for range 5 {
		reply := p.receive()
		id := uint64(reply["id"].(float64))
		if id == ping {
			p.want(reply, "ping.ok")
			continue
		}
		p.want(reply, "step.ok")
		steps = append(steps, id)
	}
	if !slices.Equal(steps, ids) {
		t.Errorf("steps %v are answered in the order %v", ids, steps)
	}
}

func (s *suite) checkOrder(t *testing.T) {
	p, eid := s.make(t, 2, "NEXT_STEP", 0)
	p.refused(p.ask(message{"t": "step", "eid": eid, "a": int64s(0, 0)}), p.id, wire.ResetNeeded)
	p.refused(p.ask(message{"t": "step", "eid": 77, "a": int64s(0, 0)}), p.id, wire.UnknownEID)
	p.refused(p.ask(message{"t": "reset"}), p.id, wire.BadField)
	p.refused(p.ask(message{"t": "make", "env": "no/Such-v0"}), p.id, wire.UnknownEnv)
	p.refused(p.ask(message{"t": "make", "env": s.opts.Env, "n": 0}), p.id, wire.BadField)
	p.refused(p.ask(message{"t": "make", "env": s.opts.Env, "n": 1 << 30}), p.id, wire.TooManyEnvs)
	p.refused(p.ask(message{"t": "make", "env": s.opts.Env, "autoreset": "x"}), p.id, wire.BadField)
	p.refused(p.ask(message{"t": "make", "env": s.opts.Env, "options": message{"no such option": 1}}), p.id, wire.InvalidOption)
	p.do(message{"t": "stats", "eid": eid})
	p.do(message{"t": "close", "eid": eid})
	p.refused(p.ask(message{"t": "close", "eid": eid}), p.id, wire.UnknownEID)
	p.refused(p.ask(message{"t": "step", "eid": eid, "a": int64s(0, 0)}), p.id, wire.UnknownEID)
	reply := p.do(message{"t": "envs", "filter": s.opts.Env})
	if list, _ := reply["envs"].([]any); len(list) == 0 || list[0].(message)["id"] != s.opts.Env {
		t.Errorf("envs with filter %s: %v", s.opts.Env, reply)
	}
}

// checkActions sends actions in every form. A rejected one steps nothing.
func (s *suite) checkActions(t *testing.T) {
	p, eid := s.make(t, 2, "NEXT_STEP", 0)
	q, qid := s.make(t, 2, "NEXT_STEP", 0)
	p.do(message{"t": "reset", "eid": eid, "seed": 5})
	q.do(message{"t": "reset", "eid": qid, "seed": 5})
	for name, a := range map[string]any{"below": int64s(0, -1), "beyond": int64s(0, 1<<40), "a fraction": []float64{0, 0.5}, "short": []int{0}, "strings": []string{"a", "b"}} {
		if reply := p.ask(message{"t": "step", "eid": eid, "a": a}); reply["reason"] != string(wire.InvalidAction) {
			t.Errorf("%s: %v, want %s", name, reply, wire.InvalidAction)
		}
	}
	for _, a := range []any{int64s(0, 0), []int{0, 0}, []float64{0, 0}} {
		got, want := p.ask(message{"t": "step", "eid": eid, "a": a}), q.ask(message{"t": "step", "eid": qid, "a": int64s(0, 0)})
		p.want(got, "step.ok")
		sameBatch(t, got, want)
	}
}

// sameBatch compares two replies except for their ids.
func sameBatch(t *testing.T, got, want message) {
	t.Helper()
	delete(got, "id")
	delete(want, "id")
	if g, w := fmt.Sprint(got), fmt.Sprint(want); g != w { // fmt prints maps sorted by key
		t.Errorf("got  %s\nwant %s", g, w)
	}
}

func (s *suite) checkSeeds(t *testing.T) {
	play := func(seed any) []message {
		p, eid := s.make(t, 3, "SAME_STEP", 0)
		replies := []message{p.ask(message{"t": "reset", "eid": eid, "seed": seed})}
		p.want(replies[0], "reset.ok")
		for range 30 {
			replies = append(replies, p.ask(message{"t": "step", "eid": eid, "a": int64s(0, 0, 0)}))
		}
		return append(replies, p.ask(message{"t": "reset", "eid": eid}))
	}
	a, b, c := play(7), play(7), play([]int{7, 8, 9})
	for i := range a {
		ref := fmt.Sprint(a[i]["obs"])
		if fmt.Sprint(b[i]["obs"]) != ref || fmt.Sprint(c[i]["obs"]) != ref {
			t.Fatalf("reply %d: seed 7, again, and [7 8 9] differ:\n%v\n%v\n%v", i, a[i], b[i], c[i])
		}
	}
	drawn := play(nil)[0]
	seed, ok := drawn["seed"].(float64)
	if !ok {
		t.Fatalf("a first reset without a seed: %v, want the seed that was drawn", drawn)
	}
	if again := play(uint64(seed))[0]; fmt.Sprint(again["obs"]) != fmt.Sprint(drawn["obs"]) {
		t.Errorf("seed %v, which was drawn, gives %v, want %v", uint64(seed), again["obs"], drawn["obs"])
	}
	p, eid := s.make(t, 3, "SAME_STEP", 0)
	for _, bad := range []any{-1, 1.5, "x", []int{1, 2}, []any{1, 2, "x"}} {
		if reply := p.ask(message{"t": "reset", "eid": eid, "seed": bad}); reply["t"] != "err" {
			t.Errorf("seed %v: %v, want an error", bad, reply)
		}
	}
}

func (s *suite) checkResetMask(t *testing.T) {
	p, eid := s.make(t, 2, "DISABLED", 0)
	first := p.do(message{"t": "reset", "eid": eid, "seed": 1})
	stepped := p.do(message{"t": "step", "eid": eid, "a": int64s(0, 0)})
	reply := p.do(message{"t": "reset", "eid": eid, "seed": 1, "mask": []bool{false, true}})
	for i, want := range []message{stepped, first} {
		if g, w := row(reply["obs"], i, 2), row(want["obs"], i, 2); !slices.Equal(g, w) {
			t.Errorf("observation %d after a reset of 1 is %v, want %v", i, g, w)
		}
	}
	for _, mask := range []any{[]bool{false, false}, []bool{true}, []int{1, 0}, "x"} {
		p.refused(p.ask(message{"t": "reset", "eid": eid, "mask": mask}), p.id, wire.InvalidOption)
	}
}

// row returns the elements of row i of n of an array, or of the parts of a dict.
func row(v any, i, n int) []float64 {
	switch v := v.(type) {
	case array:
		k := len(v.data) / n
		return v.data[i*k : (i+1)*k]
	case message:
		var all []float64
		for _, key := range slices.Sorted(maps.Keys(v)) {
			all = append(all, row(v[key], i, n)...)
		}
		return all
	}
	return nil
}

// flag returns element i of a boolean column, which is absent if all elements are false.
func flag(reply message, key string, i int) bool {
	a, ok := reply[key].(array)
	return ok && a.data[i] != 0
}

// limit is the time limit of episodes in the checks of autoreset.
const limit = 3

// until steps until the episode of environment 0 has ended, and returns that reply and the
// number of steps.
func (s *suite) until(t *testing.T, p *peer, eid uint64) (message, int) {
	t.Helper()
	for steps := 1; steps <= limit; steps++ {
		reply := p.do(message{"t": "step", "eid": eid, "a": int64s(0)})
		if flag(reply, "te", 0) || flag(reply, "tr", 0) {
			return reply, steps
		}
		if reply["ep"] != nil || reply["fin"] != nil {
			t.Errorf("ep or fin although no episode ended: %v", reply)
		}
	}
	t.Fatalf("no episode ended within its limit of %d steps", limit)
	return nil, 0
}

func checkEpisode(t *testing.T, reply message, steps int) {
	t.Helper()
	ep, _ := reply["ep"].(message)
	idx, _ := ep["idx"].(array)
	length, _ := ep["l"].(array)
	ret, _ := ep["r"].(array)
	if !slices.Equal(idx.data, []float64{0}) || idx.dtype != wire.Int32 || !slices.Equal(length.data, []float64{float64(steps)}) || length.dtype != wire.Int64 || len(ret.data) != 1 || ret.dtype != wire.Float64 {
		t.Errorf("ep is %v, want the episode of environment 0 with %d steps", ep, steps)
	}
}

func (s *suite) checkNextStep(t *testing.T) {
	p, eid := s.make(t, 1, "NEXT_STEP", limit)
	p.do(message{"t": "reset", "eid": eid, "seed": 3})
	last, steps := s.until(t, p, eid)
	checkEpisode(t, last, steps)
	if last["fin"] != nil {
		t.Errorf("fin in NEXT_STEP: %v", last)
	}
	reply := p.do(message{"t": "step", "eid": eid, "a": int64s(-5)}) // ignored
	if r := reply["r"].(array); r.data[0] != 0 || reply["te"] != nil || reply["tr"] != nil || reply["ep"] != nil {
		t.Errorf("the step that resets: %v, want reward 0 and no end", reply)
	}
}

func (s *suite) checkSameStep(t *testing.T) {
	p, eid := s.make(t, 1, "SAME_STEP", limit)
	q, qid := s.make(t, 1, "NEXT_STEP", limit)
	p.do(message{"t": "reset", "eid": eid, "seed": 3})
	q.do(message{"t": "reset", "eid": qid, "seed": 3})
	for range 3 { // episodes
		last, steps := s.until(t, p, eid)
		checkEpisode(t, last, steps)
		other, otherSteps := s.until(t, q, qid)
		first := q.ask(message{"t": "step", "eid": qid, "a": int64s(0)})
		fin, _ := last["fin"].(message)
		if idx, _ := fin["idx"].(array); !slices.Equal(idx.data, []float64{0}) {
			t.Fatalf("fin is %v, want idx [0]", fin)
		}
		if steps != otherSteps || !slices.Equal(row(fin["obs"], 0, 1), row(other["obs"], 0, 1)) {
			t.Errorf("the last observation is %v after %d steps, in NEXT_STEP %v after %d", fin["obs"], steps, other["obs"], otherSteps)
		}
		if fmt.Sprint(fin["mask"]) != fmt.Sprint(other["mask"]) {
			t.Errorf("the last mask is %v, in NEXT_STEP %v", fin["mask"], other["mask"])
		}
		if !slices.Equal(row(last["obs"], 0, 1), row(first["obs"], 0, 1)) {
			t.Errorf("the next episode begins with %v, in NEXT_STEP with %v", last["obs"], first["obs"])
		}
		if fmt.Sprint(fin["info"]) != fmt.Sprint(other["info"]) {
			t.Errorf("the last infos are %v, in NEXT_STEP %v", fin["info"], other["info"])
		}
	}
}

func (s *suite) checkDisabled(t *testing.T) {
	p, eid := s.make(t, 1, "DISABLED", limit)
	p.do(message{"t": "reset", "eid": eid, "seed": 3})
	last, steps := s.until(t, p, eid)
	checkEpisode(t, last, steps)
	p.refused(p.ask(message{"t": "step", "eid": eid, "a": int64s(0)}), p.id, wire.ResetNeeded)
	p.do(message{"t": "reset", "eid": eid, "mask": []bool{true}})
	p.do(message{"t": "step", "eid": eid, "a": int64s(0)})
}

func (s *suite) checkTimeLimit(t *testing.T) {
	p, eid := s.make(t, 1, "NEXT_STEP", 1)
	p.do(message{"t": "reset", "eid": eid, "seed": 3})
	reply := p.do(message{"t": "step", "eid": eid, "a": int64s(0)})
	if !flag(reply, "tr", 0) {
		t.Errorf("step 1 of a limit of 1: %v, want truncated", reply)
	}
	checkEpisode(t, reply, 1)
}

// checkSlowReader reads replies only after many have accumulated.
func (s *suite) checkSlowReader(t *testing.T) {
	p, eid := s.make(t, 64, "SAME_STEP", 0)
	p.do(message{"t": "reset", "eid": eid, "seed": 1})
	zeros := make([]int64, 64)
	const many = 500
	for range many {
		p.send(message{"t": "step", "eid": eid, "a": int64s(zeros...)})
	}
	answered := map[uint64]bool{}
	for range many {
		reply := p.receive()
		id := uint64(reply["id"].(float64))
		if answered[id] {
			t.Fatalf("id %d is answered twice", id)
		}
		answered[id] = true
		if reply["t"] != "step.ok" && reply["reason"] != string(wire.Inflight) {
			t.Fatalf("a step among many: %v, want step.ok or %s", reply, wire.Inflight)
		}
	}
	p.alive()
}

// checkVanish drops connections at every stage, also while a step runs, and checks that the server
// continues to serve and frees their environments.
func (s *suite) checkVanish(t *testing.T) {
	for range 20 {
		p, eid := s.make(t, 8, "SAME_STEP", 0)
		p.do(message{"t": "reset", "eid": eid, "seed": 1})
		zeros := make([]int64, 8)
		p.send(message{"t": "step", "eid": eid, "a": int64s(zeros...)})
		if err := p.conn.NetConn().Close(); err != nil { // without a close frame, as if the process were killed
			t.Fatal(err)
		}
	}
	for range 5 {
		if err := s.dial(t).conn.NetConn().Close(); err != nil { // before hello
			t.Fatal(err)
		}
	}
	p, eid := s.make(t, 64, "SAME_STEP", 0)
	p.do(message{"t": "reset", "eid": eid, "seed": 1})
}
