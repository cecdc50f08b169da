package client

import (
	"context"
	"errors"
	"fmt"
	"sync/atomic"
	"time"

	"github.com/kubernasium/kubernasium/server/wire"
)

// session is a connection after the handshake. It waits for the reply to each request before the
// next request. Join has one open request on each of its sessions.
type session struct {
	t      transport
	live   atomic.Pointer[transport] // t, for interrupt
	w      *wire.Writer
	frame  wire.Frame
	buf    []byte
	lastID uint64
	limits wire.Limits
	server string
	caps   []string // optional parts of the server
	got    uint64   // id of the last reply
	broken error    // why the connection cannot be used any more
	cut    error    // of the last send, for receive to recover from

	dial       func(ctx context.Context) (transport, error)
	name       string // of this client
	sid, token string // to resume the session; no token if it ends with its connection
	reconnect  time.Duration
	journal    journal
	rebuilding bool // the session is new, and lacks a part of the journal
	replayed   int  // requests of the journal so far, to see progress

	timeout time.Duration // for each reply; 0 is none
	timer   *time.Timer
	env     string // id of the environment, for errors
}

func (s *session) nextID() uint64 {
	s.lastID++
	return s.lastID
}

// handshake says hello for the first time.
func (s *session) handshake(ctx context.Context) error {
	s.limits.MsgOut = 64 << 10 // until the welcome
	s.lastID = firstID
	_, err := s.hello(ctx, nil)
	var refused *Error
	if errors.As(err, &refused) {
		return err
	}
	return s.finish(ctx, nil, err)
}

// hello says hello with the last id, and resumes a session unless r is nil. It returns the id of the last request that
// a resumed session has carried out. After an error the connection is of no use, unless it is an *Error.
func (s *session) hello(ctx context.Context, r *wire.Resume) (done uint64, err error) {
	h := &wire.Hello{T: wire.TypeHello, ID: s.lastID, Ver: []int{wire.Major, wire.Minor}, Client: s.name, Resume: r}
	if s.reconnect > 0 {
		h.Caps = []string{wire.CapResume}
	}
	s.w.Reset()
	if err := s.w.Encode(h); err != nil {
		return 0, fmt.Errorf("client: encode hello: %w", err)
	}
	if err := s.t.writeFrame(s.w.Bytes()); err != nil {
		return 0, lostError{err}
	}
	if err := s.guarded(ctx, wire.TypeWelcome); err != nil {
		return 0, err
	}
	var welcome wire.Welcome
	if err := s.frame.Decode(&welcome); err != nil {
		return 0, err
	}
	s.limits, s.server, s.caps, s.sid, s.token = welcome.Limits, welcome.Server, welcome.Caps, welcome.SID, welcome.ResumeToken
	if welcome.Last != nil {
		done = *welcome.Last
	}
	return done, nil
}

// call sends a request and decodes its reply, which must be of kind want, into reply, unless reply
// is nil.
func (s *session) call(ctx context.Context, want string, request, reply any) error {
	if err := s.request(ctx, request); err != nil {
		return err
	}
	if err := s.receive(ctx, want); err != nil {
		return err
	}
	if reply == nil {
		return nil
	}
	return s.frame.Decode(reply)
}

// request sends a request; receive must follow.
func (s *session) request(ctx context.Context, request any) error {
	s.w.Reset()
	if err := s.w.Encode(request); err != nil {
		return fmt.Errorf("client: encode a request: %w", err)
	}
	return s.send(ctx)
}

// send writes the frame in s.w.
func (s *session) send(ctx context.Context) error {
	if s.broken != nil {
		return s.broken
	}
	stop := s.watch(ctx)
	err := s.t.writeFrame(s.w.Bytes())
	if err != nil && s.recovers(ctx, lostError{err}) {
		s.cut, err = lostError{err}, nil
	}
	return s.finish(ctx, stop, err)
}

// receive reads frames up to the reply to the last request, which must be of kind want.
func (s *session) receive(ctx context.Context, want string) error {
	if s.broken != nil {
		return s.broken
	}
	err := s.cut
	if s.cut = nil; err == nil {
		err = s.guarded(ctx, want)
	}
	if err != nil && s.recovers(ctx, err) {
		err = s.recover(ctx, want, err)
	}
	var refused *Error
	switch {
	case err == nil:
		if s.token != "" {
			s.journal.add(s.w.Bytes(), s.lastID, want)
		}
	case s.broken != nil, errors.As(err, &refused):
		s.got = s.lastID
		return err
	}
	s.got = s.lastID
	return s.finish(ctx, nil, err)
}

// guarded is await until ctx ends or the time for a reply is over. Errors that are no *Error leave the connection of
// no use.
func (s *session) guarded(ctx context.Context, want string) error {
	stop := s.watch(ctx)
	if s.timer != nil {
		s.timer.Reset(s.timeout)
	} else if s.timeout > 0 {
		s.timer = time.AfterFunc(s.timeout, s.interrupt)
	}
	err := s.await(want)
	if s.timer != nil && !s.timer.Stop() {
		return fmt.Errorf("no reply within %v: %w", s.timeout, context.DeadlineExceeded)
	}
	if stop != nil && !stop() {
		return ctx.Err()
	}
	return err
}

func (s *session) await(want string) error {
	for {
		var err error
		if s.buf, err = s.t.readFrame(s.buf, s.limits.MsgOut); err != nil {
			if errors.Is(err, wire.ErrFrameTooLarge) {
				return err
			}
			return lostError{err}
		}
		if err := s.frame.Parse(s.buf, wire.DefaultBounds); err != nil {
			return err
		}
		isErr := string(s.frame.Type) == wire.TypeErr
		switch {
		case s.frame.ID == s.lastID && string(s.frame.Type) == want:
			return nil
		case isErr && (s.frame.ID == s.lastID || s.frame.ID == 0):
			var e wire.Error
			if err := s.frame.Decode(&e); err != nil {
				return err
			}
			return refusal(e, s.env)
		case s.frame.ID != 0:
			return fmt.Errorf("a reply %s with id %d, want %s with id %d", s.frame.Type, s.frame.ID, want, s.lastID)
		}
		// An event.
	}
}

// watch interrupts the transport when ctx ends.
func (s *session) watch(ctx context.Context) (stop func() bool) {
	if ctx.Done() == nil {
		return nil
	}
	return context.AfterFunc(ctx, s.interrupt)
}

// finish ends a watch. After an error of the transport, or an interruption, the next frame could be
// the reply to another request, so finish gives the connection up.
func (s *session) finish(ctx context.Context, stop func() bool, err error) error {
	interrupted := stop != nil && !stop()
	if err == nil && !interrupted {
		return nil
	}
	if interrupted {
		err = ctx.Err()
	}
	s.broken = fmt.Errorf("%w: %w", ErrConnection, err)
	return s.broken
}

// interrupt makes the transport's blocked call return, from another goroutine.
func (s *session) interrupt() { (*s.live.Load()).interrupt() }

// use makes t the transport.
func (s *session) use(t transport) {
	s.t = t
	s.live.Store(&t)
}

func (s *session) close() error {
	if s.broken == nil {
		s.broken = ErrConnection
	}
	return s.t.close()
}
