package vpa

import (
	"math"
	"unsafe"

	"github.com/kubernasium/kubernasium/envs"
	"github.com/kubernasium/kubernasium/envs/cluster"
	"github.com/kubernasium/kubernasium/envs/vpa/pods"
	"github.com/kubernasium/kubernasium/envs/vpa/rules"
)

// Bytes implements [envs.Sized]: samples of demand and usage, a record of each step, and the pods that evictions
// re-create, up to the permitted number at each step.
func (t *Task) Bytes() envs.Bytes {
	o := t.opts
	const sample = int64(unsafe.Sizeof(cluster.Resources{}))
	samples := t.src.history + o.Steps
	evicted := max(1, int(math.Ceil(float64(o.Pods)*o.Tolerance)))
	each := int64(samples)*sample + envs.SliceSize[cluster.Resources](samples) + envs.SliceSize[record](o.Steps)
	each += t.metrics.Bytes()
	if l := t.src.law; l != nil {
		each += int64(l.Number+1) * int64(samples) * sample
		evicted += l.Number
	}
	each += int64(o.Pods)*int64(unsafe.Sizeof(pods.Pod{})) + int64(evicted)*int64(o.Steps)*envs.PodSize
	b := envs.Bytes{Each: each + rules.Bytes(o.Pods, samples, t.Interval())}
	for i := range t.src.series {
		b.Shared += sample * int64(len(t.src.series[i].Usage))
	}
	return b
}
