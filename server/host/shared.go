package host

import (
	"errors"
	"os"
	"sync/atomic"
	"unsafe"

	"github.com/kubernasium/kubernasium/server/wire"
)

// sharedBytes is the size of the memory that a client of this machine shares with the server. Pages that neither
// has touched take none.
const sharedBytes = 64 << 20

// sharedInline is in place of a reply's offset: it had no room and follows on the socket.
const sharedInline = 1<<32 - 1

// errPlace is returned by ReadFrame for a frame that does not lie in the shared memory; the stream stays usable.
var errPlace = errors.New("a frame, or the place of its reply, outside the shared memory")

// sharedHead is the beginning of the memory: a line of the cache that the client writes, and one that the server does.
// A side announces a frame by its counter, and wakes the other one, over the socket, if that sleeps.
type sharedHead struct {
	called  atomic.Uint32 // requests in the memory
	asleep  atomic.Uint32 // not 0: the client sleeps
	_       [2]uint32
	request [4]atomic.Uint32 // length and offset; offset and room of the reply
	_       [8]uint32

	replied      atomic.Uint32 // replies to them
	serverAsleep atomic.Uint32
	_            [2]uint32
	reply        [2]atomic.Uint32 // length and offset
}

// shared is the memory that a unix stream shares with its client, which may write to it at any time. So the server
// copies a request before it looks at it, and writes a reply there without reading it. The memory cannot shrink.
type shared struct {
	memory []byte // mapped; nil without one
	head   *sharedHead
	file   *os.File // its descriptor, until it is sent with the next frame
	place  place    // of the reply to the frame that was read last
	spin   spin
}

// place is where a client wants the reply to a request in the shared memory.
type place struct {
	shared   bool
	at, room int
}

// open maps new memory and returns its size, or 0 if the system has none to share.
func (m *shared) open() int {
	file, memory, err := newShared(sharedBytes)
	if err != nil {
		return 0
	}
	m.file = file
	m.use(memory)
	return len(memory)
}

func (m *shared) use(memory []byte) {
	m.memory, m.head = memory, (*sharedHead)(unsafe.Pointer(&memory[0]))
	m.spin = spin{head: m.head}
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
		*m = shared{}
	}
	return err
}

// readShared is ReadFrame for a request in the shared memory.
func (s *unixStream) readShared(buf []byte) ([]byte, error) {
	m := &s.shared
	m.spin.taken = m.head.called.Load()
	var words [4]uint64
	for i := range words {
		words[i] = uint64(m.head.request[i].Load())
	}
	n, from, at, room, size := words[0], words[1], words[2], words[3], uint64(len(m.memory))
	m.place = place{}
	switch {
	case n > uint64(s.limit):
		return buf, wire.ErrFrameTooLarge
	case from+n > size || at+room > size:
		return buf[:0], errPlace
	}
	m.place = place{true, int(at), int(room)}
	return append(buf[:0], m.memory[from:from+n]...), nil
}

// room returns the memory of a place.
func (m *shared) room(p place) []byte {
	if !p.shared {
		return nil
	}
	return m.memory[p.at : p.at : p.at+p.room]
}

// writeShared writes the reply to a frame that came with the place p, where it may lie already.
func (s *unixStream) writeShared(frame []byte, p place) error {
	h := s.shared.head
	h.reply[0].Store(uint32(len(frame)))
	if len(frame) > p.room {
		h.reply[1].Store(sharedInline)
		h.replied.Add(1)
		return s.WriteFrame(frame)
	}
	if dst := s.shared.memory[p.at : p.at+len(frame)]; len(frame) > 0 && &dst[0] != &frame[0] {
		copy(dst, frame)
	}
	h.reply[1].Store(uint32(p.at))
	h.replied.Add(1)
	if h.asleep.Load() == 0 {
		return nil
	}
	return s.WriteFrame(nil)
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
