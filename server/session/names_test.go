package session

import (
	"strings"
	"testing"
	"time"

	"github.com/kubernasium/kubernasium/server/wire"
)

// TestLongNames sends names of megabytes wherever a request holds one: each is refused in less than
// 4 KiB and 10 ms. To compare one with the names that exist would take seconds.
func TestLongNames(t *testing.T) {
	long := strings.Repeat("CartPole-", 1<<20)
	s := newSession(t, newConfig())
	script := []struct {
		send   m
		reason wire.Reason
	}{
		{m{"t": "hello", "ver": []int{1, 2}}, ""},
		{m{"t": "make", "env": long}, wire.UnknownEnv},
		{m{"t": "make", "env": "classic/CartPole-v1", "options": m{long: 1}}, wire.InvalidOption},
		{m{"t": "make", "env": "test/File-v0", "options": m{"steps": long}}, wire.InvalidOption},
		{m{"t": "make", "env": "test/File-v0", "options": m{"source": m{long: long}}}, wire.InvalidOption},
		{m{"t": "make", "env": "classic/CartPole-v1", "autoreset": long}, wire.BadField},
		{m{"t": "make", "env": "classic/CartPole-v1"}, ""},
		{m{"t": "reset", "eid": 1}, ""},
		{m{"t": "policy", "eid": 1, "name": long}, wire.UnknownBaseline},
		{m{"t": "policy", "eid": 1, "name": "pole-angle:" + long}, wire.UnknownBaseline},
		{m{"t": "step", "eid": 1, "policy": long}, wire.UnknownBaseline},
		{m{"t": "render", "eid": 1, "mode": long}, wire.BadField},
		{m{"t": "reset", "eid": 1, "options": m{"x": long}}, wire.InvalidOption},
		{m{"t": "make", "env": "classic/CartPole-v1", "cwd": long}, wire.BadField},
		{m{"t": "envs", "filter": long}, wire.BadField},
		{m{"t": long}, wire.UnknownMessage},
	}
	id := uint64(0)
	for k, l := range script {
		least := time.Hour
		for range 3 { // the least time is the server's own
			id++
			l.send["id"] = id
			frame := pack(t, l.send)
			begin := time.Now()
			reply := answer(ctx, s, frame)
			least = min(least, time.Since(begin))
			got, _ := unpack(t, reply)["reason"].(string)
			if got != string(l.reason) || l.reason != "" && len(reply) > 4096 {
				t.Errorf("request %d: reason %q in %d bytes, want %q in at most 4096", k, got, len(reply), l.reason)
			}
			if l.reason == "" {
				break
			}
		}
		if l.reason != "" && least > 10*time.Millisecond {
			t.Errorf("request %d is refused after %v, want at most 10 ms", k, least)
		}
	}
}
