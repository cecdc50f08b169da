package gang

import (
	"math"

	"github.com/kubernasium/kubernasium/envs"
	"github.com/kubernasium/kubernasium/envs/cluster"
)

func (t *Task) reward() float64 {
	if t.compatible() {
		return (t.opts.DurationHigh - t.penalty - t.duration) / (t.opts.DurationHigh - t.opts.DurationLow)
	}
	return -(t.duration + t.penalty) / rewardSeconds
}

// rewardSeconds is the number of seconds of a reward of -1 in the sound dynamics.
const rewardSeconds = 100

// Info implements [envs.InfoWriter].
func (t *Task) Info(_ *cluster.State, dst []float64) {
	dst[0], dst[1], dst[2] = t.duration, t.penalty, t.total
	dst[3], dst[4], dst[5] = float64(t.checkpoints), float64(t.window), float64(t.bottleneck)
}

// Metrics are the outcomes of an episode.
var Metrics = []envs.Metric{{Column: "total_s", Unit: "s", Lower: true}, {Column: "checkpoints", Lower: true}}

// InfoColumns are the columns of [Task.Info].
var InfoColumns = []envs.Column{
	{Name: "duration_s", DType: "float64", Doc: "true duration of the superstep"},
	{Name: "penalty_s", DType: "float64", Doc: "cost of the reconfiguration before it"},
	{Name: "total_s", DType: "float64", Doc: "durations and penalties since the reset: the job's completion time"},
	{Name: "checkpoints", DType: "int64", Doc: "reconfigurations since the reset that were charged"},
	{Name: "window", DType: "int64", Doc: "window of the action"},
	{Name: "bottleneck", DType: "int64", Doc: "slowest task of the superstep"},
}

// plannedPenalty returns the cost of a reconfiguration that planners expect.
func (t *Task) plannedPenalty() float64 {
	if !math.IsNaN(t.expected) {
		return t.expected
	}
	if t.opts.PenaltyModel == PenaltyResize {
		return t.opts.ResizeSeconds * float64(len(t.levels))
	}
	return t.opts.Penalty
}
