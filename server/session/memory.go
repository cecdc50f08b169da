package session

import (
	"errors"
	"maps"
	"slices"
	"strconv"

	"github.com/kubernasium/kubernasium/envs"
	"github.com/kubernasium/kubernasium/server/wire"
)

// errMeasured stops the making of environments whose memory alone is to be estimated.
var errMeasured = errors.New("session: measured")

// size writes bytes for people.
func size(bytes int64) string { return strconv.FormatInt(bytes>>20, 10) + " MiB" }

// takeMemory adds bytes to what the session, its client and the server hold, unless a limit forbids it.
func (s *Session) takeMemory(bytes int64) bool {
	l := &s.cfg.Limits
	if l.MemorySession > 0 && s.memory+bytes > l.MemorySession {
		return false
	}
	if !s.quota.takeMemory(bytes) {
		return false
	}
	if used := s.cfg.Shared.Memory.Add(bytes); l.MemoryServer > 0 && used > l.MemoryServer {
		s.cfg.Shared.Memory.Add(-bytes)
		s.quota.Held.Memory.Add(-bytes)
		return false
	}
	s.memory += bytes
	return true
}

func (s *Session) giveMemory(bytes int64) {
	s.memory -= bytes
	s.cfg.Shared.Memory.Add(-bytes)
	s.quota.Held.Memory.Add(-bytes)
}

// admit takes the memory of a vector that is about to be made.
func (s *Session) admit(r *wire.MakeRequest, opts envs.VecOptions, n int, bytes int64) error {
	if s.takeMemory(bytes) {
		return nil
	}
	err := s.tooMuch("%d environments of %s", n, r.Env, bytes)
	if name, less := dearest(r.Env, opts, n, bytes); name != "" {
		err.Option = name
		err.Msg += "; with the default of " + name + " they take " + size(less)
	} else if n > 1 {
		err.Msg += "; make fewer"
	}
	return err
}

// tooMuch returns the error of a request for more memory than the limits leave.
func (s *Session) tooMuch(what string, n int, id string, bytes int64) *wire.Error {
	l := &s.cfg.Limits
	err := wire.Errorf(wire.TooMuchMemory, what+" take about %s beside %s of the session and %s of the server, want at most %s (the server's flag --memory-session) and %s (--memory)",
		n, id, size(bytes), size(s.memory), size(s.cfg.Shared.Memory.Load()), size(l.MemorySession), size(l.MemoryServer))
	err.Msg += s.quota.memory()
	if most := l.MemorySession; most == 0 || bytes <= most-s.memory { // others may free theirs
		err.RetryAfterMS = 1000
	}
	return err
}

// dearest returns the option whose default would save most memory, and the bytes that the environments take then; "" if
// no option saves much.
func dearest(id string, opts envs.VecOptions, n int, bytes int64) (name string, least int64) {
	spec, err := envs.Lookup(id)
	if err != nil {
		return "", 0
	}
	least = bytes - bytes/16 // less is not worth a mention
	for _, given := range slices.Sorted(maps.Keys(opts.Options)) {
		rest := maps.Clone(opts.Options)
		delete(rest, given)
		without := opts
		without.Options, without.Admit = rest, func(b int64) error {
			if b < least {
				name, least = given, b
			}
			return errMeasured
		}
		if v, err := envs.NewVec(spec, n, without); err == nil {
			_ = v.Close() // Admit refuses, so there is none
		}
	}
	return name, least
}
