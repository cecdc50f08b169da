package session

import (
	"context"
	"errors"
	"fmt"
	"path/filepath"
	"slices"

	"github.com/kubernasium/kubernasium/envs"
	"github.com/kubernasium/kubernasium/envs/space"
	"github.com/kubernasium/kubernasium/server/wire"
)

func (s *Session) hello(f *wire.Frame) error {
	var h wire.Hello
	if err := f.Decode(&h); err != nil {
		return err
	}
	if len(h.Ver) != 2 || h.Ver[0] < 0 || h.Ver[1] < 0 {
		return wire.Errorf(wire.BadField, "ver %v, want [major, minor]", h.Ver)
	}
	if h.Ver[0] != wire.Major {
		err := wire.Errorf(wire.Version, "version %d.%d, want %d.x", h.Ver[0], h.Ver[1], wire.Major)
		err.Ver = []int{wire.Major, wire.Minor}
		return err
	}
	s.packs = h.Ver[1] >= 6 && slices.Contains(h.Caps, wire.CapZstd)
	s.shares = h.Ver[1] >= 8 && slices.Contains(h.Caps, wire.CapShared)
	if h.Resume != nil && s.cfg.Resume != nil {
		if err := s.resume(h.Resume); err != nil {
			return err
		}
		return s.welcome(f.ID)
	}
	if err := s.quota.takeSession(); err != nil {
		return err
	}
	if limit := s.cfg.Limits.Sessions; !take(&s.cfg.Shared.Sessions, 1, limit) {
		s.quota.Held.Sessions.Add(-1)
		err := wire.Errorf(wire.TooManySession, "%d sessions are open, want at most that many (the server's flag --max-sessions)", limit)
		err.RetryAfterMS = 1000
		return err
	}
	s.greeted, s.minor = true, min(wire.Minor, h.Ver[1])
	s.log.Debug("hello", "client", string(clip([]byte(h.Client))), "minor", h.Ver[1])
	s.lease(&h)
	return s.welcome(f.ID)
}

// Packs reports whether the client has asked for compressed frames. It counts as Admit.
func (s *Session) Packs() bool { return s.greeted && s.packs }

// OfferMemory makes offer the source of the shared memory that a client may ask for in hello. offer returns its size in
// bytes, or 0 if there is none. OfferMemory must be called before the first Admit; Admit calls offer at most once.
func (s *Session) OfferMemory(offer func() int) { s.offer = offer }

func (s *Session) welcome(id uint64) error {
	w := &wire.Welcome{
		T: wire.TypeWelcome, ID: id, Ver: []int{wire.Major, s.minor},
		Server: s.cfg.Server, SID: s.sid, Caps: wire.Caps(s.minor), Limits: s.cfg.Limits, ResumeToken: s.token,
	}
	if s.resumed {
		w.Last = &s.done
	}
	if s.shares && s.offer != nil {
		if w.SharedBytes = s.offer(); w.SharedBytes > 0 {
			w.Caps = append(w.Caps, wire.CapShared)
		}
	}
	s.arrivals.Reset()
	return s.arrivals.Encode(w)
}

func (s *Session) ping(f *wire.Frame) {
	ts := f.Get("ts")
	n := 2
	if ts != nil {
		n = 3
	}
	s.arrivals.Head(n, wire.TypePing+wire.OK, f.ID)
	if ts != nil {
		s.arrivals.Str("ts")
		s.arrivals.Raw(ts)
	}
}

func (s *Session) listEnvs(f *wire.Frame) error {
	var r wire.EnvsRequest
	if err := checkLengths(f); err != nil {
		return err
	}
	if err := f.Decode(&r); err != nil {
		return err
	}
	s.out.Reset()
	return s.out.Encode(&wire.EnvsReply{T: wire.TypeEnvs + wire.OK, ID: f.ID, Envs: Catalog(r.Filter)})
}

func (s *Session) make(ctx context.Context, f *wire.Frame) error {
	var r wire.MakeRequest
	if err := checkLengths(f); err != nil {
		return err
	}
	if err := f.Decode(&r); err != nil {
		return err
	}
	n := 1
	if r.N != nil {
		n = *r.N
	}
	if s.minor < 5 {
		r.EnvError, r.ObsKeys = false, nil
	}
	r.State = r.State && s.minor >= 7
	if err := s.checkMake(&r, n); err != nil {
		return err
	}
	if err := s.quota.takeEnvs(n); err != nil {
		return err
	}
	if s.envs+n > s.cfg.Limits.EnvsSession || !take(&s.cfg.Shared.Envs, n, s.cfg.Limits.EnvsServer) {
		s.quota.Held.Envs.Add(-int64(n))
		err := wire.Errorf(wire.TooManyEnvs, "%d more environments beside %d of the session and %d of the server, want at most %d (the server's flag --max-envs-session) and %d (--max-envs)",
			n, s.envs, s.cfg.Shared.Envs.Load(), s.cfg.Limits.EnvsSession, s.cfg.Limits.EnvsServer)
		err.RetryAfterMS = 1000
		return err
	}
	made := false
	defer func() { // also if a task panics
		if !made {
			s.giveEnvs(n)
		}
	}()
	v, err := s.newVector(ctx, &r, n)
	if err != nil {
		return err
	}
	made = true
	s.nextEID++
	s.envs += n
	s.listed.Lock()
	s.vecs[s.nextEID] = v
	s.listed.Unlock()
	s.log.Debug("make", "eid", s.nextEID, "env", v.vec.Spec().ID, "n", n)
	if err := s.encodeMade(f.ID, s.nextEID, v); err != nil { // the client does not know the eid
		return errors.Join(err, s.drop(s.nextEID))
	}
	return nil
}

// giveEnvs frees the places of n environments.
func (s *Session) giveEnvs(n int) {
	s.cfg.Shared.Envs.Add(-int64(n))
	s.quota.Held.Envs.Add(-int64(n))
}

// longest bounds the fields of requests that are decoded whole, in encoded bytes. To decode and quote one of
// megabytes takes longer than most steps.
var longest = []struct {
	key    string
	most   int
	reason wire.Reason
}{
	{"env", 1 << 10, wire.UnknownEnv},
	{"filter", 1 << 10, wire.BadField},
	{"autoreset", 1 << 10, wire.BadField},
	{"mode", 1 << 10, wire.BadField},
	{"cwd", 16 << 10, wire.BadField},
	{"options", 1 << 20, wire.InvalidOption},
	{"obs_keys", 16 << 10, wire.InvalidOption},
}

// checkLengths rejects a request with a field that is too long, before it is decoded.
func checkLengths(f *wire.Frame) error {
	for _, l := range longest {
		if n := len(f.Get(l.key)); n > l.most {
			return wire.Errorf(l.reason, "field %s has %d bytes, want at most %d", l.key, n, l.most)
		}
	}
	return nil
}

// checkMake checks a request before any environment is made.
func (s *Session) checkMake(r *wire.MakeRequest, n int) error {
	switch {
	case r.Env == "":
		return wire.Errorf(wire.BadField, "field env is missing")
	case n < 1:
		return wire.Errorf(wire.BadField, "n is %d, want at least 1", n)
	case n > s.cfg.Limits.EnvsMake:
		return wire.Errorf(wire.TooManyEnvs, "n is %d, want at most %d (the server's flag --max-envs-make)", n, s.cfg.Limits.EnvsMake)
	case r.MaxEpisodeSteps < 0:
		return wire.Errorf(wire.BadField, "max_episode_steps is %d, want at least 0", r.MaxEpisodeSteps)
	case r.Threads < 0 || r.Threads > s.cfg.Limits.EnvsMake:
		return wire.Errorf(wire.BadField, "threads is %d, want 0 to %d", r.Threads, s.cfg.Limits.EnvsMake)
	case r.Autoreset != "" && !slices.Contains(wire.Modes, r.Autoreset):
		return wire.Errorf(wire.BadField, "autoreset is %q, want one of %v", r.Autoreset, wire.Modes)
	}
	if r.CWD != "" && !filepath.IsAbs(r.CWD) {
		return wire.Errorf(wire.BadField, "cwd is %q, want an absolute path", clip([]byte(r.CWD)))
	}
	for _, name := range s.cfg.DenyOptions {
		if _, ok := r.Options[name]; ok {
			return wire.Errorf(wire.InvalidOption, "option %q is not permitted on this server", name)
		}
	}
	return s.checkFiles(r)
}

// checkFiles rejects options that name files, unless clients may let the server read them.
func (s *Session) checkFiles(r *wire.MakeRequest) error {
	if name := fileOption(r); s.cfg.DenyFiles && name != "" {
		return wire.Errorf(wire.InvalidOption, "option %q names a file and is not permitted on this server", name)
	}
	return nil
}

// fileOption returns an option of the request that names a file; "" if there is none.
func fileOption(r *wire.MakeRequest) string {
	spec, err := envs.Lookup(r.Env)
	if err != nil || len(r.Options) == 0 {
		return ""
	}
	for _, o := range envs.DescribeOptions(spec.Options) {
		if o.NamesFile(r.Options[o.Name]) {
			return o.Name
		}
	}
	return ""
}

// encodeMade writes the reply to make.
func (s *Session) encodeMade(id, eid uint64, v *vector) error {
	spec := v.vec.Spec()
	obs, act := v.vec.Spaces()
	described, features := v.described(obs.Describe(), describeFeatures(v.vec.Features()))
	s.out.Reset()
	err := s.out.Encode(&wire.MakeReply{
		T: wire.TypeMake + wire.OK, ID: id, EID: eid, Env: spec.ID, N: v.layout.N, Autoreset: wire.Modes[v.vec.Autoreset()],
		MaxEpisodeSteps: v.vec.Env(0).MaxEpisodeSteps(), ObsSpace: described, ActSpace: act.Describe(), Mask: space.MaskSize(act), Copies: v.vec.CanClone() == nil, State: v.vec.Portable(), Spec: Describe(spec),
		Features: features,
	})
	if err != nil {
		return err
	}
	return s.checkReply()
}

// vector returns the vector that the request names.
func (s *Session) vector(f *wire.Frame) (*vector, uint64, error) {
	eid, ok, err := f.Uint("eid")
	if err != nil {
		return nil, 0, err
	}
	if !ok {
		return nil, 0, wire.Errorf(wire.BadField, "field eid is missing")
	}
	v, ok := s.vecs[eid]
	if !ok {
		return nil, 0, about(eid, wire.Errorf(wire.UnknownEID, "no vector has eid %d", eid))
	}
	if v.async != nil {
		if n := v.async.Pending(); n > 0 && !passes(f.Type) {
			return nil, 0, about(eid, wire.Errorf(wire.Pending, "%s while the steps of %d environments are pending; recv them first", clip(f.Type), n))
		}
	}
	return v, eid, nil
}

// about adds the eid to an error.
func about(eid uint64, e *wire.Error) *wire.Error {
	e.EID = &eid
	return e
}

func (s *Session) stats(v *vector, f *wire.Frame) error {
	s.out.Reset()
	return s.out.Encode(&wire.StatsReply{
		T: wire.TypeStats + wire.OK, ID: f.ID, Steps: v.steps.Load(), Resets: v.resets, Episodes: v.episodes,
		StepUSP50: v.took.quantile(0.5), StepUSP99: v.took.quantile(0.99),
	})
}

func (s *Session) closeVector(eid uint64, f *wire.Frame) error {
	if err := s.drop(eid); err != nil {
		return fmt.Errorf("close %d: %w", eid, err)
	}
	s.out.Head(2, wire.TypeClose+wire.OK, f.ID)
	return nil
}
