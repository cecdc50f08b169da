package host

import (
	"bufio"
	"encoding/binary"
	"errors"
	"io"
	"net"
	"slices"
	"sync/atomic"
	"time"

	"github.com/gorilla/websocket"

	"github.com/kubernasium/kubernasium/server/wire"
)

// A stream carries frames. One goroutine at a time calls ReadFrame, and one, perhaps another,
// WriteFrame. Any may call Close.
type stream interface {
	// ReadFrame reads a frame into buf, which it grows as needed, and returns it. It writes to began when the frame
	// began, in Unix nanoseconds.
	ReadFrame(buf []byte, began *atomic.Int64) ([]byte, error)
	WriteFrame(frame []byte) error
	// Close sends the peer the reason, if it can, and ends the stream.
	Close(code int, text string) error
}

// errText is returned by ReadFrame for a text message; the stream stays usable. After
// wire.ErrFrameTooLarge it is unusable.
var errText = errors.New("a text message, want binary ones")

// writeTimeout is how long a peer may block a write before the connection is closed.
const writeTimeout = 30 * time.Second

// wsStream is a stream over a WebSocket.
type wsStream struct {
	conn  *websocket.Conn
	limit int // bytes of a frame
}

func (s *wsStream) ReadFrame(buf []byte, began *atomic.Int64) ([]byte, error) {
	kind, r, err := s.conn.NextReader()
	if err != nil {
		return buf, err
	}
	began.Store(time.Now().UnixNano())
	buf, err = wire.ReadAll(r, buf, s.limit)
	if err == nil && kind == websocket.TextMessage {
		return buf, errText
	}
	return buf, err
}

func (s *wsStream) WriteFrame(frame []byte) error {
	if err := s.conn.SetWriteDeadline(time.Now().Add(writeTimeout)); err != nil {
		return err
	}
	return s.conn.WriteMessage(websocket.BinaryMessage, frame)
}

func (s *wsStream) Close(code int, text string) error {
	msg := websocket.FormatCloseMessage(code, text)
	_ = s.conn.WriteControl(websocket.CloseMessage, msg, time.Now().Add(time.Second)) // the peer may be gone
	if code == websocket.CloseMessageTooBig {
		discard(s.conn.NetConn())
	}
	return s.conn.Close()
}

// discard reads the rest of a frame that was too large, for a limited time. Otherwise the kernel
// would reset the connection, and the peer would not see the reason.
func discard(conn net.Conn) {
	if conn.SetReadDeadline(time.Now().Add(time.Second)) == nil {
		_, _ = io.Copy(io.Discard, io.LimitReader(conn, 64<<20)) // its end is all that matters
	}
}

// unixStream is a stream over a connection on which each frame follows its length.
type unixStream struct {
	conn  net.Conn
	r     *bufio.Reader
	limit int

	prefix  [4]byte // of the frame being written
	pair    [2][]byte
	buffers net.Buffers

	shared shared
}

func newUnixStream(conn net.Conn, limit int) *unixStream {
	return &unixStream{conn: conn, r: bufio.NewReaderSize(conn, 16<<10), limit: limit}
}

func (s *unixStream) ReadFrame(buf []byte, began *atomic.Int64) ([]byte, error) {
	head, called, err := s.next()
	if called {
		return s.readShared(buf)
	}
	if err != nil {
		return buf, err
	}
	s.shared.place = place{}
	n := int(binary.LittleEndian.Uint32(head))
	if n > s.limit {
		return buf, wire.ErrFrameTooLarge
	}
	if _, err := s.r.Discard(4); err != nil {
		return buf, err
	}
	if s.r.Buffered() < n {
		began.Store(time.Now().UnixNano())
	}
	if n > keepBuffer { // a peer that only claims it gets no memory
		buf, err = wire.ReadAll(io.LimitReader(s.r, int64(n)), buf, n)
		if err == nil && len(buf) < n {
			err = io.ErrUnexpectedEOF
		}
		return buf, err
	}
	buf = slices.Grow(buf[:0], n)[:n]
	_, err = io.ReadFull(s.r, buf)
	return buf, err
}

// next waits for a request: one that lies in the shared memory, or one on the socket, whose length it returns. A client
// puts a request into the memory only when the server has read what it sent before, so that one comes first.
func (s *unixStream) next() (head []byte, called bool, err error) {
	spin := &s.shared.spin
	for {
		if s.r.Buffered() == 0 && spin.wait() {
			return nil, true, nil
		}
		head, err = s.r.Peek(4)
		spin.wake()
		if spin.called() {
			return nil, true, nil
		}
		if err != nil || s.shared.memory == nil || binary.LittleEndian.Uint32(head) > 0 {
			return head, false, err
		}
		if _, err := s.r.Discard(4); err != nil { // it only says to look into the memory
			return nil, false, err
		}
	}
}

func (s *unixStream) WriteFrame(frame []byte) error {
	if err := s.conn.SetWriteDeadline(time.Now().Add(writeTimeout)); err != nil {
		return err
	}
	binary.LittleEndian.PutUint32(s.prefix[:], uint32(len(frame)))
	if s.shared.file != nil {
		return s.writeWithFile(frame)
	}
	s.pair = [2][]byte{s.prefix[:], frame}
	s.buffers = s.pair[:]
	_, err := s.buffers.WriteTo(s.conn)
	return err
}

func (s *unixStream) Close(code int, _ string) error {
	if code == websocket.CloseMessageTooBig {
		discard(s.conn)
	}
	return s.conn.Close()
}
