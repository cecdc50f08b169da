package wire

import (
	"slices"

	"github.com/vmihailenco/msgpack/v5"
)

// Writer encodes frames one after another into its own buffer, which grows as needed. Only Encode
// can fail.
type Writer struct {
	buf []byte
	enc *msgpack.Encoder
}

// NewWriter returns a Writer with an empty buffer.
func NewWriter() *Writer {
	w := &Writer{}
	w.enc = msgpack.NewEncoder((*sink)(w))
	w.enc.SetCustomStructTag("json")
	w.enc.UseCompactInts(true)
	w.enc.SetSortMapKeys(true)
	return w
}

// sink is a Writer as the io.Writer of the library.
type sink Writer

func (s *sink) Write(p []byte) (int, error) {
	s.buf = append(s.buf, p...)
	return len(p), nil
}

func (s *sink) WriteByte(c byte) error {
	s.buf = append(s.buf, c)
	return nil
}

// Reset begins a new frame.
func (w *Writer) Reset() { w.buf = w.buf[:0] }

// Swap makes the Writer use another buffer from its start on, as far as its capacity suffices, and returns the last one.
func (w *Writer) Swap(buf []byte) []byte {
	old := w.buf
	w.buf = buf[:0]
	return old
}

// Trim frees the buffer if its capacity exceeds most.
func (w *Writer) Trim(most int) {
	if cap(w.buf) > most {
		w.buf = nil
	}
}

// Bytes returns the frame, which the next Reset invalidates.
func (w *Writer) Bytes() []byte { return w.buf }

// must wraps methods of the library that return only errors of sink, which never fails.
func must(err error) {
	if err != nil {
		panic("wire: unreachable: " + err.Error())
	}
}

// Head starts a frame of n fields and writes the first two, t and id.
func (w *Writer) Head(n int, t string, id uint64) {
	w.Reset()
	w.Map(n)
	w.Str("t")
	w.Str(t)
	w.Str("id")
	w.Uint(id)
}

// Map begins a map of n keys: a Str and a value for each must follow.
func (w *Writer) Map(n int) { must(w.enc.EncodeMapLen(n)) }

// List begins a plain array of n values, which must follow.
func (w *Writer) List(n int) { must(w.enc.EncodeArrayLen(n)) }

// Str writes a string.
func (w *Writer) Str(s string) { must(w.enc.EncodeString(s)) }

// Bin writes bytes.
func (w *Writer) Bin(b []byte) { must(w.enc.EncodeBytes(b)) }

// Uint writes an integer in as few bytes as it takes.
func (w *Writer) Uint(x uint64) { must(w.enc.EncodeUint(x)) }

// Float writes a number.
func (w *Writer) Float(x float64) { must(w.enc.EncodeFloat64(x)) }

// Bool writes a boolean.
func (w *Writer) Bool(x bool) { must(w.enc.EncodeBool(x)) }

// Nil writes nil.
func (w *Writer) Nil() { must(w.enc.EncodeNil()) }

// Raw writes a value that is encoded already.
func (w *Writer) Raw(v Value) { w.buf = append(w.buf, v...) }

// Encode writes any value that the library can encode; structs by the names in their json
// tags. It is not for hot paths.
func (w *Writer) Encode(v any) error { return w.enc.Encode(v) }

// grow extends the buffer by n bytes and returns them.
func (w *Writer) grow(n int) []byte {
	k := len(w.buf)
	w.buf = slices.Grow(w.buf, n)[:k+n]
	return w.buf[k:]
}
