package gang

import (
	"github.com/kubernasium/kubernasium/envs/gang/rules"
)

// baselines are the planners as rules for the environment.
var baselines = rules.Baselines()

var _ rules.Job = (*Task)(nil)

// Windows implements [rules.Job].
func (t *Task) Windows() int { return t.opts.Windows }
