package kwok

import (
	"context"
	"io"
	"os"
	"os/exec"
	"path/filepath"
	"strconv"
	"strings"
	"syscall"
	"testing"
)

// pidFile names the variable with the file to which the scheduler of TestKilledParent writes its process id.
const pidFile = "KUBERNASIUM_TEST_PID_FILE"

// TestKilledParent kills the command with the signal that it cannot answer: its scheduler ends, too.
func TestKilledParent(t *testing.T) {
	if os.Getenv(pidFile) != "" { // the parent
		_ = runScheduler(context.Background(), "sh", []string{"-c", `echo $$ >"$` + pidFile + `.new"; mv "$` + pidFile + `.new" "$` + pidFile + `"; exec sleep 300`}, io.Discard)
		return
	}
	file := filepath.Join(t.TempDir(), "pid")
	parent := exec.Command(os.Args[0], "-test.run=^TestKilledParent$")
	parent.Env = append(os.Environ(), pidFile+"="+file)
	if err := parent.Start(); err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = parent.Process.Kill(); _ = parent.Wait() })
	var child int
	waitFor(t, "the scheduler runs", func() bool {
		text, err := os.ReadFile(file)
		if err != nil {
			return false
		}
		child, err = strconv.Atoi(strings.TrimSpace(string(text)))
		return err == nil
	})
	t.Cleanup(func() { _ = syscall.Kill(child, syscall.SIGKILL) }) // it is gone unless the test fails
	if err := parent.Process.Kill(); err != nil {
		t.Fatal(err)
	}
	_ = parent.Wait() // its status is the signal
	waitFor(t, "the scheduler has ended", func() bool {
		status, err := os.ReadFile("/proc/" + strconv.Itoa(child) + "/stat")
		return err != nil || strings.Contains(string(status), ") Z ") // gone, or for its new parent to look after
	})
}
