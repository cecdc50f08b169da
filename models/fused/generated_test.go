package fused

import (
	"bytes"
	"os"
	"os/exec"
	"path/filepath"
	"testing"
)

// The assembly and its stubs are those that the generator writes.
func TestGenerated(t *testing.T) {
	if testing.Short() {
		t.Skip("compiles the generator; run without -short")
	}
	dir := t.TempDir()
	files := []string{"kernels_amd64.s", "stubs_amd64.go"}
	cmd := exec.Command("go", "run", "./internal/asm", "-out", filepath.Join(dir, files[0]),
		"-stubs", filepath.Join(dir, files[1]), "-pkg", "fused")
	if out, err := cmd.CombinedOutput(); err != nil {
		t.Fatalf("%v: %v\n%s", cmd, err, out)
	}
	for _, name := range files {
		got, want := body(t, filepath.Join(dir, name)), body(t, name)
		if !bytes.Equal(got, want) {
			t.Errorf("%s is out of date: run go generate ./models/fused", name)
		}
	}
}

// body returns a file without its first line, which holds the command that wrote it.
func body(t *testing.T, path string) []byte {
	t.Helper()
	b, err := os.ReadFile(path)
	if err != nil {
		t.Fatal(err)
	}
	_, rest, _ := bytes.Cut(b, []byte("\n"))
	return rest
}
