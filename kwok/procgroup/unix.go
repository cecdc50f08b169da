//go:build unix

package procgroup

import (
	"os/exec"
	"syscall"
)

// Lead makes a command that has not started the leader of a process group. With withParent, on Linux only, the
// leader is killed when this process ends.
func Lead(cmd *exec.Cmd, withParent bool) {
	cmd.SysProcAttr = &syscall.SysProcAttr{Setpgid: true}
	if withParent {
		endWithParent(cmd.SysProcAttr)
	}
}

// Terminate sends SIGTERM to the group of a leader that has started.
func Terminate(cmd *exec.Cmd) error { return syscall.Kill(-cmd.Process.Pid, syscall.SIGTERM) }

// Kill kills the group of a leader that has started.
func Kill(cmd *exec.Cmd) error { return syscall.Kill(-cmd.Process.Pid, syscall.SIGKILL) }
