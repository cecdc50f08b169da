//go:build linux

package local

import (
	"bytes"
	"errors"
	"fmt"
	"io"
	"os/exec"
	"time"

	"golang.org/x/sys/unix"

	"github.com/kubernasium/kubernasium/kwok/bsp"
	"github.com/kubernasium/kubernasium/kwok/procgroup"
)

// held is a shell that becomes stress-ng when it reads the number of operations. Its limits can be set before
// that, and it starts at once when it is released.
const held = `read -r ops && exec "$0" "$@" "$ops"`

// member is a process that does a task's work in one superstep.
type member struct {
	cmd     *exec.Cmd
	release io.WriteCloser
	stderr  bytes.Buffer
	ended   chan struct{} // closed when it has ended; then the fields below are set
	end     time.Time
	err     error // not nil if it did not complete its work
}

// startMember starts a process in a group. The process waits for its release.
func startMember(path string, w bsp.Work, temp string, g Group) (*member, error) {
	m := &member{ended: make(chan struct{})}
	m.cmd = exec.Command("sh", append([]string{"-c", held, path}, w.Args(temp)...)...)
	m.cmd.Dir = temp
	procgroup.Lead(m.cmd, true) // to end also stress-ng's workers
	m.cmd.WaitDelay = procgroup.KillDelay
	m.cmd.Stdout, m.cmd.Stderr = &m.stderr, &m.stderr
	var err error
	if m.release, err = m.cmd.StdinPipe(); err != nil {
		return nil, err
	}
	if err := m.cmd.Start(); err != nil {
		return nil, fmt.Errorf("local: start %s: %w", w.Task, err)
	}
	err = g.Add(m.cmd.Process.Pid)
	go m.wait(w.Task, g)
	if err != nil {
		m.kill()
		return nil, err
	}
	return m, nil
}

// wait waits for the end of the process. Until it is reaped, no other process can have its PID.
func (m *member) wait(task string, g Group) {
	defer close(m.ended)
	for {
		err := unix.Waitid(unix.P_PID, m.cmd.Process.Pid, nil, unix.WEXITED|unix.WNOWAIT, nil)
		if !errors.Is(err, unix.EINTR) {
			break
		}
	}
	m.end = time.Now()
	left := g.Kill() // children that it left behind
	if err := m.cmd.Wait(); err != nil {
		m.err = fmt.Errorf("%w: %s: %w: %s", bsp.ErrDead, task, err, procgroup.LastLine(m.stderr.String()))
	} else if left != nil {
		m.err = left
	}
}

// work releases the process.
func (m *member) work(ops int64) error {
	_, err := fmt.Fprintln(m.release, ops)
	return errors.Join(err, m.release.Close())
}

// kill ends the process and its children.
func (m *member) kill() {
	select {
	case <-m.ended:
		return
	default:
	}
	_ = procgroup.Kill(m.cmd) // it may have ended
	<-m.ended
}
