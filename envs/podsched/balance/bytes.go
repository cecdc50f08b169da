package balance

import "github.com/kubernasium/kubernasium/envs"

// Bytes implements [envs.Sized]: nodes, and all pods of an episode.
func (t *Task) Bytes() envs.Bytes {
	o := t.opts
	pods := t.src.MostPods(o.Resets, o.PodLoad*maxPods, o.CPULoad, o.ResetPods)
	switch {
	case o.Steps > 0 && o.Lifetime > 0:
		pods = max(pods, o.Steps+o.ReplicasMax)
	case o.Steps > 0:
		pods = min(pods, o.Steps*o.ReplicasMax)
	}
	const node, pod = 192, 72 // the task's numbers for each node, and the names of pods
	return envs.Bytes{Each: int64(o.Nodes)*(envs.NodeSize+node) + int64(pods)*(envs.PodSize+pod) + t.src.PodBytes(pods)}
}
