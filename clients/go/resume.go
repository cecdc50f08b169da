package client

import (
	"context"
	"errors"
	"fmt"
	"time"

	"github.com/kubernasium/kubernasium/server/wire"
)

// Times of a client that has lost its connection.
const (
	defaultReconnect = time.Minute
	defaultTimeout   = 2 * time.Minute
	firstDelay       = 10 * time.Millisecond // doubles with each attempt
	longestDelay     = time.Second
)

// maxJournal bounds the requests that a client keeps to rebuild its environments at a server that was restarted, in
// bytes. It is a million steps of 8 CartPoles.
const maxJournal = 64 << 20

// Ids of the first requests of a connection. hello uses the smaller ones when a session is resumed, so that a journal
// is replayed with the ids that it had.
const (
	resumeID = 1
	anewID   = 2
	firstID  = 16
)

// lostError is an error of the transport, after which another connection may help.
type lostError struct{ error }

func (e lostError) Unwrap() error { return e.error }

// recovers reports whether a request that ended with err is to be tried over another connection.
func (s *session) recovers(ctx context.Context, err error) bool {
	var lost lostError
	var refused *Error
	if s.token == "" || s.reconnect <= 0 || ctx.Err() != nil {
		return false
	}
	return errors.As(err, &lost) || errors.As(err, &refused) && refused.Reason == wire.Draining
}

// recover connects again, until it has the reply to the last request or its time is over. The server carries out no
// request twice: it has the session still, with the last reply, or is a new one, at which the session is rebuilt.
func (s *session) recover(ctx context.Context, want string, cause error) error {
	end := time.Now().Add(s.reconnect)
	for delay := firstDelay; ; delay = min(2*delay, longestDelay) {
		before := s.replayed
		err := s.again(ctx, want)
		if s.replayed != before { // a long journal over a bad wire takes many connections
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

// again connects once, and returns when it has the reply to the last request.
func (s *session) again(ctx context.Context, want string) error {
	t, err := s.dial(ctx)
	if err != nil {
		return err
	}
	_ = s.t.close() // it is lost
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
	done, err := s.hello(ctx, &wire.Resume{SID: s.sid, Token: s.token, Last: s.got})
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
	if err := s.guarded(ctx, want); err != nil {
		if errors.As(err, &refused) {
			s.broken = nil
		}
		return err
	}
	s.broken = nil
	return nil
}

// rebuild sends the requests of the journal after done, so that the environments of a new session become what they
// were.
func (s *session) rebuild(ctx context.Context, done uint64) error {
	if s.journal.full || s.journal.torn {
		return errJournal
	}
	for _, e := range s.journal.entries {
		if e.id <= done { // before this connection
			continue
		}
		if err := s.t.writeFrame(s.journal.data[e.from:e.to]); err != nil {
			return lostError{err}
		}
		s.lastID = e.id
		if err := s.guarded(ctx, e.want); err != nil {
			var refused *Error
			if errors.As(err, &refused) { // it was accepted then
				return fmt.Errorf("%w: %s", errJournal, refused)
			}
			return err
		}
		s.replayed++
	}
	s.rebuilding = false
	return nil
}

// errJournal is returned if the environments cannot be rebuilt at a new server.
var errJournal = errors.New("client: the server was started anew, and the environments cannot be rebuilt there: they are not deterministic, or have taken more than 64 MiB of requests since their last state, or failed in the middle of a request, since a reset of all with seeds")

// journal holds the requests that lead to the present state.
type journal struct {
	data    []byte
	entries []entry
	full    bool // it has more than it may hold
	torn    bool // a request was carried out in part
	streams bool // neither a reset nor a state restores all: random actions continue their stream, or there are snapshots

	cost  time.Duration // of the requests since the last state
	asked int           // length of data after the last request for a state
}

type entry struct {
	from, to int // in data
	id       uint64
	want     string // kind of the reply
}

// add adds a request that the server has carried out.
func (j *journal) add(frame []byte, id uint64, want string) {
	switch want {
	case wire.TypeRender + wire.OK, wire.TypeStats + wire.OK, wire.TypeClose + wire.OK, wire.TypeWelcome, wire.TypeState + wire.OK:
		return // these change nothing
	case wire.TypeSnapshot + wire.OK:
		j.streams = true
	}
	if j.full {
		return
	}
	if len(j.data)+len(frame) > maxJournal {
		j.drop()
		return
	}
	from := len(j.data)
	j.data = append(j.data, frame...)
	j.entries = append(j.entries, entry{from, len(j.data), id, want})
}

// drop makes a journal one that rebuilds nothing.
func (j *journal) drop() { *j = journal{full: true} }

// restart forgets what led to the state before a reset of all environments with seeds, which is the next to add. The
// first entry is make.
func (j *journal) restart() {
	if !j.full && !j.streams && len(j.entries) > 0 {
		j.torn = false
		j.toMake()
	}
}

// toMake forgets all requests but make.
func (j *journal) toMake() {
	j.entries = j.entries[:1]
	j.data = j.data[:j.entries[0].to]
	j.cost, j.asked = 0, len(j.data)
}
