package wire

import "github.com/kubernasium/kubernasium/envs/space"

// Hello is the request hello.
type Hello struct {
	T      string   `json:"t"`
	ID     uint64   `json:"id"`
	Ver    []int    `json:"ver"`
	Client string   `json:"client,omitempty"`
	Caps   []string `json:"caps,omitempty"`
	Resume *Resume  `json:"resume,omitempty"`
}

// Resume identifies the session that a client resumes.
type Resume struct {
	SID   string `json:"sid"`
	Token string `json:"token"`
	Last  uint64 `json:"last"` // id of the last reply that the client received
}

// Welcome is the reply to Hello.
type Welcome struct {
	T      string   `json:"t"`
	ID     uint64   `json:"id"`
	Ver    []int    `json:"ver"`
	Server string   `json:"server"`
	SID    string   `json:"sid"`
	Caps   []string `json:"caps"`
	Limits Limits   `json:"limits"`

	ResumeToken string  `json:"resume_token,omitempty"`
	SharedBytes int     `json:"shm,omitempty"`  // size of the memory whose descriptor comes with the frame
	Last        *uint64 `json:"last,omitempty"` // id of the last request that a resumed session has executed
}

// Limits are the limits of a server. PROTOCOL.md, section 10, explains them.
type Limits struct {
	MsgIn         int   `json:"msg_in"`
	MsgOut        int   `json:"msg_out"`
	EnvsMake      int   `json:"envs_make"`
	EnvsSession   int   `json:"envs_session"`
	EnvsServer    int   `json:"envs_server"`
	Sessions      int   `json:"sessions"`
	Inflight      int   `json:"inflight"`
	Rollout       int   `json:"rollout"`
	Snapshots     int   `json:"snapshots"`
	SnapsServer   int   `json:"snapshots_server"`
	MemorySession int64 `json:"memory_session,omitempty"` // estimated bytes of environments and snapshots; 0 is no limit
	MemoryServer  int64 `json:"memory_server,omitempty"`
	Depth         int   `json:"depth"`
	MapKeys       int   `json:"map_keys"`
	NDim          int   `json:"ndim"`
	IdleMS        int   `json:"idle_ms"`      // 0: none
	HandshakeMS   int   `json:"handshake_ms"` // 0: none
	LeaseMS       int   `json:"lease_ms"`     // 0: none
}

// DefaultLimits returns the limits of a server without flags.
func DefaultLimits() Limits {
	return Limits{
		MsgIn: 16 << 20, MsgOut: 64 << 20, EnvsMake: 4096, EnvsSession: 4096, EnvsServer: 16384, Sessions: 2048,
		Inflight: 8, Rollout: 1 << 20, Snapshots: 4096, SnapsServer: 16384, Depth: DefaultBounds.Depth, MapKeys: DefaultBounds.MapKeys, NDim: MaxNDim,
		IdleMS: 600_000, HandshakeMS: 10_000, LeaseMS: 120_000,
	}
}

// Bounds returns the limits that the codec enforces.
func (l *Limits) Bounds() Bounds { return Bounds{l.Depth, l.MapKeys} }

// EnvsRequest is the request envs.
type EnvsRequest struct {
	T      string `json:"t"`
	ID     uint64 `json:"id"`
	Filter string `json:"filter,omitempty"`
}

// EnvsReply is the reply to EnvsRequest.
type EnvsReply struct {
	T    string `json:"t"`
	ID   uint64 `json:"id"`
	Envs []Spec `json:"envs"`
}

// Spec describes an environment.
type Spec struct {
	ID               string         `json:"id"`
	Doc              string         `json:"doc"`
	MaxEpisodeSteps  int            `json:"max_episode_steps"`
	RewardThreshold  *float64       `json:"reward_threshold"`
	Nondeterministic bool           `json:"nondeterministic"`
	RenderModes      []string       `json:"render_modes"`
	Options          []Option       `json:"options"`
	HeldOut          map[string]any `json:"held_out"` // options of held-out instances
	Info             []Column       `json:"info"`
	Metrics          []Metric       `json:"metrics"`
	Baselines        []Baseline     `json:"baselines"`
}

// Option is an option of make.
type Option struct {
	Name    string `json:"name"`
	Type    string `json:"type"`
	Default any    `json:"default"`
	Doc     string `json:"doc"`
}

// Column is a column of infos.
type Column struct {
	Name  string `json:"name"`
	DType string `json:"dtype"`
	Doc   string `json:"doc"`
}

// Metric names a column whose last value is an episode's outcome.
type Metric struct {
	Column string `json:"column"`
	Unit   string `json:"unit"`
	Lower  bool   `json:"lower"`
}

// Baseline describes a policy that comes with an environment.
type Baseline struct {
	Name   string `json:"name"`
	Doc    string `json:"doc"`
	Oracle bool   `json:"oracle"` // clairvoyant: it uses knowledge that no agent has
}

// MakeRequest is the request make.
type MakeRequest struct {
	T               string         `json:"t"`
	ID              uint64         `json:"id"`
	Env             string         `json:"env"`
	N               *int           `json:"n,omitempty"`
	Options         map[string]any `json:"options,omitempty"`
	Autoreset       string         `json:"autoreset,omitempty"`
	MaxEpisodeSteps int            `json:"max_episode_steps,omitempty"`
	Threads         int            `json:"threads,omitempty"`
	CWD             string         `json:"cwd,omitempty"`       // folder of relative paths in options
	EnvError        bool           `json:"env_error,omitempty"` // a failure ends an episode instead of the request
	ObsKeys         []string       `json:"obs_keys,omitempty"`  // parts of the observation to send
	State           bool           `json:"state,omitempty"`     // enables state
}

// Modes of autoreset, in the order of envs.AutoresetMode.
var Modes = []string{"NEXT_STEP", "SAME_STEP", "DISABLED"}

// MakeReply is the reply to MakeRequest.
type MakeReply struct {
	T               string            `json:"t"`
	ID              uint64            `json:"id"`
	EID             uint64            `json:"eid"`
	Env             string            `json:"env"`
	N               int               `json:"n"`
	Autoreset       string            `json:"autoreset"`
	MaxEpisodeSteps int               `json:"max_episode_steps"`
	ObsSpace        space.Description `json:"obs_space"`
	ActSpace        space.Description `json:"act_space"`
	Mask            int               `json:"mask"`
	Copies          bool              `json:"copies,omitempty"`
	State           bool              `json:"state,omitempty"`    // state is enabled
	Features        []Features        `json:"features,omitempty"` // nil if the environment names none
	Spec            Spec              `json:"spec"`
}

// Features names the elements of one part of an observation; see envs.Features.
type Features struct {
	Part  string   `json:"part"`
	Row   string   `json:"row"`
	Names []string `json:"names"`
}

// ResetRequest is the request reset, as clients of this module send it. Servers read its
// fields one by one.
type ResetRequest struct {
	T       string         `json:"t"`
	ID      uint64         `json:"id"`
	EID     uint64         `json:"eid"`
	Seed    any            `json:"seed,omitempty"` // *uint64, or a slice of seeds; a plain 0 would be omitted
	Options map[string]any `json:"options,omitempty"`
	Mask    []bool         `json:"mask,omitempty"`
}

// EIDRequest is the request stats, snapshot, state or close.
type EIDRequest struct {
	T   string `json:"t"`
	ID  uint64 `json:"id"`
	EID uint64 `json:"eid"`
}

// StepByRequest is the request step by a baseline, as clients of this module send it.
type StepByRequest struct {
	T      string  `json:"t"`
	ID     uint64  `json:"id"`
	EID    uint64  `json:"eid"`
	Policy string  `json:"policy"`
	Seed   *uint64 `json:"seed,omitempty"` // of random actions
}

// PolicyRequest is the request policy, as clients of this module send it.
type PolicyRequest struct {
	T    string  `json:"t"`
	ID   uint64  `json:"id"`
	EID  uint64  `json:"eid"`
	Name string  `json:"name"`
	Seed *uint64 `json:"seed,omitempty"` // of random actions
}

// RolloutRequest is the request rollout, as clients of this module send it.
type RolloutRequest struct {
	T        string  `json:"t"`
	ID       uint64  `json:"id"`
	EID      uint64  `json:"eid"`
	Name     string  `json:"name"`
	Seed     *uint64 `json:"seed,omitempty"` // of random actions
	Steps    int     `json:"steps,omitempty"`
	Episodes int     `json:"episodes,omitempty"`
	Arrays   bool    `json:"arrays,omitempty"`
}

// SnapshotReply is the reply to snapshot, whose request is an EIDRequest.
type SnapshotReply struct {
	T    string `json:"t"`
	ID   uint64 `json:"id"`
	Snap uint64 `json:"snap"`
}

// SnapRequest is the request restore or forget, as clients of this module send it.
type SnapRequest struct {
	T    string `json:"t"`
	ID   uint64 `json:"id"`
	EID  uint64 `json:"eid"`
	Snap uint64 `json:"snap"`
}

// StateReply is the reply to state.
type StateReply struct {
	T     string `json:"t"`
	ID    uint64 `json:"id"`
	State []byte `json:"state"`
}

// EncodeLoad writes the request load.
func EncodeLoad(w *Writer, id, eid uint64, state []byte) {
	w.Head(4, TypeLoad, id)
	w.Str("eid")
	w.Uint(eid)
	w.Str("state")
	w.Bin(state)
}

// ForkRequest is the request fork, as clients of this module send it.
type ForkRequest struct {
	T    string `json:"t"`
	ID   uint64 `json:"id"`
	EID  uint64 `json:"eid"`
	From int    `json:"from"`
	To   []int  `json:"to"`
}

// RenderRequest is the request render.
type RenderRequest struct {
	T    string `json:"t"`
	ID   uint64 `json:"id"`
	EID  uint64 `json:"eid"`
	Idx  int    `json:"idx"`
	Mode string `json:"mode"`
}

// StatsReply is the reply to stats.
type StatsReply struct {
	T         string  `json:"t"`
	ID        uint64  `json:"id"`
	Steps     uint64  `json:"steps"`
	Resets    uint64  `json:"resets"`
	Episodes  uint64  `json:"episodes"`
	StepUSP50 float64 `json:"step_us_p50"`
	StepUSP99 float64 `json:"step_us_p99"`
}

// RecvRequest is the request recv, as clients of this module send it.
type RecvRequest struct {
	T      string  `json:"t"`
	ID     uint64  `json:"id"`
	EID    uint64  `json:"eid"`
	Min    int     `json:"min,omitempty"`
	Max    int     `json:"max,omitempty"`
	WaitMS *uint64 `json:"wait_ms,omitempty"`
}

// EncodeDrain writes the event that a server stops within ms milliseconds.
func EncodeDrain(w *Writer, ms int64) {
	w.Head(3, TypeDrain, 0)
	w.Str("ms")
	w.Uint(uint64(ms))
}

// CancelRequest is the request cancel.
type CancelRequest struct {
	T  string `json:"t"`
	ID uint64 `json:"id"`
	Of uint64 `json:"of"` // id of the request to cancel
}

// CancelReply is the reply to CancelRequest.
type CancelReply struct {
	T     string `json:"t"`
	ID    uint64 `json:"id"`
	Found bool   `json:"found"` // the request waited or ran
}
