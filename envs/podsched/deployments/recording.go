package deployments

import (
	"math/rand/v2"

	"github.com/kubernasium/kubernasium/envs/cluster"
)

// drawWindow draws the pod that the episode begins with. With a window it is one with at least that many pods after it,
// if possible; without, the first of the recording.
func (in *Stream) drawWindow() {
	w := in.config.Recorded
	for i := range in.Nodes {
		in.Nodes[i] = cluster.Resources{MilliCPU: w.Nodes[i].MilliCPU, MemoryBytes: w.Nodes[i].MemoryBytes}
	}
	in.Begin = w.First()
	if room := len(w.Pods) - in.Begin - in.config.Window; in.config.Window > 0 && room > 0 {
		in.Begin += in.rng.IntN(room + 1)
	}
}

// nextRecorded appends the next pod of the recording; ok is false at its end.
func (in *Stream) nextRecorded() (ok bool) {
	i := in.Begin + len(in.pods)
	if i >= len(in.config.Recorded.Pods) {
		return false
	}
	in.pods = append(in.pods, in.PodOf(i))
	return true
}

// PodOf returns pod i of the recording.
func (in *Stream) PodOf(i int) Pod {
	p := &in.config.Recorded.Pods[i]
	requests := cluster.Resources{MilliCPU: p.MilliCPU, MemoryBytes: p.MemoryBytes}
	usage := requests
	if in.config.UsageMin < 1 { // by the pod's number, since a pod may be read more than once
		usage = in.drawUsage(rand.New(rand.NewPCG(in.Seed, uint64(i))), requests)
	}
	return Pod{
		Requests: requests, Usage: usage, Extra: Extra(requests), Lifetime: p.Lifetime(), Hint: in.hint(i, p.Duration),
		Index: p.Group, Replica: p.Replica, Replicas: int32(in.config.Recorded.Groups[p.Group].Pods), Recorded: p,
	}
}

// drawUsage draws the usage of a pod with the given requests.
func (in *Stream) drawUsage(rng *rand.Rand, requests cluster.Resources) cluster.Resources {
	o := in.config
	part := o.UsageMin + float64((o.UsageMax-o.UsageMin)*rng.Float64())
	return cluster.Resources{MilliCPU: int64(part * float64(requests.MilliCPU)), MemoryBytes: int64(part * float64(requests.MemoryBytes))}
}
