// Package faults injects faults into servers, for tests and tools/chaos: a proxy that cuts connections, floods of
// connections, and randomly changed frames.
package faults

import (
	"math/rand/v2"
	"net"
	"sync"
	"sync/atomic"
)

// A Proxy forwards connections to a server and cuts each after a random number of bytes, also within a frame.
type Proxy struct {
	To       string        // address of the server
	MostCuts int64         // after as many cuts, connections last
	Bytes    [2]int64      // range of the bytes, in both directions together, after which a connection is cut
	OnCut    func(n int64) // called after the n-th cut, before the next connection; may be nil

	l    net.Listener
	cuts atomic.Int64
	mu   sync.Mutex
	rng  *rand.Rand
	wg   sync.WaitGroup
}

// Start listens on a free port of loopback and returns the address. The caller must call Close.
func (p *Proxy) Start(seed uint64) (string, error) {
	l, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		return "", err
	}
	p.l, p.rng = l, rand.New(rand.NewPCG(seed, seed))
	p.wg.Go(p.accept)
	return l.Addr().String(), nil
}

// Cuts returns the number of connections that were cut.
func (p *Proxy) Cuts() int64 { return p.cuts.Load() }

// Close stops listening, and returns when the connections have ended.
func (p *Proxy) Close() error {
	err := p.l.Close()
	p.wg.Wait()
	return err
}

func (p *Proxy) accept() {
	for {
		conn, err := p.l.Accept()
		if err != nil {
			return // the listener was closed
		}
		p.wg.Go(func() { p.forward(conn) })
	}
}

// budget returns the number of bytes after which to cut a new connection.
func (p *Proxy) budget() int64 {
	if p.cuts.Load() >= p.MostCuts {
		return 1 << 62
	}
	p.mu.Lock()
	defer p.mu.Unlock()
	return p.Bytes[0] + p.rng.Int64N(p.Bytes[1]-p.Bytes[0])
}

func (p *Proxy) forward(client net.Conn) {
	defer client.Close()
	server, err := net.Dial("tcp", p.To)
	if err != nil {
		return // the server was killed
	}
	defer server.Close()
	var left atomic.Int64
	left.Store(p.budget())
	var both sync.WaitGroup
	both.Go(func() { p.pipe(server, client, &left) })
	both.Go(func() { p.pipe(client, server, &left) })
	both.Wait()
}

// pipe copies one direction until the connection ends or its bytes are used up.
func (p *Proxy) pipe(dst, src net.Conn, left *atomic.Int64) {
	defer dst.Close()
	defer src.Close()
	buf := make([]byte, 4096)
	for {
		n, err := src.Read(buf)
		rest := left.Add(-int64(n))
		if rest <= 0 { // only a part arrives
			_, _ = dst.Write(buf[:max(0, n+int(rest))])
			if rest+int64(n) > 0 { // the other direction has not cut it yet
				p.cut()
			}
			return
		}
		if _, werr := dst.Write(buf[:n]); err != nil || werr != nil {
			return
		}
	}
}

func (p *Proxy) cut() {
	n := p.cuts.Add(1)
	if p.OnCut != nil {
		p.mu.Lock()
		defer p.mu.Unlock()
		p.OnCut(n)
	}
}
