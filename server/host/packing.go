package host

import (
	"sync/atomic"

	"github.com/kubernasium/kubernasium/server/wire"
)

// packedStream is a stream whose frames may be compressed once the client has asked for it. Until then it passes them
// on as they are.
type packedStream struct {
	stream
	packer *wire.Packer
	on     atomic.Bool

	spare []byte // the buffer that the next compressed frame is restored to
	out   []byte // the last reply, compressed
}

func (s *packedStream) ReadFrame(buf []byte, began *atomic.Int64) ([]byte, error) {
	buf, err := s.stream.ReadFrame(buf, began)
	if err != nil || !s.on.Load() || !wire.Packed(buf) {
		return buf, err
	}
	frame, err := s.packer.Unpack(s.spare, buf)
	if err != nil {
		return buf, err
	}
	if s.spare = buf; cap(buf) > keepBuffer {
		s.spare = nil
	}
	return frame, nil
}

func (s *packedStream) WriteFrame(frame []byte) error {
	if !s.on.Load() {
		return s.stream.WriteFrame(frame)
	}
	packed := s.packer.Pack(s.out, frame)
	if len(packed) < len(frame) {
		if s.out = packed; cap(packed) > keepBuffer {
			s.out = nil
		}
	}
	return s.stream.WriteFrame(packed)
}
