package client

import (
	"context"
	"fmt"
	"slices"
	"sync"
	"time"

	"github.com/kubernasium/kubernasium/server/wire"
)

// cancelWithin bounds the time of a reply after cancellation. The server promises 250 ms.
const cancelWithin = 5 * time.Second

// watchdog ends the wait for a reply when a context ends or the timeout passes. It asks the server to cancel the
// request. If that fails, or the server cannot cancel, it interrupts the connection. A session has one watchdog for all
// its requests.
type watchdog struct {
	mu    sync.Mutex
	id    uint64      // of the pending request; 0: none
	cause error       // why the wait ended early, or nil
	grace *time.Timer // interrupts the connection; nil if already interrupted

	timer *time.Timer   // of the timeout
	fired chan struct{} // receives a value whenever the timer fires
}

// begin starts the wait for the reply to a request.
func (d *watchdog) begin(id uint64) {
	d.mu.Lock()
	d.id, d.cause, d.grace = id, nil, nil
	d.mu.Unlock()
}

// start starts the timeout; stop must follow.
func (d *watchdog) start(s *session) {
	if d.timer != nil {
		d.timer.Reset(s.timeout)
		return
	}
	d.fired = make(chan struct{}, 1)
	d.timer = time.AfterFunc(s.timeout, func() {
		d.cancel(s, fmt.Errorf("no reply within %v: %w", s.timeout, context.DeadlineExceeded))
		d.fired <- struct{}{}
	})
}

func (d *watchdog) stop() {
	if !d.timer.Stop() {
		<-d.fired
	}
}

// cancel ends the wait because of cause. It runs in another goroutine than the wait.
func (d *watchdog) cancel(s *session, cause error) {
	d.mu.Lock()
	defer d.mu.Unlock()
	if d.id == 0 || d.cause != nil {
		return
	}
	d.cause = cause
	if !slices.Contains(s.caps, wire.CapCancel) {
		s.interrupt()
		return
	}
	d.grace = time.AfterFunc(cancelWithin, s.interrupt)
	w := wire.NewWriter()
	err := w.Encode(&wire.CancelRequest{T: wire.TypeCancel, ID: d.id + 1, Of: d.id})
	if err == nil {
		err = (*s.live.Load()).writeFrame(w.Bytes())
	}
	if err != nil {
		s.interrupt()
	}
}

// finish follows the wait. It returns why the wait ended early, or nil, and whether the server was asked to cancel,
// which keeps the connection usable.
func (d *watchdog) finish() (cause error, cancelled bool) {
	d.mu.Lock()
	defer d.mu.Unlock()
	d.id = 0
	return d.cause, d.grace != nil && d.grace.Stop()
}
