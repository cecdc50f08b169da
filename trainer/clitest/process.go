package clitest

import (
	"bytes"
	"os"
	"os/exec"
	"testing"
)

// Process starts a command line of the trainer in a separate process, and returns the process with its standard
// output.
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

// Together starts n processes of one command line, waits for them and returns their standard outputs.
func Together(t *testing.T, n int, args ...string) [][]byte {
	t.Helper()
	running, outs := make([]*exec.Cmd, n), make([]*bytes.Buffer, n)
	for i := range running {
		running[i], outs[i] = Process(t, args...)
	}
	texts := make([][]byte, n)
	for i, cmd := range running {
		if err := cmd.Wait(); err != nil {
			t.Fatalf("process %d of %d: %v", i, n, err)
		}
		texts[i] = outs[i].Bytes()
	}
	return texts
}
