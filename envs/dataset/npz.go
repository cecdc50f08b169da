package dataset

import (
	"archive/zip"
	"errors"
	"fmt"
	"io"
	"math"
	"slices"

	"github.com/sbinet/npyio/npy"
)

// Arrays reads the arrays of an NPZ file by their names.
type Arrays struct {
	reader string // begins messages
	name   string
	size   int64
	files  []*zip.File
}

// ReadNPZ opens the NPZ file at path and calls read. Error messages begin with reader, such as "gang: ".
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
	// The decoder panics on some malformed headers.
	defer func() {
		if p := recover(); p != nil {
			err = fmt.Errorf("%s%s is no NPZ file: %v", reader, path, p)
		}
	}()
	r, err := zip.NewReader(f, info.Size())
	if err != nil {
		return result, fmt.Errorf("%s%s is no NPZ file: %w", reader, path, err)
	}
	return read(&Arrays{reader, path, info.Size(), r.File})
}

// ErrPickled is the error of an array of Python objects. Only Python's pickle can decode one, by running code from the
// file. [Arrays.Floats] returns it.
var ErrPickled = errors.New("pickled objects (dtype object) are not read: a pickle can run any program; save the array as numbers")

// errorf returns an error that begins with the file.
func (a *Arrays) errorf(format string, args ...any) error {
	return fmt.Errorf("%s%s: "+format, append([]any{a.reader, a.name}, args...)...)
}

// Has reports whether there is an array of the name.
func (a *Arrays) Has(name string) bool { return a.file(name) != nil }

// file returns the file of an array, to whose name NumPy adds .npy, or nil.
func (a *Arrays) file(name string) *zip.File {
	for _, key := range []string{name + ".npy", name} {
		if i := slices.IndexFunc(a.files, func(f *zip.File) bool { return f.Name == key }); i >= 0 {
			return a.files[i]
		}
	}
	return nil
}

// names returns the names of the files of all arrays.
func (a *Arrays) names() []string {
	var names []string
	for _, f := range a.files {
		names = append(names, f.Name)
	}
	return names
}

// full fills the whole buffer or fails. The decoder takes the bytes of one Read for a whole number, and io.EOF for the
// end of an array whose remaining numbers are 0.
type full struct{ r io.Reader }

func (f full) Read(p []byte) (int, error) {
	n, err := io.ReadFull(f.r, p)
	if errors.Is(err, io.EOF) {
		err = io.ErrUnexpectedEOF
	}
	return n, err
}

// maxRatio bounds the size of an array relative to its NPZ file; deflate cannot compress more. It keeps a forged header
// from requesting all memory.
const maxRatio = 1100

// Floats returns an array of numbers and its shape, which must have dims dimensions.
func (a *Arrays) Floats(name string, dims int) (values []float64, shape []int, err error) {
	file := a.file(name)
	if file == nil {
		return nil, nil, fmt.Errorf("%s%s has no array %q but %q", a.reader, a.name, name, a.names())
	}
	content, err := file.Open()
	if err != nil {
		return nil, nil, a.errorf("array %s: %w", name, err)
	}
	defer func() { _ = content.Close() }() // only read
	r, err := npy.NewReader(full{content})
	if err != nil {
		return nil, nil, a.errorf("array %s has no header: %w", name, err)
	}
	h := &r.Header
	if t := h.Descr.Type; t == "|O" || t == "O" {
		return nil, nil, a.errorf("array %s: %w", name, ErrPickled)
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
		err = r.Read(&values)
	case "<f4":
		values, err = converted[float32](r)
	case "<i8":
		values, err = converted[int64](r)
	case "<i4":
		values, err = converted[int32](r)
	default:
		return nil, nil, a.errorf("array %s is of dtype %q, want little-endian float32, float64, int32 or int64", name, h.Descr.Type)
	}
	if err != nil {
		return nil, nil, a.errorf("read %s: %w", name, err)
	}
	if len(values) != n {
		return nil, nil, a.errorf("array %s has %d values, want the %d of shape %v", name, len(values), n, shape)
	}
	return values, shape, nil
}

func converted[T float32 | int32 | int64](r *npy.Reader) ([]float64, error) {
	var raw []T
	if err := r.Read(&raw); err != nil {
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
