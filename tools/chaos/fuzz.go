//go:build linux

package main

import (
	"errors"
	"io"
	"net"
	"path/filepath"
	"sync"
	"sync/atomic"
	"time"

	"github.com/kubernasium/kubernasium/server/faults"
)

// fuzz sends randomly changed requests to a server, over eight sessions at a time.
func fuzz(p *probe) {
	const each, peers, window = 200, 8, 8
	most := int64(p.pick(300_000, 10_000_000))
	s := p.serve("", "--unix", filepath.Join(p.dir, "s"), "--max-envs-make", "8", "--max-envs-session", "32", "--max-rollout", "50",
		"--max-snapshots-session", "64", "--memory", "1000000000", "--log-level", "error")
	w := p.watch(s.ws)
	var sent, granted, sessions atomic.Int64
	var all sync.WaitGroup
	begin := time.Now()
	for k := range peers {
		all.Go(func() {
			frames := faults.NewFrames(uint64(k))
			for sent.Load() < most && p.ctx.Err() == nil {
				n, ok, err := mutated(s.unix, frames, each, window)
				sent.Add(int64(n))
				granted.Add(int64(ok))
				sessions.Add(1)
				if err != nil {
					p.fail("after %d frames: %v", n, err)
					return
				}
			}
		})
	}
	all.Wait()
	p.figure("%d frames in %d sessions, %d of them granted, in %.0f s; each has one reply that can be read; VmHWM %d MB",
		sent.Load(), sessions.Load(), granted.Load(), time.Since(begin).Seconds(), s.status().VmHWM>>20)
	w.join(p)
	s.stop(0)
}

// mutated sends frames in one session, window frames at a time, and reads a reply to each.
func mutated(path string, frames *faults.Frames, each, window int) (n, granted int, err error) {
	c, err := open(path)
	if err != nil {
		return 0, 0, err
	}
	defer c.conn.Close()
	for _, m := range []message{{"t": "make", "env": witnessEnv, "n": 2}, {"t": "reset", "eid": 1, "seed": 1}, {"t": "snapshot", "eid": 1}} {
		if _, err := c.granted(m); err != nil {
			return 0, 0, err
		}
	}
	tokens := make(chan struct{}, window)
	var writes sync.WaitGroup
	writes.Go(func() {
		for range each {
			tokens <- struct{}{}
			c.id++
			if c.raw(frames.Next(c.id)) != nil {
				return // then the read fails, too
			}
		}
	})
	defer writes.Wait()
	for n < each {
		r, err := c.receive()
		if errors.Is(err, io.EOF) || errors.Is(err, net.ErrClosed) {
			err = errors.New("the server has closed the connection")
		}
		if err != nil {
			_ = c.conn.Close() // ends the writes
			for len(tokens) > 0 {
				<-tokens
			}
			return n, granted, err
		}
		<-tokens
		n++
		if r.Type != "err" {
			granted++
		} else if r.Code == "INTERNAL" {
			return n, granted, errors.New("a request fails with " + r.Reason + ": " + r.Msg)
		}
	}
	return n, granted, nil
}
