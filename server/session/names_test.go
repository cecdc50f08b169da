package session

import (
	"strings"
	"testing"

	"github.com/kubernasium/kubernasium/server/wire"
)

// TestLongNames sends names of megabytes wherever a request holds one: each is refused in less than
// 4 KiB. To compare one with the names that exist would take seconds.
func TestLongNames(t *testing.T) {
	long := strings.Repeat("CartPole-", 1<<20)
	s := newSession(t, newConfig())
	script := []struct {
		send   m
		reason wire.Reason
	}{
		{m{"t": "hello", "id": 1, "ver": []int{1, 2}}, ""},
		{m{"t": "make", "id": 2, "env": long}, wire.UnknownEnv},
		{m{"t": "make", "id": 3, "env": "classic/CartPole-v1", "options": m{long: 1}}, wire.InvalidOption},
		{m{"t": "make", "id": 4, "env": "test/File-v0", "options": m{"steps": long}}, wire.InvalidOption},
		{m{"t": "make", "id": 5, "env": "test/File-v0", "options": m{"source": m{long: long}}}, wire.InvalidOption},
		{m{"t": "make", "id": 6, "env": "classic/CartPole-v1", "autoreset": long}, wire.BadField},
		{m{"t": "make", "id": 7, "env": "classic/CartPole-v1"}, ""},
		{m{"t": "reset", "id": 8, "eid": 1}, ""},
		{m{"t": "policy", "id": 9, "eid": 1, "name": long}, wire.UnknownBaseline},
		{m{"t": "policy", "id": 10, "eid": 1, "name": "pole-angle:" + long}, wire.UnknownBaseline},
		{m{"t": "step", "id": 11, "eid": 1, "policy": long}, wire.UnknownBaseline},
		{m{"t": long, "id": 12}, wire.UnknownMessage},
	}
	for _, l := range script {
		reply := answer(ctx, s, pack(t, l.send))
		got, _ := unpack(t, reply)["reason"].(string)
		if got != string(l.reason) || l.reason != "" && len(reply) > 4096 {
			t.Errorf("request %v: reason %q in %d bytes, want %q in at most 4096", l.send["id"], got, len(reply), l.reason)
		}
	}
}
