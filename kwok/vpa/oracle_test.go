package vpa_test

import (
	"testing"
	"time"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/equality"
	"k8s.io/apimachinery/pkg/api/resource"

	"github.com/kubernasium/kubernasium/envs/cluster"
	upstream "github.com/kubernasium/kubernasium/envs/vpa/recommender"
	"github.com/kubernasium/kubernasium/kwok/vpa"
)

// oracle is upstream's algorithm, fed with the samples of all pods.
type oracle struct {
	state      *upstream.State
	containers map[string]*upstream.Container // by pod: one that replaces another is a new container
}

func newOracle(t *testing.T) *oracle {
	t.Helper()
	r, err := upstream.New(upstream.DefaultConfig())
	if err != nil {
		t.Fatal(err)
	}
	return &oracle{r.NewState(0), map[string]*upstream.Container{}}
}

// after returns the status after a step in which each of the pods used so much. Bounds are capped at the
// policy's 32 cores and 128 GiB.
func (o *oracle) after(step int, used cluster.Resources, pods []vpa.DemoPod) *vpa.ContainerRecommendation {
	at := time.Duration(step+1) * time.Minute
	for _, p := range pods {
		c := o.containers[p.Name]
		if c == nil {
			c = &upstream.Container{}
			o.containers[p.Name] = c
		}
		c.AddCPU(o.state, at, used.MilliCPU)
		c.AddMemory(o.state, at, used.MemoryBytes)
	}
	var r upstream.Recommendation
	o.state.Recommend(&r)
	list := func(milli, bytes int64) corev1.ResourceList {
		return corev1.ResourceList{
			corev1.ResourceCPU:    *resource.NewMilliQuantity(milli, resource.DecimalSI),
			corev1.ResourceMemory: *resource.NewQuantity(bytes, resource.DecimalSI),
		}
	}
	capped := func(milli, bytes int64) corev1.ResourceList { return list(min(milli, 32_000), min(bytes, 128*gib)) }
	return &vpa.ContainerRecommendation{
		ContainerName: "main", Target: capped(r.Target.MilliCPU, r.Target.MemoryBytes), LowerBound: capped(r.Lower.MilliCPU, r.Lower.MemoryBytes),
		UpperBound: capped(r.Upper.MilliCPU, r.Upper.MemoryBytes), UncappedTarget: list(r.UncappedTarget.MilliCPU, r.UncappedTarget.MemoryBytes),
	}
}

func sameList(a, b corev1.ResourceList) bool { return equality.Semantic.DeepEqual(a, b) }
