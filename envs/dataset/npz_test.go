package dataset

import (
	"archive/zip"
	"encoding/binary"
	"errors"
	"fmt"
	"io"
	"math"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/kubernasium/kubernasium/envs/envstest"
)

// writeNPZ writes one array, deflated as NumPy's savez_compressed does.
func writeNPZ(t testing.TB, name, dtype, shape string, data []byte) string {
	t.Helper()
	header := fmt.Sprintf("{'descr': '%s', 'fortran_order': False, 'shape': %s, }", dtype, shape)
	header += strings.Repeat(" ", 63-(10+len(header))%64) + "\n"
	b := append([]byte("\x93NUMPY\x01\x00"), 0, 0)
	binary.LittleEndian.PutUint16(b[8:], uint16(len(header)))
	b = append(append(b, header...), data...)
	path := filepath.Join(t.TempDir(), "f.npz")
	f, err := os.Create(path)
	if err != nil {
		t.Fatal(err)
	}
	z := zip.NewWriter(f)
	w, err := z.Create(name + ".npy")
	if err == nil {
		_, err = w.Write(b)
	}
	if err := errors.Join(err, z.Close(), f.Close()); err != nil {
		t.Fatal(err)
	}
	return path
}

func readFloats(path, name string, dims int) ([]float64, error) {
	return ReadNPZ("p: ", path, func(a *Arrays) ([]float64, error) {
		values, _, err := a.Floats(name, dims)
		return values, err
	})
}

// TestNPZOfManyBlocks: an array of more than a block of deflate is read whole; blocks do not end where numbers do, since the
// header has 128 bytes and numbers 4 or 8, of which a block holds no whole number.
func TestNPZOfManyBlocks(t *testing.T) {
	const n = 6435 * 9
	for _, dtype := range []string{"<f8", "<i8"} {
		data := make([]byte, 8*n)
		for i := range n {
			bits := math.Float64bits(float64(i))
			if dtype == "<i8" {
				bits = uint64(i)
			}
			binary.LittleEndian.PutUint64(data[8*i:], bits)
		}
		values, err := readFloats(writeNPZ(t, "x", dtype, "(6435, 9)", data), "x", 2)
		if err != nil {
			t.Fatal(err)
		}
		for i, v := range values {
			if v != float64(i) {
				t.Fatalf("%s: value %d is %v", dtype, i, v)
			}
		}
	}
}

func TestNPZErrors(t *testing.T) {
	for _, tc := range []struct {
		name, dtype, shape string
		bytes              int
		want               error
		text               string
	}{
		{"pickled", "|O", "(2,)", 30, ErrPickled, "array x: pickled objects"},
		{"truncated", "<f8", "(2,)", 15, io.ErrUnexpectedEOF, "read x"},
		{"one of two", "<f8", "(2,)", 8, io.ErrUnexpectedEOF, "read x"},
		{"empty", "<f8", "(2,)", 0, io.ErrUnexpectedEOF, "read x"},
		{"complex", "<c16", "(2,)", 32, nil, `dtype "<c16", want little-endian`},
		{"big-endian", ">f8", "(2,)", 16, nil, `dtype ">f8"`},
		{"dimensions", "<f8", "(2, 1)", 16, nil, "want 1 dimensions"},
		{"too large", "<f8", "(1000000000,)", 16, nil, "cannot hold"},
	} {
		_, err := readFloats(writeNPZ(t, "x", tc.dtype, tc.shape, make([]byte, tc.bytes)), "x", 1)
		if err == nil || tc.want != nil && !errors.Is(err, tc.want) || !strings.Contains(err.Error(), tc.text) {
			t.Errorf("%s: error %v, want %v with %q", tc.name, err, tc.want, tc.text)
		}
	}
	if _, err := readFloats(writeNPZ(t, "y", "<f8", "(2,)", make([]byte, 16)), "x", 1); err == nil || !strings.Contains(err.Error(), `no array "x" but ["y.npy"]`) {
		t.Errorf("no array of the name: %v", err)
	}
}

// FuzzNPZ: whatever a file says, it is an array or an error.
func FuzzNPZ(f *testing.F) {
	for _, seed := range [][2]string{{"<f8", "(2,)"}, {"|O", "(2,)"}, {"<i4", "(1, 2)"}} {
		text, err := os.ReadFile(writeNPZ(f, "x", seed[0], seed[1], make([]byte, 16)))
		if err != nil {
			f.Fatal(err)
		}
		f.Add(text)
	}
	f.Fuzz(func(t *testing.T, text []byte) {
		path := envstest.TempFile(t, "f.npz", string(text))
		values, err := readFloats(path, "x", 1)
		if err == nil && len(values) == 0 {
			t.Error("no values and no error")
		}
	})
}
