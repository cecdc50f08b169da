package wire

import (
	"errors"
	"io"
	"slices"
)

// ErrFrameTooLarge is returned by [ReadAll] for more bytes than its limit.
var ErrFrameTooLarge = errors.New("wire: frame too large")

// firstRead is the least capacity of a buffer: most frames fit.
const firstRead = 1 << 10

// ReadAll reads r to its end into buf, up to limit bytes, and returns it. Unlike io.ReadAll it
// reuses the given buffer.
func ReadAll(r io.Reader, buf []byte, limit int) ([]byte, error) {
	if cap(buf) < firstRead {
		buf = make([]byte, 0, firstRead)
	}
	buf = buf[:0]
	for {
		if len(buf) == cap(buf) {
			buf = slices.Grow(buf, len(buf))
		}
		n, err := r.Read(buf[len(buf):cap(buf)])
		buf = buf[:len(buf)+n]
		if len(buf) > limit {
			return buf, ErrFrameTooLarge
		}
		if errors.Is(err, io.EOF) {
			return buf, nil
		}
		if err != nil {
			return buf, err
		}
	}
}
