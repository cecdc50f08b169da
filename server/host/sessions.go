package host

import (
	"cmp"
	"maps"
	"slices"

	"github.com/kubernasium/kubernasium/server/session"
)

// SessionInfo describes a session to people. It has nothing by which a client could take the session over.
type SessionInfo struct {
	ID        string // as in the logs
	Connected bool   // without a connection it waits for its client, for as long as its lease
	Running   bool   // a request is carried out
	Waiting   int    // requests behind it
	Live      []session.Live
}

// Sessions lists the sessions after their hello, by ID. It delays requests no longer than it takes to read a few counts.
func (s *Server) Sessions() []SessionInfo {
	s.mu.Lock()
	open := slices.Collect(maps.Keys(s.conns))
	var leased []*conn
	for _, c := range s.leased {
		if _, ok := s.conns[c]; !ok {
			leased = append(leased, c)
		}
	}
	s.mu.Unlock()
	list := []SessionInfo{}
	for i, c := range slices.Concat(open, leased) {
		if !c.greeted.Load() {
			continue // its ID is not settled: it may resume a session
		}
		info := SessionInfo{ID: c.sess.ID(), Connected: i < len(open), Live: c.sess.Live()}
		info.Running, info.Waiting = c.load()
		list = append(list, info)
	}
	slices.SortFunc(list, func(a, b SessionInfo) int { return cmp.Compare(a.ID, b.ID) })
	return list
}

// load reports whether a request is carried out, and how many wait for its end.
func (c *conn) load() (running bool, waiting int) {
	c.mu.Lock()
	defer c.mu.Unlock()
	return c.running, len(c.queue)
}

// waiting returns the number of requests that wait for the one before them in their session, or for a core.
func (s *Server) waiting() int {
	n := s.sessions.Shared.Waiting()
	s.mu.Lock()
	defer s.mu.Unlock()
	for c := range s.conns {
		_, w := c.load()
		n += w
	}
	return n
}
