//go:build !unix

package procgroup

import "os/exec"

// Lead does nothing on this system.
func Lead(*exec.Cmd, bool) {}

// Terminate kills a command that has started.
func Terminate(cmd *exec.Cmd) error { return cmd.Process.Kill() }

// Kill kills a command that has started.
func Kill(cmd *exec.Cmd) error { return cmd.Process.Kill() }
