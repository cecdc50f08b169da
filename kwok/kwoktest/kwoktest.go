// Package kwoktest starts control planes for tests, as processes that end with the test.
package kwoktest

import (
	"bufio"
	"bytes"
	"encoding/json"
	"fmt"
	"io"
	"io/fs"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"sync"
	"syscall"
	"testing"
	"time"

	"github.com/kubernasium/kubernasium/kwok/stages"
)

// BinaryVariable names the environment variable with the control plane's binary. Tests that want
// one skip without it, and fail where it is set and does not start.
const BinaryVariable = "KUBERNASIUM_CONTROLPLANE"

const (
	readyTimeout = 2 * time.Minute // a start takes 2 s on an idle machine
	stopTimeout  = 30 * time.Second
)

// ControlPlane is a control plane that runs.
type ControlPlane struct {
	Kubeconfig string  `json:"kubeconfig"`
	URL        string  `json:"url"`
	PID        int     `json:"pid"`
	Seconds    float64 `json:"seconds"` // from the start until ready

	cmd    *exec.Cmd
	stdin  io.WriteCloser
	stderr *buffer
	once   sync.Once
	err    error
}

var (
	sharedOnce sync.Once
	shared     *ControlPlane
	sharedDir  string
	sharedErr  error
)

// Shared returns the control plane that the tests of a package share. It is started at the first
// call, and [Main] stops it. Without a binary the test is skipped.
func Shared(t testing.TB) *ControlPlane {
	t.Helper()
	needBinary(t)
	sharedOnce.Do(func() {
		if sharedDir, sharedErr = os.MkdirTemp("", "kwoktest"); sharedErr == nil {
			shared, sharedErr = start(sharedDir)
		}
	})
	if sharedErr != nil {
		t.Fatal(sharedErr)
	}
	return shared
}

// Main is for TestMain: it runs the tests, stops the control plane that they shared, and returns
// the exit code.
func Main(m *testing.M) int {
	code := m.Run()
	if sharedDir != "" {
		defer os.RemoveAll(sharedDir)
	}
	if shared != nil {
		if err := shared.stop(syscall.SIGTERM); err != nil {
			fmt.Fprintln(os.Stderr, "kwoktest:", err)
			code = max(code, 1)
		}
	}
	return code
}

// Start starts a control plane of the test's own, with further flags, and stops it at its end.
func Start(t testing.TB, flags ...string) *ControlPlane {
	t.Helper()
	needBinary(t)
	p, err := start(t.TempDir(), flags...)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		if err := p.stop(syscall.SIGTERM); err != nil {
			t.Error(err)
		}
		if t.Failed() {
			t.Logf("log of the control plane:\n%s", p.stderr)
		}
	})
	return p
}

func needBinary(t testing.TB) {
	t.Helper()
	if os.Getenv(BinaryVariable) == "" {
		t.Skipf("needs a control plane: `make test-kwok` builds one and runs this; or set %s to its binary", BinaryVariable)
	}
}

// start starts a control plane with the stages of package stages and waits until it is ready.
func start(dir string, flags ...string) (*ControlPlane, error) {
	files, err := writeStages(dir)
	if err != nil {
		return nil, err
	}
	args := append([]string{"--exit-with-stdin", "--stages=" + strings.Join(files, ",")}, flags...)
	p := &ControlPlane{cmd: exec.Command(os.Getenv(BinaryVariable), args...), stderr: &buffer{}}
	p.cmd.Stderr = p.stderr
	if p.stdin, err = p.cmd.StdinPipe(); err != nil {
		return nil, err
	}
	stdout, err := p.cmd.StdoutPipe()
	if err != nil {
		return nil, err
	}
	if err := p.cmd.Start(); err != nil {
		return nil, fmt.Errorf("kwoktest: %w", err)
	}
	line := make(chan []byte, 1)
	go func() {
		text, _ := bufio.NewReader(stdout).ReadBytes('\n') // an end without a line is seen below
		line <- text
	}()
	select {
	case text := <-line:
		if err := json.Unmarshal(text, p); err != nil {
			return nil, fmt.Errorf("kwoktest: the control plane said %q and ended (%v):\n%s", text, p.stop(syscall.SIGTERM), p.stderr)
		}
		return p, nil
	case <-time.After(readyTimeout):
		return nil, fmt.Errorf("kwoktest: the control plane is not ready after %v (%v):\n%s", readyTimeout, p.stop(syscall.SIGKILL), p.stderr)
	}
}

// writeStages writes the stages to dir and returns the files' names.
func writeStages(dir string) ([]string, error) {
	if err := os.CopyFS(dir, stages.Files()); err != nil {
		return nil, err
	}
	names, err := fs.Glob(os.DirFS(dir), "*.yaml")
	for i := range names {
		names[i] = filepath.Join(dir, names[i])
	}
	return names, err
}

// Kill ends the control plane as a crash does, and returns when it has ended.
func (p *ControlPlane) Kill() { _ = p.stop(syscall.SIGKILL) }

// stop sends a signal to the process, by its id, and waits for its end.
func (p *ControlPlane) stop(signal syscall.Signal) error {
	p.once.Do(func() {
		if err := p.cmd.Process.Signal(signal); err != nil {
			p.err = err
		}
		late := time.AfterFunc(stopTimeout, func() { _ = p.cmd.Process.Kill() })
		err := p.cmd.Wait()
		if !late.Stop() {
			p.err = fmt.Errorf("kwoktest: the control plane had not stopped %v after %v and was killed", stopTimeout, signal)
		} else if signal != syscall.SIGKILL && err != nil {
			p.err = fmt.Errorf("kwoktest: the control plane's end: %w\n%s", err, p.stderr)
		}
	})
	return p.err
}

// buffer is a log that may be read while it is written.
type buffer struct {
	mu sync.Mutex
	b  bytes.Buffer
}

func (b *buffer) Write(p []byte) (int, error) {
	b.mu.Lock()
	defer b.mu.Unlock()
	return b.b.Write(p)
}

func (b *buffer) String() string {
	b.mu.Lock()
	defer b.mu.Unlock()
	return b.b.String()
}
