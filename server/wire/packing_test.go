package wire

import (
	"bytes"
	"encoding/hex"
	"errors"
	"math/rand/v2"
	"slices"
	"sync"
	"testing"

	"github.com/klauspost/compress/zstd"
)

// frameOf returns a frame of n bytes that repeat, as observations do.
func frameOf(n int) []byte { return bytes.Repeat([]byte{0x81, 0xa1, 't', 1, 2, 3, 4, 5}, n/8+1)[:n] }

// noise returns n bytes that nothing compresses.
func noise(n int) []byte {
	rng := rand.NewChaCha8([32]byte{1})
	b := make([]byte, n)
	_, _ = rng.Read(b) // it never fails
	return b
}

func TestPack(t *testing.T) {
	p := NewPacker(1 << 16)
	for name, frame := range map[string][]byte{"short": frameOf(PackFrom - 1), "noise": noise(4096)} {
		if got := p.Pack(nil, frame); !bytes.Equal(got, frame) || Packed(got) {
			t.Errorf("%s: compressed to %d bytes, want the %d as they are", name, len(got), len(frame))
		}
	}
	var group sync.WaitGroup
	for range 8 {
		group.Go(func() {
			var packed, back []byte
			for _, n := range []int{PackFrom, 5000, 1 << 16, 700} {
				frame := frameOf(n)
				packed = p.Pack(packed, frame)
				if !Packed(packed) || len(packed) > n/2 {
					t.Errorf("%d bytes: compressed to %d", n, len(packed))
				}
				var err error
				if back, err = p.Unpack(back, packed); err != nil || !bytes.Equal(back, frame) {
					t.Errorf("%d bytes: %d and %v, want them back", n, len(back), err)
				}
			}
		})
	}
	group.Wait()
}

// cliFrame is a file of 1,000 letters a, compressed by the program zstd 1.5.4 (zstd -1 --no-check).
const cliFrame = "28b52ffd60e8024d00001061610100e32b8005"

func TestUnpackRefuses(t *testing.T) {
	enc, err := zstd.NewWriter(nil)
	if err != nil {
		t.Fatal(err)
	}
	good := enc.EncodeAll(frameOf(1000), nil)
	var stream bytes.Buffer // its header has no size
	w, err := zstd.NewWriter(&stream)
	if err != nil {
		t.Fatal(err)
	}
	for range 3 {
		if _, err := w.Write(frameOf(1000)); err != nil {
			t.Fatal(err)
		}
		if err := w.Flush(); err != nil {
			t.Fatal(err)
		}
	}
	if err := w.Close(); err != nil {
		t.Fatal(err)
	}
	lies := slices.Clone(good)
	var h zstd.Header
	if err := h.Decode(lies); err != nil {
		t.Fatal(err)
	}
	lies[h.HeaderSize-2]++ // the size of its content, of two bytes, ends the header
	for name, c := range map[string]struct {
		packed []byte
		want   error
	}{
		"cut":          {good[:len(good)-1], ErrPacked},
		"magic alone":  {zstdMagic, ErrPacked},
		"no size":      {stream.Bytes(), ErrPacked},
		"two frames":   {append(slices.Clone(good), good...), ErrPacked},
		"a wrong size": {lies, ErrPacked},
		"skippable":    {[]byte{0x50, 0x2a, 0x4d, 0x18, 0, 0, 0, 0}, ErrPacked},
		"too large":    {enc.EncodeAll(frameOf(2001), nil), ErrFrameTooLarge},
		"a bomb":       {enc.EncodeAll(make([]byte, 1<<24), nil), ErrFrameTooLarge},
	} {
		got, err := NewPacker(2000).Unpack(nil, c.packed)
		if !errors.Is(err, c.want) || len(got) > 0 || cap(got) > 4000 {
			t.Errorf("%s: %d bytes of %d, %v, want %v", name, len(got), cap(got), err, c.want)
		}
	}
	if got, err := NewPacker(2000).Unpack(nil, enc.EncodeAll(frameOf(2000), nil)); err != nil || !bytes.Equal(got, frameOf(2000)) {
		t.Errorf("as many bytes as are permitted: %v", err)
	}
}

// TestUnpackForeign reads what another implementation wrote.
func TestUnpackForeign(t *testing.T) {
	packed, err := hex.DecodeString(cliFrame)
	if err != nil {
		t.Fatal(err)
	}
	if got, err := NewPacker(1000).Unpack(nil, packed); err != nil || !bytes.Equal(got, bytes.Repeat([]byte("a"), 1000)) {
		t.Errorf("%d bytes, %v", len(got), err)
	}
}
