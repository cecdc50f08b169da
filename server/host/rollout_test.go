package host_test

import (
	"context"
	"fmt"
	"testing"
	"time"

	"github.com/kubernasium/kubernasium/server/host"
	"github.com/kubernasium/kubernasium/server/host/hosttest"
)

// rolls opens a session of version 1.1 with a snapshot and begins a rollout of minutes.
func rolls(t *testing.T, url string) *client {
	t.Helper()
	c := dial(t, url)
	c.send("hello", "ver", []int{1, 1})
	c.want("welcome 1")
	c.send("make", "env", "test/Slow-v0")
	c.want("make.ok 2")
	c.send("reset", "eid", 1, "seed", 1)
	c.want("reset.ok 3")
	c.send("snapshot", "eid", 1)
	c.want("snapshot.ok 4")
	c.send("rollout", "eid", 1, "name", "ponders", "steps", 100_000)
	return c
}

// Pings are answered during a rollout, which keeps its deadline; a client that vanishes ends it and
// frees its snapshots.
func TestRollout(t *testing.T) {
	s := hosttest.Start(t)
	for _, url := range []string{s.WS, s.Unix} {
		c := rolls(t, url)
		for id := range 3 {
			c.send("ping")
			c.want(fmt.Sprintf("ping.ok %d", id+6))
		}
		if got := metric(t, s, "kubernasium_snapshot_envs"); got != "1" {
			t.Errorf("metric kubernasium_snapshot_envs is %q, want 1", got)
		}
		conn := c.unix
		if c.ws != nil {
			conn = c.ws.NetConn()
		}
		if err := conn.Close(); err != nil {
			t.Fatal(err)
		}
		eventually(t, "free", func() bool {
			return metric(t, s, "kubernasium_sessions") == "0" && metric(t, s, "kubernasium_envs") == "0" && metric(t, s, "kubernasium_snapshot_envs") == "0"
		})
	}
	c := dial(t, s.Unix)
	c.send("hello", "ver", []int{1, 1})
	c.want("welcome 1")
	c.send("make", "env", "test/Slow-v0")
	c.want("make.ok 2")
	c.send("reset", "eid", 1, "seed", 1)
	c.want("reset.ok 3")
	c.send("rollout", "eid", 1, "name", "ponders", "steps", 100_000, "dl", 30)
	c.want("DEADLINE 4")
	c.send("rollout", "eid", 1, "name", "ponders", "steps", 2)
	c.want("rollout.ok 5")
}

// A rollout that takes longer than a server drains for is cut off.
func TestDrainEndsRollout(t *testing.T) {
	s := hosttest.Start(t, func(c *host.Config) { c.DrainFor = 20 * time.Millisecond })
	c := rolls(t, s.Unix)
	if err := s.Shutdown(context.Background()); err != nil {
		t.Errorf("Shutdown: %v", err)
	}
	c.ended(0)
}
