//go:build !unix

package procgroup

import "os/exec"

// Lead does nothing here.
func Lead(*exec.Cmd, bool) {}

// Terminate ends a command that has started.
func Terminate(cmd *exec.Cmd) error { return cmd.Process.Kill() }

// Kill ends a command that has started.
func Kill(cmd *exec.Cmd) error { return cmd.Process.Kill() }
