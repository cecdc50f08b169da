package wire

import (
	"bytes"
	"errors"
	"fmt"
	"runtime"

	"github.com/klauspost/compress/zstd"
)

// PackFrom is the least number of bytes of a compressed frame: smaller ones are not worth compressing.
const PackFrom = 512

// ErrPacked is returned by [Packer.Unpack] for a compressed frame that cannot be read.
var ErrPacked = errors.New("want one zstd frame with the size of its content in its header")

// zstdMagic starts a compressed frame. Other frames start with a map, and this first byte would be a number.
var zstdMagic = []byte{0x28, 0xb5, 0x2f, 0xfd}

// packWindow bounds the memory of an encoder, and how far back it searches for repetitions.
const packWindow = 1 << 20

// A Packer compresses and decompresses frames (the optional part zstd). It is safe for concurrent use.
type Packer struct {
	limit int
	enc   *zstd.Encoder
	dec   *zstd.Decoder
}

// NewPacker returns a Packer that decompresses frames of at most limit bytes.
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

// Pack returns frame, compressed into dst, or frame itself if that is shorter, or shorter than [PackFrom].
func (p *Packer) Pack(dst, frame []byte) []byte {
	if len(frame) < PackFrom {
		return frame
	}
	if packed := p.enc.EncodeAll(frame, dst[:0]); len(packed) < len(frame) {
		return packed
	}
	return frame
}

// Unpack decompresses a frame into dst, which it extends as needed. If the frame exceeds the limit, it returns
// [ErrFrameTooLarge] before it allocates memory.
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
