package host

import (
	"runtime"
	"sync/atomic"
	"time"
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
	head        *sharedHead
	taken       uint32 // called, when the last request was read
	skip, skips int    // reads until the next look; how many there were last
}

// called reports whether there is a request in the memory. The client may write anything to its counter: the worst is
// a request that is none.
func (s *spin) called() bool { return s.head != nil && s.head.called.Load() != s.taken }

// wait returns true when a request lies in the memory, or false when it is time to sleep. The client then knows that, until
// the caller calls wake.
func (s *spin) wait() bool {
	if s.head == nil {
		return false
	}
	if s.skip > 0 {
		s.skip--
	} else {
		seen := spinners.Add(1) < int32(runtime.GOMAXPROCS(0)) && s.look()
		spinners.Add(-1)
		if seen {
			s.skips = max(0, s.skips-1)
		} else {
			s.skips = min(2*s.skips+1, spinSkips)
		}
		s.skip = s.skips
		if seen {
			return true
		}
	}
	s.head.serverAsleep.Store(1)
	if s.called() { // the client may not have seen it
		s.wake()
		return true
	}
	return false
}

// wake ends the sleep.
func (s *spin) wake() {
	if s.head != nil && s.head.serverAsleep.Load() != 0 {
		s.head.serverAsleep.Store(0)
	}
}

// look reports whether a request came within spinFor. It makes way for goroutines and processes that wait for the core.
func (s *spin) look() bool {
	for start := time.Now(); ; {
		for range 50 {
			if s.called() {
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
