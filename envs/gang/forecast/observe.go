package forecast

import (
	"fmt"

	"github.com/kubernasium/kubernasium/envs"
	"github.com/kubernasium/kubernasium/envs/cluster"
)

// The history in observations of k8s/GangForecast-v0.
const (
	historySteps = 8   // latest sizes of the task
	historyDays  = 7   // earlier days whose sizes at the same time of day it shows
	dayBefore    = 4   // supersteps by which each day's sizes begin earlier
	longestDay   = 144 // steps of a day that are 1 in an observation
)

// names returns the names of an observation's elements.
func (t *Task) names() []string {
	names := []string{"last_size"}
	for i := 2; i <= historySteps; i++ {
		names = append(names, fmt.Sprintf("size_%d_steps_ago", i))
	}
	for h := range t.opts.Horizon {
		names = append(names, fmt.Sprintf("forecast_step_%d", h))
	}
	for d := 1; d <= historyDays; d++ {
		for j := -dayBefore; j < t.opts.Horizon; j++ {
			names = append(names, fmt.Sprintf("size_%d_days_ago_step_%d", d, j))
		}
	}
	return append(names, "days_known", "steps_of_a_day", "predicted_duration", "share", "steps_since_plan")
}

// Features implements [envs.FeatureNamer].
func (t *Task) Features() []envs.Features { return []envs.Features{{Names: t.names()}} }

// size returns the size of task k at a past step of the episode, or before its first step.
func (t *Task) size(step, k int) (size float64, known bool) {
	if step >= 0 {
		return t.Instance().True(step)[k], true
	}
	if past := t.Instance().Trace().Past[k]; -step <= len(past) {
		return past[len(past)+step], true
	}
	return 0, false
}

// Observe implements [envs.Task]. It shows one task: its past sizes, and their forecast.
func (t *Task) Observe(_ *cluster.State, obs []float32, _ []bool) {
	now, k, span := t.Step(), t.task, t.opts.SizeHigh-t.opts.SizeLow
	last, _ := t.size(now-1, k)
	i := 0
	add := func(v float64) {
		obs[i] = float32(v)
		i++
	}
	relative := func(size float64, known bool) {
		if !known {
			size = last
		}
		add((size - last) / span)
	}
	add((last - t.opts.SizeLow) / span)
	for s := 2; s <= historySteps; s++ {
		relative(t.size(now-s, k))
	}
	planned := t.Instance().Planned(now)
	for h := range t.opts.Horizon {
		relative(planned[h*t.tasks()+k], true)
	}
	day := t.Instance().Trace().Day[k]
	days := t.days(now, k, day)
	for d := 1; d <= historyDays; d++ {
		for j := -dayBefore; j < t.opts.Horizon; j++ {
			if days == 0 {
				add(0)
				continue
			}
			relative(t.size(now+j-min(d, days)*day, k))
		}
	}
	add(float64(days) / historyDays)
	add(min(float64(day)/longestDay, 1))
	m := t.Instance().Model()
	duration := m.DurationAt(k, planned[k], int(t.Levels()[k]))
	slowest, _ := m.Superstep(planned[:t.tasks()], t.Levels())
	add(max(duration, 0) / slowest)
	add(float64(m.MilliCPU(int(t.Levels()[k]))) / float64(m.Config().TotalMilliCPU))
	add(float64(t.SincePlan()))
}

// days returns for how many days before step now the trace has all sizes that an observation shows.
func (t *Task) days(now, k, day int) int {
	if day < t.opts.Horizon {
		return 0
	}
	d := 0
	for d < historyDays {
		if _, known := t.size(now-dayBefore-(d+1)*day, k); !known {
			break
		}
		d++
	}
	return d
}
