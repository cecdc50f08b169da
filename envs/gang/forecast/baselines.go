package forecast

import (
	"context"

	"github.com/kubernasium/kubernasium/envs"
	"github.com/kubernasium/kubernasium/envs/cluster"
	"github.com/kubernasium/kubernasium/envs/gang/rules"
)

// baselines are rules for corrections, and the planners.
var baselines = append([]envs.Baseline{
	{Name: "uncorrected", Doc: "Corrects nothing: the planner with the environment's settings.",
		New: correctBy(func(*Task, []float32) {})},
	{Name: "true_sizes", Doc: "Corrects every forecast to the true size.", Clairvoyant: true, New: correctBy(correctToTruth)},
}, rules.Baselines()...)

// correctToTruth sets the corrections that give the true sizes, up to the end of the trace.
func correctToTruth(t *Task, action []float32) {
	in, now, n := t.Instance(), t.Step(), t.tasks()
	planned := in.Planned(now)
	for h := range action {
		if now+h < in.Trace().Steps {
			off := in.True(now + h)[t.task] - planned[h*n+t.task]
			action[h] = float32(min(max(off/t.opts.Correction, -1), 1))
		}
	}
}

// correctBy makes a policy of a rule that sets corrections. Each correction is 0 before the rule runs.
func correctBy(rule func(t *Task, action []float32)) func(envs.Task) (envs.Policy, error) {
	return envs.ForTask("gang: corrections", func(t *Task) (envs.Policy, error) {
		return func(_ context.Context, _ *cluster.State, _ bool, action []float32) error {
			clear(action)
			rule(t, action)
			return nil
		}, nil
	})
}
