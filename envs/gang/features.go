package gang

import (
	"fmt"

	"github.com/kubernasium/kubernasium/envs"
)

var _ envs.FeatureNamer = (*Task)(nil)

// Features implements [envs.FeatureNamer].
func (t *Task) Features() []envs.Features {
	var names []string
	for a := range t.opts.Windows + 1 {
		for h := range t.opts.Horizon {
			names = append(names, fmt.Sprintf("duration_action_%d_step_%d", a, h))
		}
	}
	if t.compatible() {
		return []envs.Features{{Names: names}}
	}
	for _, quantity := range []string{"size", "share"} {
		for k := range t.src.model.NumTasks() {
			names = append(names, fmt.Sprintf("%s_task_%d", quantity, k))
		}
	}
	return []envs.Features{{Names: append(names, "steps_since_plan")}}
}
