//go:build linux

package main

import (
	"encoding/binary"
	"fmt"
	"math"
	"net"
	"path/filepath"
	"sync"
	"time"

	"github.com/kubernasium/kubernasium/server/wire"
)

// A badPeer misbehaves for as long as the server permits.
type badPeer struct {
	name   string
	bound  time.Duration // until the server closes the connection
	long   bool          // takes longer than the short form permits
	unix   bool
	greets bool
	begins []byte        // what it sends first
	then   []byte        // what it then sends repeatedly, after each pause
	pause  time.Duration // 0 sends as fast as the server reads
}

// peers connects to a server in all ways that could delay it, beside a session that plays.
func peers(p *probe) {
	const each = 50
	s := p.serve("ulimit -n $(ulimit -H -n)", "--unix", filepath.Join(p.dir, "s"), "--lease", "1s", "--max-pending", "1000")
	w := p.watch(s.ws)
	before := s.status().VmRSS
	bulk := append(binary.LittleEndian.AppendUint32(nil, 12+64<<10), "\x83\xa1t\xa4ping\xa2id\x07"...) // its id is never valid
	bulk = append(bulk, make([]byte, 64<<10)...)
	var all sync.WaitGroup
	var mu sync.Mutex
	ended := map[string]time.Duration{}
	for _, b := range []badPeer{
		{name: "reads no reply", bound: 45 * time.Second, unix: true, greets: true, then: bulk},
		{name: "ends no frame", bound: 2*time.Minute + 15*time.Second, long: true, unix: true, greets: true, begins: []byte{0, 0, 16, 0}, then: []byte{0xc0}, pause: 200 * time.Millisecond},
		{name: "ends no header", bound: 20 * time.Second, begins: []byte("GET /v1/envs HTTP/1.1\r\nHost: 127.0.0.1\r\nX: "), then: []byte("x"), pause: 500 * time.Millisecond},
		{name: "says nothing", bound: 20 * time.Second, unix: true, pause: time.Second},
		{name: "says nothing over TCP", bound: 20 * time.Second, pause: time.Second},
		{name: "claims 4 GB", bound: 5 * time.Second, unix: true, greets: true, begins: []byte{0xff, 0xff, 0xff, 0xff, 1}, pause: time.Second},
	} {
		if b.long && p.short {
			continue
		}
		for range each {
			all.Go(func() {
				took, err := b.play(s)
				mu.Lock()
				defer mu.Unlock()
				ended[b.name] = max(ended[b.name], took)
				if err != nil {
					p.fail("a peer that %s: %v", b.name, err)
				}
			})
		}
	}
	all.Go(func() { p.wrongRequests(s) })
	all.Wait()
	for name, took := range ended {
		p.figure("a peer that %s is cut off after %.1f s", name, took.Seconds())
	}
	grown := int64(s.status().VmRSS-before) >> 20
	p.figure("%d of each at a time; VmRSS grows by %d MB", each, grown)
	if grown > 200 {
		p.fail("memory grows by %d MB", grown)
	}
	w.join(p)
	s.stop(time.Second)
}

// play plays the peer until the server closes its connection, and returns how long that took.
func (b *badPeer) play(s *server) (took time.Duration, err error) {
	begin := time.Now()
	var conn net.Conn
	switch {
	case b.greets:
		c, err := open(s.unix)
		if err != nil {
			return 0, err
		}
		conn = c.conn
	case b.unix:
		conn, err = net.Dial("unix", s.unix)
	default:
		conn, err = net.Dial("tcp", s.addr)
	}
	if err != nil {
		return 0, err
	}
	defer conn.Close()
	end := begin.Add(b.bound)
	_, err = conn.Write(b.begins)
	for err == nil && time.Now().Before(end) {
		if b.pause == 0 { // it never reads, and writes until the server closes the connection
			_ = conn.SetWriteDeadline(end)
			_, err = conn.Write(b.then)
			continue
		}
		_ = conn.SetReadDeadline(time.Now().Add(b.pause)) // between writes
		if _, err = conn.Read(make([]byte, 4096)); timeout(err) {
			_, err = conn.Write(b.then)
		}
	}
	if took = time.Since(begin); err == nil || timeout(err) {
		return took, fmt.Errorf("is not cut off within %v", b.bound)
	}
	return took, nil
}

func timeout(err error) bool {
	e, ok := err.(net.Error)
	return ok && e.Timeout()
}

// wrongRequests sends requests with wrong ids and for other clients' sessions. The server rejects each, and the
// session continues.
func (p *probe) wrongRequests(s *server) {
	c, err := open(s.unix)
	p.must(err, "open")
	defer c.conn.Close()
	p.failOn(c.begin(), "session")
	ids, refused := []uint64{0, 1, c.id, 2}, 0
	for _, id := range ids {
		c.id = id - 1
		if r, err := c.exchange(message{"t": "step", "eid": 1, "a": []int{0}}); p.failOn(err, "wrong id") || r.Reason != string(wire.BadID) {
			p.fail("the id %d is answered with %+v", id, r)
		} else {
			refused++
		}
	}
	c.id = 100
	for _, m := range []message{{"t": "step", "eid": 2, "a": []int{0}}, {"t": "cancel", "of": uint64(math.MaxUint64)}, {"t": "restore", "eid": 1, "snap": 9}, {"t": "step", "eid": 1, "a": []int{7}}} {
		if r, err := c.ask(m); p.failOn(err, "lie") || r.Type == "step.ok" || r.Type == "restore.ok" {
			p.fail("%v is answered with %+v", m, r)
		} else {
			refused++
		}
	}
	_, err = c.granted(message{"t": "step", "eid": 1, "a": []int{0}})
	p.failOn(err, "a step after wrong requests")
	thief, err := connect(s.unix)
	p.must(err, "connect")
	defer thief.conn.Close()
	if r, err := thief.ask(message{"t": "hello", "ver": []int{1, 4}, "caps": []string{"resume"}, "resume": message{"sid": "0000", "token": "x", "last": 1}}); p.failOn(err, "thief") || r.Type != "err" {
		p.fail("another client's session is given away")
	}
	p.figure("%d requests with wrong ids, names and values are refused, and the session goes on", refused+1)
}
