package session

import (
	"testing"

	"github.com/kubernasium/kubernasium/server/wire"
)

// resumable opens a session with a lease, and returns the hello that resumes it.
func resumable(t *testing.T, cfg *Config, quota *Quota) (s *Session, hello m) {
	t.Helper()
	s = New(cfg, quota)
	cfg.Resume = func(string, string) (*Session, error) { return s, nil }
	welcome := handle(t, s, m{"t": "hello", "id": 1, "ver": []int{1, 3}, "caps": []string{"resume"}})
	return s, m{"t": "hello", "id": 1, "ver": []int{1, 3}, "resume": m{"sid": welcome["sid"], "token": welcome["resume_token"], "last": 1}}
}

// TestMemoryOfResumed: a resumed session holds the memory of its environments against its limit.
func TestMemoryOfResumed(t *testing.T) {
	cfg := newConfig()
	cfg.Limits.MemorySession = 50 << 20
	old, hello := resumable(t, cfg, nil)
	play(t, old, []line{
		{m{"t": "make", "id": 2, "env": "test/Sized-v0", "options": m{"mib": 15}}, m{"eid": 1}}, // 30 MiB
	})
	s := newSession(t, cfg)
	play(t, s, []line{
		{hello, m{"t": "welcome"}},
		{m{"t": "make", "id": 3, "env": "test/Sized-v0", "options": m{"mib": 15}}, refused(3, wire.TooMuchMemory)},
		{m{"t": "close", "id": 4, "eid": 1}, m{"t": "close.ok"}},
		{m{"t": "make", "id": 5, "env": "test/Sized-v0", "options": m{"mib": 30}}, refused(5, wire.TooMuchMemory)},
		{m{"t": "make", "id": 6, "env": "test/Sized-v0", "options": m{"mib": 15}}, m{"eid": 2}},
	})
}

// TestQuotaOfResumed: what a client holds is its own after another client's connection, or one with a new token, has
// resumed its session; and it is free again at the end.
func TestQuotaOfResumed(t *testing.T) {
	cfg := newConfig()
	first, second := &Quota{Name: "first", Envs: 3, Held: &Held{}}, &Quota{Name: "second", Envs: 3, Held: &Held{}}
	old, hello := resumable(t, cfg, first)
	play(t, old, []line{{m{"t": "make", "id": 2, "env": "test/Timing-v0", "n": 2}, m{"eid": 1}}})
	s := New(cfg, second)
	play(t, s, []line{
		{hello, m{"t": "welcome"}},
		{m{"t": "make", "id": 3, "env": "test/Timing-v0", "n": 2}, refused(3, wire.TooManyEnvs)},
		{m{"t": "make", "id": 4, "env": "test/Timing-v0", "n": 1}, m{"eid": 2}},
	})
	if a, b := first.Held.Envs.Load(), second.Held.Envs.Load(); a != 3 || b != 0 {
		t.Errorf("the clients hold %d and %d environments, want 3 and 0", a, b)
	}
	if err := s.Close(); err != nil {
		t.Fatal(err)
	}
	for _, q := range []*Quota{first, second} {
		if h := q.Held; h.Sessions.Load() != 0 || h.Envs.Load() != 0 || h.Memory.Load() != 0 {
			t.Errorf("%s holds %d sessions, %d environments and %d bytes at the end, want none", q.Name, h.Sessions.Load(), h.Envs.Load(), h.Memory.Load())
		}
	}
}

// TestBoundsOfResumed: new bounds of a client apply to its next connection, also to one that resumes.
func TestBoundsOfResumed(t *testing.T) {
	cfg, held := newConfig(), &Held{}
	old, hello := resumable(t, cfg, &Quota{Envs: 2, Held: held})
	play(t, old, []line{{m{"t": "make", "id": 2, "env": "test/Timing-v0", "n": 2}, m{"eid": 1}}})
	s := New(cfg, &Quota{Envs: 4, Held: held})
	defer s.Close()
	play(t, s, []line{
		{hello, m{"t": "welcome"}},
		{m{"t": "make", "id": 3, "env": "test/Timing-v0", "n": 2}, m{"eid": 2}},
	})
}
