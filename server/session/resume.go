package session

import (
	"crypto/subtle"
	"fmt"
	"slices"

	"github.com/kubernasium/kubernasium/server/wire"
)

// lease lets the session outlive its connection, if the client requests that in hello.
func (s *Session) lease(h *wire.Hello) {
	if s.minor >= 3 && s.cfg.Limits.LeaseMS > 0 && s.cfg.Resume != nil && slices.Contains(h.Caps, wire.CapResume) {
		s.token = fmt.Sprintf("%014x%014x%014x", s.cfg.Entropy(), s.cfg.Entropy(), s.cfg.Entropy())
	}
}

// Leased reports whether the session outlives its connection. Only the goroutine of Admit may call it.
func (s *Session) Leased() bool { return s.token != "" }

// Holds reports whether the session has environments. It counts as Do.
func (s *Session) Holds() bool { return len(s.vecs) > 0 }

// Opens reports whether token is the one that resumes the session.
func (s *Session) Opens(token string) bool {
	return s.token != "" && subtle.ConstantTimeCompare([]byte(token), []byte(s.token)) == 1
}

// resume moves the session of r, whose connection has ended, into s. Missed then returns the reply that its client
// missed.
func (s *Session) resume(r *wire.Resume) error {
	old, err := s.cfg.Resume(r.SID, r.Token)
	if err != nil {
		return err
	}
	if old.quota.Held != s.quota.Held { // the session counts against the client that opened it
		s.quota = old.quota
	}
	s.sid, s.token, s.minor, s.log = old.sid, old.token, old.minor, old.log
	vecs := old.vecs
	old.setVectors(nil) // all of it is s's now
	s.setVectors(vecs)
	s.nextEID, s.envs, s.snaps, s.memory, s.nextSnap = old.nextEID, old.envs, old.snaps, old.memory, old.nextSnap
	s.out, s.large, s.done, s.reply = old.out, old.large, old.done, old.reply
	s.lastID, s.greeted, s.resumed = old.done, true, true
	old.greeted = false
	if s.done > r.Last {
		s.missed = s.reply
	}
	return nil
}

// Missed returns the reply to send after the welcome of a resumed session, once; nil if its client has it.
func (s *Session) Missed() []byte {
	m := s.missed
	s.missed = nil
	return m
}
