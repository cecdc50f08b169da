//go:build linux

package powerfs

import (
	"os"
	"path/filepath"
	"testing"
)

// TestLoss: what is synced survives, of both a file and its name; the rest does not, or its name alone.
func TestLoss(t *testing.T) {
	at, image := t.TempDir(), t.TempDir()
	f, err := Mount(at, "", 0)
	if err != nil {
		t.Skipf("needs root and /dev/fuse: %v", err)
	}
	write := func(name, text string, sync bool) {
		t.Helper()
		file, err := os.OpenFile(filepath.Join(at, name), os.O_CREATE|os.O_WRONLY|os.O_APPEND, 0o644)
		if err != nil {
			t.Fatal(err)
		}
		if _, err := file.WriteString(text); err != nil {
			t.Fatal(err)
		}
		if sync {
			if err := file.Sync(); err != nil {
				t.Fatal(err)
			}
		}
		if err := file.Close(); err != nil {
			t.Fatal(err)
		}
	}
	write("synced", "ab", true)
	write("unsynced", "ab", false)
	dir, err := os.Open(at)
	if err == nil {
		err = dir.Sync()
	}
	if err != nil {
		t.Fatal(err)
	}
	if err := dir.Close(); err != nil {
		t.Fatal(err)
	}
	write("synced", "cd", false) // lost
	write("late", "ef", true)
	if err := os.Rename(filepath.Join(at, "late"), filepath.Join(at, "renamed")); err != nil {
		t.Fatal(err)
	}
	if data, err := os.ReadFile(filepath.Join(at, "synced")); err != nil || string(data) != "abcd" {
		t.Errorf("before the loss: %q, %v", data, err)
	}
	if err := f.Unmount(); err != nil {
		t.Fatal(err)
	}
	for loss, want := range map[Loss]map[string]string{
		Strict: {"synced": "ab", "unsynced": ""},
		Names:  {"synced": "ab", "unsynced": "", "renamed": "ef"},
	} {
		dir := filepath.Join(image, string(rune('0'+loss)))
		if err := f.Image(dir, loss); err != nil {
			t.Fatal(err)
		}
		list, err := os.ReadDir(dir)
		if err != nil || len(list) != len(want) {
			t.Errorf("loss %d leaves %v, %v, want %v", loss, list, err, want)
		}
		for name, text := range want {
			if data, err := os.ReadFile(filepath.Join(dir, name)); err != nil || string(data) != text {
				t.Errorf("loss %d leaves %q of %s, %v, want %q", loss, data, name, err, text)
			}
		}
	}
}

// TestFails: after so many changes the power fails, and no request is answered.
func TestFails(t *testing.T) {
	at := t.TempDir()
	f, err := Mount(at, "", 3)
	if err != nil {
		t.Skipf("needs root and /dev/fuse: %v", err)
	}
	defer func() {
		if err := f.Unmount(); err != nil {
			t.Error(err)
		}
	}()
	if err := os.WriteFile(filepath.Join(at, "a"), []byte("x"), 0o644); err != nil { // create and write
		t.Fatal(err)
	}
	if err := os.Mkdir(filepath.Join(at, "b"), 0o755); err == nil {
		t.Error("the third change is made, want an error")
	}
	select {
	case <-f.Failed():
	default:
		t.Error("the power has not failed")
	}
	if _, err := os.ReadFile(filepath.Join(at, "a")); err == nil {
		t.Error("a file can be read without power")
	}
}
