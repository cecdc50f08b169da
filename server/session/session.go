// Package session implements the protocol kubernasium.v1 as a state machine without any I/O: the
// state of one client, and the reply to each request. server/PROTOCOL.md defines it.
package session

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"log/slog"
	"runtime/debug"
	"slices"
	"sync"
	"sync/atomic"
	"time"

	"github.com/kubernasium/kubernasium/server/wire"
)

// Config is shared by all sessions of a server.
type Config struct {
	Limits       wire.Limits
	Server       string                                    // name and version of the server, for welcome
	DenyOptions  []string                                  // options that make rejects, by name
	DenyFiles    bool                                      // make rejects options that name files
	ReportCauses bool                                      // of faults, to clients; otherwise they get the id of the log's line
	Entropy      func() uint64                             // for session ids, and for seeds of resets without one
	Now          func() time.Time                          // for deadlines and statistics
	OnStep       func(took time.Duration)                  // called after each step, by many goroutines; nil is none
	Resume       func(sid, token string) (*Session, error) // takes a session whose connection has ended; nil resumes none
	Log          *slog.Logger
	Shared       *Shared
}

// A Session is the state of one client. One goroutine may call Admit while another calls Do, both
// in the order of the requests.
type Session struct {
	cfg   *Config
	quota *Quota
	sid   string
	log   *slog.Logger

	// At arrival.
	lastID   uint64
	greeted  bool
	minor    int          // version of the session; not written after hello
	arrivals *wire.Writer // replies of Admit
	inflight atomic.Int64 // admitted and not done
	packs    bool         // hello asked for compressed frames
	shares   bool         // hello asked for shared memory
	offer    func() int   // offers it and returns its size in bytes, or 0; nil for connections without it
	token    string       // resumes the session after its connection has ended; empty if it ends with that
	resumed  bool
	missed   []byte // reply to send after the welcome
	open     openRequests

	// In order.
	vecs     map[uint64]*vector // written with listed locked
	listed   sync.Mutex
	nextEID  uint64
	envs     int   // environments in vecs
	snaps    int   // environments in their snapshots
	memory   int64 // estimated bytes of both
	nextSnap uint64
	out      *wire.Writer // replies of Do
	large    bool         // the last one was of a size that seldom occurs
	done     uint64       // id of the last request of Do
	reply    []byte       // to it; part of out
	turn     *turn        // of the request of Do
}

// Request is a message on its way from Admit to Do. Its zero value is ready to use, and it may
// be used again after Do.
type Request struct {
	Data     []byte // the frame, which must not change before Do returns
	Room     []byte // memory for the reply, up to its capacity; the session does not read it, and keeps no reference
	frame    wire.Frame
	deadline time.Time // zero is none
}

// New returns the session of a client before its hello. It counts against the quota; nil is none.
func New(cfg *Config, quota *Quota) *Session {
	sid := fmt.Sprintf("%016x", cfg.Entropy())
	return &Session{
		cfg: cfg, quota: cmp.Or(quota, &Quota{Held: &Held{}}), sid: sid, log: cfg.Log.With("sid", sid),
		arrivals: wire.NewWriter(), out: wire.NewWriter(), vecs: map[uint64]*vector{}, turn: newTurn(&cfg.Shared.turns),
	}
}

// ID returns the session's id, for logs.
func (s *Session) ID() string { return s.sid }

// Greeted reports whether the handshake is done. Only the goroutine of Admit may call it.
func (s *Session) Greeted() bool { return s.greeted }

// Admit takes a request. It returns the reply to hello, to ping, and to a request that it rejects,
// valid until the next Admit. Otherwise it returns nil, and the caller must give req to Do.
func (s *Session) Admit(req *Request) []byte {
	s.cfg.Shared.Frames.Add(1)
	f := &req.frame
	err := f.Parse(req.Data, s.cfg.Limits.Bounds())
	id := f.ID
	if id <= s.lastID {
		if err == nil {
			err = wire.Errorf(wire.BadID, "id %d, want one greater than %d", id, s.lastID)
		}
		return s.refuse(s.arrivals, 0, err)
	}
	s.lastID = id
	if err == nil {
		err = s.precondition(f)
	}
	if err != nil {
		return s.refuse(s.arrivals, id, err)
	}
	switch string(f.Type) {
	case wire.TypeHello:
		err = s.hello(f)
	case wire.TypePing:
		s.ping(f)
	case wire.TypeCancel:
		err = s.cancel(f)
	default:
		if err = s.enqueue(req); err == nil {
			return nil
		}
	}
	if err != nil {
		return s.refuse(s.arrivals, id, err)
	}
	return s.arrivals.Bytes()
}

// precondition rejects requests that are unknown, or not allowed in the present state.
func (s *Session) precondition(f *wire.Frame) error {
	hello := string(f.Type) == wire.TypeHello
	switch {
	case !hello && !s.greeted:
		return wire.Errorf(wire.HelloFirst, "%s before hello", clip(f.Type))
	case hello && s.greeted:
		return wire.Errorf(wire.HelloTwice, "a second hello")
	}
	switch minor, known := since(f.Type); {
	case string(f.Type) == wire.TypePing, string(f.Type) == wire.TypeCancel && s.minor >= 4:
		return nil
	case known && s.minor >= minor:
		if s.cfg.Shared.Draining.Load() {
			return wire.Errorf(wire.Draining, "the server stops")
		}
		return nil
	case slices.Contains(wire.Reserved, string(f.Type)):
		return wire.Errorf(wire.IsReserved, "%s is reserved for a later version than this session's 1.%d", f.Type, s.minor)
	}
	return wire.Errorf(wire.UnknownMessage, "no message is called %q in version 1.%d", clip(f.Type), s.minor)
}

// since returns the minor version that introduced a kind of request; known is false if there is no
// such kind.
func since(kind []byte) (minor int, known bool) {
	switch string(kind) {
	case wire.TypeHello, wire.TypeEnvs, wire.TypeMake, wire.TypeReset, wire.TypeStep, wire.TypeRender, wire.TypeStats, wire.TypeClose:
		return 0, true
	case wire.TypeRollout, wire.TypeSnapshot, wire.TypeRestore, wire.TypeFork, wire.TypeForget:
		return 1, true
	case wire.TypePolicy:
		return 2, true
	case wire.TypeCancel:
		return 4, true
	case wire.TypeSend, wire.TypeRecv:
		return 5, true
	case wire.TypeState, wire.TypeLoad:
		return 7, true
	}
	return 0, false
}

// clip shortens text from a client for a message to it.
func clip(b []byte) []byte { return b[:min(len(b), 64)] }

func (s *Session) enqueue(req *Request) error {
	dl, ok, err := req.frame.Uint("dl")
	if err != nil {
		return err
	}
	req.deadline = time.Time{}
	if ok {
		const most = uint64(24 * time.Hour / time.Millisecond)
		req.deadline = s.cfg.Now().Add(time.Duration(min(dl, most)) * time.Millisecond)
	}
	if n := int64(s.cfg.Limits.Inflight); s.inflight.Add(1) > n {
		s.inflight.Add(-1)
		return wire.Errorf(wire.Inflight, "%d requests without a reply, want at most %d", n+1, n)
	}
	s.open.admit(req.frame.ID)
	return nil
}

// Do carries out an admitted request and returns the reply, valid until the next Do. The reply lies at the start of
// req.Room if it fits there, unless another connection may have to repeat it.
func (s *Session) Do(ctx context.Context, req *Request) []byte {
	if s.large { // its memory is not kept
		s.out, s.large = wire.NewWriter(), false
	}
	var reply []byte
	if req.Room == nil || s.token != "" {
		reply = s.carryOut(ctx, req)
		s.reply = reply
	} else {
		own := s.out.Swap(req.Room)
		reply = s.carryOut(ctx, req)
		s.out.Swap(own)
		s.reply = nil
	}
	s.done = req.frame.ID
	return reply
}

func (s *Session) carryOut(ctx context.Context, req *Request) (reply []byte) {
	defer s.inflight.Add(-1)
	ctx, err := s.open.begin(ctx, req.frame.ID)
	defer s.open.end(req.frame.ID)
	defer func() {
		if p := recover(); p != nil {
			reply = s.refuse(s.out, req.frame.ID, s.fault(wire.ServerFault, "the server has a fault", p, "request", string(req.frame.Type), "stack", string(debug.Stack())))
		}
	}()
	if err != nil {
		return s.refuse(s.out, req.frame.ID, err)
	}
	if req.deadline.IsZero() {
		err = s.do(ctx, &req.frame)
	} else if s.cfg.Now().After(req.deadline) {
		err = wire.Errorf(wire.Deadline, "the deadline passed before the request was begun")
	} else {
		c, cancel := context.WithDeadline(ctx, req.deadline)
		err = s.do(c, &req.frame)
		cancel()
	}
	if err == nil {
		err = s.checkReply()
	}
	if err != nil {
		return s.refuse(s.out, req.frame.ID, err)
	}
	return s.out.Bytes()
}

// checkReply rejects a reply that is longer than clients accept.
func (s *Session) checkReply() error {
	if n := len(s.out.Bytes()); n > s.cfg.Limits.MsgOut {
		return wire.Errorf(wire.TooLarge, "a reply of %d bytes, want at most %d", n, s.cfg.Limits.MsgOut)
	}
	return nil
}

func (s *Session) do(ctx context.Context, f *wire.Frame) error {
	switch string(f.Type) {
	case wire.TypeMake:
		return s.make(ctx, f)
	case wire.TypeEnvs:
		return s.listEnvs(f)
	}
	v, eid, err := s.vector(f)
	if err != nil {
		return err
	}
	switch string(f.Type) {
	case wire.TypeStep:
		return s.step(ctx, v, eid, f)
	case wire.TypeReset:
		return s.reset(ctx, v, eid, f)
	case wire.TypeSend:
		return s.send(v, eid, f)
	case wire.TypeRecv:
		return s.recv(ctx, v, eid, f)
	case wire.TypePolicy:
		return s.policy(ctx, v, eid, f)
	case wire.TypeRollout:
		return s.rollout(ctx, v, eid, f)
	case wire.TypeSnapshot:
		return s.snapshot(ctx, v, eid, f)
	case wire.TypeRestore:
		return s.restore(v, eid, f)
	case wire.TypeFork:
		return s.fork(v, eid, f)
	case wire.TypeForget:
		return s.forget(v, eid, f)
	case wire.TypeState:
		return s.state(ctx, v, eid, f)
	case wire.TypeLoad:
		return s.load(ctx, v, eid, f)
	case wire.TypeRender:
		return s.render(v, eid, f)
	case wire.TypeStats:
		return s.stats(v, f)
	}
	return s.closeVector(eid, f)
}

// Refuse returns the error reply, with id 0, to a message that is no frame. It counts as Admit.
func (s *Session) Refuse(reason wire.Reason, msg string) []byte {
	return s.refuse(s.arrivals, 0, wire.Errorf(reason, "%s", msg))
}

func (s *Session) refuse(w *wire.Writer, id uint64, err error) []byte {
	e := s.wireError(err)
	e.T, e.ID = wire.TypeErr, id
	s.cfg.Shared.countError(e.Code)
	w.Reset()
	if err := w.Encode(e); err != nil {
		panic("session: unreachable: " + err.Error())
	}
	return w.Bytes()
}

// TrimArrivals frees the memory of the last reply of Admit or Refuse if that exceeds most bytes. It counts as Admit.
func (s *Session) TrimArrivals(most int) { s.arrivals.Trim(most) }

// Trim frees the memory of the last reply of Do if that exceeds most bytes, unless the client may ask for it again. It
// counts as Do.
func (s *Session) Trim(most int) {
	if s.token == "" {
		s.out.Trim(most)
	}
}

// Close closes all environments and frees the session's share of the limits. Neither Admit nor Do
// may run or be called again.
func (s *Session) Close() error {
	var err error
	for _, v := range s.vecs {
		v.async.end() // all at once
	}
	for eid := range s.vecs {
		err = errors.Join(err, s.drop(eid))
	}
	if s.greeted {
		s.greeted = false
		s.cfg.Shared.Sessions.Add(-1)
		s.quota.Held.Sessions.Add(-1)
	}
	return err
}

// drop closes a vector.
func (s *Session) drop(eid uint64) error {
	v := s.vecs[eid]
	v.async.stop()
	s.countSnaps(-len(v.snaps) * v.layout.N)
	s.listed.Lock()
	delete(s.vecs, eid)
	s.listed.Unlock()
	s.envs -= v.layout.N
	s.giveEnvs(v.layout.N)
	s.giveMemory(v.vec.Bytes() * int64(1+len(v.snaps)))
	return v.vec.Close()
}
