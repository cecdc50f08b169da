package wire

import (
	"bytes"
	"errors"
	"fmt"
	"runtime"

	"github.com/klauspost/compress/zstd"
)

// PackFrom is the number of bytes from which a frame is worth compressing.
const PackFrom = 512

// ErrPacked is returned by [Packer.Unpack] for a compressed frame that cannot be read.
var ErrPacked = errors.New("want one zstd frame with the size of its content in its header")

// zstdMagic begins a compressed frame. No other frame begins so: its first byte would be a number, where a map stands.
var zstdMagic = []byte{0x28, 0xb5, 0x2f, 0xfd}

// packWindow bounds the memory of one encoder, and how far back it looks for repetitions.
const packWindow = 1 << 20

// A Packer compresses frames and restores them (the optional part zstd). Several goroutines may use it at once.
type Packer struct {
	limit int
	enc   *zstd.Encoder
	dec   *zstd.Decoder
}

// NewPacker returns a Packer which restores frames of at most limit bytes.
func NewPacker(limit int) *Packer {
	workers := runtime.GOMAXPROCS(0)
	enc, errEnc := zstd.NewWriter(nil, zstd.WithEncoderLevel(zstd.SpeedFastest), zstd.WithWindowSize(packWindow),
		zstd.WithEncoderConcurrency(workers), zstd.WithLowerEncoderMem(true))
	dec, errDec := zstd.NewReader(nil, zstd.WithDecoderMaxMemory(uint64(max(packWindow, limit))), zstd.WithDecoderConcurrency(workers),
		zstd.WithDecoderLowmem(true))
	if err := errors.Join(errEnc, errDec); err != nil {
		panic("wire: unreachable: " + err.Error()) // the options are constants in their ranges
	}
	return &Packer{limit: limit, enc: enc, dec: dec}
}

// Packed reports whether frame is compressed.
func Packed(frame []byte) bool { return bytes.HasPrefix(frame, zstdMagic) }

// Pack returns frame compressed, in dst, or frame itself if that is shorter or shorter than [PackFrom].
func (p *Packer) Pack(dst, frame []byte) []byte {
	if len(frame) < PackFrom {
		return frame
	}
	if packed := p.enc.EncodeAll(frame, dst[:0]); len(packed) < len(frame) {
		return packed
	}
	return frame
}

// Unpack restores a compressed frame into dst, which it lengthens as needed. It returns [ErrFrameTooLarge] for one that
// holds more than the limit, before it allocates memory for it.
func (p *Packer) Unpack(dst, packed []byte) ([]byte, error) {
	var h zstd.Header
	if err := h.Decode(packed); err != nil || h.Skippable || !h.HasFCS {
		return dst[:0], ErrPacked
	}
	if h.FrameContentSize > uint64(p.limit) {
		return dst[:0], ErrFrameTooLarge
	}
	frame, err := p.dec.DecodeAll(packed, dst[:0])
	switch {
	case errors.Is(err, zstd.ErrDecoderSizeExceeded):
		return dst[:0], ErrFrameTooLarge
	case err != nil:
		return dst[:0], fmt.Errorf("%w: %w", ErrPacked, err)
	case uint64(len(frame)) != h.FrameContentSize: // several frames
		return dst[:0], ErrPacked
	}
	return frame, nil
}
