package safetensors

import (
	"bytes"
	"crypto/sha256"
	"encoding/binary"
	"errors"
	"fmt"
	"io"
	"math"
	"os"
	"regexp"
	"slices"
	"strings"
	"testing"
	"testing/iotest"

	"github.com/google/go-cmp/cmp"
)

// sample has every type, and none in the order of the file.
func sample() []Tensor {
	return []Tensor{
		{Name: "rng", Shape: []int{3}, Data: []uint8{0, 255, 7}},
		{Name: "b", Shape: []int{2, 3}, Data: []float32{-2.5, -1.5, -0.5, 0.5, 1.5, 2.5}},
		{Name: "step", Shape: []int{}, Data: []int64{-1<<62 - 1}},
		{Name: "empty", Shape: []int{0, 4}, Data: []float32{}},
		{Name: "a", Shape: []int{3}, Data: []float32{1e-45, float32(math.Inf(1)), 0}},
		{Name: "wide", Shape: []int{2, 1}, Data: []float64{math.Pi, -1e300}},
	}
}

func encode(t testing.TB, tensors []Tensor, metadata map[string]string) []byte {
	t.Helper()
	var buf bytes.Buffer
	if err := Write(&buf, tensors, metadata); err != nil {
		t.Fatal(err)
	}
	return buf.Bytes()
}

func TestRoundTrip(t *testing.T) {
	meta := map[string]string{"format": "pt", "ü": `<"&">`}
	b := encode(t, sample(), meta)
	f, err := Read(iotest.OneByteReader(bytes.NewReader(b)))
	if err != nil {
		t.Fatal(err)
	}
	if len(f.Metadata[DigestKey]) != 64 || len(meta) != 2 {
		t.Errorf("metadata %v, want a digest here and not in the argument %v", f.Metadata, meta)
	}
	var names []string
	for _, got := range f.Tensors {
		names = append(names, got.Name)
	}
	// Elements of 8 bytes, of 4, of 1; names in order within each.
	if want := []string{"step", "wide", "a", "b", "empty", "rng"}; !slices.Equal(names, want) {
		t.Errorf("order of the data is %v, want %v", names, want)
	}
	for _, want := range sample() {
		got, ok := f.Tensor(want.Name)
		if diff := cmp.Diff(want, got); !ok || diff != "" {
			t.Errorf("tensor %s (-want +got):\n%s", want.Name, diff)
		}
	}
	if n := binary.LittleEndian.Uint64(b); n%8 != 0 {
		t.Errorf("header of %d bytes, want a multiple of 8", n)
	}
	shuffled := sample()
	slices.Reverse(shuffled)
	if !bytes.Equal(b, encode(t, shuffled, meta)) {
		t.Error("the order of the arguments changes the bytes")
	}
}

func TestEmptyFile(t *testing.T) {
	f, err := Decode(encode(t, nil, nil))
	if err != nil || len(f.Tensors) != 0 {
		t.Errorf("Decode = %v, %v", f, err)
	}
}

// testdata/python.safetensors was written by version 0.8.0 of Python's library.
func TestReadPython(t *testing.T) {
	b, err := os.ReadFile("testdata/python.safetensors")
	if err != nil {
		t.Fatal(err)
	}
	f, err := Decode(b)
	if err != nil {
		t.Fatal(err)
	}
	want := map[string]Tensor{
		"weight": {Shape: []int{2, 3}, Data: []float32{-2.5, -1.5, -0.5, 0.5, 1.5, 2.5}},
		"bias":   {Shape: []int{3}, Data: []float32{1e-45, float32(math.Copysign(0, -1)), float32(math.Inf(1))}},
		"wide":   {Shape: []int{2, 1}, Data: []float64{math.Pi, -1e300}},
		"step":   {Shape: []int{}, Data: []int64{-1<<62 - 1}},
		"rng":    {Shape: []int{3}, Data: []uint8{0, 255, 7}},
		"empty":  {Shape: []int{0, 4}, Data: []float32{}},
	}
	got := map[string]Tensor{}
	for _, tensor := range f.Tensors {
		name := tensor.Name
		tensor.Name = ""
		got[name] = tensor
	}
	if diff := cmp.Diff(want, got); diff != "" {
		t.Errorf("tensors (-want +got):\n%s", diff)
	}
	if bias := got["bias"].Data.([]float32); !math.Signbit(float64(bias[1])) {
		t.Errorf("bias[1] = %v, want -0", bias[1])
	}
	if diff := cmp.Diff(map[string]string{"by": "Python's safetensors", "ü": "<&>"}, f.Metadata); diff != "" {
		t.Errorf("metadata (-want +got):\n%s", diff)
	}
}

func TestWriteInvalid(t *testing.T) {
	one := []float32{1}
	for name, tensors := range map[string][]Tensor{
		"no name":       {{Data: one}},
		"metadata name": {{Name: metadataKey, Data: one}},
		"not UTF-8":     {{Name: "\xff", Data: one}},
		"twice":         {{Name: "a", Data: one}, {Name: "a", Data: one}},
		"type":          {{Name: "a", Data: []int{1}}},
		"no data":       {{Name: "a"}},
		"shape":         {{Name: "a", Shape: []int{2}, Data: one}},
		"negative":      {{Name: "a", Shape: []int{-1, -1}, Data: one}},
		"overflow":      {{Name: "a", Shape: []int{1 << 32, 1 << 32}, Data: []float32{}}},
		"dimensions":    {{Name: "a", Shape: make([]int, MaxDims+1), Data: []float32{}}},
	} {
		var buf bytes.Buffer
		if err := Write(&buf, tensors, nil); !errors.Is(err, ErrInvalid) || buf.Len() != 0 {
			t.Errorf("%s: %v and %d bytes written, want %v and none", name, err, buf.Len(), ErrInvalid)
		}
	}
}

// Errors of the writer and the reader come through as they are.
func TestIOErrors(t *testing.T) {
	if _, err := Read(iotest.ErrReader(io.ErrClosedPipe)); !errors.Is(err, io.ErrClosedPipe) || errors.Is(err, ErrCorrupt) {
		t.Errorf("Read: %v, want %v", err, io.ErrClosedPipe)
	}
	size := len(encode(t, sample(), nil))
	for n := range size {
		if err := Write(&limitedWriter{n}, sample(), nil); !errors.Is(err, io.ErrShortWrite) {
			t.Errorf("Write with room for %d of %d bytes: %v, want %v", n, size, err, io.ErrShortWrite)
		}
	}
}

type limitedWriter struct{ n int }

func (w *limitedWriter) Write(p []byte) (int, error) {
	if len(p) > w.n {
		return w.n, io.ErrShortWrite
	}
	w.n -= len(p)
	return len(p), nil
}

func TestAs(t *testing.T) {
	tensor := Tensor{Name: "a", Data: []float32{1}}
	if d, err := As[float32](tensor); err != nil || !slices.Equal(d, []float32{1}) {
		t.Errorf("As[float32] = %v, %v", d, err)
	}
	if _, err := As[int64](tensor); err == nil || !strings.Contains(err.Error(), `"a"`) {
		t.Errorf("As[int64]: %v, want an error that names the tensor", err)
	}
}

// Any one byte changed or cut off is noticed, in the header as in the data, but for the key under
// which the digest stands.
func TestDamage(t *testing.T) {
	b := encode(t, sample(), map[string]string{"activation": "tanh"})
	for n := range b {
		if _, err := Decode(b[:n]); !errors.Is(err, ErrCorrupt) {
			t.Errorf("first %d of %d bytes: %v, want %v", n, len(b), err, ErrCorrupt)
		}
	}
	if _, err := Decode(append(slices.Clone(b), 0)); !errors.Is(err, ErrCorrupt) {
		t.Errorf("one byte more: %v, want %v", err, ErrCorrupt)
	}
	key := bytes.Index(b, []byte(`"digest"`))
	data := 8 + int(binary.LittleEndian.Uint64(b))
	for i := range b {
		c := slices.Clone(b)
		c[i] ^= 1
		if i > key && i < key+len(`"digest`) {
			continue
		}
		if _, err := Decode(c); !errors.Is(err, ErrCorrupt) || i >= data && !strings.Contains(err.Error(), "SHA-256") {
			t.Errorf("byte %d of %d changed: %v, want %v, in the data for the SHA-256", i, len(b), err, ErrCorrupt)
		}
	}
}

// TestAlteredHeader: a header that is as good as the one written, but is another.
func TestAlteredHeader(t *testing.T) {
	const digits = "0000000000000000000000000000000000000000000000000000000000000000"
	b := encode(t, sample(), map[string]string{"activation": "tanh", "zeros": digits, "quoted": `"digest":"` + digits + `"`})
	if _, err := Decode(b); err != nil {
		t.Fatalf("what was written: %v", err)
	}
	for old, changed := range map[string]string{
		"tanh":                 "relu",
		`"shape":[2,3]`:        `"shape":[3,2]`,
		`"rng"`:                `"rns"`,
		`"dtype":"I64"`:        `"dtype":"F64"`,
		`"zeros":"0`:           `"zeros":"1`,
		`\"digest\":\"0`:       `\"digest\":\"1`,
		`"activation":"tanh",`: `               "activation":"tanh",`,
	} {
		c := bytes.Replace(b, []byte(old), []byte(changed), 1)
		if bytes.Equal(b, c) {
			t.Fatalf("no %s in the header", old)
		}
		binary.LittleEndian.PutUint64(c, binary.LittleEndian.Uint64(b)+uint64(len(c)-len(b)))
		if _, err := Decode(c); !errors.Is(err, ErrCorrupt) || !strings.Contains(err.Error(), "altered: ") {
			t.Errorf("%s in place of %s: %v, want %v that says altered", changed, old, err, ErrCorrupt)
		}
	}
}

// TestDigest: the digest is that of the file with 64 zeros in its place, by the standard library alone.
func TestDigest(t *testing.T) {
	b := encode(t, sample(), nil)
	m := regexp.MustCompile(`"digest":"([0-9a-f]{64})"`).FindSubmatchIndex(b)
	if m == nil {
		t.Fatal("no digest")
	}
	want := string(b[m[2]:m[3]])
	zeroed := slices.Clone(b)
	copy(zeroed[m[2]:], strings.Repeat("0", 64))
	if got := fmt.Sprintf("%x", sha256.Sum256(zeroed)); got != want {
		t.Errorf("SHA-256 of the file with zeros %s, the digest is %s", got, want)
	}
}

// TestEarlierFile: a file whose metadata has the SHA-256 of the data section, as earlier versions
// wrote it, is read and checked by that, and loses it when it is written again.
func TestEarlierFile(t *testing.T) {
	data := []byte{1, 2, 3, 4}
	header := fmt.Sprintf(`{"__metadata__":{"sha256":"%x"},"a":{"dtype":"U8","shape":[4],"data_offsets":[0,4]}}`, sha256.Sum256(data))
	b := raw(header, 4)
	copy(b[len(b)-4:], data)
	f, err := Decode(b)
	if err != nil {
		t.Fatal(err)
	}
	again, err := Decode(encode(t, f.Tensors, f.Metadata))
	if err != nil {
		t.Fatal(err)
	}
	if _, ok := again.Metadata["sha256"]; ok || again.Metadata[DigestKey] == "" {
		t.Errorf("written again, the metadata are %v, want a digest alone", again.Metadata)
	}
	b[len(b)-1]++
	if _, err := Decode(b); !errors.Is(err, ErrCorrupt) || !strings.Contains(err.Error(), "data altered") {
		t.Errorf("with other data: %v, want %v", err, ErrCorrupt)
	}
}

// raw returns a file of that header, with n bytes of data.
func raw(header string, n int) []byte {
	b := binary.LittleEndian.AppendUint64(nil, uint64(len(header)))
	return append(append(b, header...), make([]byte, n)...)
}

// The headers that Decode refuses, with a part of the message that says why.
func TestDecodeCorrupt(t *testing.T) {
	const a = `"a":{"dtype":"F32","shape":[1],"data_offsets":[0,4]}`
	for _, tt := range []struct {
		header string
		data   int
		want   string
	}{
		{``, 0, "begin with {"},
		{`[]`, 0, "begin with {"},
		{`{`, 0, "header"},
		{`{` + a + `} x`, 4, "after the closing"},
		{`{` + a + `,` + a + `}`, 4, `"a" occurs twice`},
		{`{"\ud800":{"dtype":"F32","shape":[],"data_offsets":[0,4]},"` + "\xff" + `":1}`, 4, "UTF-8"},
		{`{"":{"dtype":"F32","shape":[1],"data_offsets":[0,4]}}`, 4, "no name"},
		{`{"a":{"dtype":"BF16","shape":[2],"data_offsets":[0,4]}}`, 4, `tensor "a": dtype "BF16"`},
		{`{"a":{"shape":[1],"data_offsets":[0,4]}}`, 4, "missing"},
		{`{"a":{"dtype":"F32","shape":null,"data_offsets":[0,4]}}`, 4, "missing"},
		{`{"a":null}`, 0, "missing"},
		{`{"a":{"dtype":"F32","shape":[1],"data_offsets":[0,4],"x":0}}`, 4, "unknown field"},
		{`{"a":{"dtype":"F32","shape":[-1],"data_offsets":[0,4]}}`, 4, "cannot unmarshal"},
		{`{"a":{"dtype":"F32","shape":[1.5],"data_offsets":[0,4]}}`, 4, "cannot unmarshal"},
		{`{"a":{"dtype":"F32","shape":[1],"data_offsets":[0]}}`, 4, "1 data_offsets"},
		{`{"a":{"dtype":"F32","shape":[1],"data_offsets":[0,4,4]}}`, 4, "3 data_offsets"},
		{`{"a":{"dtype":"F32","shape":[1],"data_offsets":[4,0]}}`, 4, "out of range"},
		{`{"a":{"dtype":"F32","shape":[1],"data_offsets":[0,18446744073709551615]}}`, 4, "out of range"},
		{`{"a":{"dtype":"F32","shape":[2],"data_offsets":[0,4]}}`, 4, "want 8 bytes"},
		{`{"a":{"dtype":"F32","shape":[4611686018427387904,4],"data_offsets":[0,0]}}`, 0, "elements"},
		{`{"a":{"dtype":"F32","shape":[18446744073709551615,0],"data_offsets":[0,0]}}`, 0, "out of range"},
		{`{"a":{"dtype":"U8","shape":[0,0,0,0,0,0,0,0,0],"data_offsets":[0,0]}}`, 0, "9 dimensions"},
		{`{` + a + `}`, 3, `truncated: tensor "a"`},
		{`{` + a + `}`, 5, "1 bytes after"},
		{`{"a":{"dtype":"F32","shape":[1],"data_offsets":[1,5]}}`, 5, `tensor "a" begins at 1`},
		{`{` + a + `,"b":{"dtype":"F32","shape":[1],"data_offsets":[2,6]}}`, 6, `tensor "b" begins at 2, want 4`},
		{`{` + a + `,"b":{"dtype":"F32","shape":[1],"data_offsets":[0,4]}}`, 4, `tensor "b" begins at 0, want 4`},
		{`{` + a + `,"b":{"dtype":"F32","shape":[1],"data_offsets":[8,12]}}`, 12, `tensor "b" begins at 8, want 4`},
		{`{"__metadata__":{"a":1}}`, 0, "__metadata__"},
		{`{"__metadata__":{"a":null}}`, 0, "want a string"},
		{`{"__metadata__":[]}`, 0, "__metadata__"},
		{`{"__metadata__":{"sha256":"x"}}`, 0, "SHA-256"},
		{`{"__metadata__":{"digest":"x"}}`, 0, "no SHA-256"},
		{`{"__metadata__":{"digest" : "` + strings.Repeat("0", 64) + `"}}`, 0, "no SHA-256"},
		{`{"__metadata__":{"digest":"` + strings.Repeat("0", 64) + `"}}`, 0, "SHA-256 of header and data"},
	} {
		_, err := Decode(raw(tt.header, tt.data))
		if !errors.Is(err, ErrCorrupt) || !strings.Contains(fmt.Sprint(err), tt.want) {
			t.Errorf("%s with %d bytes: %v, want %q", tt.header, tt.data, err, tt.want)
		}
	}
	huge := binary.LittleEndian.AppendUint64(nil, MaxHeader+1)
	if _, err := Decode(huge); !errors.Is(err, ErrCorrupt) || !strings.Contains(err.Error(), "at most") {
		t.Errorf("length of the header above the limit: %v", err)
	}
}
