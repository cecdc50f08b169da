package wire

import (
	"fmt"
	"strings"
)

// Code is the class of an error: the name of one of gRPC's codes.
type Code string

// Codes of errors.
const (
	InvalidArgument    Code = "INVALID_ARGUMENT"
	NotFound           Code = "NOT_FOUND"
	FailedPrecondition Code = "FAILED_PRECONDITION"
	ResourceExhausted  Code = "RESOURCE_EXHAUSTED"
	DeadlineExceeded   Code = "DEADLINE_EXCEEDED"
	Cancelled          Code = "CANCELLED"
	Unimplemented      Code = "UNIMPLEMENTED"
	Internal           Code = "INTERNAL"
	Unavailable        Code = "UNAVAILABLE"
)

// Reason is the cause of an error, for programs. PROTOCOL.md, section 9, says when each occurs.
type Reason string

// Reasons of errors.
const (
	Malformed       Reason = "MALFORMED"
	BadID           Reason = "BAD_ID"
	TextFrame       Reason = "TEXT_FRAME"
	BadField        Reason = "BAD_FIELD"
	BadArray        Reason = "BAD_ARRAY"
	InvalidAction   Reason = "INVALID_ACTION"
	InvalidOption   Reason = "INVALID_OPTION"
	UnknownEnv      Reason = "UNKNOWN_ENV"
	UnknownEID      Reason = "UNKNOWN_EID"
	UnknownBaseline Reason = "UNKNOWN_BASELINE"
	UnknownSession  Reason = "UNKNOWN_SESSION"
	Running         Reason = "RUNNING"
	UnknownSnap     Reason = "UNKNOWN_SNAPSHOT"
	HelloFirst      Reason = "HELLO_FIRST"
	HelloTwice      Reason = "HELLO_TWICE"
	Version         Reason = "VERSION"
	ResetNeeded     Reason = "RESET_NEEDED"
	BaselineFails   Reason = "BASELINE"
	CannotClone     Reason = "NO_COPIES"
	Pending         Reason = "PENDING"
	NotSent         Reason = "NOT_SENT"
	NoState         Reason = "NO_STATE"
	BadState        Reason = "BAD_STATE"
	TooLarge        Reason = "TOO_LARGE"
	Inflight        Reason = "INFLIGHT"
	TooManyEnvs     Reason = "ENVS"
	TooManySession  Reason = "SESSIONS"
	TooManySnaps    Reason = "SNAPSHOTS"
	TooMuchMemory   Reason = "MEMORY"
	Deadline        Reason = "DEADLINE"
	WasCancelled    Reason = "CANCELLED"
	IsReserved      Reason = "RESERVED"
	UnknownMessage  Reason = "UNKNOWN_MESSAGE"
	CannotRender    Reason = "RENDER"
	EnvFailed       Reason = "ENV_FAILED"
	ServerFault     Reason = "INTERNAL"
	Draining        Reason = "DRAINING"
	BackendDown     Reason = "BACKEND"
)

var codes = map[Reason]Code{
	Malformed: InvalidArgument, BadID: InvalidArgument, TextFrame: InvalidArgument, BadField: InvalidArgument,
	BadArray: InvalidArgument, InvalidAction: InvalidArgument, InvalidOption: InvalidArgument,
	UnknownEnv: NotFound, UnknownEID: NotFound, UnknownBaseline: NotFound, UnknownSnap: NotFound, UnknownSession: NotFound, Running: Unavailable,
	HelloFirst: FailedPrecondition, HelloTwice: FailedPrecondition, Version: FailedPrecondition, ResetNeeded: FailedPrecondition,
	BaselineFails: FailedPrecondition, CannotClone: FailedPrecondition, Pending: FailedPrecondition, NotSent: FailedPrecondition,
	NoState: FailedPrecondition, BadState: InvalidArgument,
	TooLarge: ResourceExhausted, Inflight: ResourceExhausted, TooManyEnvs: ResourceExhausted, TooManySession: ResourceExhausted,
	TooManySnaps: ResourceExhausted, TooMuchMemory: ResourceExhausted,
	Deadline: DeadlineExceeded, WasCancelled: Cancelled,
	IsReserved: Unimplemented, UnknownMessage: Unimplemented, CannotRender: Unimplemented,
	EnvFailed: Internal, ServerFault: Internal, Draining: Unavailable, BackendDown: Unavailable,
}

// Code returns the class of r, Internal for an unknown reason.
func (r Reason) Code() Code {
	if c, ok := codes[r]; ok {
		return c
	}
	return Internal
}

// Error is the reply err to a rejected request. T and ID are set when it is sent.
type Error struct {
	T            string  `json:"t"`
	ID           uint64  `json:"id"`
	Code         Code    `json:"code"`
	Reason       Reason  `json:"reason"`
	Msg          string  `json:"msg"`
	EID          *uint64 `json:"eid,omitempty"`
	Option       string  `json:"option,omitempty"` // the unknown option, or one that takes too much memory
	RetryAfterMS int64   `json:"retry_after_ms,omitempty"`
	Ver          []int   `json:"ver,omitempty"`
}

// maxMsg bounds the length of an error's message, which may repeat what a client has sent.
const maxMsg = 3000

// Errorf returns an Error with a reason and a message for people, of at most 3000 bytes.
func Errorf(r Reason, format string, args ...any) *Error {
	msg := fmt.Sprintf(format, args...)
	if len(msg) > maxMsg {
		msg = strings.ToValidUTF8(msg[:maxMsg-len("…")], "") + "…"
	}
	return &Error{T: TypeErr, Code: r.Code(), Reason: r, Msg: msg}
}

// Error implements error.
func (e *Error) Error() string { return fmt.Sprintf("%s (%s): %s", e.Code, e.Reason, e.Msg) }
