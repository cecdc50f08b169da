package safetensors

import (
	"bytes"
	"cmp"
	"encoding/binary"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"math"
	"slices"
	"unicode/utf8"
)

// Read reads one file to the end of r and checks it as [Decode] does. It allocates in proportion to
// the length of r, whatever the header claims. It returns an error of r itself unchanged.
func Read(r io.Reader) (*File, error) {
	const limit = 8 + MaxHeader + MaxData
	b, err := io.ReadAll(io.LimitReader(r, limit+1))
	if err != nil {
		return nil, err
	}
	return Decode(b)
}

// Decode returns the contents of a file. It is strict: names must be unique, offsets must cover the
// data section without gap or overlap and agree with dtype and shape, no byte may be left over, and
// digests must match. The error wraps [ErrCorrupt] and gives the reason. The result does not refer
// to b.
func Decode(b []byte) (*File, error) {
	f, err := decode(b)
	if err != nil {
		return nil, fmt.Errorf("%w: %w", ErrCorrupt, err)
	}
	return f, nil
}

func decode(b []byte) (*File, error) {
	if len(b) < 8 {
		return nil, fmt.Errorf("%d bytes are too few for the length of the header", len(b))
	}
	n, rest := binary.LittleEndian.Uint64(b), b[8:]
	if n > MaxHeader {
		return nil, fmt.Errorf("header of %d bytes, want at most %d", n, MaxHeader)
	}
	if uint64(len(rest)) < n {
		return nil, fmt.Errorf("truncated: %d bytes of a header of %d", len(rest), n)
	}
	h, err := parseHeader(rest[:n])
	if err != nil {
		return nil, err
	}
	data := rest[n:]
	if err := h.checkOffsets(uint64(len(data))); err != nil {
		return nil, err
	}
	if err := checkDigests(h.metadata, rest[:n], data); err != nil {
		return nil, err
	}
	f := &File{Metadata: h.metadata}
	for _, t := range h.tensors {
		elems := decodeData(t.DType, data[t.DataOffsets[0]:t.DataOffsets[1]])
		shape := make([]int, len(t.Shape))
		for i, d := range t.Shape {
			shape[i] = int(d)
		}
		f.Tensors = append(f.Tensors, Tensor{Name: t.name, Shape: shape, Data: elems})
	}
	return f, nil
}

type header struct {
	tensors  []namedEntry
	metadata map[string]string
}

type namedEntry struct {
	name string
	headerEntry
}

// parseHeader reads the object token by token, since a map would keep only the last of duplicate names.
func parseHeader(text []byte) (*header, error) {
	if len(text) == 0 || text[0] != '{' {
		return nil, errors.New("header does not begin with {")
	}
	if !utf8.Valid(text) {
		return nil, errors.New("header is not UTF-8")
	}
	dec := json.NewDecoder(bytes.NewReader(text))
	if _, err := dec.Token(); err != nil {
		return nil, fmt.Errorf("header: %w", err)
	}
	h, seen := &header{}, map[string]bool{}
	for dec.More() {
		tok, err := dec.Token()
		if err != nil {
			return nil, fmt.Errorf("header: %w", err)
		}
		name := tok.(string) // Token returns only strings as keys
		if seen[name] {
			return nil, fmt.Errorf("header: %q occurs twice", name)
		}
		seen[name] = true
		if err := h.parseValue(dec, name); err != nil {
			return nil, err
		}
	}
	if _, err := dec.Token(); err != nil {
		return nil, fmt.Errorf("header: %w", err)
	}
	if rest := bytes.Trim(text[dec.InputOffset():], " "); len(rest) > 0 {
		return nil, errors.New("header: text after the closing }")
	}
	return h, nil
}

func (h *header) parseValue(dec *json.Decoder, name string) error {
	if name == metadataKey {
		var err error
		if h.metadata, err = parseMetadata(dec); err != nil {
			return fmt.Errorf("header: %s: %w", metadataKey, err)
		}
		return nil
	}
	if err := checkName(name); err != nil {
		return err
	}
	e, err := parseEntry(dec)
	if err != nil {
		return fmt.Errorf("tensor %q: %w", name, err)
	}
	h.tensors = append(h.tensors, namedEntry{name, e})
	return nil
}

// parseMetadata reads an object of strings.
func parseMetadata(dec *json.Decoder) (map[string]string, error) {
	var values map[string]*string
	if err := dec.Decode(&values); err != nil {
		return nil, err
	}
	meta := make(map[string]string, len(values))
	for k, v := range values {
		if v == nil {
			return nil, fmt.Errorf("%q is null, want a string", k)
		}
		meta[k] = *v
	}
	return meta, nil
}

// parseEntry reads the description of one tensor in the header. All of its fields are required.
func parseEntry(dec *json.Decoder) (e headerEntry, err error) {
	var raw json.RawMessage
	if err := dec.Decode(&raw); err != nil {
		return e, err
	}
	var v struct {
		DType       *string   `json:"dtype"`
		Shape       *[]uint64 `json:"shape"`
		DataOffsets *[]uint64 `json:"data_offsets"`
	}
	strict := json.NewDecoder(bytes.NewReader(raw))
	strict.DisallowUnknownFields()
	if err := strict.Decode(&v); err != nil {
		return e, err
	}
	if v.DType == nil || v.Shape == nil || v.DataOffsets == nil {
		return e, errors.New("dtype, shape or data_offsets is missing")
	}
	if len(*v.DataOffsets) != 2 {
		return e, fmt.Errorf("%d data_offsets, want 2", len(*v.DataOffsets))
	}
	e = headerEntry{DType: *v.DType, Shape: *v.Shape, DataOffsets: [2]uint64(*v.DataOffsets)}
	return e, e.check()
}

// check compares the offsets with dtype and shape.
func (e headerEntry) check() error {
	size, err := elementSize(e.DType)
	if err != nil {
		return err
	}
	n, err := elements(e.Shape)
	if err != nil {
		return err
	}
	begin, end := e.DataOffsets[0], e.DataOffsets[1]
	if end < begin || end > MaxData {
		return fmt.Errorf("data_offsets %v out of range", e.DataOffsets)
	}
	// Neither product nor difference overflows: n and end are at most MaxData.
	if want := uint64(n) * uint64(size); end-begin != want {
		return fmt.Errorf("data_offsets %v for shape %v of %s, want %d bytes", e.DataOffsets, e.Shape, e.DType, want)
	}
	return nil
}

// checkOffsets sorts the tensors by their offsets and checks that they cover the data.
func (h *header) checkOffsets(length uint64) error {
	slices.SortFunc(h.tensors, func(a, b namedEntry) int {
		return cmp.Or(slices.Compare(a.DataOffsets[:], b.DataOffsets[:]), cmp.Compare(a.name, b.name))
	})
	end := uint64(0)
	for _, t := range h.tensors {
		if t.DataOffsets[0] != end {
			return fmt.Errorf("tensor %q begins at %d, want %d, where the one before ends", t.name, t.DataOffsets[0], end)
		}
		if end = t.DataOffsets[1]; end > length {
			return fmt.Errorf("truncated: tensor %q ends at %d of %d bytes", t.name, end, length)
		}
	}
	if end != length {
		return fmt.Errorf("%d bytes after the last tensor", length-end)
	}
	return nil
}

func checkName(name string) error {
	if name == "" || name == metadataKey || !utf8.ValidString(name) {
		return fmt.Errorf("%q is no name of a tensor", name)
	}
	return nil
}

func decodeData(dtype string, b []byte) any {
	switch dtype {
	case "F32":
		return decodeElements(b, 4, func(b []byte) float32 { return math.Float32frombits(binary.LittleEndian.Uint32(b)) })
	case "F64":
		return decodeElements(b, 8, func(b []byte) float64 { return math.Float64frombits(binary.LittleEndian.Uint64(b)) })
	case "I64":
		return decodeElements(b, 8, func(b []byte) int64 { return int64(binary.LittleEndian.Uint64(b)) })
	}
	return append([]uint8{}, b...) // check has rejected other types
}

func decodeElements[T Element](b []byte, size int, get func(b []byte) T) []T {
	out := make([]T, len(b)/size)
	for i := range out {
		out[i] = get(b[i*size:])
	}
	return out
}
