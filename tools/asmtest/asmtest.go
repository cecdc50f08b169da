// Package asmtest checks that the assembly of a package is the output of the package's generator.
package asmtest

import (
	"bytes"
	"os"
	"os/exec"
	"path/filepath"
	"testing"
)

// Check runs the generator ./internal/asm of the package under test, pkg, and compares its output with the files assembly
// and stubs. It ignores their first lines, which contain the command. It skips the test with -short.
func Check(t *testing.T, pkg, assembly, stubs string) {
	t.Helper()
	if testing.Short() {
		t.Skip("compiles the generator; run without -short")
	}
	dir := t.TempDir()
	cmd := exec.Command("go", "run", "./internal/asm", "-out", filepath.Join(dir, assembly), "-stubs", filepath.Join(dir, stubs), "-pkg", pkg)
	if out, err := cmd.CombinedOutput(); err != nil {
		t.Fatalf("%v: %v\n%s", cmd, err, out)
	}
	for _, name := range []string{assembly, stubs} {
		if !bytes.Equal(body(t, filepath.Join(dir, name)), body(t, name)) {
			t.Errorf("%s of package %s is out of date: run go generate in its folder", name, pkg)
		}
	}
}

// body returns a file without its first line.
func body(t *testing.T, path string) []byte {
	t.Helper()
	b, err := os.ReadFile(path)
	if err != nil {
		t.Fatal(err)
	}
	_, rest, _ := bytes.Cut(b, []byte("\n"))
	return rest
}
