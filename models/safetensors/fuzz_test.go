package safetensors

import (
	"bytes"
	"errors"
	"os"
	"testing"
)

// FuzzRead holds that a file is refused with ErrCorrupt or that its contents can be written
// and read again, to the same bytes.
func FuzzRead(f *testing.F) {
	python, err := os.ReadFile("testdata/python.safetensors")
	if err != nil {
		f.Fatal(err)
	}
	ours := encode(f, sample(), map[string]string{"k": "v"})
	f.Add(python)
	f.Add(ours)
	f.Add(ours[:len(ours)-1])
	f.Add(raw(`{}`, 0))
	f.Add(raw(`{"a":{"dtype":"U8","shape":[],"data_offsets":[0,1]}}`, 1))
	f.Add(raw(`{"a":{"dtype":"F64","shape":[2,0],"data_offsets":[0,0]},"__metadata__":{"a":"b"}}  `, 0))
	f.Fuzz(func(t *testing.T, b []byte) {
		file, err := Read(bytes.NewReader(b))
		if err != nil {
			if !errors.Is(err, ErrCorrupt) {
				t.Errorf("error %v does not wrap %v", err, ErrCorrupt)
			}
			return
		}
		once := encode(t, file.Tensors, file.Metadata)
		again, err := Decode(once)
		if err != nil {
			t.Fatalf("reading what was written: %v", err)
		}
		if twice := encode(t, again.Tensors, again.Metadata); !bytes.Equal(once, twice) {
			t.Error("writing twice gives other bytes")
		}
	})
}
