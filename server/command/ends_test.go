//go:build unix

package command

import (
	"bufio"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"math/rand/v2"
	"os"
	"os/exec"
	"path/filepath"
	"syscall"
	"testing"
	"time"

	client "github.com/kubernasium/kubernasium/clients/go"
	"github.com/kubernasium/kubernasium/envs"
	"github.com/kubernasium/kubernasium/envs/cluster"
	"github.com/kubernasium/kubernasium/envs/space"
)

// deafEnv is an environment whose steps take ten minutes, whatever their context says. A step first makes the file that the
// option begun names.
const deafEnv = "test/Deaf-v0"

type deaf struct{ begun string }

func (deaf) Spaces() (obs, act space.Space) { return space.NewBox(0, 1, 1), space.Discrete{N: 2} }

func (deaf) Begin(context.Context, cluster.Cluster, *rand.Rand) error { return nil }

func (d deaf) Apply(context.Context, cluster.Cluster, []float32) (envs.Outcome, error) {
	if err := os.WriteFile(d.begun, nil, 0o600); err != nil {
		return envs.Outcome{}, err
	}
	time.Sleep(10 * time.Minute)
	return envs.Outcome{}, nil
}

func (deaf) Observe(_ *cluster.State, obs []float32, mask []bool) {
	obs[0], mask[0], mask[1] = 0, true, true
}

func init() {
	envs.Register(&envs.Spec{
		ID: deafEnv,
		Open: func(opts map[string]any) (envs.Maker, error) {
			begun, _ := opts["begun"].(string)
			return func() (envs.Task, error) { return deaf{begun}, nil }, nil
		},
	})
}

// busy makes a server carry out a step of deafEnv, and returns when the step runs: a server that stops before would refuse
// the request.
func busy(t *testing.T, url string) {
	t.Helper()
	begun := filepath.Join(t.TempDir(), "begun")
	v, err := client.Dial(t.Context(), url, deafEnv, 1, client.Options{Token: "secret", Reconnect: -1, Options: map[string]any{"begun": begun}})
	if err != nil {
		t.Fatal(err)
	}
	if _, err := v.Reset(t.Context(), envs.VecResetOptions{}); err != nil {
		t.Fatal(err)
	}
	ctx, cancel := context.WithCancel(context.Background())
	done := make(chan struct{})
	go func() {
		defer close(done)
		_, _ = v.Step(ctx, []float32{0}) // its end is an error
	}()
	t.Cleanup(func() {
		cancel()
		<-done
		_ = v.Close() // the server has ended
	})
	eventually(t, "the step runs", func() bool {
		_, err := os.Stat(begun)
		return err == nil
	})
}

// endsWithin waits for a process, and returns how it ended.
func endsWithin(t *testing.T, cmd *exec.Cmd, limit time.Duration) error {
	t.Helper()
	ended := make(chan error, 1)
	go func() { ended <- cmd.Wait() }()
	select {
	case err := <-ended:
		return err
	case <-time.After(limit):
		t.Fatalf("the server has not ended after %v", limit)
		return nil
	}
}

// TestTermWhileDeaf: a request that ignores its context does not keep a server: it ends a second after --drain.
func TestTermWhileDeaf(t *testing.T) {
	r, cmd := spawn(t, `exec "$@"`, "--listen", "127.0.0.1:0", "--drain", "10ms")
	busy(t, r.URL)
	if err := cmd.Process.Signal(syscall.SIGTERM); err != nil {
		t.Fatal(err)
	}
	var exit *exec.ExitError
	if err := endsWithin(t, cmd, patience); !errors.As(err, &exit) || exit.ExitCode() != 1 { // 1 s
		t.Errorf("the server ends with %v, want exit status 1", err)
	}
}

// TestSecondSignal: the first signal lets a server drain, the next one ends it at once.
func TestSecondSignal(t *testing.T) {
	r, cmd := spawn(t, `exec "$@"`, "--listen", "127.0.0.1:0", "--drain", "10m")
	busy(t, r.URL)
	stop := make(chan struct{})
	defer close(stop)
	go func() { // the second may come before the first is taken
		for {
			select {
			case <-stop:
				return
			case <-time.After(200 * time.Millisecond):
				_ = cmd.Process.Signal(syscall.SIGTERM) // it may have ended
			}
		}
	}()
	var exit *exec.ExitError
	err := endsWithin(t, cmd, patience)
	if !errors.As(err, &exit) || exit.Sys().(syscall.WaitStatus).Signal() != syscall.SIGTERM {
		t.Errorf("the server ends with %v, want signal %v", err, syscall.SIGTERM)
	}
}

// parentEnv makes the test binary the parent of a server.
const parentEnv = "KUBERNASIUM_TEST_PARENT"

// parent starts a server that ends with it, as clients/python does, hands on its line, and waits to be killed.
func parent() {
	if err := os.Unsetenv(parentEnv); err != nil {
		panic(err)
	}
	cmd := exec.Command(os.Args[0], "--listen", "127.0.0.1:0", "--exit-with-stdin", "--drain", "10m")
	cmd.Env = append(os.Environ(), serverEnv+"=1")
	cmd.Stdout, cmd.Stderr = os.Stdout, os.Stderr
	if _, err := cmd.StdinPipe(); err != nil {
		panic(err)
	}
	if err := cmd.Start(); err != nil {
		panic(err)
	}
	fmt.Fprintln(os.Stderr, cmd.Wait())
}

// TestOrphan: a server ends with the process that started it, also if that is killed, a step runs that ignores its
// context, and --drain is long.
func TestOrphan(t *testing.T) {
	cmd := exec.Command(os.Args[0])
	cmd.Env = append(os.Environ(), parentEnv+"=1", tokenEnv+"=secret")
	stdout, err := cmd.StdoutPipe()
	if err != nil {
		t.Fatal(err)
	}
	gone, held, err := os.Pipe() // the server holds its end, too
	if err != nil {
		t.Fatal(err)
	}
	defer gone.Close()
	cmd.Stderr = held
	if err := cmd.Start(); err != nil {
		t.Fatal(err)
	}
	if err := held.Close(); err != nil {
		t.Fatal(err)
	}
	line, err := bufio.NewReader(stdout).ReadBytes('\n')
	var r ready
	if err == nil {
		err = json.Unmarshal(line, &r)
	}
	if err != nil {
		t.Fatalf("the server says %q, %v", line, err)
	}
	t.Cleanup(func() {
		if t.Failed() {
			_ = syscall.Kill(r.PID, syscall.SIGKILL) // it may have ended
		}
	})
	busy(t, r.URL)
	if err := cmd.Process.Kill(); err != nil {
		t.Fatal(err)
	}
	_ = cmd.Wait() // it was killed
	if err := gone.SetReadDeadline(time.Now().Add(patience)); err != nil {
		t.Fatal(err)
	}
	if log, err := io.ReadAll(gone); err != nil { // two seconds
		t.Errorf("the server is still there: %v\n%s", err, log)
	}
}
