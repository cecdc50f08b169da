package planner

import (
	"context"
	"slices"
)

// Run is the outcome of an episode.
type Run struct {
	Duration    float64 // seconds, sum of the supersteps' true durations
	Checkpoints int     // charged reconfigurations
	Total       float64 // Duration and the penalty of each checkpoint
	Steps       []Step  // empty unless recorded
}

// Step is one superstep of a Run.
type Step struct {
	T        int      // step of the trace
	Window   int      // the planner's answer: 0 for keep, a window, or Custom
	Levels   []uint16 // in force
	Duration float64  // seconds, true
}

// Simulate plays an episode with a planner that was made for it. Every task starts at
// level 0. With record, the run lists its steps.
func Simulate(in *Instance, p Planner, ep Episode, record bool) (Run, error) {
	if err := ep.Validate(in.trace); err != nil {
		return Run{}, err
	}
	var run Run
	levels, next := make([]uint16, in.trace.Tasks), make([]uint16, in.trace.Tasks)
	for t := ep.First; t < ep.First+ep.Steps; t++ {
		window := p.Plan(context.Background(), t, levels, next)
		if window != 0 {
			levels, next = next, levels
			if ep.charges(t) {
				run.Checkpoints++
			}
		}
		duration, _ := in.Execute(t, levels)
		run.Duration += duration
		if record {
			run.Steps = append(run.Steps, Step{t, window, slices.Clone(levels), duration})
		}
	}
	run.Total = run.Duration + ep.Penalty*float64(run.Checkpoints)
	return run, nil
}
