package safetensors

import (
	"bytes"
	"cmp"
	"encoding/binary"
	"encoding/hex"
	"encoding/json"
	"fmt"
	"io"
	"maps"
	"math"
	"slices"
)

const metadataKey = "__metadata__"

// headerEntry describes a tensor in the header. Shape is never nil, which would be null.
type headerEntry struct {
	DType       string    `json:"dtype"`
	Shape       []uint64  `json:"shape"`
	DataOffsets [2]uint64 `json:"data_offsets"`
}

// Write writes the tensors and the metadata, to which it adds [DigestKey]. Equal arguments give
// equal bytes, whatever the order of the tensors: Write lays them out by the size of their
// elements, largest first, so that all are aligned, and then by name. It does not change its
// arguments. An error about the arguments wraps [ErrInvalid]; then Write has written nothing.
func Write(w io.Writer, tensors []Tensor, metadata map[string]string) error {
	sorted := slices.Clone(tensors)
	slices.SortStableFunc(sorted, func(a, b Tensor) int {
		_, sizeA, _, _ := dtype(a.Data)
		_, sizeB, _, _ := dtype(b.Data)
		return cmp.Or(cmp.Compare(sizeB, sizeA), cmp.Compare(a.Name, b.Name))
	})
	header, err := layout(sorted)
	if err != nil {
		return fmt.Errorf("%w: %w", ErrInvalid, err)
	}
	meta := map[string]string{}
	maps.Copy(meta, metadata)
	delete(meta, dataDigestKey) // from another file
	meta[DigestKey] = noDigest
	header[metadataKey] = meta
	text, err := encodeHeader(header)
	if err != nil {
		return fmt.Errorf("%w: %w", ErrInvalid, err)
	}
	at := digestAt(text, noDigest)
	sum := newDigest(text, at)
	for _, t := range sorted {
		if err := writeData(sum, t.Data); err != nil {
			return err
		}
	}
	hex.Encode(text[at:], sum.Sum(nil))
	if err := binary.Write(w, binary.LittleEndian, uint64(len(text))); err != nil {
		return err
	}
	if _, err := w.Write(text); err != nil {
		return err
	}
	for _, t := range sorted {
		if err := writeData(w, t.Data); err != nil {
			return err
		}
	}
	return nil
}

// layout returns the header's entries for tensors in the given order.
func layout(tensors []Tensor) (map[string]any, error) {
	header, offset := map[string]any{}, uint64(0)
	for _, t := range tensors {
		if err := checkName(t.Name); err != nil {
			return nil, err
		}
		if _, ok := header[t.Name]; ok {
			return nil, fmt.Errorf("tensor %q is named twice", t.Name)
		}
		dtype, size, n, err := dtype(t.Data)
		if err != nil {
			return nil, fmt.Errorf("tensor %q: %w", t.Name, err)
		}
		want, err := elements(t.Shape)
		if err != nil {
			return nil, fmt.Errorf("tensor %q: %w", t.Name, err)
		}
		if n != want {
			return nil, fmt.Errorf("tensor %q: %d elements for shape %v, want %d", t.Name, n, t.Shape, want)
		}
		shape := make([]uint64, len(t.Shape))
		for i, d := range t.Shape {
			shape[i] = uint64(d)
		}
		end := offset + uint64(n*size)
		if end > MaxData {
			return nil, fmt.Errorf("more than %d bytes of data", int64(MaxData))
		}
		header[t.Name] = headerEntry{DType: dtype, Shape: shape, DataOffsets: [2]uint64{offset, end}}
		offset = end
	}
	return header, nil
}

// encodeHeader returns the JSON with sorted keys, padded by spaces so that the data, which
// follows 8 bytes of length and the header, begin at a multiple of 8.
func encodeHeader(header map[string]any) ([]byte, error) {
	var buf bytes.Buffer
	enc := json.NewEncoder(&buf)
	enc.SetEscapeHTML(false)
	if err := enc.Encode(header); err != nil {
		return nil, err
	}
	text := bytes.TrimRight(buf.Bytes(), "\n")
	for len(text)%8 != 0 {
		text = append(text, ' ')
	}
	if len(text) > MaxHeader {
		return nil, fmt.Errorf("header of %d bytes, want at most %d", len(text), MaxHeader)
	}
	return text, nil
}

// writeData writes the elements little-endian.
func writeData(w io.Writer, data any) error {
	if d, ok := data.([]uint8); ok {
		_, err := w.Write(d)
		return err
	}
	var buf [8192]byte
	switch d := data.(type) {
	case []float32:
		return writeChunks(w, buf[:], 4, len(d), func(b []byte, i int) {
			binary.LittleEndian.PutUint32(b, math.Float32bits(d[i]))
		})
	case []float64:
		return writeChunks(w, buf[:], 8, len(d), func(b []byte, i int) {
			binary.LittleEndian.PutUint64(b, math.Float64bits(d[i]))
		})
	case []int64:
		return writeChunks(w, buf[:], 8, len(d), func(b []byte, i int) {
			binary.LittleEndian.PutUint64(b, uint64(d[i]))
		})
	}
	return nil // layout has rejected other types
}

func writeChunks(w io.Writer, buf []byte, size, n int, put func(b []byte, i int)) error {
	used := 0
	for i := range n {
		put(buf[used:], i)
		if used += size; used == len(buf) || i == n-1 {
			if _, err := w.Write(buf[:used]); err != nil {
				return err
			}
			used = 0
		}
	}
	return nil
}
