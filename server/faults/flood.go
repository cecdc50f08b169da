package faults

import (
	"context"
	"net"
	"sync"
	"sync/atomic"
	"time"
)

// A Flood holds unauthenticated connections to a server.
type Flood struct {
	Made, Cut atomic.Int64 // connections opened, and closed by the server

	end   context.CancelFunc
	peers sync.WaitGroup
}

// StartFlood opens n connections to addr. The caller must call End.
func StartFlood(ctx context.Context, addr string, n int) *Flood {
	f := &Flood{}
	ctx, f.end = context.WithCancel(ctx)
	for range n {
		f.peers.Go(func() {
			conn, err := (&net.Dialer{}).DialContext(ctx, "tcp", addr)
			if err != nil {
				return // the flood has ended
			}
			defer conn.Close()
			f.Made.Add(1)
			defer context.AfterFunc(ctx, func() { _ = conn.SetDeadline(time.Now()) })()
			_, _ = conn.Read(make([]byte, 1)) // until the server closes it
			if ctx.Err() == nil {
				f.Cut.Add(1)
			}
		})
	}
	return f
}

// End closes the connections.
func (f *Flood) End() {
	f.end()
	f.peers.Wait()
}
