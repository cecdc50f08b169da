package study

import (
	"io/fs"
	"os"
	"path/filepath"
	"testing"
	"time"
)

// TestStaleLock: of two processes that wait for a stale lock, the later one does not take the lock that the first has made.
func TestStaleLock(t *testing.T) {
	path := filepath.Join(t.TempDir(), "journal.log")
	if err := os.WriteFile(path, nil, 0o600); err != nil {
		t.Fatal(err)
	}
	link := path + ".lock"
	locked := func() fs.FileInfo {
		if err := create(link, filepath.Base(path)); err != nil {
			t.Fatal(err)
		}
		info, err := os.Lstat(link)
		if err != nil {
			t.Fatal(err)
		}
		return info
	}
	stale := locked()
	if err := remove(link, stale); err != nil { // the first process
		t.Fatal(err)
	}
	time.Sleep(20 * time.Millisecond) // file systems may count time by the clock's ticks
	fresh := locked()
	if err := remove(link, stale); err == nil { // the later one has waited for the stale lock, too
		t.Error("the lock of the first process is taken")
	}
	if now, err := os.Lstat(link); err != nil || !now.ModTime().Equal(fresh.ModTime()) {
		t.Errorf("the lock of the first process is not in place: %v", err)
	}
	if err := remove(link, nil); err != nil { // its own
		t.Errorf("the first process cannot unlock: %v", err)
	}
	left, err := os.ReadDir(filepath.Dir(path))
	if err != nil || len(left) != 1 {
		t.Errorf("%d files are left, %v, want the journal", len(left), err)
	}
}
