package gang

import (
	"github.com/kubernasium/kubernasium/envs/gang/rules"
)

var baselines = rules.Baselines()

var _ rules.Job = (*Task)(nil)

// Windows implements [rules.Job].
func (t *Task) Windows() int { return t.opts.Windows }
