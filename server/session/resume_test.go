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
