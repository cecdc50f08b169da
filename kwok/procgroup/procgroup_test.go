//go:build unix

package procgroup

import (
	"bufio"
	"errors"
	"os/exec"
	"strconv"
	"strings"
	"syscall"
	"testing"
	"time"
)

// TestChildrenEndToo: both ways reach the child of the leader, which would live on without a group.
func TestChildrenEndToo(t *testing.T) {
	for name, end := range map[string]func(*exec.Cmd) error{"terminate": Terminate, "kill": Kill} {
		t.Run(name, func(t *testing.T) {
			cmd := exec.Command("sh", "-c", "sleep 300 & echo $!; wait")
			Lead(cmd, true)
			out, err := cmd.StdoutPipe()
			if err != nil {
				t.Fatal(err)
			}
			if err := cmd.Start(); err != nil {
				t.Fatal(err)
			}
			line, err := bufio.NewReader(out).ReadString('\n')
			if err != nil {
				t.Fatal(err)
			}
			child, err := strconv.Atoi(strings.TrimSpace(line))
			if err != nil {
				t.Fatal(err)
			}
			t.Cleanup(func() { _ = syscall.Kill(child, syscall.SIGKILL) }) // it is gone unless the test fails
			if err := end(cmd); err != nil {
				t.Fatal(err)
			}
			// The child holds the pipe open as long as it lives, and so does Wait's reader.
			done := make(chan struct{})
			go func() { _, _ = out.Read(make([]byte, 1)); _ = cmd.Wait(); close(done) }() // its status is the signal
			select {
			case <-done:
			case <-time.After(time.Minute):
				t.Fatal("a child lives on")
			}
			if err := Kill(cmd); !errors.Is(err, syscall.ESRCH) && !errors.Is(err, syscall.EPERM) && err != nil {
				t.Errorf("Kill of a group that is gone: %v", err)
			}
		})
	}
}
