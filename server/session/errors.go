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
	{cluster.ErrUnavailable, wire.BackendDown}, // before Deadline: a backend that does not answer in time is down
	{context.DeadlineExceeded, wire.Deadline},
	{context.Canceled, wire.WasCancelled},
}

// wireError returns err as it travels. The cause of a failure inside an environment stays in
// the log.
func (s *Session) wireError(err error) *wire.Error {
	var e *wire.Error
	if errors.As(err, &e) {
		return e
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
