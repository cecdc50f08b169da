package vpa

import (
	"context"
	"slices"
	"time"

	"github.com/kubernasium/kubernasium/envs/cluster"
	"github.com/kubernasium/kubernasium/envs/vpa/metrics"
	"github.com/kubernasium/kubernasium/envs/vpa/pods"
	upstream "github.com/kubernasium/kubernasium/envs/vpa/recommender"
)

// upstreamFeed feeds the upstream recommender from metrics and pod status: a sample of each running
// pod at the end of each step, and OOM kills.
type upstreamFeed struct {
	r          *upstream.Recommender
	state      *upstream.State
	containers []upstream.Container
	pods       []int32 // in the cluster, by place: a new pod is a new container
	rec        upstream.Recommendation
	latest     pods.Recommendation // returned last by recommend
}

func newFeed() *upstreamFeed {
	r, err := upstream.New(upstream.DefaultConfig())
	if err != nil {
		panic(err) // the defaults are valid
	}
	return &upstreamFeed{r: r, state: r.NewState(0)}
}

// observe adds the samples of the last step, or those of the history at an episode's first
// decision.
func (f *upstreamFeed) observe(ctx context.Context, t *Task, first bool) {
	if first {
		f.begin(ctx, t)
		return
	}
	if len(t.dynamics.Pods) != len(f.pods) {
		f.align(t)
	}
	f.sample(t, t.instant())
}

// sample adds the pods' usage at an instant, and their OOM kills.
func (f *upstreamFeed) sample(t *Task, now time.Duration) {
	for i := range t.dynamics.Pods {
		p, c := &t.dynamics.Pods[i], &f.containers[i]
		if p.Index != f.pods[i] {
			f.pods[i], *c = p.Index, upstream.Container{}
		}
		if !p.Sampled {
			continue
		}
		c.AddCPU(f.state, now, p.Used.MilliCPU)
		c.AddMemory(f.state, now, p.Used.MemoryBytes)
		if p.OOM {
			_ = c.RecordOOM(f.state, now, p.Requests.MemoryBytes) // cannot fail: it is of now, and the request in range
		}
	}
}

// align matches the containers to the pods; a live controller's pods change.
func (f *upstreamFeed) align(t *Task) {
	containers, pods := make([]upstream.Container, len(t.dynamics.Pods)), make([]int32, len(t.dynamics.Pods))
	for i := range t.dynamics.Pods {
		pods[i] = t.dynamics.Pods[i].Index
		if k := slices.Index(f.pods, pods[i]); k >= 0 {
			containers[i] = f.containers[k]
		}
	}
	f.containers, f.pods = containers, pods
}

func (f *upstreamFeed) begin(ctx context.Context, t *Task) {
	if t.live != nil {
		f.follow(t.live)
	}
	f.state.Reset(f.r, 0)
	f.containers, f.pods = f.containers[:0], f.pods[:0]
	for i := range t.dynamics.Pods {
		f.containers = append(f.containers, upstream.Container{})
		f.pods = append(f.pods, t.dynamics.Pods[i].Index)
	}
	if t.live != nil {
		f.resume(t.live)
		f.sample(t, t.instant())
		return
	}
	for k, u := range t.in.past() {
		if k%checkEvery == 0 && ctx.Err() != nil {
			return
		}
		for i := range t.dynamics.Pods {
			one := metrics.Scale(u, t.in.shares[i])
			at := time.Duration(k+1) * t.Interval()
			f.containers[i].AddCPU(f.state, at, one.MilliCPU)
			f.containers[i].AddMemory(f.state, at, one.MemoryBytes)
		}
	}
}

// recommend returns upstream's recommendation from the samples so far.
func (f *upstreamFeed) recommend() pods.Recommendation {
	f.state.Recommend(&f.rec)
	f.latest = pods.Recommendation{
		Lower: cluster.Resources(f.rec.Lower), Target: cluster.Resources(f.rec.Target),
		Upper: cluster.Resources(f.rec.Upper), Uncapped: cluster.Resources(f.rec.UncappedTarget),
	}
	return f.latest
}

// follow makes f the feed of l, resumes l's checkpoint, and divides upstream's minimum by the
// number of containers of a pod.
func (f *upstreamFeed) follow(l *Live) {
	l.fed = f
	c := upstream.DefaultConfig()
	c.Containers = l.config.Containers
	r, err := upstream.New(c)
	if err != nil {
		panic(err) // Configure has checked the one number that is no default
	}
	f.r = r
}

// resume loads what l has restored and recalled. A pod that l looks at keeps its window of memory.
func (f *upstreamFeed) resume(l *Live) {
	if l.restored != nil {
		_ = f.state.Load(l.restored) // Restore has tried it
	}
	gone := map[string]*upstream.Container{}
	for _, s := range l.recalled {
		c := gone[s.Pod]
		if k := slices.Index(l.ids, s.Pod); k >= 0 {
			c = &f.containers[k]
		} else if c == nil {
			c = &upstream.Container{}
			gone[s.Pod] = c
		}
		at := time.Duration(s.At.UnixNano())
		if s.Memory {
			c.AddMemory(f.state, at, s.Amount)
		} else {
			c.AddCPU(f.state, at, s.Amount)
		}
	}
	l.recalled = nil
}

// askUpstream feeds upstream's recommender, if it runs, with the last step or the history.
func (t *Task) askUpstream(ctx context.Context, first bool) {
	if t.feed != nil {
		t.feed.observe(ctx, t, first)
		t.feed.recommend()
	}
}

// clone shares the recommender, which does not change.
func (f *upstreamFeed) clone() *upstreamFeed {
	c, state := *f, *f.state
	c.state = &state
	c.containers, c.pods = slices.Clone(f.containers), slices.Clone(f.pods)
	return &c
}
