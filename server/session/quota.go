package session

import (
	"cmp"
	"math"
	"sync/atomic"

	"github.com/kubernasium/kubernasium/server/wire"
)

// A Quota limits the sessions, environments and memory of one client, in addition to the limits of the server. 0 means no
// limit.
type Quota struct {
	Name     string // of the client, for errors
	Sessions int
	Envs     int
	Memory   int64 // estimated bytes, of environments and snapshots
	Held     *Held
}

// Held counts the sessions of a client, their environments and their memory. Its zero value is ready to use.
type Held struct {
	Sessions, Envs, Memory atomic.Int64
}

// takeSession counts one more session, unless there are as many as the quota permits.
func (q *Quota) takeSession() error {
	if take(&q.Held.Sessions, 1, cmp.Or(q.Sessions, math.MaxInt)) {
		return nil
	}
	err := wire.Errorf(wire.TooManySession, "1 more session beside %d of %s, want at most %d (sessions in the server's --token-file)", q.Held.Sessions.Load(), q.Name, q.Sessions)
	err.RetryAfterMS = 1000
	return err
}

// takeEnvs counts n more environments, unless the quota forbids it.
func (q *Quota) takeEnvs(n int) error {
	if take(&q.Held.Envs, n, cmp.Or(q.Envs, math.MaxInt)) {
		return nil
	}
	err := wire.Errorf(wire.TooManyEnvs, "%d more environments beside %d of %s, want at most %d (envs in the server's --token-file)", n, q.Held.Envs.Load(), q.Name, q.Envs)
	err.RetryAfterMS = 1000
	return err
}

// takeMemory counts so many bytes, and reports whether the quota permits them.
func (q *Quota) takeMemory(bytes int64) bool {
	return take(&q.Held.Memory, bytes, cmp.Or(q.Memory, math.MaxInt64))
}

// memory says how much the quota permits, for errors; "" if it bounds no memory.
func (q *Quota) memory() string {
	if q.Memory == 0 {
		return ""
	}
	return "; " + q.Name + " holds " + size(q.Held.Memory.Load()) + ", want at most " + size(q.Memory) + " (memory in the server's --token-file)"
}
