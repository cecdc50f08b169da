//go:build linux

package models

import (
	"io"
	"os"
	"path/filepath"
	"testing"

	"github.com/kubernasium/kubernasium/tools/chaos/powerfs"
)

// TestPowerLoss: a file that WriteFileAtomic has written into a folder of MkdirAll survives a power loss, with the names
// of all its folders; so does the old one while a new one is written.
func TestPowerLoss(t *testing.T) {
	at, left := t.TempDir(), t.TempDir()
	f, err := powerfs.Mount(at, "", 0)
	if err != nil {
		t.Skipf("needs root and /dev/fuse: %v", err)
	}
	defer func() {
		if err := f.Unmount(); err != nil {
			t.Error(err)
		}
	}()
	dir := filepath.Join("a", "b", "c")
	if err := MkdirAll(filepath.Join(at, dir)); err != nil {
		t.Fatal(err)
	}
	after := func(want string) {
		t.Helper()
		for _, loss := range []powerfs.Loss{powerfs.Strict, powerfs.Names} {
			image := filepath.Join(left, want, string(rune('0'+loss)))
			if err := f.Image(image, loss); err != nil {
				t.Fatal(err)
			}
			if got, err := os.ReadFile(filepath.Join(image, dir, "model")); err != nil || string(got) != want {
				t.Errorf("a power loss leaves %q, %v, want %q", got, err, want)
			}
		}
	}
	for _, text := range []string{"old", "new"} {
		if err := WriteFileAtomic(filepath.Join(at, dir, "model"), func(w io.Writer) error {
			if text == "new" {
				after("old")
			}
			_, err := io.WriteString(w, text)
			return err
		}); err != nil {
			t.Fatal(err)
		}
	}
	after("new")
}

// TestMkdirAllRefusesFiles as os.MkdirAll does.
func TestMkdirAllRefusesFiles(t *testing.T) {
	file := filepath.Join(t.TempDir(), "file")
	if err := os.WriteFile(file, nil, 0o600); err != nil {
		t.Fatal(err)
	}
	for _, dir := range []string{file, filepath.Join(file, "below")} {
		got, want := MkdirAll(dir), os.MkdirAll(dir, 0o755)
		if got == nil || want == nil || got.Error() != want.Error() {
			t.Errorf("%v, want %v", got, want)
		}
	}
}
