//go:build unix

package clitest

import (
	"os"
	"os/exec"
	"syscall"
	"testing"
	"time"
)

// KillWhen kills a process once met returns true and the journal that it shares, if any, is unlocked. Other
// processes would wait half a minute for the lock of a killed one.
func KillWhen(t *testing.T, cmd *exec.Cmd, journal string, met func() bool) {
	t.Helper()
	for end := time.Now().Add(Patience); ; time.Sleep(time.Millisecond) {
		if time.Now().After(end) {
			t.Fatalf("no moment to kill the process within %v", Patience)
		}
		if !met() {
			continue
		}
		if err := cmd.Process.Signal(syscall.SIGSTOP); err != nil {
			t.Fatal(err)
		}
		if _, err := os.Lstat(journal + ".lock"); err != nil && met() {
			break
		}
		if err := cmd.Process.Signal(syscall.SIGCONT); err != nil {
			t.Fatal(err)
		}
	}
	if err := cmd.Process.Kill(); err != nil {
		t.Fatal(err)
	}
	_ = cmd.Wait() // it was killed
}
