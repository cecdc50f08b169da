package compliance

import (
	"fmt"
	"slices"
	"testing"

	"github.com/kubernasium/kubernasium/server/wire"
)

// checkVersion10 checks a session of version 1.0: it has no optional parts, and ignores fields of
// later versions.
func (s *suite) checkVersion10(t *testing.T) {
	p := s.dial(t)
	welcome := p.do(message{"t": "hello", "ver": []int{1, 0}})
	if ver := fmt.Sprint(welcome["ver"]); ver != "[1 0]" {
		t.Errorf("welcome.ver is %v for a client of 1.0, want [1 0]", ver)
	}
	if caps, ok := welcome["caps"].([]any); !ok || len(caps) > 0 {
		t.Errorf("welcome.caps is %v for a client of 1.0, want []", welcome["caps"])
	}
	eid := eidOf(p.make(s.opts.Env, 1, "NEXT_STEP", 0))
	p.do(message{"t": "reset", "eid": eid, "seed": 1})
	p.do(message{"t": "step", "eid": eid, "a": int64s(0), "policy": "unknown then"})
}

// checkVersion11 checks a session of version 1.1, which had another form of policy: the server does
// not offer that part, and rejects its requests.
func (s *suite) checkVersion11(t *testing.T) {
	p := s.dial(t)
	welcome := p.do(message{"t": "hello", "ver": []int{1, 1}})
	caps, _ := welcome["caps"].([]any)
	if ver := fmt.Sprint(welcome["ver"]); ver != "[1 1]" || slices.Contains(caps, any("policy")) || slices.Contains(caps, any(wire.CapBaseline)) {
		t.Errorf("welcome of version %v with the parts %v for a client of 1.1, want [1 1] without policy and baseline", ver, caps)
	}
	eid := eidOf(p.make(s.opts.Env, 1, "NEXT_STEP", 0))
	p.do(message{"t": "reset", "eid": eid, "seed": 1})
	p.refused(p.ask(message{"t": "policy", "eid": eid, "name": "random"}), p.id, wire.IsReserved)
	p.refused(p.ask(message{"t": "step", "eid": eid, "a": int64s(0), "policy": "random"}), p.id, wire.IsReserved)
}

// baselines returns the names that make.ok lists, and random.
func baselines(made message) []string {
	names := []string{"random"}
	spec, _ := made["spec"].(message)
	list, _ := spec["baselines"].([]any)
	for _, b := range list {
		if name, ok := b.(message)["name"].(string); ok && name != "random" {
			names = append(names, name)
		}
	}
	return names
}

// checkPolicy requests the actions of every baseline while other actions are taken, compares with a
// vector without these requests, and then lets each baseline step.
func (s *suite) checkPolicy(t *testing.T) {
	p, made, ok := s.with(t, wire.CapBaseline, 2, "NEXT_STEP")
	if !ok {
		p.refused(p.ask(message{"t": "policy", "eid": 1, "name": "random"}), p.id, wire.IsReserved)
		return
	}
	s.checkVersion11(t)
	eid := eidOf(made)
	ask := func(name any) message { return p.ask(message{"t": "policy", "eid": eid, "name": name}) }
	p.refused(ask("random"), p.id, wire.ResetNeeded)
	p.do(message{"t": "reset", "eid": eid, "seed": 5})
	p.refused(ask("no such baseline"), p.id, wire.UnknownBaseline)
	p.refused(ask(nil), p.id, wire.BadField)
	p.refused(ask(3), p.id, wire.BadField)
	p.refused(p.ask(message{"t": "policy", "eid": 77, "name": "random"}), p.id, wire.UnknownEID)
	p.refused(p.ask(message{"t": "step", "eid": eid, "a": int64s(0, 0), "policy": "random"}), p.id, wire.BadField)
	p.refused(p.ask(message{"t": "step", "eid": eid, "policy": "no such baseline"}), p.id, wire.UnknownBaseline)
	p.refused(p.ask(message{"t": "step", "eid": eid, "policy": 3}), p.id, wire.BadField)

	q, qid := s.make(t, 2, "NEXT_STEP", limit)
	q.do(message{"t": "reset", "eid": qid, "seed": 5})
	names := baselines(made)
	for range 2 * limit {
		for _, name := range names {
			advice := ask(name)
			if advice["reason"] == string(wire.BaselineFails) { // not for these options
				continue
			}
			p.want(advice, "policy.ok")
			sameBatch(t, ask(name), advice)
			if a, ok := advice["a"].(array); !ok || len(a.data) != 2 {
				t.Fatalf("policy %s: %v, want two actions", name, advice)
			}
		}
		got := p.do(message{"t": "step", "eid": eid, "a": int64s(0, 0)})
		sameBatch(t, got, q.ask(message{"t": "step", "eid": qid, "a": int64s(0, 0)}))
	}
	for _, name := range names {
		s.stepBy(t, p, eid, name)
	}
}

// stepBy lets a baseline step beyond an episode's end, and requests its actions before every second
// step.
func (s *suite) stepBy(t *testing.T, p *peer, eid uint64, name string) {
	t.Helper()
	p.do(message{"t": "reset", "eid": eid, "seed": 5})
	ended := make([]bool, 2)
	for step := range limit + 2 {
		if step%2 == 0 {
			advice := p.ask(message{"t": "policy", "eid": eid, "name": name})
			if advice["reason"] == string(wire.BaselineFails) {
				return
			}
			p.want(advice, "policy.ok")
			for i := range ended {
				if flag(advice, "none", i) != ended[i] {
					t.Fatalf("policy %s: none is %v in row %d, want %v", name, !ended[i], i, ended[i])
				}
			}
		}
		reply := p.ask(message{"t": "step", "eid": eid, "policy": name})
		if reply["reason"] == string(wire.BaselineFails) {
			return
		}
		p.want(reply, "step.ok")
		if reply["inv"] != nil {
			t.Errorf("step by %s: an action is masked out: %v", name, reply)
		}
		for i := range ended {
			ended[i] = flag(reply, "te", i) || flag(reply, "tr", i)
		}
	}
}
