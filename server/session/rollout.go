package session

import (
	"cmp"
	"context"
	"errors"
	"math"
	"slices"

	"github.com/kubernasium/kubernasium/envs"
	"github.com/kubernasium/kubernasium/server/wire"
)

// rollout is a rollout in progress.
type rollout struct {
	v        *vector
	out      wire.Rollout
	steps    int   // to take; 0 if episodes count
	episodes int   // of each environment
	ended    []int // of each environment so far
	room     int   // bytes left in the reply
}

// largeReply is the length of a reply to a rollout beyond which its memory is not kept.
const largeReply = 1 << 20

// rollout takes many steps by a baseline.
func (s *Session) rollout(ctx context.Context, v *vector, eid uint64, f *wire.Frame) error {
	r, err := s.newRollout(f, v)
	if err != nil {
		return s.aboutVector(eid, err)
	}
	policies, err := v.named(f, "name")
	if err != nil {
		return s.aboutVector(eid, err)
	}
	ctx, end := s.share(ctx, v, &v.loads.rollout)
	defer end.end()
	b, err := s.play(ctx, r, policies)
	if err != nil {
		return s.aboutVector(eid, err)
	}
	v.layout.EncodeRollout(s.out, f.ID, &r.out, (*wire.Rows)(b), v.vec.Autoreset() == envs.SameStep)
	s.large = len(s.out.Bytes()) > largeReply
	return nil
}

// newRollout reads the request and checks it against the limits.
func (s *Session) newRollout(f *wire.Frame, v *vector) (*rollout, error) {
	r := &rollout{v: v, ended: make([]int, v.layout.N)}
	for key, dst := range map[string]*int{"steps": &r.steps, "episodes": &r.episodes} {
		x, given, err := f.Uint(key)
		switch {
		case err != nil:
			return nil, err
		case given && x == 0:
			return nil, wire.Errorf(wire.BadField, "%s is 0, want at least 1", key)
		}
		*dst = int(min(x, math.MaxInt32))
	}
	if (r.steps == 0) == (r.episodes == 0) {
		return nil, wire.Errorf(wire.BadField, "want one of steps and episodes")
	}
	arrays, err := f.Bool("arrays")
	if err != nil {
		return nil, err
	}
	if arrays {
		r.out.Transitions = &wire.Transitions{}
	}
	r.room = s.cfg.Limits.MsgOut - v.layout.RolloutSize()
	// At least the bytes of the first step; of all steps if their number is known.
	most := min(s.cfg.Limits.Rollout/v.layout.N, max(0, r.room-r.endSize())/max(1, r.stepSize()))
	if want := max(r.steps, 1); want > most {
		return nil, wire.Errorf(wire.TooLarge, "a rollout of %d steps of %d environments, want at most %d", want, v.layout.N, most)
	}
	r.steps = cmp.Or(r.steps, s.cfg.Limits.Rollout/v.layout.N)
	return r, nil
}

// stepSize returns the bytes of a step in the reply, without the episodes that end in it.
func (r *rollout) stepSize() int {
	if r.out.Transitions == nil {
		return 0
	}
	return r.v.layout.N * r.v.layout.TransitionSize()
}

// endSize returns the bytes of a step in which all episodes end.
func (r *rollout) endSize() int {
	return r.v.layout.N * r.v.layout.EpisodeSize(r.out.Transitions != nil)
}

// play steps until the rollout is complete, a limit is reached, an environment waits for a reset, or
// the baseline cannot act. It returns the last batch.
func (s *Session) play(ctx context.Context, r *rollout, policies *envs.Policies) (b *envs.Batch, err error) {
	v := r.v
	for r.out.Steps < r.steps && r.room >= r.stepSize()+r.endSize() {
		clear(v.actions)
		err = policies.Act(ctx, v.actions)
		if errors.Is(err, envs.ErrBaseline) && r.out.Steps > 0 {
			break // the client must know what was stepped; its next request gets the reason
		}
		if err != nil {
			return nil, err
		}
		r.before(v.vec)
		if b, err = s.advance(ctx, v, policies); err != nil {
			return nil, err
		}
		stop := r.after(b)
		s.isolated(b)
		if slices.ContainsFunc(b.Failed, func(err error) bool { return err != nil }) {
			stop = true // the reply has the errors of one step
		}
		if err := ctx.Err(); err != nil {
			return nil, err
		}
		if stop {
			break
		}
	}
	r.out.Cut = !r.enough()
	return b, nil
}

// enough reports whether the rollout is complete.
func (r *rollout) enough() bool {
	if r.episodes == 0 {
		return r.out.Steps == r.steps
	}
	return slices.Min(r.ended) >= r.episodes
}

// before records the state before the actions.
func (r *rollout) before(vec *envs.Vec) {
	t := r.out.Transitions
	if t == nil {
		return
	}
	b := vec.Last()
	t.Obs, t.Mask = append(t.Obs, b.Obs...), append(t.Mask, b.Mask...)
	t.Actions = append(t.Actions, r.v.actions...)
	for i := range r.v.layout.N {
		t.None = append(t.None, !vec.Decides(i))
	}
	r.room -= r.stepSize()
}

// after records the results of a step, and reports whether it was the last.
func (r *rollout) after(b *envs.Batch) (stop bool) {
	r.out.Steps++
	if t := r.out.Transitions; t != nil {
		t.Reward = append(t.Reward, b.Reward...)
		t.Terminated = append(t.Terminated, b.Terminated...)
		t.Truncated = append(t.Truncated, b.Truncated...)
		t.Invalid = append(t.Invalid, b.Invalid...)
	}
	for i := range r.v.layout.N {
		if b.Done(i) {
			r.end(b, i)
			stop = stop || r.v.vec.Autoreset() == envs.Disabled
		}
	}
	return stop || r.episodes > 0 && r.enough()
}

// end records an episode that ended in row i.
func (r *rollout) end(b *envs.Batch, i int) {
	o := &r.out
	r.ended[i]++
	r.room -= r.v.layout.EpisodeSize(o.Transitions != nil)
	o.At, o.Idx = append(o.At, int32(o.Steps)), append(o.Idx, int32(i))
	o.Return, o.Length = append(o.Return, b.EpisodeReturn[i]), append(o.Length, b.EpisodeLength[i])
	obs, info := b.Obs, b.Info
	if r.v.vec.Autoreset() == envs.SameStep {
		obs, info = b.FinalObs, b.FinalInfo
	}
	n := r.v.layout.N
	o.Info = append(o.Info, info[i*(len(info)/n):(i+1)*(len(info)/n)]...)
	if o.Transitions != nil {
		o.Last = append(o.Last, obs[i*(len(obs)/n):(i+1)*(len(obs)/n)]...)
	}
}
