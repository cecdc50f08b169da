//go:build unix

package fetch

import (
	"errors"
	"os/signal"
	"path/filepath"
	"syscall"
	"testing"
)

// TestFileFull: what a disk without room refuses is an error at once, and what has arrived is kept. A limit on the
// size of files stands for the disk.
func TestFileFull(t *testing.T) {
	s := newServer(t)
	path := filepath.Join(t.TempDir(), "f")
	var before syscall.Rlimit
	if err := syscall.Getrlimit(syscall.RLIMIT_FSIZE, &before); err != nil {
		t.Fatal(err)
	}
	signal.Ignore(syscall.SIGXFSZ)
	limited := before
	limited.Cur = 100_000
	if err := syscall.Setrlimit(syscall.RLIMIT_FSIZE, &limited); err != nil {
		t.Fatal(err)
	}
	_, err := fetcher().File(t.Context(), s.URL, path, Want{SHA256: sum})
	if err := syscall.Setrlimit(syscall.RLIMIT_FSIZE, &before); err != nil {
		t.Fatal(err)
	}
	if !errors.Is(err, errDisk) || len(s.requests) != 1 {
		t.Fatalf("%v after %d requests, want %v after one", err, len(s.requests), errDisk)
	}
	got, err := fetcher().File(t.Context(), s.URL, path, Want{SHA256: sum})
	if err != nil || got.Resumed == 0 {
		t.Errorf("with room again: %+v, %v; want some bytes resumed", got, err)
	}
	fetched(t, path, content)
}
