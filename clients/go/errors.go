package client

import (
	"context"
	"errors"
	"fmt"
	"regexp"
	"strconv"

	"github.com/kubernasium/kubernasium/envs"
	"github.com/kubernasium/kubernasium/envs/cluster"
	"github.com/kubernasium/kubernasium/server/wire"
)

var (
	// ErrConnection is wrapped by the errors of every method once the connection is lost: by the network, by the end of
	// the server, or by the end of a context before the reply if the server cannot cancel.
	ErrConnection = errors.New("client: connection lost")
	// ErrUnauthorized is wrapped by errors of Dial if the token is wrong or missing.
	ErrUnauthorized = errors.New("client: unauthorized")
	// ErrBusy is wrapped by errors of requests for more sessions, environments or bytes than the
	// server permits.
	ErrBusy = errors.New("client: a limit of the server is reached")
	// ErrUnsupported is wrapped by errors of requests that need a part of the protocol that the server lacks.
	ErrUnsupported = errors.New("client: the server cannot do this")
	// ErrUnknownSnapshot is wrapped by errors about a snapshot that is of another vector or
	// forgotten.
	ErrUnknownSnapshot = errors.New("client: unknown snapshot")
	// ErrUnavailable is wrapped by errors of a server that is stopping.
	ErrUnavailable = errors.New("client: the server stops")
)

// Error is the server's reply to a request that it rejects. It wraps the corresponding error:
// envs.ErrInvalidAction, envs.ErrResetNeeded, envs.ErrInvalidOption, envs.ErrUnknownBaseline,
// envs.ErrBaseline, envs.ErrCannotClone, envs.ErrPending, envs.ErrNotSent, envs.ErrNoState, envs.ErrBadState, *envs.UnknownIDError, context.DeadlineExceeded,
// ErrUnknownSnapshot, ErrBusy or ErrUnavailable.
type Error struct {
	Code         wire.Code
	Reason       wire.Reason
	Msg          string
	RetryAfterMS int64 // when to retry; 0: unknown
	cause        error
}

// Error implements error.
func (e *Error) Error() string {
	return fmt.Sprintf("client: the server answers %s (%s): %s", e.Code, e.Reason, e.Msg)
}

// named finds the environment that a server's message is about.
var named = regexp.MustCompile(`\benvironment (\d+)(:| before | has )`)

// countedFrom returns an error of environments of which the first is the given row of a vector on several servers. If it
// is the server's, which counts environments from 0, it then names a row of that vector.
func countedFrom(first int, err error) error {
	if e, ok := errors.AsType[*Error](err); ok {
		e.countFrom(first)
	}
	return err
}

// countFrom counts the environment that the message names from the given row on.
func (e *Error) countFrom(first int) {
	at := named.FindStringSubmatchIndex(e.Msg)
	if at == nil {
		return
	}
	if i, err := strconv.Atoi(e.Msg[at[2]:at[3]]); err == nil {
		e.Msg = e.Msg[:at[2]] + strconv.Itoa(first+i) + e.Msg[at[3]:]
	}
}

// Unwrap returns the corresponding error, or nil.
func (e *Error) Unwrap() error { return e.cause }

// causes maps reasons of the protocol to errors.
var causes = map[wire.Reason]error{
	wire.InvalidAction:   envs.ErrInvalidAction,
	wire.ResetNeeded:     envs.ErrResetNeeded,
	wire.InvalidOption:   envs.ErrInvalidOption,
	wire.UnknownBaseline: envs.ErrUnknownBaseline,
	wire.BaselineFails:   envs.ErrBaseline,
	wire.CannotClone:     envs.ErrCannotClone,
	wire.UnknownSnap:     ErrUnknownSnapshot,
	wire.Pending:         envs.ErrPending,
	wire.NotSent:         envs.ErrNotSent,
	wire.NoState:         envs.ErrNoState,
	wire.BadState:        envs.ErrBadState,
	wire.Deadline:        context.DeadlineExceeded,
	wire.WasCancelled:    context.Canceled,
	wire.UnknownEID:      envs.ErrClosed,
	wire.Draining:        ErrUnavailable,
	wire.BackendDown:     cluster.ErrUnavailable,
}

// errorOf converts the message err to an Error.
func errorOf(e wire.Error, id string) error {
	cause := causes[e.Reason]
	switch {
	case e.Reason == wire.UnknownEnv:
		cause = &envs.UnknownIDError{ID: id}
	case cause == nil && e.Code == wire.ResourceExhausted:
		cause = ErrBusy
	}
	return &Error{Code: e.Code, Reason: e.Reason, Msg: e.Msg, RetryAfterMS: e.RetryAfterMS, cause: cause}
}
