package host

import (
	"context"
	"errors"
	"time"

	"github.com/gorilla/websocket"

	"github.com/kubernasium/kubernasium/server/session"
	"github.com/kubernasium/kubernasium/server/wire"
)

// resumeWait is how long a client that resumes waits for the request that its lost connection still runs.
const resumeWait = 5 * time.Second

// leave handles the end of reading: requests of a session with a lease continue for its time, others are cancelled.
func (c *conn) leave(err error) {
	if c.sess.Leased() && !c.draining.Load() && !websocket.IsCloseError(err, websocket.CloseNormalClosure) && !errors.Is(err, wire.ErrFrameTooLarge) {
		lease := time.Duration(c.server.sessions.Limits.LeaseMS) * time.Millisecond
		timer := time.AfterFunc(lease, c.cancel)
		context.AfterFunc(c.ctx, func() { timer.Stop() })
		return
	}
	c.cancel()
}

// lease registers a connection whose session has a lease.
func (s *Server) lease(c *conn) {
	if c.sess.Leased() {
		s.mu.Lock()
		defer s.mu.Unlock()
		s.leased[c.sess.ID()] = c
	}
}

// keep keeps the session of a connection that has ended for its lease. It reports false if the session ends instead.
func (s *Server) keep(c *conn) bool {
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.closed || c.ctx.Err() != nil || !c.sess.Leased() || !c.sess.Holds() {
		delete(s.leased, c.sess.ID())
		return false
	}
	s.wg.Add(1)
	context.AfterFunc(c.ctx, func() {
		defer s.wg.Done()
		if s.drop(c) {
			c.finish()
		}
	})
	return true
}

// drop ends the lease of a connection's session, and reports whether it had one.
func (s *Server) drop(c *conn) bool {
	s.mu.Lock()
	defer s.mu.Unlock()
	held := s.leased[c.sess.ID()] == c && !c.moved
	if held {
		delete(s.leased, c.sess.ID())
	}
	return held
}

// take is drop for a client that resumes the session, but c stays registered until the client's connection replaces it,
// so that the session exists for others meanwhile. moved reports that another connection has taken it before.
func (s *Server) take(c *conn) (taken, moved bool) {
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.leased[c.sess.ID()] == c && !c.moved {
		c.moved = true
		return true, false
	}
	return false, c.moved
}

// resume closes the connection of the session that a client resumes, waits for its end, and returns the session.
func (s *Server) resume(sid, token string) (*session.Session, error) {
	unknown := wire.Errorf(wire.UnknownSession, "no session to resume; its lease is over, or the server has started since")
	s.mu.Lock()
	c := s.leased[sid]
	s.mu.Unlock()
	if c == nil || !c.sess.Opens(token) {
		return nil, unknown
	}
	running := wire.Errorf(wire.Running, "the session's last request still runs")
	running.RetryAfterMS = 1000
	c.close(websocket.CloseGoingAway, "resumed elsewhere")
	select {
	case <-c.ended:
	case <-time.After(resumeWait):
		return nil, running
	}
	switch taken, moved := s.take(c); {
	case moved: // a client that has lost two connections may have resumed it over the first of them
		running.Msg = "the session was just resumed over another connection"
		return nil, running
	case !taken:
		return nil, unknown
	}
	c.cancel()
	return c.sess, nil
}
