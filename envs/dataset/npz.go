package dataset

import (
	"fmt"
	"math"
	"slices"

	"github.com/sbinet/npyio/npz"
)

// Arrays reads the arrays of an NPZ file by their names.
type Arrays struct {
	reader string // begins messages
	name   string
	size   int64
	r      *npz.Reader
}

// ReadNPZ opens the NPZ file at path for read. Messages begin with reader, such as "gang: ".
func ReadNPZ[T any](reader, path string, read func(a *Arrays) (T, error)) (result T, err error) {
	f, err := OpenFile(path)
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
			err = fmt.Errorf("%s%s is no NPZ file: %v", reader, path, p)
		}
	}()
	r, err := npz.NewReader(f, info.Size())
	if err != nil {
		return result, fmt.Errorf("%s%s is no NPZ file: %w", reader, path, err)
	}
	return read(&Arrays{reader, path, info.Size(), r})
}

// errorf returns an error that begins with the file.
func (a *Arrays) errorf(format string, args ...any) error {
	return fmt.Errorf("%s%s: "+format, append([]any{a.reader, a.name}, args...)...)
}

// Has reports whether there is an array of the name.
func (a *Arrays) Has(name string) bool {
	_, ok := a.key(name)
	return ok
}

// key returns the name of the file of an array, to which NumPy adds .npy.
func (a *Arrays) key(name string) (key string, ok bool) {
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

// Floats returns an array of numbers and its shape, which must have dims dimensions.
func (a *Arrays) Floats(name string, dims int) (values []float64, shape []int, err error) {
	key, ok := a.key(name)
	if !ok {
		return nil, nil, fmt.Errorf("%s%s has no array %q but %q", a.reader, a.name, name, a.r.Keys())
	}
	h := a.r.Header(key)
	if h == nil {
		return nil, nil, a.errorf("array %s has no header", name)
	}
	shape = h.Descr.Shape
	if len(shape) != dims || h.Descr.Fortran {
		return nil, nil, a.errorf("array %s has shape %v (columns first: %v), want %d dimensions, rows first", name, shape, h.Descr.Fortran, dims)
	}
	n := 1
	for _, k := range shape {
		if k < 1 || int64(n) > a.size*maxRatio/int64(k) {
			return nil, nil, a.errorf("array %s has shape %v, which the file of %d bytes cannot hold", name, shape, a.size)
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
		return nil, nil, a.errorf("array %s is of dtype %q, want little-endian float32, float64, int32 or int64; pickled objects are not read", name, h.Descr.Type)
	}
	if err != nil {
		return nil, nil, a.errorf("read %s: %w", name, err)
	}
	if len(values) != n {
		return nil, nil, a.errorf("array %s has %d values, want the %d of shape %v", name, len(values), n, shape)
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

// Finite is [Arrays.Floats] for arrays of one shape and without a NaN or an infinity.
func (a *Arrays) Finite(name string, want ...int) ([]float64, error) {
	values, shape, err := a.Floats(name, len(want))
	if err != nil {
		return nil, err
	}
	if !slices.Equal(shape, want) {
		return nil, a.errorf("array %s has shape %v, want %v", name, shape, want)
	}
	for i, v := range values {
		if math.IsNaN(v) || math.IsInf(v, 0) {
			return nil, a.errorf("array %s has %v at %d, want finite numbers", name, v, i)
		}
	}
	return values, nil
}
