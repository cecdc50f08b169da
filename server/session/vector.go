package session

import (
	"cmp"
	"context"
	"errors"
	"image"
	"slices"
	"strings"
	"sync/atomic"

	"github.com/kubernasium/kubernasium/envs"
	"github.com/kubernasium/kubernasium/envs/space"
	"github.com/kubernasium/kubernasium/server/wire"
)

// vector is a client's environments of one kind.
type vector struct {
	vec      *envs.Vec
	layout   *wire.Layout
	actions  []float32
	seeded   []bool                    // environments that have a random stream, and so an episode
	policies map[string]*envs.Policies // of the baselines used so far
	snaps    map[uint64]*snapshot

	steps            atomic.Uint64 // of environments
	resets, episodes uint64
	took             histogram // of step
	loads            struct{ step, reset, policy, rollout, snapshot, state, load, async load }

	keys  []string // parts of the observation that the client wants; nil is all
	async *asyncSteps
}

func (s *Session) newVector(ctx context.Context, r *wire.MakeRequest, n int) (*vector, error) {
	mode := envs.AutoresetMode(max(0, slices.Index(wire.Modes, r.Autoreset)))
	options := r.Options
	if r.CWD != "" && len(options) > 0 {
		if spec, err := envs.Lookup(r.Env); err == nil {
			options = envs.ResolveFiles(spec.Options, options, r.CWD)
		}
	}
	opts := envs.VecOptions{Options: options, Autoreset: mode, MaxEpisodeSteps: r.MaxEpisodeSteps, Shards: r.Threads, Making: ctx, Isolate: r.EnvError, Portable: r.State}
	var taken int64
	opts.Admit = func(bytes int64) error {
		err := s.admit(r, opts, n, bytes)
		if err == nil {
			taken = bytes
		}
		return err
	}
	var vec *envs.Vec
	made := false
	defer func() { // also if a task panics
		if made {
			return
		}
		s.giveMemory(taken)
		if vec == nil {
			return
		}
		if err := vec.Close(); err != nil {
			s.log.Error("close", "err", err)
		}
	}()
	vec, err := envs.Make(r.Env, n, opts)
	if err != nil {
		return nil, s.badFile(r, err)
	}
	for _, note := range vec.Notes() {
		s.log.Warn("data", "env", r.Env, "note", note)
	}
	v, err := s.layOut(vec, n, r)
	made = err == nil
	return v, err
}

// badFile makes an error of make that no sentinel covers INVALID_OPTION if the request names files. Its text may quote
// them, so only a client of this machine gets it.
func (s *Session) badFile(r *wire.MakeRequest, err error) error {
	if _, ok := errors.AsType[*wire.Error](err); ok || known(err) != nil || fileOption(r) == "" {
		return err
	}
	return s.fault(wire.InvalidOption, "a file that an option names cannot be used", err)
}

func (s *Session) layOut(vec *envs.Vec, n int, r *wire.MakeRequest) (*vector, error) {
	obs, act := vec.Spaces()
	layout, err := wire.NewLayout(n, obs, act, Describe(vec.Spec()).Info)
	if err != nil {
		return nil, err
	}
	if r.ObsKeys != nil {
		if err := layout.Select(r.ObsKeys); err != nil {
			return nil, err
		}
	}
	size := layout.ReplySize()
	if r.EnvError {
		size += layout.FailuresSize()
	}
	if size > s.cfg.Limits.MsgOut {
		return nil, wire.Errorf(wire.TooLarge, "replies of up to %d bytes, want at most %d; make fewer environments", size, s.cfg.Limits.MsgOut)
	}
	return &vector{vec: vec, layout: layout, actions: make([]float32, n*layout.ActSize), seeded: make([]bool, n), keys: r.ObsKeys}, nil
}

// described returns those of the parts of an observation that the client wants.
func (v *vector) described(obs space.Description, features []wire.Features) (space.Description, []wire.Features) {
	if v.keys == nil {
		return obs, features
	}
	chosen := space.Description{Kind: obs.Kind}
	for i, k := range obs.Keys {
		if slices.Contains(v.keys, k) {
			chosen.Keys, chosen.Parts = append(chosen.Keys, k), append(chosen.Parts, obs.Parts[i])
		}
	}
	features = slices.DeleteFunc(features, func(f wire.Features) bool {
		part, _, _ := strings.Cut(f.Part, "/")
		return !slices.Contains(v.keys, part)
	})
	return chosen, features
}

// isolated hides the causes of failed rows from clients that must not know them.
func (s *Session) isolated(b *envs.Batch) {
	for i, err := range b.Failed {
		if _, ok := err.(*wire.Error); err != nil && !ok {
			b.Failed[i] = s.fault(wire.EnvFailed, "the environment failed", err)
		}
	}
}

func (s *Session) step(ctx context.Context, v *vector, eid uint64, f *wire.Frame) error {
	policies, err := s.stepsBy(f, v)
	kind := &v.loads.step
	if policies != nil {
		kind = &v.loads.policy
	}
	ctx, end := s.share(ctx, v, kind)
	defer end.end()
	if err == nil && policies != nil {
		err = policies.Act(ctx, v.actions)
	} else if err == nil {
		err = v.layout.DecodeActions(f, v.actions)
	}
	if err != nil {
		return s.aboutVector(eid, err)
	}
	b, err := s.advance(ctx, v, policies)
	if err != nil {
		return s.aboutVector(eid, err)
	}
	s.isolated(b)
	v.layout.EncodeStep(s.out, f.ID, (*wire.Rows)(b), v.vec.Autoreset() == envs.SameStep)
	return nil
}

// share begins the turn of a request to v. An environment with a backend of its own waits for that, and uses no core
// meanwhile, so it takes part in no turns.
func (s *Session) share(ctx context.Context, v *vector, l *load) (context.Context, *turn) {
	if v.vec.Spec().Backend != nil {
		return ctx, nil
	}
	return s.turn.begin(ctx, l), s.turn
}

// advance takes the step of policies, or the step of v.actions if policies is nil.
func (s *Session) advance(ctx context.Context, v *vector, policies *envs.Policies) (b *envs.Batch, err error) {
	begin := s.cfg.Now()
	if policies != nil {
		b, err = policies.Step(ctx)
	} else {
		b, err = v.vec.Step(ctx, v.actions)
	}
	if err != nil {
		return nil, err
	}
	d := s.cfg.Now().Sub(begin)
	v.took.add(d)
	if s.cfg.OnStep != nil {
		s.cfg.OnStep(d)
	}
	v.steps.Add(uint64(v.layout.N))
	s.cfg.Shared.Steps.Add(uint64(v.layout.N))
	for i := range v.layout.N {
		if b.Done(i) {
			v.episodes++
		}
	}
	return b, nil
}

func (s *Session) aboutVector(eid uint64, err error) error { return about(eid, s.wireError(err)) }

func (s *Session) reset(ctx context.Context, v *vector, eid uint64, f *wire.Frame) error {
	var r struct {
		Options map[string]any `json:"options"`
	}
	if f.Get("options") != nil {
		if err := checkLengths(f); err != nil {
			return s.aboutVector(eid, err)
		}
		if err := f.Decode(&r); err != nil {
			return err
		}
	}
	mask, err := f.ResetMask(v.layout.N)
	if err != nil {
		return s.aboutVector(eid, err)
	}
	seeds, err := f.Seeds(v.layout.N)
	if err != nil {
		return s.aboutVector(eid, err)
	}
	turn, end := s.share(ctx, v, &v.loads.reset)
	defer end.end()
	b, drawn, err := v.reset(turn, r.Options, mask, seeds, s.cfg.Entropy)
	if err == nil {
		err = ctx.Err() // an episode that began too late is none
	}
	if err != nil {
		return s.aboutVector(eid, err)
	}
	v.resets++
	s.isolated(b)
	v.layout.EncodeReset(s.out, f.ID, (*wire.Rows)(b), drawn)
	return nil
}

// reset starts episodes. An environment without a seed continues its stream. If it has none yet, its
// seed is drawn from entropy; then drawn is not nil, and environment i got *drawn+i.
func (v *vector) reset(ctx context.Context, options map[string]any, mask []bool, seeds []*uint64, entropy func() uint64) (b *envs.Batch, drawn *uint64, err error) {
	n := v.layout.N
	seed, fresh, on := make([]uint64, n), make([]bool, n), make([]bool, n) // seeded now; continuing
	for i := range n {
		switch {
		case mask != nil && !mask[i]:
		case seeds != nil && seeds[i] != nil:
			seed[i], fresh[i] = *seeds[i], true
		case v.seeded[i]:
			on[i] = true
		default:
			if drawn == nil {
				drawn = new(entropy())
			}
			seed[i], fresh[i] = *drawn+uint64(i), true
		}
	}
	// The vector seeds all that it resets or none, so a mixture takes two resets. Each clears the failures of all rows.
	var failed []error
	for _, part := range []envs.VecResetOptions{
		{Seeds: seed, Options: options, Mask: fresh},
		{Options: options, Mask: on},
	} {
		if !slices.Contains(part.Mask, true) {
			continue
		}
		if b, err = v.vec.Reset(ctx, part); err != nil {
			return nil, nil, err
		}
		for i, m := range part.Mask {
			v.seeded[i] = v.seeded[i] || m
		}
		for i, err := range failed {
			b.Failed[i] = cmp.Or(b.Failed[i], err)
		}
		failed = slices.Clone(b.Failed)
	}
	return b, drawn, nil
}

func (s *Session) render(v *vector, eid uint64, f *wire.Frame) error {
	var r wire.RenderRequest
	if err := checkLengths(f); err != nil {
		return s.aboutVector(eid, err)
	}
	if err := f.Decode(&r); err != nil {
		return err
	}
	spec := v.vec.Spec()
	switch {
	case r.Idx < 0 || r.Idx >= v.layout.N:
		return about(eid, wire.Errorf(wire.BadField, "idx is %d, want 0 to %d", r.Idx, v.layout.N-1))
	case r.Mode != "ansi" && r.Mode != "rgb_array":
		return about(eid, wire.Errorf(wire.BadField, "mode is %q, want ansi or rgb_array", clip([]byte(r.Mode))))
	case !slices.Contains(spec.RenderModes, r.Mode):
		return about(eid, wire.Errorf(wire.CannotRender, "%s has render modes %v", spec.ID, spec.RenderModes))
	case !v.seeded[r.Idx]:
		return about(eid, wire.Errorf(wire.ResetNeeded, "render of environment %d before its first reset", r.Idx))
	}
	if r.Mode == "ansi" {
		text, err := v.vec.RenderANSI(r.Idx)
		if err != nil {
			return err
		}
		s.out.Head(3, wire.TypeRender+wire.OK, f.ID)
		s.out.Str("frame")
		s.out.Str(text)
		return nil
	}
	img, err := v.vec.RenderRGB(r.Idx)
	if err != nil {
		return err
	}
	s.encodeImage(f.ID, img)
	return nil
}

// encodeImage writes img without its alpha.
func (s *Session) encodeImage(id uint64, img *image.RGBA) {
	size := img.Bounds().Size()
	s.out.Head(3, wire.TypeRender+wire.OK, id)
	s.out.Str("frame")
	dst := s.out.Array(wire.Uint8, size.Y, size.X, 3)
	for y := range size.Y {
		row := img.Pix[y*img.Stride:]
		for x := range size.X {
			copy(dst[3*(y*size.X+x):], row[4*x:4*x+3])
		}
	}
}
