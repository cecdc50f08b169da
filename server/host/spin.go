package host

import (
	"runtime"
	"sync/atomic"
	"time"
	"unsafe"
)

// Offsets in the shared memory of two counters of 32 bits: of the frames that the client has sent, and of those that the
// server has. Each side adds one after it has written a frame to the socket. They only tell a side that looks at them
// that it need not sleep.
const (
	requestsAt = 0
	repliesAt  = 64
)

const (
	spinFor   = 100 * time.Microsecond
	spinAlone = 25 * time.Microsecond // of it, before others may have the core
	spinSkips = 64                    // reads without a look at most, after looks in vain
)

// spinners counts the streams that look for a request now. They leave at least one core to others.
var spinners atomic.Int32

// spin looks for the next request of a client that has just got its reply: to sleep, and to be woken, takes longer than
// most clients need between a reply and a request. The reads without a look double with each look in vain and shrink by
// one with each other, so that few looks in vain suffice where the cores have other work. The zero value never looks.
type spin struct {
	requests, replies *atomic.Uint32 // in shared memory
	seen              uint32         // frames that were read
	skip, skips       int            // reads until the next look; how many there were last
}

// newSpin returns a spin with its counters in memory.
func newSpin(memory []byte) spin {
	counter := func(at int) *atomic.Uint32 { return (*atomic.Uint32)(unsafe.Pointer(&memory[at])) }
	return spin{requests: counter(requestsAt), replies: counter(repliesAt)}
}

// wait returns when a request has come, or when it is time to sleep. The client may write anything to its counter:
// the worst is a look in vain.
func (s *spin) wait() {
	if s.requests == nil {
		return
	}
	if s.skip > 0 {
		s.skip--
	} else {
		if spinners.Add(1) < int32(runtime.GOMAXPROCS(0)) && s.look() {
			s.skips = max(0, s.skips-1)
		} else {
			s.skips = min(2*s.skips+1, spinSkips)
		}
		s.skip = s.skips
		spinners.Add(-1)
	}
}

// read counts a frame that was read. The client may count it a moment later; another difference is a mistake, such as
// after an interrupt.
func (s *spin) read() {
	if s.requests == nil {
		return
	}
	s.seen++
	if n := s.requests.Load(); n != s.seen && n+1 != s.seen {
		s.seen = n
	}
}

// look reports whether a request came within spinFor. It makes way for goroutines and processes that wait for the core.
func (s *spin) look() bool {
	for start := time.Now(); ; {
		for range 50 {
			if int32(s.requests.Load()-s.seen) > 0 {
				return true
			}
		}
		switch spent := time.Since(start); {
		case spent > spinFor:
			return false
		case spent > spinAlone:
			runtime.Gosched()
			yield()
		}
	}
}

// wrote tells the client of another frame on the socket.
func (s *spin) wrote() {
	if s.replies != nil {
		s.replies.Add(1)
	}
}
