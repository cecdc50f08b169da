// Package kwoktest starts control planes for tests, as processes that end with the test.
package kwoktest

import (
	"bytes"
	"context"
	"fmt"
	"os"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/kubernasium/kubernasium/kwok/launch"
	"github.com/kubernasium/kubernasium/kwok/stages"
)

const readyTimeout = 2 * time.Minute // a start takes 2 s on an idle machine

// ControlPlane is a running control plane.
type ControlPlane struct {
	*launch.ControlPlane
	log    buffer
	killed bool
}

var (
	sharedOnce sync.Once
	shared     *ControlPlane
	sharedDir  string
	sharedErr  error
)

// Shared returns the control plane that the tests of a package share. The first call starts it, with that
// call's additional flags, and [Main] stops it. It skips the test if there is no binary.
func Shared(t testing.TB, flags ...string) *ControlPlane {
	t.Helper()
	needBinary(t)
	sharedOnce.Do(func() {
		if sharedDir, sharedErr = os.MkdirTemp("", "kwoktest"); sharedErr == nil {
			shared, sharedErr = start(sharedDir, flags...)
		}
	})
	if sharedErr != nil {
		t.Fatal(sharedErr)
	}
	return shared
}

// Main is for TestMain: it runs the tests, stops the shared control plane, and returns the exit
// code.
func Main(m *testing.M) int {
	code := m.Run()
	if sharedDir != "" {
		defer os.RemoveAll(sharedDir)
	}
	if shared != nil {
		if err := shared.stop(); err != nil {
			fmt.Fprintln(os.Stderr, "kwoktest:", err)
			code = max(code, 1)
		}
	}
	return code
}

// Start starts a control plane for one test, with additional flags, and stops it when the test ends.
func Start(t testing.TB, flags ...string) *ControlPlane {
	t.Helper()
	needBinary(t)
	p, err := start(t.TempDir(), flags...)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		if err := p.stop(); err != nil {
			t.Error(err)
		}
		if t.Failed() {
			t.Logf("log of the control plane:\n%s", &p.log)
		}
	})
	return p
}

// needBinary skips the test unless the environment names the binary. If it also used one in bin, `go test
// ./...` would take minutes.
func needBinary(t testing.TB) {
	t.Helper()
	if os.Getenv(launch.BinaryEnv) == "" {
		t.Skipf("needs a control plane: `make test-kwok` builds one and runs this; or set %s to its binary", launch.BinaryEnv)
	}
}

// start starts a control plane with the stages of package stages, which it writes to dir, and waits until it is
// ready.
func start(dir string, flags ...string) (*ControlPlane, error) {
	files, err := stages.Write(dir)
	if err != nil {
		return nil, err
	}
	ctx, cancel := context.WithTimeout(context.Background(), readyTimeout)
	defer cancel()
	p := &ControlPlane{}
	p.ControlPlane, err = launch.Start(ctx, launch.Options{Args: append([]string{"--stages=" + strings.Join(files, ",")}, flags...), Stderr: &p.log})
	if err != nil {
		return nil, fmt.Errorf("%w\n%s", err, &p.log)
	}
	return p, nil
}

// Kill kills the control plane, and returns when it has ended.
func (p *ControlPlane) Kill() error {
	p.killed = true
	process, err := os.FindProcess(p.PID)
	if err == nil {
		err = process.Kill()
	}
	if err != nil {
		return err
	}
	<-p.Ended()
	return nil
}

// stop stops the control plane unless it was killed.
func (p *ControlPlane) stop() error {
	if err := p.Stop(); err != nil && !p.killed {
		return fmt.Errorf("%w\n%s", err, &p.log)
	}
	return nil
}

// buffer is a log that one goroutine may read while another writes it.
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
