package client

import (
	"context"
	"errors"
	"fmt"

	"github.com/kubernasium/kubernasium/server/wire"
)

// session is a connection after the handshake. It waits for the reply to each request before the
// next request. Join has one open request on each of its sessions.
type session struct {
	t      transport
	w      *wire.Writer
	frame  wire.Frame
	buf    []byte
	lastID uint64
	limits wire.Limits
	server string
	caps   []string // optional parts of the server
	broken error    // why the connection cannot be used any more
	env    string   // id of the environment, for errors
}

func (s *session) nextID() uint64 {
	s.lastID++
	return s.lastID
}

// handshake says hello.
func (s *session) handshake(ctx context.Context, name string) error {
	s.limits.MsgOut = 64 << 10 // until the welcome
	var welcome wire.Welcome
	err := s.call(ctx, wire.TypeWelcome, &wire.Hello{
		T: wire.TypeHello, ID: s.nextID(), Ver: []int{wire.Major, wire.Minor}, Client: name,
	}, &welcome)
	if err != nil {
		return err
	}
	s.limits, s.server, s.caps = welcome.Limits, welcome.Server, welcome.Caps
	return nil
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
	return s.finish(ctx, stop, err)
}

// receive reads frames up to the reply to the last request, which must be of kind want.
func (s *session) receive(ctx context.Context, want string) error {
	if s.broken != nil {
		return s.broken
	}
	stop := s.watch(ctx)
	err := s.await(want)
	var refused *Error
	if errors.As(err, &refused) {
		return errors.Join(s.finish(ctx, stop, nil), err)
	}
	return s.finish(ctx, stop, err)
}

func (s *session) await(want string) error {
	for {
		var err error
		if s.buf, err = s.t.readFrame(s.buf, s.limits.MsgOut); err != nil {
			return err
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
	return context.AfterFunc(ctx, s.t.interrupt)
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

func (s *session) close() error {
	if s.broken == nil {
		s.broken = ErrConnection
	}
	return s.t.close()
}
