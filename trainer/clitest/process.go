package clitest

import (
	"bytes"
	"os"
	"os/exec"
	"testing"
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
