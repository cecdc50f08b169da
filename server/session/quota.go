package session

import (
	"math"
	"sync/atomic"

	"github.com/kubernasium/kubernasium/server/wire"
)

// A Quota limits the sessions, environments and memory of one client, in addition to the limits of the server. 0 means no
// limit, and so does a nil Quota.
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
	if q == nil || take(&q.Held.Sessions, 1, bound(q.Sessions)) {
		return nil
	}
	err := wire.Errorf(wire.TooManySession, "1 more session beside %d of %s, want at most %d (sessions in the server's --token-file)", q.Held.Sessions.Load(), q.Name, q.Sessions)
	err.RetryAfterMS = 1000
	return err
}

func (q *Quota) giveSession() {
	if q != nil {
		q.Held.Sessions.Add(-1)
	}
}

// takeEnvs counts n more environments, unless the quota forbids it.
func (q *Quota) takeEnvs(n int) error {
	if q == nil || take(&q.Held.Envs, n, bound(q.Envs)) {
		return nil
	}
	err := wire.Errorf(wire.TooManyEnvs, "%d more environments beside %d of %s, want at most %d (envs in the server's --token-file)", n, q.Held.Envs.Load(), q.Name, q.Envs)
	err.RetryAfterMS = 1000
	return err
}

func (q *Quota) giveEnvs(n int) {
	if q != nil {
		q.Held.Envs.Add(-int64(n))
	}
}

// takeMemory counts so many bytes, and reports whether the quota permits them.
func (q *Quota) takeMemory(bytes int64) bool {
	return q == nil || take(&q.Held.Memory, bytes, bound(q.Memory))
}

func (q *Quota) giveMemory(bytes int64) {
	if q != nil {
		q.Held.Memory.Add(-bytes)
	}
}

// memory says how much the quota permits, for errors; "" if it bounds no memory.
func (q *Quota) memory() string {
	if q == nil || q.Memory == 0 {
		return ""
	}
	return "; " + q.Name + " holds " + size(q.Held.Memory.Load()) + ", want at most " + size(q.Memory) + " (memory in the server's --token-file)"
}

// bound returns a limit for take, of which 0 is none.
func bound[N int | int64](most N) N {
	if most == 0 {
		return math.MaxInt
	}
	return most
}
