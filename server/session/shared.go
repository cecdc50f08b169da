package session

import (
	"maps"
	"sync"
	"sync/atomic"

	"github.com/kubernasium/kubernasium/server/wire"
)

// Shared counts the resources and requests of a server's sessions. Its zero value is ready to use.
type Shared struct {
	Sessions atomic.Int64  // open now
	Envs     atomic.Int64  // open now
	Snaps    atomic.Int64  // environments in snapshots
	Memory   atomic.Int64  // estimated bytes of both
	Frames   atomic.Uint64 // requests that arrived
	Steps    atomic.Uint64 // of environments
	Draining atomic.Bool   // the server stops

	turns turns // of heavy requests

	mu     sync.Mutex
	errors map[wire.Code]uint64
}

func (s *Shared) countError(c wire.Code) {
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.errors == nil {
		s.errors = map[wire.Code]uint64{}
	}
	s.errors[c]++
}

// Errors returns the number of rejected requests by code.
func (s *Shared) Errors() map[wire.Code]uint64 {
	s.mu.Lock()
	defer s.mu.Unlock()
	return maps.Clone(s.errors)
}

// take adds n to used unless the sum exceeds limit.
func take[N int | int64](used *atomic.Int64, n, limit N) bool {
	if used.Add(int64(n)) > int64(limit) {
		used.Add(-int64(n))
		return false
	}
	return true
}
