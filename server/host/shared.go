package host

import (
	"encoding/binary"
	"errors"
	"os"
	"time"

	"github.com/kubernasium/kubernasium/server/wire"
)

// sharedBytes is the size of the memory that a client of this machine shares with the server. Pages that neither
// has touched take none.
const sharedBytes = 64 << 20

const (
	sharedMark   = 1 << 31   // in the length of a frame: it lies in the shared memory
	sharedHead   = 16        // bytes on the socket for such a request: length, offset, offset and room of the reply
	sharedInline = 1<<32 - 1 // in place of a reply's offset: it had no room and follows on the socket
)

// errPlace is returned by ReadFrame for a frame that does not lie in the shared memory; the stream stays usable.
var errPlace = errors.New("a frame, or the place of its reply, outside the shared memory")

// shared is the memory that a unix stream shares with its client, which may write to it at any time. So the server
// copies a request before it looks at it, and never reads a reply back. The memory cannot shrink.
type shared struct {
	memory []byte   // mapped; nil without one
	file   *os.File // its descriptor, until it is sent with the next frame
	place  place    // of the reply to the frame that was read last
	spin   spin
	head   [8]byte // of the reply being written
}

// place is where a client wants the reply to a request in the shared memory.
type place struct {
	shared   bool
	at, room int
}

// marks reports whether a frame whose length is head lies in the shared memory.
func (m *shared) marks(head []byte) bool {
	return m.memory != nil && binary.LittleEndian.Uint32(head)&sharedMark != 0
}

// open maps new memory and returns its size, or 0 if the system has none to share.
func (m *shared) open() int {
	file, memory, err := newShared(sharedBytes)
	if err != nil {
		return 0
	}
	m.file, m.memory = file, memory
	m.spin = newSpin(memory)
	return len(memory)
}

// close unmaps the memory. Neither ReadFrame nor writeShared may run or be called again.
func (m *shared) close() error {
	var err error
	if m.file != nil {
		err = m.file.Close()
		m.file = nil
	}
	if m.memory != nil {
		err = errors.Join(err, unmapShared(m.memory))
		m.memory, m.spin = nil, spin{}
	}
	return err
}

// readShared is ReadFrame for a frame in the shared memory.
func (s *unixStream) readShared(buf []byte) ([]byte, error) {
	head, err := s.r.Peek(sharedHead)
	if err != nil {
		return buf, err
	}
	le, size := binary.LittleEndian, uint64(len(s.shared.memory))
	n, from := uint64(le.Uint32(head)&^sharedMark), uint64(le.Uint32(head[4:]))
	at, room := uint64(le.Uint32(head[8:])), uint64(le.Uint32(head[12:]))
	if _, err := s.r.Discard(sharedHead); err != nil {
		return buf, err
	}
	s.shared.place = place{}
	switch {
	case n > uint64(s.limit):
		return buf, wire.ErrFrameTooLarge
	case from+n > size || at+room > size:
		return buf[:0], errPlace
	}
	s.shared.place = place{true, int(at), int(room)}
	return append(buf[:0], s.shared.memory[from:from+n]...), nil
}

// writeShared writes the reply to a frame that came with the place p.
func (s *unixStream) writeShared(frame []byte, p place) error {
	if err := s.conn.SetWriteDeadline(time.Now().Add(writeTimeout)); err != nil {
		return err
	}
	head := s.shared.head[:]
	binary.LittleEndian.PutUint32(head, uint32(len(frame))|sharedMark)
	if len(frame) <= p.room {
		copy(s.shared.memory[p.at:], frame)
		binary.LittleEndian.PutUint32(head[4:], uint32(p.at))
		_, err := s.conn.Write(head)
		s.shared.spin.wrote()
		return err
	}
	binary.LittleEndian.PutUint32(head[4:], sharedInline)
	s.pair = [2][]byte{head, frame}
	s.buffers = s.pair[:]
	_, err := s.buffers.WriteTo(s.conn)
	s.shared.spin.wrote()
	return err
}

// writeWithFile writes a frame and sends the descriptor of the memory with it. The prefix is set.
func (s *unixStream) writeWithFile(frame []byte) error {
	file := s.shared.file
	s.shared.file = nil
	data := append(s.prefix[:], frame...)
	n, err := sendFile(s.conn, data, file)
	err = errors.Join(err, file.Close())
	if err == nil && n < len(data) {
		_, err = s.conn.Write(data[n:])
	}
	return err
}
