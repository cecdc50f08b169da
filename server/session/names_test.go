package session

import (
	"fmt"
	"strings"
	"testing"
	"time"

	"github.com/kubernasium/kubernasium/server/wire"
	"github.com/kubernasium/kubernasium/tools/cputime"
)

// TestLongNames sends names of megabytes wherever a request holds one: each is refused in less than 4 KiB.
// BenchmarkLongNames measures the time, at most 10 ms; without the limit on what is compared one of them
// takes ten seconds of CPU, far beyond the second that is permitted here.
func TestLongNames(t *testing.T) {
	s := newSession(t, newConfig())
	for k, l := range longNames() {
		l.send["id"] = k + 1
		begin := cputime.Used()
		reply := answer(ctx, s, pack(t, l.send))
		took := cputime.Used() - begin
		got, _ := unpack(t, reply)["reason"].(string)
		if got != string(l.reason) || l.reason != "" && len(reply) > 4096 {
			t.Errorf("request %d: reason %q in %d bytes, want %q in at most 4096", k, got, len(reply), l.reason)
		}
		if took > time.Second && !raceEnabled {
			t.Errorf("request %d takes %v of CPU", k, took)
		}
	}
}

// BenchmarkLongNames answers each of the requests that TestLongNames sends.
func BenchmarkLongNames(b *testing.B) {
	s := newSession(b, newConfig())
	id := 0
	for k, l := range longNames() {
		frame := func() []byte {
			id++
			l.send["id"] = id
			return pack(b, l.send)
		}
		if l.reason == "" {
			answer(ctx, s, frame())
			continue
		}
		b.Run(fmt.Sprintf("%d-%s", k, l.reason), func(b *testing.B) {
			for b.Loop() {
				b.StopTimer()
				f := frame()
				b.StartTimer()
				answer(ctx, s, f)
			}
		})
	}
}

type longName struct {
	send   m
	reason wire.Reason // empty: the request is granted
}

func longNames() []longName {
	long := strings.Repeat("CartPole-", 1<<20)
	return []longName{
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
}
