package session

import (
	"cmp"
	"slices"
)

// Live describes environments that a session holds.
type Live struct {
	EID   uint64 // of the session
	Env   string // id of the environment
	N     int    // number of environments
	Steps uint64 // of all of them, since they were made
}

// Live lists the environments that the session holds, by EID. Any goroutine may call it; requests wait for it only where
// environments are made or closed.
func (s *Session) Live() []Live {
	s.listed.Lock()
	defer s.listed.Unlock()
	all := make([]Live, 0, len(s.vecs))
	for eid, v := range s.vecs {
		all = append(all, Live{eid, v.vec.Spec().ID, v.layout.N, v.steps.Load()})
	}
	slices.SortFunc(all, func(a, b Live) int { return cmp.Compare(a.EID, b.EID) })
	return all
}

// setVectors replaces the session's environments.
func (s *Session) setVectors(vecs map[uint64]*vector) {
	s.listed.Lock()
	defer s.listed.Unlock()
	s.vecs = vecs
}

// Waiting returns the number of heavy requests that wait for a core.
func (s *Shared) Waiting() int { return s.turns.waiting() }

// waiting returns the number of turns that wait for their only core.
func (g *turns) waiting() int {
	g.mu.Lock()
	defer g.mu.Unlock()
	waits := map[*turn]bool{}
	for _, w := range g.queue {
		if w.t.held == 0 {
			waits[w.t] = true
		}
	}
	return len(waits)
}
