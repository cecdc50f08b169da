package session

import (
	"context"
	"errors"
	"fmt"

	"github.com/kubernasium/kubernasium/envs"
	"github.com/kubernasium/kubernasium/envs/cluster"
	"github.com/kubernasium/kubernasium/server/wire"
)

// sentinels maps the errors of environments to reasons of the protocol.
var sentinels = []struct {
	err    error
	reason wire.Reason
}{
	{envs.ErrInvalidAction, wire.InvalidAction},
	{envs.ErrResetNeeded, wire.ResetNeeded},
	{envs.ErrInvalidOption, wire.InvalidOption},
	{envs.ErrUnknownBaseline, wire.UnknownBaseline},
	{envs.ErrBaseline, wire.BaselineFails},
	{envs.ErrCannotClone, wire.CannotClone},
	{envs.ErrPending, wire.Pending},
	{envs.ErrNotSent, wire.NotSent},
	{envs.ErrNoState, wire.NoState},
	{envs.ErrBadState, wire.BadState},
	{context.DeadlineExceeded, wire.Deadline},
	{context.Canceled, wire.WasCancelled},
}

// maxOptionName bounds the length of the name of an unknown option that an error repeats.
const maxOptionName = 200

// wireError returns err in its wire form. A client learns why an environment or its backend failed
// only if the server reports causes.
func (s *Session) wireError(err error) *wire.Error {
	if e, ok := errors.AsType[*wire.Error](err); ok {
		return e
	}
	if errors.Is(err, cluster.ErrUnavailable) { // before Deadline: a backend that does not answer in time is down
		return s.fault(wire.BackendDown, "the environment's backend cannot be reached; reset once it is back", err)
	}
	if e := known(err); e != nil {
		return e
	}
	return s.fault(wire.EnvFailed, "the environment failed", err)
}

// known returns an error that a sentinel or a type covers in its wire form, and nil for others.
func known(err error) *wire.Error {
	for _, x := range sentinels {
		if errors.Is(err, x.err) {
			e := wire.Errorf(x.reason, "%s", err)
			if unknown, ok := errors.AsType[*envs.UnknownOptionError](err); ok && len(unknown.Name) <= maxOptionName {
				e.Option = unknown.Name
			}
			return e
		}
	}
	if _, ok := errors.AsType[*envs.UnknownIDError](err); ok {
		return wire.Errorf(wire.UnknownEnv, "%s", err)
	}
	if errors.Is(err, cluster.ErrUnavailable) {
		return wire.Errorf(wire.BackendDown, "%s", err)
	}
	return nil
}

// fault logs the cause of a failure with further attributes, under an id. The client gets the
// cause if the server reports causes, and otherwise the id of the log's line.
func (s *Session) fault(reason wire.Reason, msg string, cause any, attrs ...any) *wire.Error {
	id := fmt.Sprintf("%012x", s.cfg.Entropy()&(1<<48-1))
	s.log.Error(msg, append([]any{"error_id", id, "err", cause}, attrs...)...)
	if s.cfg.ReportCauses {
		return wire.Errorf(reason, "%s: %v", msg, cause)
	}
	return wire.Errorf(reason, "%s; the server's log has the cause under error_id=%s", msg, id)
}
