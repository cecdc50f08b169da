// Package client runs environments on a server of the protocol kubernasium.v1 as if they were in
// this process. [Dial] returns an [envs.VecEnv] whose batches equal those of [envs.Vec] bit for
// bit. [Join] combines the vectors of several servers into one.
package client

import (
	"cmp"
	"context"
	"crypto/tls"
	"errors"
	"fmt"
	"image"
	"slices"
	"time"

	"github.com/kubernasium/kubernasium/envs"
	"github.com/kubernasium/kubernasium/envs/space"
	"github.com/kubernasium/kubernasium/server/wire"
)

// Options are the arguments of [Dial]; zero values are the defaults. The first fields are those of
// [envs.VecOptions].
type Options struct {
	Options         map[string]any // of the environment
	Autoreset       envs.AutoresetMode
	MaxEpisodeSteps int
	Threads         int // goroutines that step at the server; default by the number of environments

	EnvError bool     // a failure of an environment ends its episode instead of the call: see [envs.Batch.Failed]
	ObsKeys  []string // parts of a Dict observation to receive; nil: all

	// Reconnect bounds the time to reconnect after a lost connection, until the reply to the request arrives. The
	// client then resumes the session, or rebuilds deterministic environments at a restarted server. 0: a minute;
	// negative: a lost connection is an error.
	Reconnect time.Duration
	Timeout   time.Duration // of each reply; 0: two minutes, negative: none

	// Others are servers that take over if the first no longer answers: deterministic environments are rebuilt there.
	Others []string

	// Weights are the relative speeds of the servers of [Spread]; nil measures them.
	Weights []float64

	// Sizes are the sizes of the parts of [Spread], instead of Weights; [StateSizes] returns them. Part k is on server
	// k; further parts start again with the first server.
	Sizes []int

	Token string      // bearer token of the servers
	TLS   *tls.Config // for wss
	Name  string      // client name for the server's log
}

// VecEnv is a vector of environments on a server. It is not safe for concurrent use.
type VecEnv struct {
	session
	eid      uint64
	spec     *envs.Spec
	obs, act space.Space
	features []envs.Features
	mode     envs.AutoresetMode
	limit    int
	layout   *wire.Layout
	batch    *envs.Batch
	part     *envs.Batch // of Recv; made by its first call
	rows     rows
	closed   bool
	portable bool          // the server can return the environments' state
	stateFor time.Duration // duration of the last request for a state
}

var _ envs.VecEnv = (*VecEnv)(nil)

// Dial connects to the server at url (ws://host:port, wss://host:port or unix:///path) and makes n environments of id.
// For k8s+dns://name:port it selects the first server that answers; the others take over if it fails. [Spread] uses all
// of them. With ?compress=zstd at the end of url, long frames are compressed for slow links, if the server supports it.
// The caller must call Close.
func Dial(ctx context.Context, url, id string, n int, opts Options) (*VecEnv, error) {
	r, compress, err := newRoute(url, &opts)
	if err != nil {
		return nil, err
	}
	v := &VecEnv{session: session{
		dial: r.dial, compress: compress,
		w: wire.NewWriter(), env: id, name: cmp.Or(opts.Name, "kubernasium-go"),
		reconnect: max(0, cmp.Or(opts.Reconnect, defaultReconnect)), timeout: max(0, cmp.Or(opts.Timeout, defaultTimeout)),
	}, mode: opts.Autoreset}
	t, err := v.dial(ctx)
	if err != nil {
		return nil, err
	}
	v.use(t)
	err = v.handshake(ctx)
	if err == nil {
		err = v.make(ctx, id, n, &opts)
	}
	if err != nil {
		return nil, errors.Join(err, v.session.close())
	}
	return v, nil
}

func (v *VecEnv) make(ctx context.Context, id string, n int, opts *Options) error {
	if int(opts.Autoreset) >= len(wire.Modes) {
		return fmt.Errorf("client: %v", opts.Autoreset)
	}
	if opts.EnvError {
		if err := v.needs(wire.CapEnvError); err != nil {
			return err
		}
	}
	if opts.ObsKeys != nil {
		if err := v.needs(wire.CapObsKeys); err != nil {
			return err
		}
	}
	var m wire.MakeReply
	err := v.call(ctx, wire.TypeMake+wire.OK, &wire.MakeRequest{
		T: wire.TypeMake, ID: v.nextID(), Env: id, N: &n, Options: opts.Options, Autoreset: wire.Modes[opts.Autoreset],
		MaxEpisodeSteps: opts.MaxEpisodeSteps, Threads: opts.Threads, EnvError: opts.EnvError, ObsKeys: opts.ObsKeys,
		State: v.token != "" && slices.Contains(v.caps, wire.CapState),
	}, &m)
	if err != nil {
		return err
	}
	if m.N != n || m.Autoreset != wire.Modes[opts.Autoreset] {
		return fmt.Errorf("client: the server made %d environments in mode %s, asked for %d in %s", m.N, m.Autoreset, n, wire.Modes[opts.Autoreset])
	}
	if v.obs, err = space.FromDescription(m.ObsSpace); err != nil {
		return fmt.Errorf("client: observation space: %w", err)
	}
	if v.act, err = space.FromDescription(m.ActSpace); err != nil {
		return fmt.Errorf("client: action space: %w", err)
	}
	if v.layout, err = wire.NewLayout(n, v.obs, v.act, m.Spec.Info); err != nil {
		return fmt.Errorf("client: %w", err)
	}
	if v.layout.Mask != m.Mask {
		return fmt.Errorf("client: an action mask of %d, want %d", m.Mask, v.layout.Mask)
	}
	v.portable = m.State
	v.eid, v.env, v.limit, v.spec = m.EID, m.Env, m.MaxEpisodeSteps, specOf(&m.Spec)
	if v.spec.Nondeterministic {
		v.journal.drop()
	}
	v.batch = envs.NewBatch(n, v.obs.Size(), v.layout.Mask, len(v.spec.Info), v.mode)
	if opts.EnvError {
		v.batch.Failed = make([]error, n)
	}
	v.rows = newRows(n)
	for _, f := range m.Features {
		v.features = append(v.features, envs.Features(f))
	}
	return nil
}

// Spec implements [envs.VecEnv]. Its Open and baselines return errors, since the tasks are on the
// server.
func (v *VecEnv) Spec() *envs.Spec { return v.spec }

// Features returns the names of the observation's elements, or nil if the environment names none.
func (v *VecEnv) Features() []envs.Features { return v.features }

// NumEnvs implements [envs.VecEnv].
func (v *VecEnv) NumEnvs() int { return v.layout.N }

// Autoreset returns the mode given to Dial.
func (v *VecEnv) Autoreset() envs.AutoresetMode { return v.mode }

// Spaces returns the observation and the action space of one environment.
func (v *VecEnv) Spaces() (obs, act space.Space) { return v.obs, v.act }

// MaxEpisodeSteps returns the time limit; 0: none.
func (v *VecEnv) MaxEpisodeSteps() int { return v.limit }

// Server returns the name and version of the server.
func (v *VecEnv) Server() string { return v.server }

// Step implements [envs.VecEnv]. If ctx ends before the reply, the server cancels the request, and the environments
// must be reset. Servers before version 1.4 of the protocol cannot cancel; then the connection is lost.
func (v *VecEnv) Step(ctx context.Context, actions []float32) (*envs.Batch, error) {
	if err := v.checkActions(actions, 0); err != nil {
		return nil, err
	}
	if err := v.sendStep(ctx, actions); err != nil {
		return nil, err
	}
	if err := v.receiveStep(ctx); err != nil {
		return nil, err
	}
	return v.batch, nil
}

// checkActions rejects what the server would reject, in the same order. Integer actions are sent as
// integers, so fractions must be rejected here. first is the index of row 0 in errors.
func (v *VecEnv) checkActions(actions []float32, first int) error {
	if v.closed {
		return envs.ErrClosed
	}
	k := v.layout.ActSize
	if len(actions) != v.layout.N*k {
		return fmt.Errorf("%w: %d numbers for %d environments, want %d", envs.ErrInvalidAction, len(actions), v.layout.N, v.layout.N*k)
	}
	for i := range v.layout.N {
		if err := v.checkAction(i, actions[i*k:(i+1)*k], first); err != nil {
			return err
		}
	}
	return nil
}

// checkAction is checkActions for environment i.
func (v *VecEnv) checkAction(i int, a []float32, first int) error {
	switch {
	case v.rows.ended[i] && v.mode == envs.NextStep:
	case !v.rows.running[i]:
		return fmt.Errorf("environment %d: %w", first+i, envs.ErrResetNeeded)
	case !v.act.Contains(a):
		return fmt.Errorf("environment %d: %w: %s not in %v", first+i, envs.ErrInvalidAction, space.ActionText(a), v.act)
	}
	return nil
}

func (v *VecEnv) sendStep(ctx context.Context, actions []float32) error {
	v.layout.EncodeStepRequest(v.w, v.nextID(), v.eid, actions)
	return v.send(ctx)
}

func (v *VecEnv) receiveStep(ctx context.Context) error {
	if err := v.receive(ctx, wire.TypeStep+wire.OK); err != nil {
		return v.checkPartial(err)
	}
	r := (*wire.Rows)(v.batch)
	if err := v.decoded(v.layout.DecodeStep(&v.frame, r), v.batch, v.layout.N, nil); err != nil {
		return v.protocolError(err)
	}
	v.rows.stepped(v.batch, v.mode)
	if err := v.layout.DecodeEpisodes(&v.frame, r); err != nil {
		return v.protocolError(err)
	}
	v.keepState(ctx)
	return nil
}

// checkPartial returns err, the error of a request that changes the environments. If the server may have executed the
// request partly, the environments must be reset.
func (v *VecEnv) checkPartial(err error) error {
	if refused, ok := errors.AsType[*Error](err); ok && slices.Contains([]wire.Code{wire.Cancelled, wire.DeadlineExceeded, wire.Internal}, refused.Code) {
		v.rows.invalidate()
		v.journal.partial = true
	}
	return err
}

// protocolError ends the session after a reply that violates the protocol, if err is not nil.
func (v *VecEnv) protocolError(err error) error {
	if err == nil {
		return nil
	}
	v.broken = fmt.Errorf("%w: a reply that cannot be read: %w", ErrConnection, err)
	return v.broken
}

// Reset implements [envs.VecEnv].
func (v *VecEnv) Reset(ctx context.Context, opts envs.VecResetOptions) (*envs.Batch, error) {
	if v.closed {
		return nil, envs.ErrClosed
	}
	if err := opts.Check(v.layout.N); err != nil {
		return nil, err
	}
	if selectsNone(opts.Mask) {
		v.rows.keep(v.batch)
		return v.batch, nil
	}
	if err := v.sendReset(ctx, &opts); err != nil {
		return nil, err
	}
	if err := v.receiveReset(ctx, &opts); err != nil {
		return nil, err
	}
	return v.batch, nil
}

func (v *VecEnv) sendReset(ctx context.Context, opts *envs.VecResetOptions) error {
	r := wire.ResetRequest{T: wire.TypeReset, ID: v.nextID(), EID: v.eid, Options: opts.Options, Mask: opts.Mask}
	switch {
	case opts.Seed != nil:
		r.Seed = opts.Seed
	case opts.Seeds != nil:
		r.Seed = opts.Seeds
	default:
		r.Seed = v.rows.firstSeeds()
	}
	if restarts(opts) {
		v.journal.restart()
	}
	for i := range v.layout.N {
		if opts.Mask == nil || opts.Mask[i] {
			v.rows.running[i] = false // in case the server rejects the request
		}
	}
	v.w.Reset()
	if err := v.w.Encode(&r); err != nil {
		return v.resetFailed(opts, fmt.Errorf("client: encode reset: %w", err))
	}
	if err := v.send(ctx); err != nil {
		return v.resetFailed(opts, err)
	}
	return nil
}

// restarts reports whether after a reset with opts no earlier request matters.
func restarts(opts *envs.VecResetOptions) bool {
	return opts.Mask == nil && (opts.Seed != nil || opts.Seeds != nil)
}

// resetFailed returns err, the error of a reset with opts.
func (v *VecEnv) resetFailed(opts *envs.VecResetOptions, err error) error {
	if restarts(opts) && !v.journal.unresettable { // the journal has lost the requests that still matter
		v.journal.partial = true
	}
	return v.checkPartial(err)
}

func (v *VecEnv) receiveReset(ctx context.Context, opts *envs.VecResetOptions) error {
	if err := v.receive(ctx, wire.TypeReset+wire.OK); err != nil {
		return v.resetFailed(opts, err)
	}
	if err := v.decoded(v.layout.DecodeReset(&v.frame, (*wire.Rows)(v.batch)), v.batch, v.layout.N, opts); err != nil {
		return v.protocolError(err)
	}
	v.rows.reset(v.batch, opts.Mask)
	v.keepState(ctx)
	return nil
}

// RenderANSI returns environment i as text.
func (v *VecEnv) RenderANSI(i int) (string, error) {
	var reply struct {
		Frame string `json:"frame"`
	}
	return reply.Frame, v.render(i, "ansi", &reply)
}

// RenderRGB returns an image of environment i.
func (v *VecEnv) RenderRGB(i int) (*image.RGBA, error) {
	if err := v.render(i, "rgb_array", nil); err != nil {
		return nil, err
	}
	img, err := v.frame.Image("frame")
	if err != nil {
		return nil, v.protocolError(err)
	}
	return img, nil
}

func (v *VecEnv) render(i int, mode string, reply any) error {
	if v.closed {
		return envs.ErrClosed
	}
	req := &wire.RenderRequest{T: wire.TypeRender, ID: v.nextID(), EID: v.eid, Idx: i, Mode: mode}
	return v.call(context.Background(), wire.TypeRender+wire.OK, req, reply)
}

// closeWithin is how long Close waits for the server to confirm.
const closeWithin = 5 * time.Second

// Close frees the environments on the server and ends the connection. Further calls do
// nothing.
func (v *VecEnv) Close() error {
	if v.closed {
		return nil
	}
	v.closed = true
	var err error
	if v.broken == nil {
		ctx, cancel := context.WithTimeout(context.Background(), closeWithin)
		defer cancel()
		req := &wire.EIDRequest{T: wire.TypeClose, ID: v.nextID(), EID: v.eid}
		err = v.call(ctx, wire.TypeClose+wire.OK, req, nil)
	}
	return errors.Join(err, v.session.close())
}
