package gang

import (
	"github.com/kubernasium/kubernasium/envs/cluster"
	"github.com/kubernasium/kubernasium/envs/gang/planner"
	"github.com/kubernasium/kubernasium/envs/gang/published"
	"github.com/kubernasium/kubernasium/envs/space"
)

// Clipped returns the part of the predicted durations that observations clip, and fitting values of duration_low and
// duration_high, after a reset: see [planner.Instance.Outside].
func (t *Task) Clipped() (part, low, high float64) {
	return t.in.Outside(t.Episode(), t.opts.DurationLow, t.opts.DurationHigh)
}

// sections returns the sizes of the parts of an observation of the sound dynamics.
func (t *Task) sections() (durations, tasks int) {
	return (t.opts.Windows + 1) * t.opts.Horizon, t.src.model.NumTasks()
}

// Observe implements [envs.Task].
func (t *Task) Observe(_ *cluster.State, obs []float32, mask []bool) {
	space.PermitAll(mask)
	now := t.Step()
	if t.compatible() {
		c := t.opts.compatible()
		published.ObserveCompatible(&c, t.in, now, t.levels, obs)
		return
	}
	durations, tasks := t.sections()
	t.in.Predict(now, t.levels, t.keep)
	planner.Scale(obs, t.keep, t.opts.DurationLow, t.opts.DurationHigh)
	t.in.Scaled(obs[t.opts.Horizon:durations], now, t.opts.DurationLow, t.opts.DurationHigh)
	sizes, shares := obs[durations:durations+tasks], obs[durations+tasks:durations+2*tasks]
	planned := t.in.Planned(now)
	for k, l := range t.levels {
		sizes[k] = float32((planned[k] - t.opts.SizeLow) / (t.opts.SizeHigh - t.opts.SizeLow))
		shares[k] = float32(t.src.model.MilliCPU(int(l))) / float32(t.src.model.Config().TotalMilliCPU)
	}
	obs[durations+2*tasks] = t.SincePlan()
}

// sinceScale is the number of steps since the last plan that is 1 in an observation.
const sinceScale = 20
