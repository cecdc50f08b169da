package host

import (
	"context"
	"errors"
	"log/slog"
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
	stream stream
	sess   *session.Session
	log    *slog.Logger
	free   chan *session.Request

	ctx     context.Context // of all requests; ends when reading ends
	cancel  context.CancelFunc
	wg      sync.WaitGroup // goroutines
	watch   *time.Timer    // starts another reader
	mu      sync.Mutex
	running bool               // a request is carried out
	queue   []*session.Request // arrived meanwhile

	write    sync.Mutex   // one frame at a time
	pending  atomic.Int64 // requests taken in, whose reply is not written
	last     atomic.Int64 // when a request last came or was answered, in Unix nanoseconds
	greeted  atomic.Bool
	draining atomic.Bool
	closing  sync.Once
}

// takeOver is how long a request may keep the reader from reading. It is far below a delay of a
// ping that a peer could notice, and far above the time of most steps.
const takeOver = time.Millisecond

// keepBuffer is the greatest capacity that a request's buffer keeps when it is idle.
const keepBuffer = 1 << 20

func newConn(s *Server, st stream) *conn {
	sess := session.New(s.sessions)
	n := s.sessions.Limits.Inflight
	c := &conn{
		server: s, stream: st, sess: sess, log: s.log.With("sid", sess.ID()),
		free: make(chan *session.Request, n+1),
	}
	c.watch = time.AfterFunc(time.Hour, func() {
		defer c.wg.Done()
		c.read()
	})
	c.watch.Stop()
	for range n + 1 {
		c.free <- &session.Request{}
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
	c.cancel()
	c.close(websocket.CloseNormalClosure, "")
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
			c.cancel()
			c.close(websocket.CloseNormalClosure, "")
			return
		}
		if !more {
			return
		}
	}
}

// readOne reads and admits one request. more is false if this goroutine is no longer the reader.
func (c *conn) readOne(req *session.Request) (more bool, err error) {
	req.Data, err = c.stream.ReadFrame(req.Data)
	c.last.Store(time.Now().UnixNano())
	switch {
	case errors.Is(err, errText):
		err = c.writeFrame(c.sess.Refuse(wire.TextFrame, "a text message, want binary ones"))
		c.free <- req
		return true, err
	case errors.Is(err, wire.ErrFrameTooLarge):
		err = errors.Join(err, c.writeFrame(c.sess.Refuse(wire.TooLarge, "a frame of more bytes than limits.msg_in")))
		c.close(websocket.CloseMessageTooBig, "frame too large")
		return false, err
	case err != nil:
		return false, err
	}
	c.pending.Add(1)
	if reply := c.sess.Admit(req); reply != nil {
		c.greeted.Store(c.sess.Greeted()) // before the client may know it
		err := c.writeFrame(reply)
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
func (c *conn) carryOut(req *session.Request) (reader bool) {
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

func (c *conn) do(req *session.Request) {
	if err := c.writeFrame(c.sess.Do(c.ctx, req)); err != nil {
		c.close(websocket.CloseNormalClosure, "") // ends the reader
	}
	c.release(req)
}

// release recycles a request whose reply is written.
func (c *conn) release(req *session.Request) {
	if cap(req.Data) > keepBuffer {
		req.Data = nil
	}
	c.free <- req
	c.last.Store(time.Now().UnixNano()) // from now on a client may be idle
	if c.pending.Add(-1) == 0 && c.draining.Load() {
		c.close(websocket.CloseGoingAway, "the server stops")
	}
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

// drain tells the client that the server stops, and closes as soon as nothing is pending.
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
	var timers []*time.Timer
	if handshake > 0 {
		timers = append(timers, time.AfterFunc(handshake, func() {
			if !c.greeted.Load() {
				c.close(websocket.ClosePolicyViolation, "no hello")
			}
		}))
	}
	if idle > 0 {
		again := make(chan *time.Timer, 1)
		t := time.AfterFunc(idle, func() {
			self := <-again
			rest := idle - time.Since(time.Unix(0, c.last.Load()))
			if c.pending.Load() > 0 {
				rest = idle
			}
			if rest <= 0 {
				c.close(websocket.CloseGoingAway, "idle")
				return
			}
			again <- self
			self.Reset(rest)
		})
		again <- t
		timers = append(timers, t)
	}
	return func() {
		for _, t := range timers {
			t.Stop()
		}
	}
}
