package wire

import (
	"bytes"
	"encoding/hex"
	"encoding/json"
	"os"
	"testing"

	"github.com/kubernasium/kubernasium/envs/space"
)

func seedGolden(f *testing.F) {
	data, err := os.ReadFile("testdata/frames.json")
	if err != nil {
		f.Fatal(err)
	}
	var frames []goldenFrame
	if err := json.Unmarshal(data, &frames); err != nil {
		f.Fatal(err)
	}
	for _, g := range frames {
		b, err := hex.DecodeString(g.Hex)
		if err != nil {
			f.Fatal(err)
		}
		f.Add(b)
	}
}

// FuzzFrame feeds a server's decoders: none may panic, whatever comes.
func FuzzFrame(f *testing.F) {
	seedGolden(f)
	layouts := []*Layout{
		newLayout(f, 2, boxSpace, space.Discrete{N: 3}, infoColumns),
		newLayout(f, 1, boxSpace, space.Discrete{N: 3}, nil),
		newLayout(f, 2, boxSpace, dictSpace, nil),
	}
	f.Fuzz(func(t *testing.T, data []byte) {
		var fr Frame
		if err := fr.Parse(data, DefaultBounds); err != nil {
			if _, ok := err.(*Error); !ok {
				t.Fatalf("Parse: %T %v, want *Error", err, err)
			}
			return
		}
		for _, l := range layouts {
			_ = l.DecodeActions(&fr, make([]float32, l.N*l.ActSize)) // errors are welcome
		}
		_, _ = fr.Seeds(2)
		_, _ = fr.ResetMask(2)
		_, _ = fr.Rows(2)
		_, _ = fr.Str("policy")
		_, _ = fr.Str("name")
		_, _ = fr.Bool("arrays")
		_, _, _ = fr.Uint("eid")
		for _, v := range []any{&Hello{}, &EnvsRequest{}, &MakeRequest{}, &RenderRequest{}, &EIDRequest{}} {
			_ = fr.Decode(v)
		}
	})
}

// FuzzReply feeds a client's decoders.
func FuzzReply(f *testing.F) {
	seedGolden(f)
	f.Fuzz(func(t *testing.T, data []byte) {
		var fr Frame
		if fr.Parse(data, DefaultBounds) != nil {
			return
		}
		for _, l := range []*Layout{
			newLayout(t, 2, boxSpace, space.Discrete{N: 3}, infoColumns),
			newLayout(t, 2, dictSpace, space.MultiDiscrete{NVec: []int{2, 3}}, nil),
		} {
			r := newRows(l)
			_ = l.DecodeStep(&fr, r) // errors are welcome
			_ = l.DecodeEpisodes(&fr, r)
			_ = l.DecodeReset(&fr, r)
			_, _ = l.DecodeRollout(&fr, r)
			if rows, err := RecvRows(&fr, l.N); err == nil && len(rows) == l.N {
				r.Failed = make([]error, l.N)
				_ = l.DecodeStep(&fr, r)
			}
			_ = l.DecodeState(&fr, r)
			_ = l.DecodePolicy(&fr, make([]float32, l.N*l.ActSize), make([]bool, l.N))
		}
		_, _ = fr.Image("frame")
		var m MakeReply
		if fr.Decode(&m) == nil {
			if obs, err := space.FromDescription(m.ObsSpace); err == nil && obs.Size() < 1e6 {
				_, _ = NewLayout(1, obs, space.Discrete{N: 2}, m.Spec.Info)
			}
		}
		for _, v := range []any{&Welcome{}, &EnvsReply{}, &Error{}, &StatsReply{}} {
			_ = fr.Decode(v)
		}
	})
}

// FuzzArray checks that an array that is accepted is the one that its parts make again.
func FuzzArray(f *testing.F) {
	w := NewWriter()
	w.Array(Float32, 2, 3)
	f.Add(bytes.Clone(w.Bytes()))
	w.Reset()
	w.Array(Bool)
	f.Add(bytes.Clone(w.Bytes()))
	f.Fuzz(func(t *testing.T, data []byte) {
		end, err := DefaultBounds.skip(data, 0, 0)
		if err != nil || end == 0 {
			return
		}
		var a Array
		if parseArray(data[:end], &a) != nil {
			return
		}
		n := a.DType.ItemSize()
		for _, s := range a.Shape() {
			n *= int(s)
		}
		if n != len(a.Data) {
			t.Fatalf("shape %v of %s with %d bytes", a.Shape(), a.DType, len(a.Data))
		}
		dst := make([]float32, a.Len())
		_ = getFloat32s(dst, &a) // of any dtype
	})
}

// FuzzUnpack: no input makes a Packer panic, or return more than its limit; what it restores it packs to the same again.
func FuzzUnpack(f *testing.F) {
	p := NewPacker(1 << 12)
	f.Add(p.Pack(nil, frameOf(1000)))
	f.Add(zstdMagic)
	f.Add(frameOf(600))
	f.Fuzz(func(t *testing.T, data []byte) {
		frame, err := p.Unpack(nil, data)
		if len(frame) > p.limit || err != nil && len(frame) > 0 {
			t.Fatalf("%d bytes, %v", len(frame), err)
		}
		if packed := p.Pack(nil, frame); Packed(packed) && err == nil {
			if again, err := p.Unpack(nil, packed); err != nil || !bytes.Equal(again, frame) {
				t.Fatalf("%d bytes came back as %d, %v", len(frame), len(again), err)
			}
		}
	})
}
