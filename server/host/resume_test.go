package host_test

import (
	"testing"

	"github.com/kubernasium/kubernasium/server/host/hosttest"
)

// TestTwoResumes: two connections resume a session whose request still runs, as those of a client whose second one was
// lost too. One gets the session. The server answers the other with RUNNING, and it gets the session when it tries again.
func TestTwoResumes(t *testing.T) {
	s := hosttest.Start(t)
	lost := dial(t, s.Unix)
	sid, token := lost.lease()
	lost.send("make", "env", "test/Slow-v0")
	lost.want("make.ok 2")
	lost.send("reset", "eid", 1)
	lost.want("reset.ok 3")
	lost.send("step", "eid", 1, "a", 1)
	<-waiting
	if err := lost.unix.Close(); err != nil {
		t.Fatal(err)
	}
	resume := func(c *client) {
		c.send("hello", "ver", []int{1, 5}, "resume", map[string]any{"sid": sid, "token": token, "last": 3})
	}
	first, second := dial(t, s.Unix), dial(t, s.Unix)
	resume(first)
	resume(second)
	eventually(t, "both requests to resume", func() bool { return metric(t, s, "kubernasium_requests_total") == "6" })
	release <- struct{}{}
	a, b := first.read(), second.read()
	if b == "welcome 1" {
		first, second, a, b = second, first, b, a
	}
	if a != "welcome 1" || b != "RUNNING 1" {
		t.Fatalf("the connections get %q and %q, want welcome and RUNNING", a, b)
	}
	first.want("step.ok 4")
	resume(second)
	second.want("welcome 2")
	second.want("step.ok 4")
	first.ended(0)
}
