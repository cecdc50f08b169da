// Package wire is the codec of the protocol kubernasium.v1, which server/PROTOCOL.md defines:
// frames, arrays, spaces, batches and error codes, without any I/O.
//
// Encoders and decoders of steps allocate nothing once their buffers have grown. Every decoder
// checks lengths before it allocates, and none panics on any input.
package wire

const (
	// Subprotocol is the name that WebSocket peers agree on.
	Subprotocol = "kubernasium.v1"
	// BearerPrefix precedes the token, in unpadded base64url, in the subprotocol with which
	// browsers authenticate.
	BearerPrefix = "base64url.bearer.authorization.kubernasium."
	// Path is where the HTTP server upgrades to WebSocket.
	Path = "/v1/ws"

	// Major and Minor are the version of the protocol.
	Major = 1
	Minor = 4
)

// Kinds of requests. Their replies are of the kind with OK appended, except for Welcome.
const (
	TypeHello   = "hello"
	TypeWelcome = "welcome"
	TypeEnvs    = "envs"
	TypeMake    = "make"
	TypeReset   = "reset"
	TypeStep    = "step"
	TypeRender  = "render"
	TypeStats   = "stats"
	TypeClose   = "close"
	TypePing    = "ping"

	// Since 1.1.
	TypeRollout  = "rollout"
	TypeSnapshot = "snapshot"
	TypeRestore  = "restore"
	TypeFork     = "fork"
	TypeForget   = "forget"

	TypePolicy = "policy" // since 1.2; 1.1 had another form of it

	TypeCancel = "cancel" // since 1.4

	TypeErr   = "err"
	TypeDrain = "drain" // an event

	OK = ".ok"
)

// Reserved lists the request names that version 1.0 reserved. Later versions use some of them.
var Reserved = []string{"send", "recv", TypeRollout, TypeSnapshot, TypeRestore, TypeFork, "resume", TypePolicy, TypeCancel}

// Optional parts of a server, as welcome lists them.
const (
	CapBaseline = "baseline"
	CapCancel   = "cancel" // since 1.4
	CapResume   = "resume" // since 1.3
	CapRollout  = "rollout"
	CapSnapshot = "snapshot"
)

// Caps returns the optional parts that sessions of a minor version may have.
func Caps(minor int) []string {
	switch {
	case minor < 1:
		return []string{}
	case minor < 2:
		return []string{CapRollout, CapSnapshot}
	}
	switch {
	case minor < 3:
		return []string{CapBaseline, CapRollout, CapSnapshot}
	case minor < 4:
		return []string{CapBaseline, CapResume, CapRollout, CapSnapshot}
	}
	return []string{CapBaseline, CapCancel, CapResume, CapRollout, CapSnapshot}
}
