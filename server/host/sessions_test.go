package host_test

import (
	"fmt"
	"strings"
	"testing"

	"github.com/kubernasium/kubernasium/server/host"
	"github.com/kubernasium/kubernasium/server/host/hosttest"
	"github.com/kubernasium/kubernasium/server/session"
)

// TestSessions: a client's step runs and two of its requests wait behind it; another client is idle; a third has said
// nothing and is not listed.
func TestSessions(t *testing.T) {
	s := hosttest.Start(t)
	busy := dial(t, s.WS)
	busy.open()
	busy.send("step", "eid", 1, "a", 0)
	busy.want("step.ok 4")
	busy.send("step", "eid", 1, "a", 1)
	<-waiting
	busy.send("step", "eid", 1, "a", 0)
	busy.send("step", "eid", 1, "a", 0)
	idle := dial(t, s.Unix)
	idle.open()
	dial(t, s.WS)
	eventually(t, "two requests waiting", func() bool { return metric(t, s, "kubernasium_requests_waiting") == "2" })
	var list []host.SessionInfo
	eventually(t, "one session that runs a request", func() bool { // a client may have a reply before its request has ended
		list = s.Sessions()
		running := 0
		for i := range list {
			list[i].ID = "" // random
			if list[i].Running {
				running++
			}
		}
		return running == 1
	})
	one := func(steps uint64) []session.Live {
		return []session.Live{{EID: 1, Env: "test/Slow-v0", N: 1, Steps: steps}}
	}
	want := map[string]bool{
		fmt.Sprint(host.SessionInfo{Connected: true, Running: true, Waiting: 2, Live: one(1)}): true,
		fmt.Sprint(host.SessionInfo{Connected: true, Live: one(0)}):                            true,
	}
	for _, info := range list {
		delete(want, fmt.Sprint(info))
	}
	if len(list) != 2 || len(want) > 0 {
		t.Errorf("sessions %+v, which lack %v", list, want)
	}
	release <- struct{}{}
	for _, reply := range []string{"step.ok 5", "step.ok 6", "step.ok 7"} {
		busy.want(reply)
	}
	if got := metric(t, s, "kubernasium_requests_waiting"); got != "0" {
		t.Errorf("%s requests wait after all replies, want 0", got)
	}
}

// TestSessionWithoutConnection: a session whose client is gone is listed until its lease ends, with what it holds.
func TestSessionWithoutConnection(t *testing.T) {
	s := hosttest.Start(t, func(c *host.Config) { c.Limits.LeaseMS = 60_000 })
	c := dial(t, s.Unix)
	sid, token := c.lease()
	c.send("make", "env", "test/Slow-v0", "n", 3)
	c.want("make.ok 2")
	if err := c.unix.Close(); err != nil {
		t.Fatal(err)
	}
	eventually(t, "without its connection", func() bool { l := s.Sessions(); return len(l) == 1 && !l[0].Connected })
	info := s.Sessions()[0]
	if info.ID != sid || len(info.Live) != 1 || info.Live[0].N != 3 || info.Running || info.Waiting != 0 {
		t.Errorf("session %+v, want %s with 3 environments", info, sid)
	}
	if token == "" || strings.Contains(fmt.Sprintf("%+v", info), token) {
		t.Errorf("session %+v shows its token %q", info, token)
	}
}
