package gang

import (
	"context"
	"fmt"
	"math"
	"time"

	"github.com/kubernasium/kubernasium/envs"
	"github.com/kubernasium/kubernasium/envs/cluster"
	"github.com/kubernasium/kubernasium/envs/gang/profile"
)

// execute returns the true duration of the superstep and its slowest task, and records the duration of each task.
func (t *Task) execute(now int) (duration float64, bottleneck int) {
	sizes := t.in.True(now)
	for k, l := range t.levels {
		d := max(t.src.model.DurationAt(k, sizes[k], int(l)), 0) // a spline through noisy measurements may be negative
		if t.opts.Noise > 0 || t.opts.StragglerProb > 0 {
			d *= math.Exp(t.residual(&t.src.laws[k]))
		}
		t.durations[k] = d
		if d > duration || k == 0 {
			duration, bottleneck = d, k
		}
	}
	return duration, bottleneck
}

// residual draws the deviation of the logarithm of a task's duration from its model.
func (t *Task) residual(law *profile.Law) float64 {
	residual := t.opts.Noise * min(max(law.RMS*t.rng.NormFloat64(), -law.Worst), law.Worst)
	if t.opts.StragglerProb > 0 && t.rng.Float64() < t.opts.StragglerProb {
		residual = law.Worst
	}
	return residual
}

// reconfigure changes to next, on the cluster too, and charges for it. The first configuration of an episode is free in
// the sound dynamics, as in the source's simulator, and charged in the compatible dynamics, as in the source's
// environment.
func (t *Task) reconfigure(ctx context.Context, c cluster.Cluster) error {
	changed := 0
	for k, l := range t.next {
		if l != t.levels[k] {
			changed++
		}
	}
	t.changed = changed
	if err := t.change(ctx, c); err != nil {
		return err
	}
	t.levels, t.next = t.next, t.levels
	t.since, t.planned = 0, false
	if t.step == 0 && !t.compatible() {
		return nil
	}
	t.checkpoints++
	switch t.opts.PenaltyModel {
	case PenaltyConstant:
		t.penalty = t.opts.Penalty
	case PenaltyPerTask:
		t.penalty = t.opts.Penalty * float64(changed) / float64(len(t.levels))
	case PenaltyResize:
		t.penalty = t.opts.ResizeSeconds * float64(changed)
	}
	return advance(ctx, c, t.penalty)
}

// change brings the cluster from levels to next: by resizing in place, or by deleting and
// creating pods again.
func (t *Task) change(ctx context.Context, c cluster.Cluster) error {
	if t.opts.PenaltyModel == PenaltyResize {
		return t.pods.Resize(ctx, c, t.levels, t.next)
	}
	return t.pods.Recreate(ctx, c, t.levels, t.next, t.opts.PenaltyModel == PenaltyConstant)
}

// advance moves the clock by the given seconds, or to its end after 73 years. No reward and no pod depends on it.
func advance(ctx context.Context, c cluster.Cluster, seconds float64) error {
	d := cluster.MaxTime - c.State().Now
	if nanos := seconds * float64(time.Second); nanos < float64(d) {
		d = time.Duration(nanos)
	}
	return c.Advance(ctx, d)
}

// Apply implements [envs.Task]. Action 0 keeps the configuration; action w changes to the one that the resource
// configuration algorithm gives for the next w supersteps. Then the superstep is executed.
func (t *Task) Apply(ctx context.Context, c cluster.Cluster, action []float32) (envs.Outcome, error) {
	if t.step == t.opts.Steps {
		return envs.Outcome{}, fmt.Errorf("the instance ends after %d steps; option steps makes longer ones", t.opts.Steps)
	}
	now := t.Step()
	t.window, t.penalty, t.changed = int(action[0]), 0, 0
	if t.window > 0 && !t.planned {
		copy(t.next, t.in.Config(now, t.window))
	}
	t.since = min(t.since, math.MaxInt-1) + 1
	if t.window > 0 || t.planned {
		if err := t.reconfigure(ctx, c); err != nil {
			return envs.Outcome{}, err
		}
	}
	t.duration, t.bottleneck = t.execute(now)
	t.total += t.duration + t.penalty
	t.step++
	if err := t.prepare(ctx); err != nil {
		return envs.Outcome{}, err
	}
	return envs.Outcome{Reward: t.reward()}, advance(ctx, c, t.duration)
}
