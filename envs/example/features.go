package example

import "github.com/kubernasium/kubernasium/envs"

var _ envs.FeatureNamer = (*Task)(nil)

// Features implements [envs.FeatureNamer].
func (t *Task) Features() []envs.Features {
	return []envs.Features{
		{Part: "nodes", Row: "node", Names: []string{"free_cpu", "free_memory", "in_use"}},
		{Part: "pod", Names: []string{"cpu", "memory", "remaining"}},
	}
}
