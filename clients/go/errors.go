package client

import (
	"context"
	"errors"
	"fmt"

	"github.com/kubernasium/kubernasium/envs"
	"github.com/kubernasium/kubernasium/envs/cluster"
	"github.com/kubernasium/kubernasium/server/wire"
)

var (
	// ErrConnection is wrapped by errors of every method once the connection is lost: because of
	// the network, because the server ended, or because a context ended before the reply.
	ErrConnection = errors.New("client: connection lost")
	// ErrUnauthorized is wrapped by errors of Dial if the token is wrong or missing.
	ErrUnauthorized = errors.New("client: unauthorized")
	// ErrBusy is wrapped by errors about more sessions, environments or bytes than the server
	// permits.
	ErrBusy = errors.New("client: a limit of the server is reached")
	// ErrUnsupported is wrapped by errors about parts of the protocol that the server lacks.
	ErrUnsupported = errors.New("client: the server cannot do this")
	// ErrUnknownSnapshot is wrapped by errors about a snapshot of another vector, or a forgotten
	// one.
	ErrUnknownSnapshot = errors.New("client: unknown snapshot")
	// ErrUnavailable is wrapped by errors of a server that is stopping.
	ErrUnavailable = errors.New("client: the server stops")
)

// Error is the server's reply to a request that it rejects. It wraps the corresponding error:
// envs.ErrInvalidAction, envs.ErrResetNeeded, envs.ErrInvalidOption, envs.ErrUnknownBaseline,
// envs.ErrBaseline, envs.ErrCannotClone, *envs.UnknownIDError, context.DeadlineExceeded,
// ErrUnknownSnapshot, ErrBusy or ErrUnavailable.
type Error struct {
	Code         wire.Code
	Reason       wire.Reason
	Msg          string
	RetryAfterMS int64 // when to retry; 0 is unknown
	cause        error
}

// Error implements error.
func (e *Error) Error() string {
	return fmt.Sprintf("client: the server answers %s (%s): %s", e.Code, e.Reason, e.Msg)
}

// Unwrap returns the corresponding error, or nil.
func (e *Error) Unwrap() error { return e.cause }

// refusal converts the message err to an Error.
func refusal(e wire.Error, id string) error {
	err := &Error{Code: e.Code, Reason: e.Reason, Msg: e.Msg, RetryAfterMS: e.RetryAfterMS}
	switch e.Reason {
	case wire.InvalidAction:
		err.cause = envs.ErrInvalidAction
	case wire.ResetNeeded:
		err.cause = envs.ErrResetNeeded
	case wire.InvalidOption:
		err.cause = envs.ErrInvalidOption
	case wire.UnknownBaseline:
		err.cause = envs.ErrUnknownBaseline
	case wire.BaselineFails:
		err.cause = envs.ErrBaseline
	case wire.CannotClone:
		err.cause = envs.ErrCannotClone
	case wire.UnknownSnap:
		err.cause = ErrUnknownSnapshot
	case wire.UnknownEnv:
		err.cause = &envs.UnknownIDError{ID: id}
	case wire.Deadline:
		err.cause = context.DeadlineExceeded
	case wire.WasCancelled:
		err.cause = context.Canceled
	case wire.UnknownEID:
		err.cause = envs.ErrClosed
	case wire.Draining:
		err.cause = ErrUnavailable
	case wire.BackendDown:
		err.cause = cluster.ErrUnavailable
	default:
		if e.Code == wire.ResourceExhausted {
			err.cause = ErrBusy
		}
	}
	return err
}
