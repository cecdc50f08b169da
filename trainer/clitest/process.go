package clitest

import (
	"bytes"
	"os"
	"os/exec"
	"syscall"
	"testing"
	"time"
)

// Process starts a command line of the trainer in a process of its own, and returns it with its standard output.
func Process(t *testing.T, args ...string) (*exec.Cmd, *bytes.Buffer) {
	t.Helper()
	exe, err := os.Executable()
	if err != nil {
		t.Fatal(err)
	}
	cmd, out := exec.Command(exe, args...), &bytes.Buffer{}
	cmd.Env = append(os.Environ(), ChildVariable+"=1")
	cmd.Stdout, cmd.Stderr = out, os.Stderr
	if err := cmd.Start(); err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = cmd.Process.Kill() }) // it may have ended
	return cmd, out
}

// KillWhen kills a process at a moment at which met holds. Of a process that shares a journal it is one at which nobody
// has the journal locked, since others would wait for the lock of a killed process for half a minute.
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
	_ = cmd.Wait() // killed
}
