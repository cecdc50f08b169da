package plane

import (
	"errors"
	"os"
	"path/filepath"
	"testing"
	"time"
)

// TestSweep removes folders that a killed control plane has left, and no others.
func TestSweep(t *testing.T) {
	base := t.TempDir()
	dir := func(name string, age time.Duration) string {
		path := filepath.Join(base, name)
		if err := os.Mkdir(path, 0o700); err != nil {
			t.Fatal(err)
		}
		when := time.Now().Add(-age)
		if err := os.Chtimes(path, when, when); err != nil {
			t.Fatal(err)
		}
		return path
	}
	age := func(path string) {
		old := time.Now().Add(-time.Hour)
		if err := os.Chtimes(path, old, old); err != nil {
			t.Fatal(err)
		}
	}
	killed, young, other := dir(prefix+"killed", time.Hour), dir(prefix+"young", 0), dir("other", time.Hour)
	used := dir(prefix+"used", 0)
	l, err := lock(filepath.Join(used, lockFile))
	if err != nil {
		t.Fatal(err)
	}
	age(used)
	sweep(base)
	for path, want := range map[string]bool{killed: false, young: true, other: true, used: true} {
		if _, err := os.Stat(path); (err == nil) != want {
			t.Errorf("%s is there: %v, want %v", filepath.Base(path), err == nil, want)
		}
	}
	if _, err := lock(l.Name()); !errors.Is(err, errLocked) {
		t.Errorf("second lock = %v, want %v", err, errLocked)
	}
	if err := l.Close(); err != nil {
		t.Fatal(err)
	}
	age(used)
	sweep(base)
	if _, err := os.Stat(used); err == nil {
		t.Error("a folder stays after its lock is released")
	}
}

func TestOpenFolder(t *testing.T) {
	kept := filepath.Join(t.TempDir(), "data")
	f, err := openFolder(kept)
	if err != nil {
		t.Fatal(err)
	}
	if _, err := openFolder(kept); !errors.Is(err, errLocked) {
		t.Errorf("second control plane on a folder: %v, want %v", err, errLocked)
	}
	if err := f.close(); err != nil {
		t.Fatal(err)
	}
	if _, err := os.Stat(kept); err != nil {
		t.Errorf("a named folder did not stay: %v", err)
	}
	if _, err := os.Stat(f.temp); err == nil {
		t.Errorf("%s stayed", f.temp)
	}
	if f, err = openFolder(""); err != nil {
		t.Fatal(err)
	}
	if info, err := os.Stat(f.path); err != nil || info.Mode().Perm() != 0o700 {
		t.Errorf("temporary folder: %v, mode %v, want 0700", err, info.Mode())
	}
	if err := f.close(); err != nil {
		t.Fatal(err)
	}
	if _, err := os.Stat(f.path); err == nil {
		t.Errorf("%s stayed", f.path)
	}
}
