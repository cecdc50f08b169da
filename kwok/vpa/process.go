package vpa

import (
	"bytes"
	"context"
	"encoding/json"
	"fmt"
	"io"
	"os/exec"
	"sync"
	"time"
)

const (
	stopPatience = 30 * time.Second // timeout of a process whose stdin is closed; it ends within a second
	maxLogTail   = 2 << 10          // bytes of a process's log that an error includes
)

// A process answers each line of its input with a line of JSON.
type process struct {
	name  string
	cmd   *exec.Cmd
	stdin io.WriteCloser
	lines chan reply // closed after its last line
	owed  int        // replies that have not come yet
	last  *logTail
}

// startProcess starts a program and returns after the program's first line.
func startProcess(ctx context.Context, path string, log io.Writer, args []string) (*process, error) {
	p := &process{name: args[0], cmd: exec.Command(path, args...), lines: make(chan reply), owed: 1, last: &logTail{to: log}}
	p.cmd.Stderr = p.last
	var err error
	if p.stdin, err = p.cmd.StdinPipe(); err != nil {
		return nil, err
	}
	out, err := p.cmd.StdoutPipe()
	if err != nil {
		return nil, err
	}
	if err := p.cmd.Start(); err != nil {
		return nil, fmt.Errorf("vpa: start the %s: %w", p.name, err)
	}
	go func() {
		defer close(p.lines)
		decode := json.NewDecoder(out)
		for {
			var r reply
			if decode.Decode(&r) != nil {
				return // it has ended; close reports how
			}
			p.lines <- r
		}
	}()
	_, err = p.next(ctx)
	return p, err
}

// ask sends a line and returns the answer to it.
func (p *process) ask(ctx context.Context) (reply, error) {
	if _, err := io.WriteString(p.stdin, "\n"); err != nil {
		return reply{}, fmt.Errorf("vpa: the %s has ended: %s", p.name, p.last)
	}
	p.owed++
	return p.next(ctx)
}

// next returns the reply to the last line. It skips those that came after their callers had given up.
func (p *process) next(ctx context.Context) (reply, error) {
	for {
		select {
		case r, ok := <-p.lines:
			if !ok {
				return reply{}, fmt.Errorf("vpa: the %s has ended: %s", p.name, p.last)
			}
			if p.owed--; p.owed == 0 {
				return r, r.err(p.name)
			}
		case <-ctx.Done():
			return reply{}, fmt.Errorf("vpa: the %s does not answer: %w", p.name, context.Cause(ctx))
		}
	}
}

// close asks the process to end and waits until it has.
func (p *process) close() error {
	_ = p.stdin.Close() // it may have ended
	kill := time.AfterFunc(stopPatience, func() { _ = p.cmd.Process.Kill() })
	defer kill.Stop()
	for range p.lines { // answers that nobody waited for
	}
	if err := p.cmd.Wait(); err != nil {
		return fmt.Errorf("vpa: the %s: %w", p.name, err)
	}
	return nil
}

// logTail forwards a log and keeps its end.
type logTail struct {
	mu   sync.Mutex
	to   io.Writer // nil: discard
	kept []byte
}

// Write implements [io.Writer].
func (l *logTail) Write(b []byte) (int, error) {
	l.mu.Lock()
	defer l.mu.Unlock()
	l.kept = append(l.kept, b...)
	l.kept = l.kept[max(len(l.kept)-maxLogTail, 0):]
	if l.to != nil {
		return l.to.Write(b)
	}
	return len(b), nil
}

// String returns the last line.
func (l *logTail) String() string {
	l.mu.Lock()
	defer l.mu.Unlock()
	text := bytes.TrimSpace(l.kept)
	return string(text[bytes.LastIndexByte(text, '\n')+1:])
}
