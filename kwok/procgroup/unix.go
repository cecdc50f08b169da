//go:build unix

package procgroup

import (
	"os/exec"
	"syscall"
)

// Lead makes a command that has not started the leader of a process group. With ends the group's leader
// ends with this process, on Linux only.
func Lead(cmd *exec.Cmd, ends bool) {
	cmd.SysProcAttr = &syscall.SysProcAttr{Setpgid: true}
	if ends {
		endWithParent(cmd.SysProcAttr)
	}
}

// Terminate asks the group of a leader that has started to end.
func Terminate(cmd *exec.Cmd) error { return syscall.Kill(-cmd.Process.Pid, syscall.SIGTERM) }

// Kill ends the group of a leader that has started.
func Kill(cmd *exec.Cmd) error { return syscall.Kill(-cmd.Process.Pid, syscall.SIGKILL) }
