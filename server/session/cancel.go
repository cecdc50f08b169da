package session

import (
	"context"
	"slices"
	"sync"

	"github.com/kubernasium/kubernasium/server/wire"
)

// openRequests are the requests that were admitted and are not done, so that the goroutine of Admit can cancel one
// that waits or runs in Do.
type openRequests struct {
	mu        sync.Mutex
	ids       []uint64 // in the order of their arrival
	cancelled []uint64 // those of ids that are cancelled
	running   uint64   // 0 is none

	parent context.Context // of ctx
	ctx    context.Context // of all requests until one is cancelled
	stop   context.CancelFunc
}

func (o *openRequests) admit(id uint64) {
	o.mu.Lock()
	defer o.mu.Unlock()
	o.ids = append(o.ids, id)
}

// begin returns the context of a request, or an error if the request is cancelled already. The caller must call end.
func (o *openRequests) begin(ctx context.Context, id uint64) (context.Context, error) {
	o.mu.Lock()
	defer o.mu.Unlock()
	if slices.Contains(o.cancelled, id) {
		return nil, wire.Errorf(wire.WasCancelled, "the request was cancelled before it was begun")
	}
	o.running = id
	if o.ctx == nil || o.parent != ctx || o.ctx.Err() != nil { // one context serves many requests, which allocate none
		if o.stop != nil {
			o.stop()
		}
		o.parent = ctx
		o.ctx, o.stop = context.WithCancel(ctx)
	}
	return o.ctx, nil
}

func (o *openRequests) end(id uint64) {
	o.mu.Lock()
	defer o.mu.Unlock()
	o.running = 0
	is := func(x uint64) bool { return x == id }
	o.ids = slices.DeleteFunc(o.ids, is)
	o.cancelled = slices.DeleteFunc(o.cancelled, is)
}

// cancel cancels a request and reports whether it is open.
func (o *openRequests) cancel(id uint64) bool {
	o.mu.Lock()
	defer o.mu.Unlock()
	if !slices.Contains(o.ids, id) {
		return false
	}
	if o.running == id {
		o.stop()
	}
	if !slices.Contains(o.cancelled, id) {
		o.cancelled = append(o.cancelled, id)
	}
	return true
}

// cancel carries out the request of that name at its arrival.
func (s *Session) cancel(f *wire.Frame) error {
	of, given, err := f.Uint("of")
	if err != nil {
		return err
	}
	if !given {
		return wire.Errorf(wire.BadField, "field of is missing")
	}
	found := s.open.cancel(of)
	s.arrivals.Reset()
	return s.arrivals.Encode(&wire.CancelReply{T: wire.TypeCancel + wire.OK, ID: f.ID, Found: found})
}
