package compliance

import (
	"fmt"
	"slices"
	"testing"

	"github.com/kubernasium/kubernasium/server/wire"
)

// checkResume cuts the connection before a request arrives, and after it was executed: the session resumes, no step is
// taken twice, and the missed reply arrives.
func (s *suite) checkResume(t *testing.T) {
	p := s.dial(t)
	welcome := p.do(message{"t": "hello", "ver": []int{1, 999}, "caps": []string{wire.CapResume}})
	if caps, _ := welcome["caps"].([]any); !slices.Contains(caps, any(wire.CapResume)) {
		t.Logf("the server has the parts %v, and so no %s", caps, wire.CapResume)
		return
	}
	sid, token := welcome["sid"], welcome["resume_token"]
	eid := eidOf(p.make(s.opts.Env, 2, "SAME_STEP", limit))
	step := message{"t": "step", "eid": eid, "a": int64s(0, 0)}
	var want []string // of an uninterrupted session
	whole, made := s.make(t, 2, "SAME_STEP", limit)
	whole.do(message{"t": "reset", "eid": made, "seed": 4})
	for range 4 {
		want = append(want, fmt.Sprint(whole.ask(message{"t": "step", "eid": made, "a": int64s(0, 0)})["obs"]))
	}
	p.do(message{"t": "reset", "eid": eid, "seed": 4})
	resume := func(last uint64, token any) (*peer, message) {
		t.Helper()
		q := s.dial(t)
		return q, q.ask(message{"t": "hello", "ver": []int{1, 999}, "caps": []string{wire.CapResume}, "resume": message{"sid": sid, "token": token, "last": last}})
	}
	same := func(reply message, k int) {
		t.Helper()
		p.want(reply, "step.ok")
		if got := fmt.Sprint(reply["obs"]); got != want[k] {
			t.Errorf("step %d gives %s, want %s", k, got, want[k])
		}
	}
	last := p.id

	// The step is executed, and its reply is lost.
	sent := p.send(step)
	_ = p.conn.NetConn().Close()
	q, reply := resume(last, "wrong")
	q.refused(reply, q.id, wire.UnknownSession)
	q, reply = resume(last, token)
	q.want(reply, "welcome")
	if got := reply["last"]; got != float64(sent) || reply["sid"] != sid {
		t.Fatalf("the welcome has last %v of session %v, want %d of %v", got, reply["sid"], sent, sid)
	}
	missed := q.receive()
	if missed["id"] != float64(sent) {
		t.Errorf("the missed reply has id %v, want %d", missed["id"], sent)
	}
	same(missed, 0)
	q.id = sent
	same(q.ask(step), 1)

	// The request never arrives: the client sends it again with the same id.
	last = q.id
	_ = q.conn.NetConn().Close()
	r, reply := resume(last, token)
	r.want(reply, "welcome")
	if got := reply["last"]; got != float64(last) {
		t.Fatalf("the welcome has last %v, want %d", got, last)
	}
	r.id = last
	same(r.ask(step), 2)

	// Resuming closes a connection that is still open.
	q, reply = resume(r.id, token)
	q.want(reply, "welcome")
	q.id = r.id
	r.closed(1001)
	same(q.ask(step), 3)

	// Without vectors there is nothing to resume.
	q.do(message{"t": "close", "eid": eid})
	_ = q.conn.NetConn().Close()
	q, reply = resume(q.id, token)
	q.refused(reply, q.id, wire.UnknownSession)
	q.do(message{"t": "hello", "ver": []int{1, 0}})
}
