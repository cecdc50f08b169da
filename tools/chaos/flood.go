//go:build linux

package main

import (
	"fmt"
	"math"
	"path/filepath"
	"strings"
	"syscall"
	"time"

	client "github.com/kubernasium/kubernasium/clients/go"
	"github.com/kubernasium/kubernasium/server/faults"
	"github.com/kubernasium/kubernasium/server/wire"
)

// raiseFiles raises this process's limit of open files to its maximum.
func raiseFiles() uint64 {
	var files syscall.Rlimit
	if syscall.Getrlimit(syscall.RLIMIT_NOFILE, &files) != nil {
		return 0
	}
	files.Cur = files.Max
	_ = syscall.Setrlimit(syscall.RLIMIT_NOFILE, &files) // it may be at its maximum already
	return files.Cur
}

// descriptors opens 10,000 connections without a token to a server that may open 120 files.
func descriptors(p *probe) {
	const within = 30 * time.Second
	flood := p.pick(3000, 10_000)
	if files := raiseFiles(); files < uint64(flood)+100 {
		p.skipped = fmt.Sprintf("may open %d files; ulimit -n %d enables this row", files, flood+100)
		return
	}
	s := p.serve("ulimit -n 120; export KUBERNASIUM_TOKEN=secret")
	connections := faults.StartFlood(p.ctx, s.addr, flood)
	time.Sleep(time.Second)
	begin, tries := time.Now(), 0
	for {
		tries++
		v, err := client.Dial(p.ctx, s.ws, witnessEnv, 1, client.Options{Token: "secret"})
		if err == nil {
			p.failOn(v.Close(), "close")
			break
		}
		if time.Since(begin) > within {
			p.fail("a client with a token is still not in: %v", err)
			break
		}
	}
	p.figure("%d connections (%d made, %d cut) to a server with 120 descriptors: a client with a token is in after %.1f s of %.0f and %d tries",
		flood, connections.Made.Load(), connections.Cut.Load(), time.Since(begin).Seconds(), within.Seconds(), tries)
	connections.End()
	s.terminate()
}

// idle opens sessions that each send a ping of 16 MiB, and then nothing.
func idle(p *probe) {
	const most = 200 << 20
	sessions := p.pick(512, 2048)
	if files := raiseFiles(); files < uint64(sessions)+100 {
		p.skipped = fmt.Sprintf("may open %d files; ulimit -n %d enables this row", files, sessions+100)
		return
	}
	s := p.serve("ulimit -n $(ulimit -H -n)", "--unix", filepath.Join(p.dir, "s"), "--max-sessions", "4096")
	before := s.heapBytes()
	for range sessions {
		c, err := open(s.unix)
		p.must(err, "open")
		defer c.conn.Close()
		go func() { _ = c.send(message{"t": "ping", "ts": string(make([]byte, 16<<20-64))}) }() // then the read fails, too
		if _, err := c.receive(); p.failOn(err, "ping") {
			return
		}
	}
	held := s.heapBytes() - before
	p.figure("%d idle sessions after pings of 16 MiB hold %d MB (heap and stacks after a collection), for 2,048 at most %d; VmRSS %d MB", sessions, held>>20, most>>20, s.status().VmRSS>>20)
	if held > int64(most)*int64(sessions)/2048 {
		p.fail("idle sessions hold %d MB", held>>20)
	}
	s.terminate()
}

// heapBytes returns the smallest size of heap and stacks within some seconds, which is the size after a
// collection.
func (s *server) heapBytes() int64 {
	least := math.Inf(1)
	for range 10 {
		if m, err := s.metrics(); err == nil {
			least = min(least, m["go_memstats_heap_alloc_bytes"]+m["go_memstats_stack_inuse_bytes"])
		}
		time.Sleep(300 * time.Millisecond)
	}
	return int64(least)
}

// refusals sends requests that the server rejects, with names of megabytes in every field that is a name.
func refusals(p *probe) {
	const most, within = 4 << 10, 10 * time.Millisecond
	s := p.serve("", "--unix", filepath.Join(p.dir, "s"))
	long := strings.Repeat("CartPole-", 1<<20)
	c, err := open(s.unix)
	p.must(err, "open")
	p.failOn(c.begin(), "session")
	var slow slowest
	largest, what := 0, ""
	for _, m := range []message{
		{"t": "make", "env": long}, {"t": "make", "env": witnessEnv, "options": message{long: 1}}, {"t": "make", "env": "k8s/GangWindow-v0", "options": message{"data": long}},
		{"t": "make", "env": witnessEnv, "autoreset": long}, {"t": "make", "env": witnessEnv, "cwd": long}, {"t": "make", "env": witnessEnv, "n": 1 << 40},
		{"t": "policy", "eid": 1, "name": long}, {"t": "policy", "eid": 1, "name": "pole-angle:" + long}, {"t": "step", "eid": 1, "policy": long},
		{"t": "step", "eid": 1, "a": make([]int, 1<<20)}, {"t": "render", "eid": 1, "mode": long}, {"t": "reset", "eid": 1, "options": message{"x": long}},
		{"t": "envs", "filter": long}, {"t": long}, {"t": "rollout", "eid": 1, "name": long, "steps": 1}, {"t": "rollout", "eid": 1, "name": "random", "steps": 1 << 50},
	} {
		kind := fmt.Sprintf("%.20v", m["t"])
		quick := time.Duration(math.MaxInt64)
		for range tries {
			if err := c.send(m); p.failOn(err, kind) { // the server has read it
				return
			}
			begin := time.Now()
			r, err := c.receive()
			p.must(err, kind)
			quick = min(quick, time.Since(begin))
			if r.Type != wire.TypeErr {
				p.fail("%s is granted", kind)
			}
			if r.size > largest {
				largest, what = r.size, kind
			}
		}
		slow.add(quick, kind)
	}
	p.failOn(c.conn.Close(), "close")
	p.figure("%d kinds of refusals have at most %d bytes of %d (%s)", slow.n, largest, most, what)
	if largest > most {
		p.fail("a refusal of %s has %d bytes", what, largest)
	}
	slow.check(p, "the reply after the last byte", within)
	s.stop(0)
}
