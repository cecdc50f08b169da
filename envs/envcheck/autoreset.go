package envcheck

import (
	"errors"
	"math"
	"slices"
	"testing"

	"github.com/kubernasium/kubernasium/envs"
)

// until steps v until an episode ends in some row, within the limit of steps, and returns the
// last batch and the row, or -1.
func (c *checker) until(t *testing.T, v envs.VecEnv, b *envs.Batch, p *player) (*envs.Batch, int) {
	t.Helper()
	for range 100 * c.opts.Steps {
		b = advance(t, v, p.actions(b))
		for i := range b.Reward {
			if b.Done(i) {
				return b, i
			}
		}
	}
	t.Logf("no episode ended within %d steps", 100*c.opts.Steps)
	return b, -1
}

func (c *checker) checkNextStep(t *testing.T) {
	v := c.make(t, 2, envs.VecOptions{Autoreset: envs.NextStep})
	b, p := reset(t, v, 1), newPlayer(v, 1)
	b, i := c.until(t, v, b, p)
	if i < 0 {
		return
	}
	if b.EpisodeLength[i] < 1 {
		t.Errorf("the episode that ended has length %d", b.EpisodeLength[i])
	}
	b = advance(t, v, p.actions(b))
	if b.Reward[i] != 0 || b.Done(i) || b.EpisodeLength[i] != 0 {
		t.Errorf("the step after the last gives reward %v, done %v, length %d; want 0, false, 0", b.Reward[i], b.Done(i), b.EpisodeLength[i])
	}
}

// checkSameStep compares with NextStep: the last observation there is FinalObs here, and the
// observation a step later there is Obs here.
func (c *checker) checkSameStep(t *testing.T) {
	v := c.make(t, 1, envs.VecOptions{Autoreset: envs.SameStep})
	b, p := reset(t, v, 1), newPlayer(v, 1)
	b, i := c.until(t, v, b, p)
	if i < 0 {
		return
	}
	if b.EpisodeLength[0] < 1 {
		t.Errorf("the episode that ended has length %d", b.EpisodeLength[0])
	}
	if c.spec.Nondeterministic {
		return
	}
	w := c.make(t, 1, envs.VecOptions{Autoreset: envs.NextStep})
	bw, pw := reset(t, w, 1), newPlayer(w, 1)
	bw, _ = c.until(t, w, bw, pw)
	if !slices.Equal(b.FinalObs, bw.Obs) || !slices.Equal(b.FinalMask, bw.Mask) || !slices.Equal(b.FinalInfo, bw.Info) || b.EpisodeReturn[0] != bw.EpisodeReturn[0] {
		t.Errorf("the episode's end differs from NextStep's:\n%v %v\n%v %v", b.FinalObs, b.FinalMask, bw.Obs, bw.Mask)
	}
	bw = advance(t, w, pw.actions(bw))
	if !slices.Equal(b.Obs, bw.Obs) {
		t.Errorf("the next episode's start differs from NextStep's:\n%v\n%v", b.Obs, bw.Obs)
	}
}

func (c *checker) checkDisabled(t *testing.T) {
	v := c.make(t, 2, envs.VecOptions{Autoreset: envs.Disabled})
	b, p := reset(t, v, 1), newPlayer(v, 1)
	b, i := c.until(t, v, b, p)
	if i < 0 {
		return
	}
	if _, err := v.Step(ctx, p.actions(b)); !errors.Is(err, envs.ErrResetNeeded) {
		t.Fatalf("Step of an environment whose episode has ended: %v, want ErrResetNeeded", err)
	}
	mask := []bool{b.Done(0), b.Done(1)}
	other := slices.Clone(row(b.Obs, 1-i, 2))
	b, err := v.Reset(ctx, envs.VecResetOptions{Mask: mask})
	if err != nil {
		t.Fatalf("Reset with mask %v: %v", mask, err)
	}
	if b.Done(i) {
		t.Errorf("after the reset, environment %d is still done", i)
	}
	if !mask[1-i] && !slices.Equal(row(b.Obs, 1-i, 2), other) {
		t.Errorf("the reset of environment %d changed the other", i)
	}
	if _, err := v.Step(ctx, p.actions(b)); err != nil {
		t.Errorf("Step after the reset: %v", err)
	}
}

// checkSnapshot continues from a snapshot and from a portable state in other Vecs and compares.
func (c *checker) checkSnapshot(t *testing.T) {
	opts := envs.VecOptions{Autoreset: envs.SameStep, Log: true}
	v, w, x := c.local(t, 3, opts), c.local(t, 3, opts), c.local(t, 3, opts)
	b, p := reset(t, v, 3), newPlayer(v, 3)
	for range c.opts.Steps / 10 {
		b = advance(t, v, p.actions(b))
	}
	data, err := v.Snapshot()
	if err != nil {
		t.Fatalf("Snapshot: %v", err)
	}
	state, err := v.AppendState(nil, math.MaxInt)
	if err != nil {
		t.Fatalf("AppendState: %v", err)
	}
	bw, err := w.Restore(ctx, data)
	if err != nil {
		t.Fatalf("Restore: %v", err)
	}
	bx, _, err := x.LoadState(ctx, state)
	if err != nil {
		t.Fatalf("LoadState: %v", err)
	}
	for _, other := range []*envs.Batch{bw, bx} { // not part of a snapshot
		copy(other.FinalObs, b.FinalObs)
		copy(other.FinalMask, b.FinalMask)
		copy(other.FinalInfo, b.FinalInfo)
	}
	want := trajectory(t, v, b, newPlayer(v, 4), c.opts.Steps/10)
	if trajectory(t, w, bw, newPlayer(w, 4), c.opts.Steps/10) != want {
		t.Errorf("the restored environments play on differently")
	}
	if trajectory(t, x, bx, newPlayer(x, 4), c.opts.Steps/10) != want {
		t.Errorf("the environments of the portable state play on differently")
	}
}
