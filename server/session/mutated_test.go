package session

import (
	"testing"

	"github.com/kubernasium/kubernasium/server/faults"
	"github.com/kubernasium/kubernasium/server/wire"
)

// TestMutatedFrames gives sessions 100,000 requests (20,000 with -short) that are changed at random: each gets one reply that can be read,
// no environment fails, and nothing is held when the sessions have ended.
func TestMutatedFrames(t *testing.T) {
	most, each := 100_000, 50
	if testing.Short() {
		most = 20_000
	}
	cfg := newConfig()
	cfg.Limits.EnvsMake, cfg.Limits.EnvsSession, cfg.Limits.Rollout, cfg.Limits.Snapshots = 8, 32, 50, 64
	cfg.Limits.MemorySession, cfg.Limits.MemoryServer = 64<<20, 128<<20
	frames, granted := faults.NewFrames(1), 0
	for sent := 0; sent < most; sent += each {
		s := newSession(t, cfg)
		for _, v := range []m{
			{"t": "hello", "id": 1, "ver": []int{1, 99}},
			{"t": "make", "id": 2, "env": "classic/CartPole-v1", "n": 2},
			{"t": "reset", "id": 3, "eid": 1, "seed": 1},
			{"t": "snapshot", "id": 4, "eid": 1},
		} {
			answer(ctx, s, pack(t, v))
		}
		for id := range uint64(each) {
			data := frames.Next(5 + id)
			var reply wire.Frame
			if err := reply.Parse(answer(ctx, s, data), wire.DefaultBounds); err != nil {
				t.Fatalf("the reply to %x: %v", data, err)
			}
			if string(reply.Type) != wire.TypeErr {
				granted++
			} else if code, err := reply.Str("code"); err != nil || string(code) == string(wire.Internal) {
				t.Fatalf("the reply to %x is %q, %v", data, code, err)
			}
		}
		if err := s.Close(); err != nil {
			t.Fatal(err)
		}
	}
	if granted < most/20 || granted > most*9/10 {
		t.Errorf("%d of %d requests are granted, want both kinds", granted, most)
	}
	if envs, memory, sessions := cfg.Shared.Envs.Load(), cfg.Shared.Memory.Load(), cfg.Shared.Sessions.Load(); envs != 0 || memory != 0 || sessions != 0 {
		t.Errorf("%d environments, %d bytes and %d sessions are held when all sessions have ended", envs, memory, sessions)
	}
	t.Logf("%d of %d requests granted", granted, most)
}
