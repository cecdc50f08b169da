package compliance

import (
	"testing"

	"github.com/kubernasium/kubernasium/server/wire"
)

// checkCancel cancels a running rollout, unless it has ended, and requests queued behind it. Each request gets one
// reply, CANCELLED if it was open, and the session continues.
func (s *suite) checkCancel(t *testing.T) {
	p, made, ok := s.with(t, wire.CapCancel, 64, "SAME_STEP")
	if !ok {
		return
	}
	eid := eidOf(made)
	p.do(message{"t": "reset", "eid": eid, "seed": 1})
	long := p.send(message{"t": "rollout", "eid": eid, "name": "random", "steps": 50})
	reset := p.send(message{"t": "reset", "eid": eid, "seed": 2})
	cancelReset := p.send(message{"t": "cancel", "of": reset})
	cancelLong := p.send(message{"t": "cancel", "of": long})
	none := p.send(message{"t": "cancel", "of": cancelLong + 100})
	replies := map[uint64]message{}
	for range 5 {
		m := p.receive()
		replies[uint64(m["id"].(float64))] = m
	}
	for request, cancel := range map[uint64]uint64{long: cancelLong, reset: cancelReset} {
		p.want(replies[cancel], "cancel.ok")
		switch found := replies[cancel]["found"]; {
		case found == true && replies[request]["t"] == "err":
			p.refused(replies[request], request, wire.WasCancelled)
		case found == false && replies[request]["t"] == "err":
			t.Errorf("cancel found nothing, and the reply is %v", replies[request])
		}
	}
	if replies[none]["t"] != "cancel.ok" || replies[none]["found"] != false {
		t.Errorf("cancel of no request: %v, want found false", replies[none])
	}
	p.do(message{"t": "reset", "eid": eid, "seed": 3})
}

// checkDeadline queues resets behind longer and longer rollouts until their deadline passes.
func (s *suite) checkDeadline(t *testing.T) {
	p, made, ok := s.with(t, wire.CapRollout, 64, "SAME_STEP")
	if !ok {
		return
	}
	eid := eidOf(made)
	p.do(message{"t": "reset", "eid": eid, "seed": 1})
	for steps, passed := 16, false; !passed; steps *= 2 {
		if steps > 10000 {
			t.Fatalf("a reset with a deadline of 1 ms behind a rollout of %d steps is answered ok", steps/2)
		}
		p.send(message{"t": "rollout", "eid": eid, "name": "random", "steps": steps})
		late := p.send(message{"t": "reset", "eid": eid, "seed": 2, "dl": 1})
		p.want(p.receive(), "rollout.ok")
		reply := p.receive()
		if passed = reply["t"] != "reset.ok"; passed {
			p.refused(reply, late, wire.Deadline)
		}
	}
	p.do(message{"t": "reset", "eid": eid, "seed": 2, "dl": 60000})
}
