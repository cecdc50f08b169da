// Package hosttest starts servers for tests.
package hosttest

import (
	"context"
	"io"
	"log/slog"
	"net"
	"path/filepath"
	"runtime"
	"strings"
	"testing"
	"time"

	"github.com/kubernasium/kubernasium/server/host"
	"github.com/kubernasium/kubernasium/server/wire"
)

// Instance is a server that ends with its test.
type Instance struct {
	*host.Server
	HTTP string // URL of the HTTP server
	WS   string // URL of WebSocket
	Unix string // URL of the unix socket
}

// Start starts a server on loopback with the default limits, changed by each of change. It shuts
// the server down when the test ends, and fails the test if the server leaves goroutines.
func Start(t testing.TB, change ...func(*host.Config)) *Instance {
	t.Helper()
	before := runtime.NumGoroutine()
	cfg := host.Config{Limits: wire.DefaultLimits(), Version: "test", DrainFor: 5 * time.Second, Log: slog.New(slog.NewTextHandler(io.Discard, nil))}
	for _, c := range change {
		c(&cfg)
	}
	s := &Instance{Server: host.New(cfg)}
	tcp, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	path := filepath.Join(t.TempDir(), "s")
	unix, err := net.Listen("unix", path)
	if err != nil {
		t.Fatal(err)
	}
	s.HTTP, s.WS, s.Unix = "http://"+tcp.Addr().String(), "ws://"+tcp.Addr().String()+wire.Path, "unix://"+path
	done := make(chan error, 2)
	go func() { done <- s.Serve(tcp) }()
	go func() { done <- s.ServeUnix(unix) }()
	t.Cleanup(func() {
		if err := s.Shutdown(context.Background()); err != nil {
			t.Errorf("Shutdown: %v", err)
		}
		for range 2 {
			if err := <-done; err != nil {
				t.Errorf("serve: %v", err)
			}
		}
		checkGoroutines(t, before)
	})
	return s
}

// checkGoroutines waits until there are no more goroutines than before.
func checkGoroutines(t testing.TB, before int) {
	t.Helper()
	for end := time.Now().Add(time.Minute); time.Now().Before(end); time.Sleep(10 * time.Millisecond) {
		if runtime.NumGoroutine() <= before {
			return
		}
	}
	buf := make([]byte, 1<<20)
	stacks := string(buf[:runtime.Stack(buf, true)])
	var ours []string
	for g := range strings.SplitSeq(stacks, "\n\n") {
		if strings.Contains(g, "kubernasium/server") {
			ours = append(ours, g)
		}
	}
	t.Errorf("%d goroutines, %d before the server\n%s", runtime.NumGoroutine(), before, strings.Join(ours, "\n\n"))
}
