package host

import (
	"container/list"
	"net"
	"sync"
	"time"
)

// DefaultPending is the default of Config.MaxPending.
const DefaultPending = 256

// pendingGrace is the time that a connection has at least to show its token and say hello, before a newer one may
// take its place. A client sends both at once, so on loopback it needs less than a millisecond.
const pendingGrace = 50 * time.Millisecond

// A gate bounds the connections that are not authenticated yet. When it is full, it closes the oldest one for the next,
// so that idle connections do not block others: 10,000 of them pass through 60 places within 10,000 / 60 × pendingGrace
// = 9 s.
type gate struct {
	most  int
	freed chan struct{} // a place became free

	mu     sync.Mutex
	queue  *list.List // of pending, the oldest first
	places map[net.Conn]*list.Element
}

// pending is a connection in the gate.
type pending struct {
	conn  net.Conn
	since time.Time
}

func newGate(most int) *gate {
	if most < 1 {
		most = DefaultPending
	}
	return &gate{most: most, freed: make(chan struct{}, 1), queue: list.New(), places: map[net.Conn]*list.Element{}}
}

// enter gives conn a place, for which it may wait or close the oldest connection.
func (g *gate) enter(conn net.Conn) {
	for {
		oldest, wait := g.take(conn)
		switch {
		case oldest != nil:
			_ = oldest.Close() // its goroutine finds it closed
		case wait > 0:
			select {
			case <-g.freed:
			case <-time.After(wait):
			}
		default:
			return
		}
	}
}

// take gives conn a place if one is free. Otherwise it returns the oldest connection, whose place it has freed, or
// how long that one may still stay.
func (g *gate) take(conn net.Conn) (oldest net.Conn, wait time.Duration) {
	g.mu.Lock()
	defer g.mu.Unlock()
	if g.queue.Len() < g.most {
		g.places[conn] = g.queue.PushBack(pending{conn, time.Now()})
		return nil, 0
	}
	first := g.queue.Front()
	p := first.Value.(pending)
	if wait = pendingGrace - time.Since(p.since); wait > 0 {
		return nil, wait
	}
	g.queue.Remove(first)
	delete(g.places, p.conn)
	return p.conn, 0
}

// leave frees the place of a connection that is authenticated or has ended. It may have none.
func (g *gate) leave(conn net.Conn) {
	conn = bare(conn)
	g.mu.Lock()
	place, ok := g.places[conn]
	if ok {
		g.queue.Remove(place)
		delete(g.places, conn)
	}
	g.mu.Unlock()
	if ok {
		select {
		case g.freed <- struct{}{}:
		default:
		}
	}
}

// bare returns the connection below TLS.
func bare(conn net.Conn) net.Conn {
	if t, ok := conn.(interface{ NetConn() net.Conn }); ok {
		return t.NetConn()
	}
	return conn
}

// gated is a listener whose connections pass through a gate.
type gated struct {
	net.Listener
	gate *gate
}

// Accept implements [net.Listener].
func (l gated) Accept() (net.Conn, error) {
	conn, err := l.Listener.Accept()
	if err == nil {
		l.gate.enter(conn)
	}
	return conn, err
}
