package oracle

import (
	"encoding/json"
	"flag"
	"fmt"
	"math/rand/v2"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	"gonum.org/v1/gonum/stat/combin"
	vpatypes "k8s.io/autoscaler/vertical-pod-autoscaler/pkg/apis/autoscaling.k8s.io/v1"
	"k8s.io/autoscaler/vertical-pod-autoscaler/pkg/recommender/model"

	"github.com/kubernasium/kubernasium/envs/vpa/recommender"
)

var (
	streams = flag.Int("streams", 2000, "random sample streams to play")
	seed    = flag.Uint64("seed", 1, "of the first stream; each has the next")
)

// ours plays the part of upstream's cluster model: a history by container name, windows by pod.
type ours struct {
	r          []*recommender.Recommender // by the number of containers that have a state
	policy     recommender.Policy
	now        time.Duration // the real time, at which upstream's states are created
	names      []string
	state      []*recommender.State       // by container; nil once collected, until its next sample
	restored   []*recommender.State       // by container; nil without a checkpoint
	containers [][]*recommender.Container // by pod and container
}

func newOurs(t *testing.T, c recommender.Config, p recommender.Policy, pods int, names []string) *ours {
	o := &ours{policy: p, now: time.Duration(time.Now().UnixNano()), names: names}
	for n := range len(names) + 1 {
		c.Containers = max(n, 1)
		r, err := recommender.New(c)
		if err != nil {
			t.Fatal(err)
		}
		o.r = append(o.r, r)
	}
	o.restart(pods, make([]*recommender.State, len(names)))
	return o
}

func (o *ours) restart(pods int, restored []*recommender.State) {
	o.restored = restored
	o.state = make([]*recommender.State, len(o.names))
	o.containers = make([][]*recommender.Container, pods)
	for pod := range pods {
		o.replacePod(pod)
	}
}

func (o *ours) replacePod(pod int) {
	o.containers[pod] = make([]*recommender.Container, len(o.names))
	for i := range o.names {
		o.containers[pod][i] = new(recommender.Container)
		o.live(i)
	}
}

// live returns the state that container i's samples go to.
func (o *ours) live(i int) *recommender.State {
	if o.state[i] == nil {
		o.state[i] = o.r[0].NewState(o.now)
	}
	return o.state[i]
}

// feed gives container i's state a sample. As upstream, a refused sample makes no state.
func (o *ours) feed(i int, sample func(*recommender.State) bool) bool {
	had := o.state[i]
	ok := sample(o.live(i))
	if !ok {
		o.state[i] = had
	}
	return ok
}

func (o *ours) exists(i int) bool { return o.state[i] != nil || o.restored[i] != nil }

// total returns the whole history of container i, or nil if there is none.
func (o *ours) total(i int) *recommender.State {
	if !o.exists(i) {
		return nil
	}
	n := 0
	for j := range o.names {
		if o.exists(j) {
			n++
		}
	}
	total := o.r[n].NewState(o.now)
	for _, s := range []*recommender.State{o.state[i], o.restored[i]} {
		if s != nil {
			total.Merge(s)
		}
	}
	return total
}

func (o *ours) collect(now time.Duration) {
	for i, s := range o.state {
		if s != nil && s.Expired(now) {
			o.state[i] = nil
		}
	}
}

func (o *ours) recommend() map[string]recommender.Recommendation {
	out := map[string]recommender.Recommendation{}
	for i, name := range o.names {
		if total := o.total(i); total != nil {
			var rec recommender.Recommendation
			total.Recommend(&rec)
			o.policy.Apply(&rec)
			out[name] = rec
		}
	}
	return out
}

// checkpoint returns the checkpoint of container i; the pods' ongoing peaks are subtracted in
// the given order.
func (o *ours) checkpoint(i int, order []int) *recommender.Checkpoint {
	var feeding []*recommender.Container
	if o.state[i] != nil { // else the pods feed nothing yet
		for _, pod := range order {
			feeding = append(feeding, o.containers[pod][i])
		}
	}
	return o.total(i).Save(o.now, feeding...)
}

// TestRandomStreams feeds random streams to upstream's recommender and to ours: usage over the
// whole range of the histograms, OOM kills, gaps of seconds to months, late, repeated and
// negative samples, replaced pods, expiry, and restarts from checkpoints. Every recommendation
// must be equal to the last integer and every checkpoint to the last bit.
func TestRandomStreams(t *testing.T) {
	var n counts
	for i := range *streams {
		s := *seed + uint64(i)
		if !t.Run(fmt.Sprint(s), func(t *testing.T) { playStream(t, s, &n) }) && i > 20 {
			break
		}
	}
	t.Logf("%+v", n)
	if *streams >= 2000 && (n.Accepted < 500_000 || n.Refused < 50_000 || n.OOMs < 40_000 || n.Restarts < 5000 || n.Expired < 500 || n.Recommendations < 200_000) {
		t.Errorf("%+v: the streams cover too little", n)
	}
}

type counts struct{ Accepted, Refused, OOMs, Restarts, Expired, Recommendations int }

func playStream(t *testing.T, seed uint64, n *counts) {
	g := &generator{rand.New(rand.NewPCG(seed, 0))}
	config, policy := g.config(), g.policy()
	names := []string{"a", "b", "c"}[:1+g.IntN(3)]
	pods := max(1, g.IntN(5)-1)
	o := newOurs(t, config, policy, pods, names)
	u := newUpstream(t, config, policy, pods, names)

	// Upstream's writer of checkpoints asks the real clock whether a memory interval is over:
	// the stream is wholly before or wholly after it.
	now := o.now - 30*365*24*time.Hour
	if g.IntN(2) == 0 {
		now = o.now + time.Hour
	}
	scale := g.gapScale()
	events := 200 + g.IntN(400)
	if g.IntN(20) == 0 {
		events *= 10
	}
	for range events {
		now += g.gap(scale)
		pod, i := g.IntN(pods), g.IntN(len(names))
		c := o.containers[pod][i]
		at := g.around(now)
		var our, their bool
		switch k := g.IntN(100); {
		case k < 50:
			usage := g.usage(1e-1, 1e7)
			our, their = o.feed(i, func(s *recommender.State) bool { return c.AddCPU(s, at, usage) }), u.add(pod, i, at, model.ResourceCPU, usage)
		case k < 90:
			usage := g.usage(1e5, 1e13)
			our, their = o.feed(i, func(s *recommender.State) bool { return c.AddMemory(s, at, usage) }), u.add(pod, i, at, model.ResourceMemory, usage)
		case k < 96:
			request := g.usage(1e6, 1e12)
			// Upstream asks the state for its configuration, so that even a refused kill makes one.
			our, their = c.RecordOOM(o.live(i), at, request) == nil, u.recordOOM(pod, i, at, request)
			n.OOMs++
		case k < 97:
			o.replacePod(pod)
			u.replacePod(pod)
			continue
		case k < 99:
			before := len(o.recommend())
			u.recommend() // merging moves references: both sides do it equally often
			o.collect(now)
			u.collect(now)
			n.Expired += before - len(o.recommend())
			u.recommend()
			continue
		default:
			restart(t, o, u, pods)
			n.Restarts++
			continue
		}
		if our != their {
			t.Fatalf("sample at %v accepted: %v, want %v", at, our, their)
		}
		if our {
			n.Accepted++
		} else {
			n.Refused++
		}
		if g.IntN(4) == 0 {
			n.Recommendations += compare(t, o, u)
		}
	}
	n.Recommendations += compare(t, o, u)
}

func compare(t *testing.T, o *ours, u *upstream) int {
	t.Helper()
	got, want := o.recommend(), u.recommend()
	if diff := cmp.Diff(want, got); diff != "" {
		t.Fatalf("recommendations differ (-upstream +ours):\n%s", diff)
	}
	return len(got)
}

// restart compares the checkpoints of both, and lets both forget everything else.
func restart(t *testing.T, o *ours, u *upstream, pods int) {
	t.Helper()
	stored := u.checkpoints()
	restored := make([]*recommender.State, len(o.names))
	upstream := map[string]*vpatypes.VerticalPodAutoscalerCheckpointStatus{}
	for i, name := range o.names {
		if o.exists(i) != (stored[name] != nil) {
			t.Fatalf("checkpoint of %s: %v, want %v", name, o.exists(i), stored[name] != nil)
		}
		if stored[name] == nil {
			continue
		}
		upstream[name] = new(vpatypes.VerticalPodAutoscalerCheckpointStatus)
		decode(t, stored[name], upstream[name])
		// Upstream subtracts the pods' ongoing peaks in random order, that of a map, and their sizes
		// can differ by so much that the order decides what is left: one order must give the same.
		var diff string
		for order := range combin.NumPermutations(pods, pods) {
			saved := o.checkpoint(i, combin.IndexToPermutation(nil, order, pods, pods))
			text, err := json.Marshal(saved)
			if err != nil {
				t.Fatal(err)
			}
			var ours vpatypes.VerticalPodAutoscalerCheckpointStatus
			decode(t, text, &ours)
			ours.LastUpdateTime = upstream[name].LastUpdateTime
			dropFractions(&ours)
			if diff = cmp.Diff(upstream[name], &ours); diff == "" {
				break
			}
		}
		if diff != "" {
			t.Fatalf("checkpoints of %s differ (-upstream +ours):\n%s", name, diff)
		}
		var theirs recommender.Checkpoint
		decode(t, stored[name], &theirs)
		restored[i] = o.r[0].NewState(o.now)
		if err := restored[i].Load(&theirs); err != nil {
			t.Fatalf("%s: %v", stored[name], err)
		}
	}
	o.restart(pods, restored)
	u.restart(pods, upstream)
}

func decode(t *testing.T, text []byte, target any) {
	t.Helper()
	if err := json.Unmarshal(text, target); err != nil {
		t.Fatalf("%s: %v", text, err)
	}
}

// dropFractions drops fractions of seconds, as upstream's JSON does.
func dropFractions(c *vpatypes.VerticalPodAutoscalerCheckpointStatus) {
	for _, t := range []*time.Time{
		&c.FirstSampleStart.Time, &c.LastSampleStart.Time,
		&c.CPUHistogram.ReferenceTimestamp.Time, &c.MemoryHistogram.ReferenceTimestamp.Time,
	} {
		*t = t.Truncate(time.Second)
	}
}

// TestMerge merges states of different ages, which in a cluster happens in no fixed order.
func TestMerge(t *testing.T) {
	model.InitializeAggregationsConfig(nil)
	r, err := recommender.New(recommender.DefaultConfig())
	if err != nil {
		t.Fatal(err)
	}
	u := newUpstream(t, recommender.DefaultConfig(), recommender.Policy{}, 1, []string{"a"})
	for s := range uint64(300) {
		g := &generator{rand.New(rand.NewPCG(s, 1))}
		total, want := r.NewState(0), model.NewAggregateContainerState()
		for range 1 + g.IntN(5) {
			state, theirs := r.NewState(0), model.NewAggregateContainerState()
			c, tc := new(recommender.Container), model.NewContainerState(nil, theirs)
			now := time.Duration(g.Int64N(int64(20 * 365 * 24 * time.Hour)))
			scale := g.gapScale()
			for range g.IntN(60) {
				now += g.gap(scale)
				milli, bytes := g.usage(1, 1e6), g.usage(1e6, 1e12)
				c.AddCPU(state, now, milli)
				c.AddMemory(state, now, bytes)
				for name, usage := range map[model.ResourceName]int64{model.ResourceCPU: milli, model.ResourceMemory: bytes} {
					tc.AddSample(&model.ContainerUsageSample{MeasureStart: time.Unix(0, int64(now)), Usage: model.ResourceAmount(usage), Resource: name})
				}
			}
			total.Merge(state)
			want.MergeContainerState(theirs)
		}
		var got recommender.Recommendation
		total.Recommend(&got)
		pod := u.recommender.GetRecommendedPodResources(model.ContainerNameToAggregateStateMap{"a": want})["a"]
		upstream := recommender.Bounds{Lower: raw(pod.LowerBound), Target: raw(pod.Target), Upper: raw(pod.UpperBound)}
		if got.Bounds != upstream {
			t.Errorf("seed %d: %+v, want %+v", s, got.Bounds, upstream)
		}
	}
}

// TestEdges gives both recommenders one sample at and beside the edge of every bucket.
func TestEdges(t *testing.T) {
	model.InitializeAggregationsConfig(nil)
	r, err := recommender.New(recommender.DefaultConfig())
	if err != nil {
		t.Fatal(err)
	}
	u := newUpstream(t, recommender.DefaultConfig(), recommender.Policy{}, 1, []string{"a"})
	config := model.GetAggregationsConfig()
	for b := range config.CPUHistogramOptions.NumBuckets() {
		cpu := int64(config.CPUHistogramOptions.GetBucketStart(b) * 1000)
		memory := int64(config.MemoryHistogramOptions.GetBucketStart(b))
		for d := int64(-2); d <= 2; d++ {
			state, theirs := r.NewState(0), model.NewAggregateContainerState()
			c, tc := new(recommender.Container), model.NewContainerState(nil, theirs)
			c.AddCPU(state, 0, cpu+d)
			c.AddMemory(state, 0, memory+d)
			for name, usage := range map[model.ResourceName]int64{model.ResourceCPU: cpu + d, model.ResourceMemory: memory + d} {
				tc.AddSample(&model.ContainerUsageSample{MeasureStart: time.Unix(0, 0), Usage: model.ResourceAmount(usage), Resource: name})
			}
			var got recommender.Recommendation
			state.Recommend(&got)
			pod := u.recommender.GetRecommendedPodResources(model.ContainerNameToAggregateStateMap{"a": theirs})["a"]
			want := recommender.Bounds{Lower: raw(pod.LowerBound), Target: raw(pod.Target), Upper: raw(pod.UpperBound)}
			if got.Bounds != want {
				t.Errorf("bucket %d, %d m, %d B: %+v, want %+v", b, cpu+d, memory+d, got.Bounds, want)
			}
		}
	}
}

func raw(r model.Resources) recommender.Amounts {
	return recommender.Amounts{MilliCPU: int64(r[model.ResourceCPU]), MemoryBytes: int64(r[model.ResourceMemory])}
}
