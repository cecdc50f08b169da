//go:build unix

package command

import (
	"bufio"
	"context"
	"encoding/json"
	"net/url"
	"os"
	"os/exec"
	"strings"
	"syscall"
	"testing"
	"time"

	client "github.com/kubernasium/kubernasium/clients/go"
	"github.com/kubernasium/kubernasium/server/faults"
)

// serverEnv makes the test binary the server.
const serverEnv = "KUBERNASIUM_TEST_SERVER"

func TestMain(m *testing.M) {
	if os.Getenv(serverEnv) != "" {
		os.Exit(Main())
	}
	if os.Getenv(parentEnv) != "" {
		parent()
		return
	}
	os.Exit(m.Run())
}

// spawn starts a server in a process of its own, from a shell command that ends with "$@".
func spawn(t *testing.T, shell string, args ...string) (ready, *exec.Cmd) {
	t.Helper()
	cmd := exec.Command("sh", append([]string{"-c", shell, "sh", os.Args[0]}, args...)...)
	cmd.Env = append(os.Environ(), serverEnv+"=1", tokenEnv+"=secret")
	stdout, err := cmd.StdoutPipe()
	if err != nil {
		t.Fatal(err)
	}
	var log strings.Builder
	cmd.Stderr = &log
	if err := cmd.Start(); err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		_ = cmd.Process.Kill() // it may have ended
		_ = cmd.Wait()
	})
	line, err := bufio.NewReader(stdout).ReadBytes('\n')
	var r ready
	if err == nil {
		err = json.Unmarshal(line, &r)
	}
	if err != nil {
		t.Fatalf("the server says %q and %s, %v", line, log.String(), err)
	}
	return r, cmd
}

// TestFlood: 10,000 connections without a token do not end a server that may open 120 files, and keep no client with a
// token out for more than 30 s.
func TestFlood(t *testing.T) {
	const within = 30 * time.Second
	flood := 10_000
	if testing.Short() {
		flood = 2_000
	}
	var files syscall.Rlimit
	if err := syscall.Getrlimit(syscall.RLIMIT_NOFILE, &files); err != nil || files.Cur < uint64(flood)+100 {
		t.Skipf("may open %d files (%v); ulimit -n %d enables this test", files.Cur, err, flood+100)
	}
	r, cmd := spawn(t, `ulimit -n 120; exec "$@"`, "--listen", "127.0.0.1:0", "--log-level", "error")
	u, err := url.Parse(r.URL)
	if err != nil {
		t.Fatal(err)
	}
	connections := faults.StartFlood(t.Context(), u.Host, flood)
	defer connections.End()
	for end := time.Now().Add(patience); connections.Made.Load() < min(int64(flood), 3000) && time.Now().Before(end); {
		time.Sleep(10 * time.Millisecond)
	}
	begin := time.Now()
	limited, stop := context.WithTimeout(t.Context(), within)
	defer stop()
	for tries := 1; ; tries++ {
		v, err := client.Dial(limited, r.URL, "classic/CartPole-v1", 1, client.Options{Token: "secret"})
		if err == nil {
			t.Logf("in after %v and %d tries; %d of %d connections were made, %d cut", time.Since(begin), tries, connections.Made.Load(), flood, connections.Cut.Load())
			if err := v.Close(); err != nil {
				t.Error(err)
			}
			break
		}
		if limited.Err() != nil {
			t.Fatalf("still not in after %v and %d tries: %v; %d of %d connections were made, %d cut", within, tries, err, connections.Made.Load(), flood, connections.Cut.Load())
		}
	}
	if err := cmd.Process.Signal(syscall.Signal(0)); err != nil {
		t.Errorf("the server has ended: %v", err)
	}
}
