package client

import (
	"context"
	"fmt"
	"slices"
	"sync"
	"time"

	"github.com/kubernasium/kubernasium/server/wire"
)

// cancelWithin is how long the reply to a request may take after its cancel. The server promises 250 ms.
const cancelWithin = 5 * time.Second

// patience ends the wait for a reply, when a context ends or the time is over, by a request to cancel. If that does not
// help, or the server knows no cancel, it interrupts the connection. One patience serves all requests of a session, one
// after another.
type patience struct {
	mu    sync.Mutex
	id    uint64      // of the request whose reply is awaited; 0 is none
	cause error       // why the wait ends early; nil if it does not
	grace *time.Timer // interrupts the connection; nil if it was interrupted at once

	timer *time.Timer   // of the time for a reply
	ran   chan struct{} // gets one value for each time that the timer fires
}

// begin begins the wait for the reply to a request.
func (p *patience) begin(id uint64) {
	p.mu.Lock()
	p.id, p.cause, p.grace = id, nil, nil
	p.mu.Unlock()
}

// start limits the time of the wait; stop must follow.
func (p *patience) start(s *session) {
	if p.timer != nil {
		p.timer.Reset(s.timeout)
		return
	}
	p.ran = make(chan struct{}, 1)
	p.timer = time.AfterFunc(s.timeout, func() {
		p.end(s, fmt.Errorf("no reply within %v: %w", s.timeout, context.DeadlineExceeded))
		p.ran <- struct{}{}
	})
}

func (p *patience) stop() {
	if !p.timer.Stop() {
		<-p.ran
	}
}

// end ends the wait because of cause, from another goroutine.
func (p *patience) end(s *session, cause error) {
	p.mu.Lock()
	defer p.mu.Unlock()
	if p.id == 0 || p.cause != nil {
		return
	}
	p.cause = cause
	if !slices.Contains(s.caps, wire.CapCancel) {
		s.interrupt()
		return
	}
	p.grace = time.AfterFunc(cancelWithin, s.interrupt)
	w := wire.NewWriter()
	err := w.Encode(&wire.CancelRequest{T: wire.TypeCancel, ID: p.id + 1, Of: p.id})
	if err == nil {
		err = (*s.live.Load()).writeFrame(w.Bytes())
	}
	if err != nil {
		s.interrupt()
	}
}

// over ends the wait. It returns why the wait ended early, nil if it did not, and whether that was by a request to
// cancel, after which the connection can be used.
func (p *patience) over() (cause error, cancelled bool) {
	p.mu.Lock()
	defer p.mu.Unlock()
	p.id = 0
	return p.cause, p.grace != nil && p.grace.Stop()
}
