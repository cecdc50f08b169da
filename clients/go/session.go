package client

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"slices"
	"sync/atomic"
	"time"

	"github.com/kubernasium/kubernasium/server/wire"
)

// session is a connection after the handshake. It waits for the reply to each request before the
// next request.
type session struct {
	t         transport
	live      atomic.Pointer[transport] // t, for other goroutines
	w         *wire.Writer
	frame     wire.Frame
	buf       []byte
	lastID    uint64 // of the last request
	cancelID  uint64 // of the last request to cancel
	limits    wire.Limits
	server    string
	caps      []string // optional parts of the protocol that the server has
	lastReply uint64   // id of the last reply
	broken    error    // why the connection is unusable, or nil
	sendErr   error    // of the last send; receive recovers from it

	dial       func(ctx context.Context) (transport, error)
	compress   bool
	packer     *wire.Packer // created with the first welcome of a server that supports zstd
	name       string       // of the client
	sid, token string       // to resume the session; token is "" if the session ends with its connection
	reconnect  time.Duration
	journal    journal
	sent       time.Time // when the last request was sent
	rebuilding bool      // the session is new, and part of the journal is to be replayed
	replayed   int       // number of journal requests replayed so far

	timeout  time.Duration // of each reply; 0: none
	watchdog watchdog
	env      string // id of the environment, for errors
}

func (s *session) nextID() uint64 {
	s.lastID = max(s.lastID, s.cancelID) + 1
	return s.lastID
}

// handshake sends the first hello.
func (s *session) handshake(ctx context.Context) error {
	s.limits.MsgOut = 64 << 10 // until the welcome
	s.lastID = firstID
	_, err := s.hello(ctx, nil)
	if _, ok := errors.AsType[*Error](err); ok {
		return err
	}
	if err != nil {
		return s.fail(err)
	}
	return nil
}

// minor is the version in hello; tests use older ones.
var minor = wire.Minor

// hello sends hello with the last id, and resumes a session unless r is nil. It returns the id of the last request that
// a resumed session has executed. After an error other than *Error the connection is unusable.
func (s *session) hello(ctx context.Context, r *wire.Resume) (done uint64, err error) {
	h := &wire.Hello{T: wire.TypeHello, ID: s.lastID, Ver: []int{wire.Major, minor}, Client: s.name, Resume: r}
	if s.reconnect > 0 {
		h.Caps = append(h.Caps, wire.CapResume)
	}
	if s.compress {
		h.Caps = append(h.Caps, wire.CapZstd)
	}
	s.w.Reset()
	if err := s.w.Encode(h); err != nil {
		return 0, fmt.Errorf("client: encode hello: %w", err)
	}
	if err := s.t.writeFrame(s.w.Bytes()); err != nil {
		return 0, lostError{err}
	}
	if err := s.awaitReply(ctx, wire.TypeWelcome); err != nil {
		return 0, err
	}
	var welcome wire.Welcome
	if err := s.frame.Decode(&welcome); err != nil {
		return 0, err
	}
	if err := checkVersion(welcome.Server, welcome.Ver); err != nil {
		return 0, err
	}
	s.limits, s.server, s.caps, s.sid, s.token = welcome.Limits, welcome.Server, welcome.Caps, welcome.SID, welcome.ResumeToken
	if s.compress && slices.Contains(s.caps, wire.CapZstd) {
		if s.packer == nil {
			s.packer = wire.NewPacker(s.limits.MsgOut)
		}
		s.use(&packedTransport{transport: s.t, packer: s.packer})
	}
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
	if err := ctx.Err(); err != nil {
		return err // nothing has been sent
	}
	var stop func() bool
	if ctx.Done() != nil {
		stop = watch(ctx, s.interrupt)
	}
	if s.token != "" {
		s.sent = time.Now()
	}
	err := s.t.writeFrame(s.w.Bytes())
	if stop != nil && !stop() {
		if err != nil {
			return s.fail(ctx.Err()) // part of the frame may have been sent
		}
		s.t.proceed() // receive cancels the request
	}
	if err != nil && s.recoverable(ctx, lostError{err}) {
		s.sendErr, err = lostError{err}, nil
	}
	if err != nil {
		return s.fail(err)
	}
	return nil
}

// receive reads frames up to the reply to the last request, which must be of kind want.
func (s *session) receive(ctx context.Context, want string) error {
	if s.broken != nil {
		return s.broken
	}
	err := s.sendErr
	if s.sendErr = nil; err == nil {
		err = s.awaitReply(ctx, want)
	}
	if err != nil && s.recoverable(ctx, err) {
		err = s.recover(ctx, want, err)
	}
	var refused *Error
	switch {
	case err == nil:
		if s.token != "" {
			s.journal.add(s.w.Bytes(), s.lastID, want)
			s.journal.cost += time.Since(s.sent)
		}
	case s.broken != nil, errors.As(err, &refused):
		s.lastReply = s.lastID
		return err
	}
	s.lastReply = s.lastID
	if err != nil {
		return s.fail(err)
	}
	return nil
}

// awaitReply is await with a limit: when ctx ends or the timeout passes, it cancels the request, and still succeeds if
// the reply came first. After errors other than *Error the connection is unusable.
func (s *session) awaitReply(ctx context.Context, want string) error {
	s.watchdog.begin(s.lastID)
	var stop func() bool
	if ctx.Done() != nil {
		stop = watch(ctx, func() { s.watchdog.cancel(s, context.Cause(ctx)) })
	}
	if s.timeout > 0 {
		s.watchdog.start(s)
	}
	err := s.await(want)
	if s.timeout > 0 {
		s.watchdog.stop()
	}
	if stop != nil {
		stop()
	}
	cause, cancelled := s.watchdog.finish()
	switch {
	case cause == nil:
		return err
	case !cancelled:
		return cause
	}
	s.cancelID = s.lastID + 1
	if refused, ok := errors.AsType[*Error](err); ok && refused.Reason == wire.WasCancelled {
		return &Error{Code: refused.Code, Reason: refused.Reason, Msg: refused.Msg, cause: cause}
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
			return errorOf(e, s.env)
		case string(s.frame.Type) == wire.TypeCancel+wire.OK: // the reply to the watchdog's cancel request
		case s.frame.ID != 0:
			return fmt.Errorf("a reply %s with id %d, want %s with id %d", s.frame.Type, s.frame.ID, want, s.lastID)
		}
		// An event.
	}
}

// watch calls f when ctx ends, unless stop is called before. If f was called, stop waits for it to return and returns
// false.
func watch(ctx context.Context, f func()) (stop func() bool) {
	ended := make(chan struct{})
	remove := context.AfterFunc(ctx, func() {
		defer close(ended)
		f()
	})
	return func() bool {
		if remove() {
			return true
		}
		<-ended
		return false
	}
}

// fail marks the connection as broken because of err: the next frame could be the reply to another request.
func (s *session) fail(err error) error {
	s.broken = fmt.Errorf("%w: %w", ErrConnection, err)
	return s.broken
}

// interrupt makes a blocked call of the transport return. It is for other goroutines.
func (s *session) interrupt() { (*s.live.Load()).interrupt() }

// use sets the transport.
func (s *session) use(t transport) {
	s.t = t
	s.live.Store(&t)
}

func (s *session) close() error {
	s.broken = cmp.Or(s.broken, ErrConnection)
	return s.t.close()
}
