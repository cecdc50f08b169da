package lra

import (
	"fmt"
	"math"
	"os"
	"slices"

	"github.com/sbinet/npyio/npz"
)

// arrays reads the arrays of an NPZ file by their names.
type arrays struct {
	name string
	size int64
	r    *npz.Reader
}

// readArrays opens the NPZ file at path for read.
func readArrays[T any](path string, read func(a *arrays) (T, error)) (result T, err error) {
	f, err := os.Open(path)
	if err != nil {
		return result, err
	}
	defer f.Close()
	info, err := f.Stat()
	if err != nil {
		return result, err
	}
	// The decoder panics on some headers that are no header.
	defer func() {
		if p := recover(); p != nil {
			err = fmt.Errorf("lra: %s is no NPZ file: %v", path, p)
		}
	}()
	r, err := npz.NewReader(f, info.Size())
	if err != nil {
		return result, fmt.Errorf("lra: %s is no NPZ file: %w", path, err)
	}
	return read(&arrays{path, info.Size(), r})
}

// key returns the name of the file of an array, to which NumPy adds .npy.
func (a *arrays) key(name string) (key string, ok bool) {
	for _, key := range []string{name + ".npy", name} {
		if slices.Contains(a.r.Keys(), key) {
			return key, true
		}
	}
	return "", false
}

// maxRatio is the most by which an array of an NPZ file may be larger than the file: more than
// deflate can achieve. It keeps a forged header from asking for all memory.
const maxRatio = 1100

// floats returns an array of numbers and its shape, which must have dims dimensions.
func (a *arrays) floats(name string, dims int) (values []float64, shape []int, err error) {
	key, ok := a.key(name)
	if !ok {
		return nil, nil, fmt.Errorf("lra: %s has no array %q but %q", a.name, name, a.r.Keys())
	}
	h := a.r.Header(key)
	if h == nil {
		return nil, nil, fmt.Errorf("lra: %s: array %s has no header", a.name, name)
	}
	shape = h.Descr.Shape
	if len(shape) != dims || h.Descr.Fortran {
		return nil, nil, fmt.Errorf("lra: %s: array %s has shape %v (columns first: %v), want %d dimensions, rows first", a.name, name, shape, h.Descr.Fortran, dims)
	}
	n := 1
	for _, k := range shape {
		if k < 1 || int64(n) > a.size*maxRatio/int64(k) {
			return nil, nil, fmt.Errorf("lra: %s: array %s has shape %v, which the file of %d bytes cannot hold", a.name, name, shape, a.size)
		}
		n *= k
	}
	switch h.Descr.Type {
	case "<f8":
		err = a.r.Read(key, &values)
	case "<f4":
		values, err = converted[float32](a.r, key)
	case "<i8":
		values, err = converted[int64](a.r, key)
	case "<i4":
		values, err = converted[int32](a.r, key)
	default:
		return nil, nil, fmt.Errorf("lra: %s: array %s is of dtype %q, want little-endian float32, float64, int32 or int64; pickled objects are not read", a.name, name, h.Descr.Type)
	}
	if err != nil {
		return nil, nil, fmt.Errorf("lra: %s: read %s: %w", a.name, name, err)
	}
	if len(values) != n {
		return nil, nil, fmt.Errorf("lra: %s: array %s has %d values, want the %d of shape %v", a.name, name, len(values), n, shape)
	}
	return values, shape, nil
}

func converted[T float32 | int32 | int64](r *npz.Reader, name string) ([]float64, error) {
	var raw []T
	if err := r.Read(name, &raw); err != nil {
		return nil, err
	}
	values := make([]float64, len(raw))
	for i, v := range raw {
		values[i] = float64(v)
	}
	return values, nil
}

// finite is floats for arrays of one shape and without a NaN or an infinity.
func (a *arrays) finite(name string, want ...int) ([]float64, error) {
	values, shape, err := a.floats(name, len(want))
	if err != nil {
		return nil, err
	}
	if !slices.Equal(shape, want) {
		return nil, fmt.Errorf("lra: %s: array %s has shape %v, want %v", a.name, name, shape, want)
	}
	for i, v := range values {
		if math.IsNaN(v) || math.IsInf(v, 0) {
			return nil, fmt.Errorf("lra: %s: array %s has %v at %d, want finite numbers", a.name, name, v, i)
		}
	}
	return values, nil
}
