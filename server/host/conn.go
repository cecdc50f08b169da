package host

import (
	"context"
	"errors"
	"log/slog"
	"net"
	"sync"
	"sync/atomic"
	"time"

	"github.com/gorilla/websocket"

	"github.com/kubernasium/kubernasium/server/session"
	"github.com/kubernasium/kubernasium/server/wire"
)

// conn serves one client. One goroutine, the reader, reads and admits requests. It also carries out
// a request itself, which is fastest. If a request takes longer than takeOver, another goroutine
// becomes the reader, so that pings are answered while a step runs. The first goroutine carries out
// the requests that arrive meanwhile, and ends.
type conn struct {
	server *Server
	peer   net.Conn // for the gate
	stream *packedStream
	unix   *unixStream // nil for a WebSocket
	sess   *session.Session
	log    *slog.Logger
	free   chan *request

	ctx     context.Context // of all requests; ends when reading ends
	cancel  context.CancelFunc
	wg      sync.WaitGroup // goroutines
	ended   chan struct{}  // closed when they have ended
	watch   *time.Timer    // starts another reader
	mu      sync.Mutex
	running bool       // a request is carried out
	queue   []*request // arrived meanwhile

	write    sync.Mutex   // one frame at a time
	pending  atomic.Int64 // requests taken in, whose reply is not written
	last     atomic.Int64 // when a request last came or was answered, in Unix nanoseconds
	frame    atomic.Int64 // when the frame began that is being read, likewise; 0 if none is
	greeted  atomic.Bool
	draining atomic.Bool
	closing  sync.Once
	moved    bool // the session was resumed over another connection; guarded by server.mu
}

// request is a request with the place of its reply.
type request struct {
	session.Request
	place place
}

// takeOver is how long a request may keep the reader from reading. It is far below a delay of a
// ping that a peer could notice, and far above the time of most steps.
const takeOver = time.Millisecond

// keepBuffer is the greatest capacity that a request's buffer keeps when it is idle.
const keepBuffer = 1 << 20

func newConn(s *Server, peer net.Conn, st stream, quota *session.Quota) *conn {
	sess := session.New(s.sessions, quota)
	n := s.sessions.Limits.Inflight
	c := &conn{
		server: s, peer: peer, stream: &packedStream{stream: st, packer: s.packer}, sess: sess, log: s.log.With("sid", sess.ID()),
		free: make(chan *request, n+1), ended: make(chan struct{}),
	}
	c.watch = time.AfterFunc(time.Hour, func() {
		defer c.wg.Done()
		c.read()
	})
	c.watch.Stop()
	for range n + 1 {
		c.free <- &request{}
	}
	if unix, ok := st.(*unixStream); ok {
		c.unix = unix
		sess.OfferMemory(func() int {
			c.write.Lock() // a drain may be written
			defer c.write.Unlock()
			return unix.shared.open()
		})
	}
	return c
}

// serve returns when the connection has ended and the client's environments are freed.
func (c *conn) serve(ctx context.Context) {
	c.ctx, c.cancel = context.WithCancel(ctx)
	c.last.Store(time.Now().UnixNano())
	stopTimers := c.startTimers()
	c.wg.Go(c.read)
	c.wg.Wait()
	stopTimers()
	c.server.gate.leave(c.peer)
	c.close(websocket.CloseNormalClosure, "")
	c.unshare()
	defer close(c.ended)
	if !c.server.keep(c) {
		c.cancel()
		c.finish()
	}
}

// unshare frees the memory that the client shares. Nobody reads any more, and nobody writes replies.
func (c *conn) unshare() {
	if c.unix == nil {
		return
	}
	c.write.Lock()
	defer c.write.Unlock()
	if err := c.unix.shared.close(); err != nil {
		c.log.Error("free shared memory", "err", err)
	}
}

// finish frees the client's environments.
func (c *conn) finish() {
	if err := c.sess.Close(); err != nil {
		c.log.Error("close environments", "err", err)
	}
}

// read is the reader: it admits requests until the connection ends, or until another goroutine has
// become the reader.
func (c *conn) read() {
	for {
		req := <-c.free
		more, err := c.readOne(req)
		if err != nil {
			c.log.Debug("connection ends", "err", err)
			c.leave(err)
			c.close(websocket.CloseNormalClosure, "")
			return
		}
		if !more {
			return
		}
	}
}

// readOne reads and admits one request. more is false if this goroutine is no longer the reader.
func (c *conn) readOne(req *request) (more bool, err error) {
	req.Data, err = c.stream.ReadFrame(req.Data, &c.frame)
	c.frame.Store(0)
	if c.unix != nil {
		req.place = c.unix.shared.place
	}
	c.last.Store(time.Now().UnixNano())
	switch {
	case errors.Is(err, errText), errors.Is(err, wire.ErrPacked), errors.Is(err, errPlace):
		reason := wire.TextFrame
		if !errors.Is(err, errText) {
			reason = wire.Malformed
		}
		err = c.reply(req, c.sess.Refuse(reason, err.Error())) // a wrong place is none
		c.pending.Add(1)
		c.release(req)
		return true, err
	case errors.Is(err, wire.ErrFrameTooLarge):
		err = errors.Join(err, c.writeFrame(c.sess.Refuse(wire.TooLarge, "a frame of more bytes than limits.msg_in")))
		c.close(websocket.CloseMessageTooBig, "frame too large")
		return false, err
	case err != nil:
		return false, err
	}
	c.pending.Add(1)
	if reply := c.sess.Admit(&req.Request); reply != nil {
		if c.sess.Greeted() && !c.greeted.Load() {
			c.greeted.Store(true) // before the client may know it
			c.server.gate.leave(c.peer)
			c.server.lease(c)
		}
		err := c.reply(req, reply)
		if missed := c.sess.Missed(); missed != nil && err == nil {
			err = c.writeFrame(missed)
		}
		c.stream.on.Store(c.sess.Packs())
		c.sess.TrimArrivals(keepBuffer)
		c.release(req)
		return true, err
	}
	c.mu.Lock()
	if c.running {
		c.queue = append(c.queue, req)
		c.mu.Unlock()
		return true, nil
	}
	c.running = true
	c.mu.Unlock()
	return c.carryOut(req), nil
}

// carryOut carries out a request and, if another goroutine became the reader meanwhile, the
// requests that it queued. It reports whether this goroutine is still the reader.
func (c *conn) carryOut(req *request) (reader bool) {
	c.wg.Add(1) // for the goroutine that may take over
	c.watch.Reset(takeOver)
	c.do(req)
	reader = c.watch.Stop()
	if reader {
		c.wg.Done()
	}
	for {
		c.mu.Lock()
		if len(c.queue) == 0 {
			c.running = false
			c.mu.Unlock()
			return reader
		}
		req := c.queue[0]
		c.queue = append(c.queue[:0], c.queue[1:]...)
		c.mu.Unlock()
		c.do(req)
	}
}

func (c *conn) do(req *request) {
	req.Room = nil
	if c.unix != nil {
		req.Room = c.unix.shared.room(req.place)
	}
	if err := c.reply(req, c.sess.Do(c.ctx, &req.Request)); err != nil {
		c.close(websocket.CloseNormalClosure, "") // ends the reader
	}
	c.release(req)
}

// release recycles a request whose reply is written.
func (c *conn) release(req *request) {
	if cap(req.Data) > keepBuffer {
		*req = request{} // its frame refers to the data too
	}
	c.free <- req
	c.last.Store(time.Now().UnixNano()) // from now on a client may be idle
	if c.pending.Add(-1) == 0 && c.draining.Load() {
		c.close(websocket.CloseGoingAway, "the server stops")
	}
}

// reply writes the reply to a request, where its client wants it.
func (c *conn) reply(req *request, frame []byte) error {
	if !req.place.shared {
		return c.writeFrame(frame)
	}
	c.write.Lock()
	defer c.write.Unlock()
	return c.unix.writeShared(frame, req.place)
}

func (c *conn) writeFrame(frame []byte) error {
	c.write.Lock()
	defer c.write.Unlock()
	return c.stream.WriteFrame(frame)
}

func (c *conn) close(code int, text string) {
	c.closing.Do(func() {
		if err := c.stream.Close(code, text); err != nil {
			c.log.Debug("close connection", "err", err)
		}
	})
}

// drain notifies the client that the server stops, and closes as soon as nothing is pending.
func (c *conn) drain(within time.Duration) {
	w := wire.NewWriter()
	wire.EncodeDrain(w, within.Milliseconds())
	if err := c.writeFrame(w.Bytes()); err != nil {
		c.log.Debug("drain", "err", err)
	}
	c.draining.Store(true)
	if c.pending.Load() == 0 {
		c.close(websocket.CloseGoingAway, "the server stops")
	}
}

// startTimers closes the connection when the handshake takes too long, and when no request arrives
// for too long. Read deadlines would not do: a client that waits for a long step is not idle.
func (c *conn) startTimers() (stop func()) {
	limits := &c.server.sessions.Limits
	handshake, idle := time.Duration(limits.HandshakeMS)*time.Millisecond, time.Duration(limits.IdleMS)*time.Millisecond
	timers := []*time.Timer{every(patrolEvery, c.patrol)}
	if handshake > 0 {
		timers = append(timers, time.AfterFunc(handshake, func() {
			if !c.greeted.Load() {
				c.close(websocket.ClosePolicyViolation, "no hello")
			}
		}))
	}
	if idle > 0 {
		timers = append(timers, every(idle, func() time.Duration {
			rest := idle - time.Since(time.Unix(0, c.last.Load()))
			if c.pending.Load() > 0 {
				rest = idle
			}
			if rest <= 0 {
				c.close(websocket.CloseGoingAway, "idle")
			}
			return rest
		}))
	}
	return func() {
		for _, t := range timers {
			t.Stop()
		}
	}
}

// every calls f after d, and again after what f returns, until that is not positive.
func every(d time.Duration, f func() time.Duration) *time.Timer {
	again := make(chan *time.Timer, 1)
	t := time.AfterFunc(d, func() {
		self := <-again
		if next := f(); next > 0 {
			again <- self
			self.Reset(next)
		}
	})
	again <- t
	return t
}

const (
	patrolEvery  = 5 * time.Second
	frameTimeout = 2 * time.Minute // from a frame's beginning to its end; 16 MiB at 1.1 Mbit/s
)

// patrol closes the connection of a peer that does not end a frame, and frees the memory of long replies once there
// has been no request for a while. It returns the time of the next patrol.
func (c *conn) patrol() time.Duration {
	if c.ctx.Err() != nil {
		return 0
	}
	if began := c.frame.Load(); began != 0 && time.Since(time.Unix(0, began)) > frameTimeout {
		c.close(websocket.ClosePolicyViolation, "a frame that does not end")
		return 0
	}
	c.mu.Lock()
	defer c.mu.Unlock()
	if !c.running && time.Since(time.Unix(0, c.last.Load())) >= patrolEvery {
		c.sess.Trim(keepBuffer)
	}
	return patrolEvery
}
