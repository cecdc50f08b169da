//go:build linux

package main

import (
	"bufio"
	"context"
	"encoding/json"
	"errors"
	"io"
	"net/http"
	"os/exec"
	"runtime"
	"strconv"
	"strings"
	"sync"
	"syscall"
	"time"

	"github.com/prometheus/procfs"
)

// patience limits every wait for a program, on a machine with other work.
const patience = time.Minute

// A server is a process of the program.
type server struct {
	p    *probe
	cmd  *exec.Cmd
	log  tail
	ws   string // URL
	addr string // URL of HTTP
	unix string // path of the socket, with --unix
	done chan struct{}
	err  error // error of the process; read it after done is closed
}

// A tail keeps the end of a log.
type tail struct {
	mu   sync.Mutex
	text []byte
}

// Write implements [io.Writer].
func (l *tail) Write(b []byte) (int, error) {
	l.mu.Lock()
	defer l.mu.Unlock()
	l.text = append(l.text, b...)
	if drop := len(l.text) - 64<<10; drop > 0 {
		l.text = append(l.text[:0], l.text[drop:]...)
	}
	return len(b), nil
}

func (l *tail) String() string {
	l.mu.Lock()
	defer l.mu.Unlock()
	return string(l.text)
}

// serve starts the server on loopback, at a free port unless args name one. before is a shell command to run
// first, such as ulimit. If the server does not start, serve fails and ends the row, and serveAt returns nil.
func (p *probe) serve(before string, args ...string) *server {
	s := p.serveAt("127.0.0.1:0", before, args...)
	if s == nil {
		runtime.Goexit()
	}
	return s
}

func (p *probe) serveAt(listen, before string, args ...string) *server {
	args = append([]string{"--listen", listen, "--log-level", "warn"}, args...)
	s := &server{p: p, done: make(chan struct{})}
	if before != "" {
		before += "; "
	}
	s.cmd = exec.Command("sh", append([]string{"-c", before + `exec "$@"`, "sh", p.server}, args...)...)
	s.cmd.Stderr = &s.log
	out, err := s.cmd.StdoutPipe()
	if p.failOn(err, "start the server") || p.failOn(s.cmd.Start(), "start the server") {
		return nil
	}
	line, err := bufio.NewReader(out).ReadBytes('\n')
	var ready struct{ URL, Unix string }
	if err == nil {
		err = json.Unmarshal(line, &ready)
	}
	go func() {
		s.err = s.cmd.Wait()
		close(s.done)
	}()
	if err != nil {
		p.fail("the server does not start: %v: %s", err, s.log.String())
		return nil
	}
	s.ws, s.unix = ready.URL, ready.Unix
	s.addr, _, _ = strings.Cut(strings.TrimPrefix(ready.URL, "ws://"), "/")
	return s
}

// ended records a crash, unless the server ended as expected.
func (s *server) ended(ok bool, how string) {
	if log := s.log.String(); !ok || strings.Contains(log, "panic") || strings.Contains(log, "fatal error") {
		s.p.crashes++
		s.p.fail("the server %s: %v: %.2000s", how, s.err, log)
	}
}

// alive reports whether the process runs.
func (s *server) alive() bool { return !ended(s.done) }

// kill kills the server by SIGKILL. If it has already ended, it has crashed.
func (s *server) kill() {
	ok := s.cmd.Process.Kill() == nil
	<-s.done
	var exit *exec.ExitError
	ok = ok && errors.As(s.err, &exit) && exit.Sys().(syscall.WaitStatus).Signal() == syscall.SIGKILL
	s.ended(ok, "ended before it was killed")
}

// stop ends the server by SIGTERM once its sessions have ended. Sessions that do not end within wait have
// leaked.
func (s *server) stop(wait time.Duration) {
	if s == nil {
		return
	}
	left := -1.0
	for end := time.Now().Add(wait + patience/2); left != 0 && s.alive() && time.Now().Before(end); time.Sleep(20 * time.Millisecond) {
		left = s.metric("kubernasium_sessions")
	}
	if left > 0 {
		s.p.leaked += int(left)
	}
	s.terminate()
}

// terminate sends SIGTERM and returns the time until the server has ended.
func (s *server) terminate() time.Duration {
	begin := time.Now()
	ok := s.cmd.Process.Signal(syscall.SIGTERM) == nil
	select {
	case <-s.done:
	case <-time.After(patience):
		ok = false
		_ = s.cmd.Process.Kill() // already recorded as a failure
		<-s.done
	}
	s.ended(ok && s.err == nil, "did not end well by SIGTERM")
	return time.Since(begin)
}

// metrics returns the samples of /metrics by name.
func (s *server) metrics() (map[string]float64, error) {
	ctx, cancel := context.WithTimeout(s.p.ctx, 10*time.Second)
	defer cancel()
	req, err := http.NewRequestWithContext(ctx, http.MethodGet, "http://"+s.addr+"/metrics", nil)
	if err != nil {
		return nil, err
	}
	resp, err := http.DefaultClient.Do(req)
	if err != nil {
		return nil, err
	}
	defer resp.Body.Close()
	text, err := io.ReadAll(resp.Body)
	found := map[string]float64{}
	for line := range strings.Lines(string(text)) {
		name, value, _ := strings.Cut(strings.TrimSpace(line), " ")
		if x, err := strconv.ParseFloat(value, 64); err == nil {
			found[name] = x
		}
	}
	return found, err
}

// metric returns one of them, or -1 if it is missing.
func (s *server) metric(name string) float64 {
	m, err := s.metrics()
	if x, ok := m[name]; ok && err == nil {
		return x
	}
	return -1
}

// status returns what the kernel reports about the process, such as VmRSS; it is zero if the process has ended.
func (s *server) status() (status procfs.ProcStatus) {
	if process, err := procfs.NewProc(s.cmd.Process.Pid); err == nil {
		status, _ = process.NewStatus()
	}
	return status
}
