package pcg

import (
	"encoding"
	"encoding/hex"
	"encoding/json"
	"errors"
	"math/rand/v2"
	"os"
	"strconv"
	"testing"

	"github.com/google/go-cmp/cmp"
)

// stream is the stream of NumPy for one seed, as testdata/record.py recorded it.
type stream struct {
	Seed        uint64   `json:"seed,string"`
	Words       []string `json:"words"`
	State       string   `json:"state"`
	Inc         string   `json:"inc"`
	Raw         []string `json:"raw"`
	Raw1000     uint64   `json:"raw1000,string"`
	Random      []string `json:"random"`
	Uniform     []string `json:"uniform"`
	UniformWide []string `json:"uniform_wide"`
}

func recorded(t *testing.T) []stream {
	t.Helper()
	data, err := os.ReadFile("testdata/pcg64.json")
	if err != nil {
		t.Fatal(err)
	}
	var doc struct{ Streams []stream }
	if err := json.Unmarshal(data, &doc); err != nil {
		t.Fatal(err)
	}
	if len(doc.Streams) == 0 {
		t.Fatal("testdata/pcg64.json has no streams")
	}
	return doc.Streams
}

func TestSeedWords(t *testing.T) {
	for _, rec := range recorded(t) {
		var got []string
		for _, w := range seedWords(rec.Seed) {
			got = append(got, strconv.FormatUint(w, 10))
		}
		if diff := cmp.Diff(rec.Words, got); diff != "" {
			t.Errorf("seedWords(%d) (-NumPy +got):\n%s", rec.Seed, diff)
		}
	}
}

func TestState(t *testing.T) {
	for _, rec := range recorded(t) {
		b, err := New(rec.Seed).MarshalBinary()
		if err != nil {
			t.Fatal(err)
		}
		if got, want := hex.EncodeToString(b[len(stateMagic):]), rec.State+rec.Inc; got != want {
			t.Errorf("New(%d): state and increment are %s, want NumPy's %s", rec.Seed, got, want)
		}
	}
}

func TestUint64(t *testing.T) {
	for _, rec := range recorded(t) {
		s := New(rec.Seed)
		var got []string
		for range rec.Raw {
			got = append(got, strconv.FormatUint(s.Uint64(), 10))
		}
		if diff := cmp.Diff(rec.Raw, got); diff != "" {
			t.Errorf("New(%d).Uint64() (-NumPy +got):\n%s", rec.Seed, diff)
		}
		for range 1000 - len(rec.Raw) {
			s.Uint64()
		}
		if got := s.Uint64(); got != rec.Raw1000 {
			t.Errorf("New(%d).Uint64() after 1000 outputs = %d, want NumPy's %d", rec.Seed, got, rec.Raw1000)
		}
	}
}

func TestDoubles(t *testing.T) {
	tests := []struct {
		name string
		want func(stream) []string
		draw func(*Source) float64
	}{
		{"Float64", func(r stream) []string { return r.Random }, (*Source).Float64},
		{"Uniform(-0.05, 0.05)", func(r stream) []string { return r.Uniform }, func(s *Source) float64 { return s.Uniform(-0.05, 0.05) }},
		{"Uniform(-3.7, 1e9)", func(r stream) []string { return r.UniformWide }, func(s *Source) float64 { return s.Uniform(-3.7, 1e9) }},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			for _, rec := range recorded(t) {
				s := New(rec.Seed)
				for i, text := range tt.want(rec) {
					want, err := strconv.ParseFloat(text, 64)
					if err != nil {
						t.Fatal(err)
					}
					if got := tt.draw(s); got != want {
						t.Errorf("seed %d, draw %d = %x, want NumPy's %x", rec.Seed, i, got, want)
					}
				}
			}
		})
	}
}

func TestSourceOfRand(t *testing.T) {
	s, rng := New(7), rand.New(New(7))
	for range 100 {
		if got, want := Double(rng.Uint64()), s.Float64(); got != want {
			t.Fatalf("Double(rng.Uint64()) = %v, want %v", got, want)
		}
	}
}

func TestSeedStartsAnew(t *testing.T) {
	s := New(1)
	s.Uint64()
	s.Seed(123)
	if *s != *New(123) {
		t.Error("Seed(123) of a used source differs from New(123)")
	}
}

func TestResume(t *testing.T) {
	s := New(42)
	for range 17 {
		s.Uint64()
	}
	state, err := s.AppendBinary([]byte("prefix"))
	if err != nil {
		t.Fatal(err)
	}
	var resumed Source
	if err := resumed.UnmarshalBinary(state[len("prefix"):]); err != nil {
		t.Fatal(err)
	}
	for range 1000 {
		if got, want := resumed.Uint64(), s.Uint64(); got != want {
			t.Fatalf("resumed source gives %d, want %d", got, want)
		}
	}
}

var (
	_ encoding.BinaryMarshaler   = (*Source)(nil)
	_ encoding.BinaryUnmarshaler = (*Source)(nil)
	_ encoding.BinaryAppender    = (*Source)(nil)
)

func TestUnmarshalRejects(t *testing.T) {
	good, _ := New(1).MarshalBinary()
	tests := map[string]func(b []byte) []byte{
		"empty":          func([]byte) []byte { return nil },
		"short":          func(b []byte) []byte { return b[:len(b)-1] },
		"long":           func(b []byte) []byte { return append(b, 0) },
		"other magic":    func(b []byte) []byte { b[0] = 'q'; return b },
		"even increment": func(b []byte) []byte { b[len(b)-1] &^= 1; return b },
	}
	for name, spoil := range tests {
		t.Run(name, func(t *testing.T) {
			s := New(9)
			err := s.UnmarshalBinary(spoil(append([]byte(nil), good...)))
			if !errors.Is(err, ErrState) {
				t.Errorf("UnmarshalBinary() = %v, want ErrState", err)
			}
			if *s != *New(9) {
				t.Error("a rejected state changed the source")
			}
		})
	}
}

func FuzzUnmarshalBinary(f *testing.F) {
	good, _ := New(1).MarshalBinary()
	f.Add(good)
	f.Add([]byte(stateMagic))
	f.Fuzz(func(t *testing.T, data []byte) {
		var s Source
		if s.UnmarshalBinary(data) != nil {
			return
		}
		back, _ := s.MarshalBinary()
		if diff := cmp.Diff(data, back); diff != "" {
			t.Errorf("state changed by decoding and encoding (-in +out):\n%s", diff)
		}
	})
}

func TestAllocatesNothing(t *testing.T) {
	s := New(1)
	b := make([]byte, 0, 64)
	allocs := testing.AllocsPerRun(100, func() {
		s.Seed(5)
		s.Uniform(-1, 1)
		b, _ = s.AppendBinary(b[:0])
	})
	if allocs != 0 {
		t.Errorf("Seed, Uniform and AppendBinary allocate %v times, want 0", allocs)
	}
}

func BenchmarkUint64(b *testing.B) {
	b.ReportAllocs()
	s := New(1)
	var x uint64
	for b.Loop() {
		x ^= s.Uint64()
	}
	sink = x
}

func BenchmarkUniform(b *testing.B) {
	b.ReportAllocs()
	s := New(1)
	var x float64
	for b.Loop() {
		x += s.Uniform(-0.05, 0.05)
	}
	sink = uint64(x)
}

func BenchmarkSeed(b *testing.B) {
	b.ReportAllocs()
	s := New(1)
	var i uint64
	for b.Loop() {
		s.Seed(i)
		i++
	}
	sink = s.lo
}

var sink uint64
