package compliance

import (
	"slices"
	"testing"

	"github.com/kubernasium/kubernasium/server/wire"
)

// checkResources requests as many environments and snapshots as the limits permit, and one more. A rejected request
// takes no resources, and closing or forgetting frees them.
func (s *suite) checkResources(t *testing.T) {
	p := s.dial(t)
	welcome := p.do(message{"t": "hello", "ver": []int{1, 999}})
	limit := func(name string) int {
		limits, _ := welcome["limits"].(message)
		n, _ := limits[name].(float64)
		return int(n)
	}
	ask := func(n int) message { return p.ask(message{"t": "make", "env": s.opts.Env, "n": n}) }
	each, most := limit("envs_make"), limit("envs_session")
	if each < 1 || most < 1 {
		t.Fatalf("limits.envs_make is %d and limits.envs_session %d, want numbers above 0", each, most)
	}
	p.refused(ask(each+1), p.id, wire.TooManyEnvs)
	held, last := 0, uint64(0)
	for held < most {
		n := min(each, most-held)
		reply := ask(n)
		if reply["reason"] == string(wire.TooManyEnvs) || reply["reason"] == string(wire.TooMuchMemory) {
			t.Logf("%d environments of %d that a session may have: the server has no more", held, most)
			break
		}
		p.want(reply, "make.ok")
		held, last = held+n, eidOf(reply)
	}
	if held == 0 {
		t.Fatal("no environment can be made")
	}
	if held == most {
		p.refused(ask(1), p.id, wire.TooManyEnvs)
	}
	p.do(message{"t": "close", "eid": last})
	again := p.want(ask(1), "make.ok")
	if caps, _ := welcome["caps"].([]any); slices.Contains(caps, any(wire.CapSnapshot)) {
		checkSnapshots(t, p, again, limit("snapshots"))
	}
}

// checkSnapshots takes snapshots of one environment until one is rejected: the first beyond most, or one for which no
// memory is left.
func checkSnapshots(t *testing.T, p *peer, made message, most int) {
	if copies, _ := made["copies"].(bool); !copies {
		return
	}
	eid := eidOf(made)
	p.do(message{"t": "reset", "eid": eid, "seed": 1})
	take := func() message { return p.ask(message{"t": "snapshot", "eid": eid}) }
	var snap any
	taken := 0
	for ; ; taken++ {
		reply := take()
		if reply["t"] == "err" {
			if taken == 0 || taken < most && reply["reason"] != string(wire.TooMuchMemory) || taken > most {
				t.Errorf("after %d snapshots of at most %d: %v", taken, most, reply)
			}
			break
		}
		p.want(reply, "snapshot.ok")
		snap = reply["snap"]
	}
	p.do(message{"t": "forget", "eid": eid, "snap": uint64(snap.(float64))})
	p.want(take(), "snapshot.ok")
	t.Logf("%d snapshots of at most %d", taken, most)
}
