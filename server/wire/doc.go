// Package wire is the codec of the protocol kubernasium.v1, which server/PROTOCOL.md defines:
// frames, arrays, spaces, batches and error codes, without any I/O.
//
// Encoders and decoders of steps allocate nothing once their buffers have grown. Every decoder
// checks lengths before it allocates, and none panics on any input.
package wire

const (
	// Subprotocol is the WebSocket subprotocol.
	Subprotocol = "kubernasium.v1"
	// BearerPrefix precedes the token, in unpadded base64url, in the subprotocol with which
	// browsers authenticate.
	BearerPrefix = "base64url.bearer.authorization.kubernasium."
	// Path is where the HTTP server upgrades to WebSocket.
	Path = "/v1/ws"

	// Major and Minor are the version of the protocol.
	Major = 1
	Minor = 8
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

	TypePolicy = "policy" // since 1.2; 1.1 had another form

	TypeCancel = "cancel" // since 1.4

	// Since 1.5.
	TypeSend = "send"
	TypeRecv = "recv"

	// Since 1.7.
	TypeState = "state"
	TypeLoad  = "load"

	TypeErr   = "err"
	TypeDrain = "drain" // an event

	OK = ".ok"
)

// Reserved lists the request names that version 1.0 reserved. Later versions use some of them.
var Reserved = []string{TypeSend, TypeRecv, TypeRollout, TypeSnapshot, TypeRestore, TypeFork, "resume", TypePolicy, TypeCancel}

// Optional parts of a server, as welcome lists them.
const (
	CapAsync    = "async" // since 1.5: send and recv
	CapBaseline = "baseline"
	CapCancel   = "cancel"    // since 1.4
	CapEnvError = "env_error" // since 1.5
	CapObsKeys  = "obs_keys"  // since 1.5
	CapResume   = "resume"    // since 1.3
	CapRollout  = "rollout"
	CapShared   = "shm" // since 1.8: frames may lie in shared memory
	CapSnapshot = "snapshot"
	CapState    = "state" // since 1.7: state and load
	CapZstd     = "zstd"  // since 1.6: frames may be compressed
)

// since is the minor version that introduced each optional part.
var since = []struct {
	name  string
	minor int
}{
	{CapAsync, 5}, {CapBaseline, 2}, {CapCancel, 4}, {CapEnvError, 5}, {CapObsKeys, 5}, {CapResume, 3}, {CapRollout, 1}, {CapSnapshot, 1}, {CapState, 7}, {CapZstd, 6},
}

// Caps returns the optional parts of sessions of a minor version, except for CapShared, which the server adds if it
// offers the memory.
func Caps(minor int) []string {
	caps := []string{}
	for _, part := range since {
		if minor >= part.minor {
			caps = append(caps, part.name)
		}
	}
	return caps
}
