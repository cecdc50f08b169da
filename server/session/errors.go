package session

import (
	"context"
	"errors"

	"github.com/kubernasium/kubernasium/envs"
	"github.com/kubernasium/kubernasium/envs/cluster"
	"github.com/kubernasium/kubernasium/server/wire"
)

// sentinels says by which reason an error of an environment travels.
var sentinels = []struct {
	err    error
	reason wire.Reason
}{
	{envs.ErrInvalidAction, wire.InvalidAction},
	{envs.ErrResetNeeded, wire.ResetNeeded},
	{envs.ErrInvalidOption, wire.InvalidOption},
	{envs.ErrUnknownBaseline, wire.UnknownRule},
	{envs.ErrBaseline, wire.RuleFails},
	{envs.ErrNotAsked, wire.NotAsked},
	{envs.ErrCannotClone, wire.CannotClone},
	{context.DeadlineExceeded, wire.Deadline},
	{context.Canceled, wire.WasCancelled},
}

// wireError returns err as it travels. The cause of a failure inside an environment, or of its
// backend, stays in the log.
func (s *Session) wireError(err error) *wire.Error {
	var e *wire.Error
	if errors.As(err, &e) {
		return e
	}
	if errors.Is(err, cluster.ErrUnavailable) { // before Deadline: a backend that does not answer in time is down
		s.log.Error("backend unavailable", "err", err)
		return wire.Errorf(wire.BackendDown, "the environment's backend cannot be reached; reset once it is back (the server's log tells why)")
	}
	for _, x := range sentinels {
		if errors.Is(err, x.err) {
			return wire.Errorf(x.reason, "%s", err)
		}
	}
	var unknown *envs.UnknownIDError
	if errors.As(err, &unknown) {
		return wire.Errorf(wire.UnknownEnv, "%s", err)
	}
	s.log.Error("environment failed", "err", err)
	return wire.Errorf(wire.EnvFailed, "the environment failed; the server's log tells why")
}
