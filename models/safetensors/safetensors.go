// Package safetensors reads and writes named arrays in the safetensors format: the length of a JSON
// header as a 64-bit number, the header, and the arrays' elements, all little-endian. Unlike
// pickle, reading such a file runs no code.
//
// Source: https://huggingface.co/docs/safetensors, "Format".
package safetensors

import (
	"errors"
	"fmt"
	"math"
)

// DigestKey is the metadata key under which [Write] stores the SHA-256 of the whole file, header
// and data, in 64 hexadecimal digits, computed with zeros in place of these digits. [Decode] checks
// it if it is present.
const DigestKey = "digest"

// dataDigestKey is the key of the SHA-256 of the data section alone, in files of earlier versions.
// Decode checks it if it is present; it does not cover the header.
const dataDigestKey = "sha256"

// MaxHeader is the length in bytes that a header may have.
const MaxHeader = 16 << 20

// MaxData is the length in bytes that the data section may have.
const MaxData = 8 << 30

// MaxDims is the number of dimensions that a tensor may have.
const MaxDims = 8

var (
	// ErrCorrupt is wrapped by the errors of [Read] and [Decode]: the input is not a
	// whole safetensors file or uses a feature that this package does not support.
	ErrCorrupt = errors.New("safetensors: corrupt or unsupported file")

	// ErrInvalid is wrapped by the errors of [Write] about its arguments.
	ErrInvalid = errors.New("safetensors: invalid tensor")
)

// Element lists the types of elements: F32, F64, I64 and U8 of the format.
type Element interface {
	float32 | float64 | int64 | uint8
}

// A Tensor is a named array.
type Tensor struct {
	Name  string
	Shape []int // no dimensions: one element
	Data  any   // []float32, []float64, []int64 or []uint8, row-major
}

// A File holds the tensors and the metadata of a safetensors file.
type File struct {
	Tensors  []Tensor          // in the order of their data
	Metadata map[string]string // nil if there is none
}

// Tensor returns the named tensor.
func (f *File) Tensor(name string) (t Tensor, ok bool) {
	for _, t := range f.Tensors {
		if t.Name == name {
			return t, true
		}
	}
	return Tensor{}, false
}

// As returns the data of t, or an error if they are of another type.
func As[T Element](t Tensor) ([]T, error) {
	d, ok := t.Data.([]T)
	if !ok {
		return nil, fmt.Errorf("safetensors: tensor %q holds %T, want %T", t.Name, t.Data, d)
	}
	return d, nil
}

// dtype returns the format's name for the type of data, the size of an element in bytes and
// the number of elements.
func dtype(data any) (name string, size, n int, err error) {
	switch d := data.(type) {
	case []float32:
		return "F32", 4, len(d), nil
	case []float64:
		return "F64", 8, len(d), nil
	case []int64:
		return "I64", 8, len(d), nil
	case []uint8:
		return "U8", 1, len(d), nil
	}
	return "", 0, 0, fmt.Errorf("data is %T, want []float32, []float64, []int64 or []uint8", data)
}

// elementSize returns the size of an element of the format's dtype.
func elementSize(dtype string) (int, error) {
	switch dtype {
	case "F32":
		return 4, nil
	case "F64", "I64":
		return 8, nil
	case "U8":
		return 1, nil
	}
	return 0, fmt.Errorf("dtype %q, want F32, F64, I64 or U8", dtype)
}

// elements returns the number of elements of an array with the given shape.
func elements[D int | uint64](shape []D) (int, error) {
	if len(shape) > MaxDims {
		return 0, fmt.Errorf("%d dimensions, want at most %d", len(shape), MaxDims)
	}
	n, zero := uint64(1), false
	for _, d := range shape {
		if d < 0 || uint64(d) > math.MaxInt64 {
			return 0, fmt.Errorf("shape %v has a dimension out of range", shape)
		}
		if d == 0 {
			zero = true
			continue
		}
		if n > MaxData/uint64(d) {
			return 0, fmt.Errorf("shape %v has more than %d elements", shape, int64(MaxData))
		}
		n *= uint64(d)
	}
	if zero {
		n = 0
	}
	return int(n), nil
}
