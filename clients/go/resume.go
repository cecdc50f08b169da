package client

import (
	"context"
	"errors"
	"fmt"
	"time"

	"github.com/kubernasium/kubernasium/server/wire"
)

// Times of reconnecting.
const (
	defaultReconnect = time.Minute
	defaultTimeout   = 2 * time.Minute
	firstDelay       = 10 * time.Millisecond // doubles with each attempt
	longestDelay     = time.Second
)

// maxJournal bounds the requests, in bytes, that a client keeps to rebuild its environments at a restarted server. A
// million steps of 8 CartPoles fit.
const maxJournal = 64 << 20

// Ids of the first requests of a connection. hello uses the ids below firstID for resuming, so that a journal can be
// replayed with its original ids.
const (
	resumeID = 1
	anewID   = 2
	firstID  = 16
)

// lostError is an error of the transport, after which the client reconnects.
type lostError struct{ error }

func (e lostError) Unwrap() error { return e.error }

// recoverable reports whether to retry a request that failed with err over another connection.
func (s *session) recoverable(ctx context.Context, err error) bool {
	var lost lostError
	var refused *Error
	if s.token == "" || s.reconnect <= 0 || ctx.Err() != nil {
		return false
	}
	return errors.As(err, &lost) || errors.As(err, &refused) && refused.Reason == wire.Draining
}

// recover reconnects until it has the reply to the last request or the time limit passes. No request is executed twice:
// either the server still has the session with its last reply, or the session is rebuilt at a new server.
func (s *session) recover(ctx context.Context, want string, cause error) error {
	end := time.Now().Add(s.reconnect)
	for delay := firstDelay; ; delay = min(2*delay, longestDelay) {
		before := s.replayed
		err := s.reconnectOnce(ctx, want)
		if s.replayed != before { // replaying a long journal over a bad network takes many connections
			delay, end = firstDelay, time.Now().Add(s.reconnect)
		}
		var refused *Error
		final := errors.As(err, &refused) && refused.Reason != wire.Running && refused.Reason != wire.Draining
		switch {
		case err == nil, final && s.broken == nil:
			return err
		case final, ctx.Err() != nil, errors.Is(err, ErrUnauthorized), errors.Is(err, errJournal), time.Now().Add(delay).After(end):
			s.broken = fmt.Errorf("%w: %w; connecting again: %w", ErrConnection, cause, err)
			return s.broken
		}
		select {
		case <-ctx.Done():
		case <-time.After(delay):
		}
	}
}

// reconnectOnce connects once, and returns after the reply to the last request.
func (s *session) reconnectOnce(ctx context.Context, want string) error {
	t, err := s.dial(ctx)
	if err != nil {
		return err
	}
	_ = s.t.close() // the old connection is lost
	s.use(t)
	s.broken = errors.New("client: not resumed yet")
	id := s.lastID
	defer func() { s.lastID = id }()
	request := append([]byte(nil), s.w.Bytes()...)
	defer func() {
		s.w.Reset()
		s.w.Raw(request)
	}()
	s.lastID = resumeID
	done, err := s.hello(ctx, &wire.Resume{SID: s.sid, Token: s.token, Last: s.lastReply})
	var refused *Error
	if errors.As(err, &refused) && refused.Reason == wire.UnknownSession {
		s.rebuilding = true
		s.lastID = anewID
		done, err = s.hello(ctx, nil)
	}
	if err == nil && s.rebuilding {
		err = s.rebuild(ctx, done)
	}
	if err != nil {
		return err
	}
	s.lastID = id
	if done != id {
		if err := s.t.writeFrame(request); err != nil {
			return lostError{err}
		}
	}
	if err := s.awaitReply(ctx, want); err != nil {
		if errors.As(err, &refused) {
			s.broken = nil
		}
		return err
	}
	s.broken = nil
	return nil
}

// rebuild replays the requests of the journal after done, which restores the environments in a new session.
func (s *session) rebuild(ctx context.Context, done uint64) error {
	if s.journal.full || s.journal.partial {
		return errJournal
	}
	for _, e := range s.journal.entries {
		if e.id <= done { // executed before this connection
			continue
		}
		if err := s.t.writeFrame(s.journal.data[e.from:e.to]); err != nil {
			return lostError{err}
		}
		s.lastID = e.id
		if err := s.awaitReply(ctx, e.want); err != nil {
			if refused, ok := errors.AsType[*Error](err); ok { // the first server accepted it
				return fmt.Errorf("%w: %s", errJournal, refused)
			}
			return err
		}
		s.replayed++
	}
	s.rebuilding = false
	return nil
}

// errJournal is the error if the environments cannot be rebuilt at a new server.
var errJournal = errors.New("client: the server was started anew, and the environments cannot be rebuilt there: they are not deterministic, or have taken more than 64 MiB of requests since their last state, or failed in the middle of a request, since a reset of all with seeds")

// journal holds the requests that lead to the present state.
type journal struct {
	data         []byte
	entries      []entry
	full         bool // it is too long or invalid, and cannot rebuild anything; entries has make if a reset with seeds can
	partial      bool // a request was executed partly
	unresettable bool // neither a reset nor a state restores everything: there are random actions or snapshots

	cost  time.Duration // duration of the requests since the last state
	asked int           // length of data after the last request for a state
}

type entry struct {
	from, to int // in data
	id       uint64
	want     string // kind of the reply
}

// add adds a request that the server has executed.
func (j *journal) add(frame []byte, id uint64, want string) {
	switch want {
	case wire.TypeRender + wire.OK, wire.TypeStats + wire.OK, wire.TypeClose + wire.OK, wire.TypeWelcome, wire.TypeState + wire.OK:
		return // these do not change the environments
	case wire.TypeSnapshot + wire.OK:
		j.unresettable = true
	}
	if j.full {
		return
	}
	if len(j.data)+len(frame) > maxJournal {
		j.full = true
		if len(j.entries) > 0 {
			j.keepMake()
		}
		return
	}
	from := len(j.data)
	j.data = append(j.data, frame...)
	j.entries = append(j.entries, entry{from, len(j.data), id, want})
}

// drop empties the journal for good: it cannot rebuild anything, not even after a reset.
func (j *journal) drop() { *j = journal{full: true} }

// restart removes all requests but make, before a reset of all environments with seeds is added.
func (j *journal) restart() {
	if !j.unresettable && len(j.entries) > 0 {
		j.full, j.partial = false, false
		j.keepMake()
	}
}

// keepMake removes all requests but make, which is the first.
func (j *journal) keepMake() {
	j.entries = j.entries[:1]
	j.data = j.data[:j.entries[0].to]
	j.cost, j.asked = 0, len(j.data)
}
