//go:build unix

package credentials

import (
	"log/slog"
	"os"
	"path/filepath"
	"syscall"
	"testing"
	"time"
)

// TestPipe reads tokens from a pipe, which has no second text: they stay good, and nobody waits for one.
func TestPipe(t *testing.T) {
	path := filepath.Join(t.TempDir(), "tokens")
	if err := syscall.Mkfifo(path, 0o600); err != nil {
		t.Fatal(err)
	}
	written := make(chan error, 1)
	go func() { written <- os.WriteFile(path, []byte("alpha\n"), 0o600) }()
	k, err := ReadTokens(path, slog.New(slog.DiscardHandler))
	if err != nil {
		t.Fatal(err)
	}
	if err := <-written; err != nil {
		t.Fatal(err)
	}
	k.file.every, k.file.next = 0, time.Time{}
	accepted := make(chan bool, 1)
	go func() { accepted <- k.Accept("alpha") && !k.Accept("beta") }()
	select {
	case ok := <-accepted:
		if !ok {
			t.Error("the token of the pipe is not good any more")
		}
	case <-time.After(time.Minute):
		t.Fatal("a client waits for the pipe")
	}
}
