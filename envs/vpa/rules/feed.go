package rules

import (
	"context"
	"slices"
	"time"

	"github.com/kubernasium/kubernasium/envs/cluster"
	"github.com/kubernasium/kubernasium/envs/vpa/metrics"
	"github.com/kubernasium/kubernasium/envs/vpa/pods"
	upstream "github.com/kubernasium/kubernasium/envs/vpa/recommender"
)

// Feed feeds the upstream recommender from metrics and pod status: a sample of each running
// pod at the end of each step, and OOM kills.
type Feed struct {
	r          *upstream.Recommender
	state      *upstream.State
	containers []upstream.Container
	pods       []int32 // by place; a new pod is a new container
	rec        upstream.Recommendation
	Latest     pods.Recommendation // last result of Recommend
}

// NewFeed returns a feed of upstream's recommender with its defaults.
func NewFeed() *Feed {
	r, err := upstream.New(upstream.DefaultConfig())
	if err != nil {
		panic(err) // the defaults are valid
	}
	return &Feed{r: r, state: r.NewState(0)}
}

// Observe adds the samples of the last step, or those of the history at an episode's first
// decision.
func (f *Feed) Observe(ctx context.Context, v *View, first bool) {
	if first {
		f.begin(ctx, v)
		return
	}
	if len(v.Pods) != len(f.pods) {
		f.align(v)
	}
	f.sample(v)
}

// sample adds the pods' usage in the last step, and their OOM kills.
func (f *Feed) sample(v *View) {
	now := v.Instant
	for i := range v.Pods {
		p, c := &v.Pods[i], &f.containers[i]
		if p.Index != f.pods[i] {
			f.pods[i], *c = p.Index, upstream.Container{}
		}
		if !p.Sampled {
			continue
		}
		c.AddCPU(f.state, now, p.Used.MilliCPU)
		c.AddMemory(f.state, now, p.Used.MemoryBytes)
		if p.OOM {
			_ = c.RecordOOM(f.state, now, p.Requests.MemoryBytes) // cannot fail: the kill is recent, and the request in range
		}
	}
}

// align matches the containers to the pods; a live controller's pods change.
func (f *Feed) align(v *View) {
	containers, pods := make([]upstream.Container, len(v.Pods)), make([]int32, len(v.Pods))
	for i := range v.Pods {
		pods[i] = v.Pods[i].Index
		if k := slices.Index(f.pods, pods[i]); k >= 0 {
			containers[i] = f.containers[k]
		}
	}
	f.containers, f.pods = containers, pods
}

func (f *Feed) begin(ctx context.Context, v *View) {
	if v.Running != nil {
		v.Running.begin(f)
	}
	f.state.Reset(f.r, 0)
	f.containers, f.pods = f.containers[:0], f.pods[:0]
	for i := range v.Pods {
		f.containers = append(f.containers, upstream.Container{})
		f.pods = append(f.pods, v.Pods[i].Index)
	}
	if v.Running != nil {
		v.Running.resume(f)
		f.sample(v)
		return
	}
	for k, u := range v.Past {
		if k%checkEvery == 0 && ctx.Err() != nil {
			return
		}
		for i := range v.Pods {
			one := metrics.Scale(u, v.Shares[i])
			at := time.Duration(k+1) * v.Interval
			f.containers[i].AddCPU(f.state, at, one.MilliCPU)
			f.containers[i].AddMemory(f.state, at, one.MemoryBytes)
		}
	}
}

// Recommend returns upstream's recommendation from the samples so far.
func (f *Feed) Recommend() pods.Recommendation {
	f.state.Recommend(&f.rec)
	f.Latest = pods.Recommendation{
		Lower: cluster.Resources(f.rec.Lower), Target: cluster.Resources(f.rec.Target),
		Upper: cluster.Resources(f.rec.Upper), Uncapped: cluster.Resources(f.rec.UncappedTarget),
	}
	return f.Latest
}

// Clone shares the recommender, which does not change.
func (f *Feed) Clone() *Feed {
	c, state := *f, *f.state
	c.state = &state
	c.containers, c.pods = slices.Clone(f.containers), slices.Clone(f.pods)
	return &c
}
