package vpa

import (
	"slices"
	"time"

	"github.com/kubernasium/kubernasium/envs/cluster"
	upstream "github.com/kubernasium/kubernasium/envs/vpa/recommender"
)

// upstreamFeed feeds the upstream recommender with what the metrics server and the pods' status
// show: a sample of each pod that runs at the end of each step, and OOM kills.
type upstreamFeed struct {
	r          *upstream.Recommender
	state      *upstream.State
	containers []upstream.Container
	pods       []int32 // in the cluster, by place: a new pod is a new container
	rec        upstream.Recommendation
}

func newFeed() *upstreamFeed {
	r, err := upstream.New(upstream.DefaultConfig())
	if err != nil {
		panic(err) // the defaults are valid
	}
	return &upstreamFeed{r: r, state: r.NewState(0)}
}

// observe takes note of the last step, or at an episode's first decision of the history.
func (f *upstreamFeed) observe(t *Task, first bool) {
	if first {
		f.begin(t)
		return
	}
	if len(t.pods) != len(f.pods) {
		f.align(t)
	}
	f.sample(t, t.instant())
}

// sample adds what the pods used at an instant, and their OOM kills.
func (f *upstreamFeed) sample(t *Task, now time.Duration) {
	for i := range t.pods {
		p, c := &t.pods[i], &f.containers[i]
		if p.index != f.pods[i] {
			f.pods[i], *c = p.index, upstream.Container{}
		}
		if !p.sampled {
			continue
		}
		c.AddCPU(f.state, now, p.used.MilliCPU)
		c.AddMemory(f.state, now, p.used.MemoryBytes)
		if p.oom {
			_ = c.RecordOOM(f.state, now, p.requests.MemoryBytes) // cannot fail: it is of now, and the request in range
		}
	}
}

// align takes note of pods that have come or gone, where pods run elsewhere.
func (f *upstreamFeed) align(t *Task) {
	containers, pods := make([]upstream.Container, len(t.pods)), make([]int32, len(t.pods))
	for i := range t.pods {
		pods[i] = t.pods[i].index
		if k := slices.Index(f.pods, pods[i]); k >= 0 {
			containers[i] = f.containers[k]
		}
	}
	f.containers, f.pods = containers, pods
}

func (f *upstreamFeed) begin(t *Task) {
	if t.live != nil {
		f.follow(t.live)
	}
	f.state.Reset(f.r, 0)
	f.containers, f.pods = f.containers[:0], f.pods[:0]
	for i := range t.pods {
		f.containers = append(f.containers, upstream.Container{})
		f.pods = append(f.pods, t.pods[i].index)
	}
	if t.live != nil {
		f.resume(t.live)
		f.sample(t, t.instant())
		return
	}
	for k, u := range t.demand[:t.src.history] {
		for i := range t.pods {
			one := scaled(u, t.pods[i].share)
			at := time.Duration(k+1) * t.step
			f.containers[i].AddCPU(f.state, at, one.MilliCPU)
			f.containers[i].AddMemory(f.state, at, one.MemoryBytes)
		}
	}
}

// recommend returns upstream's recommendation for the present moment.
func (f *upstreamFeed) recommend() Recommendation {
	f.state.Recommend(&f.rec)
	return Recommendation{
		Lower: cluster.Resources(f.rec.Lower), Target: cluster.Resources(f.rec.Target),
		Upper: cluster.Resources(f.rec.Upper), Uncapped: cluster.Resources(f.rec.UncappedTarget),
	}
}

// newUpstream recommends as the Kubernetes vertical pod autoscaler does with its defaults.
func newUpstream() recommender {
	f := newFeed()
	return func(t *Task, first bool) (Recommendation, bool) {
		f.observe(t, first)
		return f.recommend(), true
	}
}

// goldilocks sets requests and limits once a day, as one does by hand from its report.
func goldilocks(from func(upstream.Bounds) upstream.Requests) recommender {
	f := newFeed()
	return func(t *Task, first bool) (Recommendation, bool) {
		f.observe(t, first)
		if !first && t.steps%t.stepsIn(24*time.Hour) != 0 {
			return Recommendation{}, false
		}
		f.state.Recommend(&f.rec)
		return asSet(from(f.rec.Bounds)), true
	}
}

// asSet returns the recommendation of requests and limits that are set as they are.
func asSet(r upstream.Requests) Recommendation {
	request := cluster.Resources(r.Request)
	return Recommendation{
		Lower: request, Target: request, Upper: request, Uncapped: request,
		Limits: cluster.Resources(r.Limit), SetLimits: true,
	}
}

// krrHistory is how far back KRR looks.
const krrHistory = 14 * 24 * time.Hour

// krr follows a strategy of KRR with its defaults. Its report is applied each hour, as far as it
// differs by more than the band of [banded]: applying every change would evict a pod each hour.
// Below KRR's least number of points nothing is recommended.
func krr(strategy func(upstream.KRRConfig, *upstream.History) (upstream.Requests, error)) recommender {
	config := upstream.DefaultKRRConfig()
	var h upstream.History
	push := func(i int, u cluster.Resources) {
		h.MilliCPU[i] = append(h.MilliCPU[i], float64(u.MilliCPU))
		h.MemoryBytes[i] = append(h.MemoryBytes[i], float64(u.MemoryBytes))
	}
	return func(t *Task, first bool) (Recommendation, bool) {
		if first {
			h = upstream.History{MilliCPU: make([][]float64, len(t.pods)), MemoryBytes: make([][]float64, len(t.pods))}
		}
		for len(h.MilliCPU) < len(t.pods) { // pods that run elsewhere come and go
			h.MilliCPU, h.MemoryBytes = append(h.MilliCPU, nil), append(h.MemoryBytes, nil)
		}
		h.MilliCPU, h.MemoryBytes = h.MilliCPU[:len(t.pods)], h.MemoryBytes[:len(t.pods)]
		for i := range t.pods {
			p := &t.pods[i]
			switch {
			case first && t.live == nil:
				for _, u := range t.demand[:t.src.history] {
					push(i, scaled(u, p.share))
				}
			case p.sampled:
				push(i, p.used)
			}
			if !first && p.oom {
				h.OOMLimit = max(h.OOMLimit, float64(p.limits.MemoryBytes))
			}
			if old := len(h.MilliCPU[i]) - t.stepsIn(krrHistory); old > 0 {
				h.MilliCPU[i], h.MemoryBytes[i] = h.MilliCPU[i][old:], h.MemoryBytes[i][old:]
			}
		}
		if !first && t.steps%t.stepsIn(time.Hour) != 0 {
			return Recommendation{}, false
		}
		set, err := strategy(config, &h)
		if err != nil {
			return Recommendation{}, false // too few points
		}
		r := banded(float64(set.Request.MilliCPU), float64(set.Request.MemoryBytes))
		r.Limits, r.SetLimits = cluster.Resources(set.Limit), true
		return r, true
	}
}
