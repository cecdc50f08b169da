package deployments

import (
	"math/rand/v2"
	"slices"
	"time"

	"github.com/kubernasium/kubernasium/envs/cluster"
	"github.com/kubernasium/kubernasium/envs/pcg"
	"github.com/kubernasium/kubernasium/envs/podsched/kubescore"
	"github.com/kubernasium/kubernasium/envs/podsched/recorded"
)

const (
	core = 1000    // millicores
	gi   = 1 << 30 // bytes
)

var (
	equalNode = cluster.Resources{MilliCPU: 64 * core, MemoryBytes: 256 * gi}
	equalPod  = cluster.Resources{MilliCPU: 1 * core, MemoryBytes: 2 * gi}

	// mixedNodes are sizes offered by clouds, with 2 to 8 Gi for each CPU.
	mixedNodes = []cluster.Resources{
		{MilliCPU: 32 * core, MemoryBytes: 64 * gi}, {MilliCPU: 32 * core, MemoryBytes: 128 * gi},
		{MilliCPU: 32 * core, MemoryBytes: 256 * gi}, {MilliCPU: 64 * core, MemoryBytes: 256 * gi},
		{MilliCPU: 64 * core, MemoryBytes: 512 * gi}, {MilliCPU: 96 * core, MemoryBytes: 384 * gi},
	}
	// Each mixed deployment draws one of each; memory-heavy ones draw from heavyMemory. All fit an empty node of any
	// size.
	mixedCPU    = []int64{core / 4, core / 2, 1 * core, 2 * core, 4 * core, 8 * core}
	mixedMemory = []int64{gi / 2, 1 * gi, 2 * gi, 4 * gi, 8 * gi, 16 * gi}
	heavyCPU    = []int64{core / 4, core / 2, 1 * core}
	heavyMemory = []int64{16 * gi, 24 * gi, 32 * gi}
)

// Pod is a pod of a deployment.
type Pod struct {
	Requests, Usage cluster.Resources
	Extra           cluster.Resources // see [Extra]
	Lifetime        time.Duration     // 0 is for ever
	Hint            time.Duration     // of the lifetime; 0 is none
	Index           int32             // index of the deployment, in the order of arrival
	Replica         int32             // index in the deployment, from 0
	Replicas        int32
	Recorded        *recorded.Pod // nil for drawn pods and those of a file of deployments
}

// Counted returns the requests as scores count them.
func (p *Pod) Counted() cluster.Resources {
	return cluster.Resources{MilliCPU: p.Requests.MilliCPU + p.Extra.MilliCPU, MemoryBytes: p.Requests.MemoryBytes + p.Extra.MemoryBytes}
}

// Compared returns what objectives compare: requests or usage, and what scores add to requests.
func (p *Pod) Compared(usage bool) cluster.Resources {
	if usage {
		return cluster.Resources{MilliCPU: p.Usage.MilliCPU + p.Extra.MilliCPU, MemoryBytes: p.Usage.MemoryBytes + p.Extra.MemoryBytes}
	}
	return p.Counted()
}

// Config configures a stream.
type Config struct {
	Nodes       int     // number of nodes
	MixedNodes  bool    // different sizes offered by clouds, or equal nodes
	MixedPods   bool    // pods of different sizes, or equal pods
	MemoryHeavy float64 // part of the deployments with much memory for little CPU

	ReplicasMin, ReplicasMax int     // of a deployment
	Lifetime                 float64 // mean seconds of a pod; 0 is for ever
	UsageMin, UsageMax       float64 // of a pod, over its requests; 1 or more is all
	HintError                float64 // largest factor between hints and lifetimes; 0 means no hints

	File []Deployment // to play in order; nil draws

	Recorded *recorded.Workload // to play; nil draws
	Window   int                // pods of an episode, which begins at a random one; 0 is all
}

// Stream holds the nodes of an episode, and its pods in the order of arrival. It draws pods on demand, always in the
// same order, so looking ahead changes nothing.
type Stream struct {
	Nodes []cluster.Resources
	Seed  uint64
	Begin int // the pod of the recording that the episode begins with

	config *Config
	src    *pcg.Source
	rng    *rand.Rand
	pods   []Pod
	next   int32 // next deployment to draw
}

// NewStream returns a stream of c, which [Stream.Draw] starts.
func NewStream(c *Config) *Stream {
	s := &Stream{config: c, src: pcg.New(0), Nodes: make([]cluster.Resources, c.Nodes)}
	s.rng = rand.New(s.src)
	return s
}

// Draw starts the stream of a seed.
func (in *Stream) Draw(seed uint64) {
	in.Seed = seed
	in.src.Seed(seed)
	in.pods, in.next = in.pods[:0], 0
	if in.config.Recorded != nil {
		in.drawWindow()
		return
	}
	for i := range in.Nodes {
		in.Nodes[i] = equalNode
		if in.config.MixedNodes {
			in.Nodes[i] = mixedNodes[in.rng.IntN(len(mixedNodes))]
		}
	}
}

// Pod returns pod i of the stream; ok is false if there are fewer.
func (in *Stream) Pod(i int) (p *Pod, ok bool) {
	for i >= len(in.pods) {
		if in.config.Recorded != nil {
			if !in.nextRecorded() {
				return nil, false
			}
			continue
		}
		if in.config.File != nil && int(in.next) == len(in.config.File) {
			return nil, false
		}
		in.drawDeployment()
	}
	return &in.pods[i], true
}

func (in *Stream) drawDeployment() {
	o := in.config
	var d Deployment
	if in.config.File != nil {
		d = in.config.File[in.next]
	} else {
		d = Deployment{Replicas: o.ReplicasMin + in.rng.IntN(o.ReplicasMax-o.ReplicasMin+1), Requests: in.drawRequests()}
	}
	for i := range d.Replicas {
		p := Pod{Requests: d.Requests, Usage: d.Requests, Extra: Extra(d.Requests), Index: in.next, Replica: int32(i), Replicas: int32(d.Replicas)}
		if o.Lifetime > 0 {
			p.Lifetime = duration(o.Lifetime * in.rng.ExpFloat64() * float64(time.Second))
			p.Hint = in.hint(len(in.pods), p.Lifetime)
		}
		if o.UsageMin < 1 {
			p.Usage = in.drawUsage(in.rng, d.Requests)
		}
		in.pods = append(in.pods, p)
	}
	in.next++
}

// duration returns nanoseconds as a duration that a pod can have and that is not 0, which is for ever.
func duration(nanos float64) time.Duration {
	return max(1, time.Duration(min(nanos, float64(cluster.MaxTime))))
}

func (in *Stream) drawRequests() cluster.Resources {
	pick := func(a []int64) int64 { return a[in.rng.IntN(len(a))] }
	switch o := in.config; {
	case o.MemoryHeavy > 0 && in.rng.Float64() < o.MemoryHeavy:
		return cluster.Resources{MilliCPU: pick(heavyCPU), MemoryBytes: pick(heavyMemory)}
	case o.MixedPods:
		return cluster.Resources{MilliCPU: pick(mixedCPU), MemoryBytes: pick(mixedMemory)}
	}
	return equalPod
}

// Clone returns an independent copy, which draws the same pods.
func (in *Stream) Clone() *Stream {
	c := *in
	c.src = new(pcg.Source)
	*c.src = *in.src
	c.rng = rand.New(c.src)
	c.Nodes, c.pods = slices.Clone(in.Nodes), slices.Clone(in.pods)
	return &c
}

// Extra returns what kube-scheduler's scores add for resources that a pod does not request.
func Extra(requests cluster.Resources) (extra cluster.Resources) {
	if requests.MilliCPU == 0 {
		extra.MilliCPU = kubescore.DefaultMilliCPURequest
	}
	if requests.MemoryBytes == 0 {
		extra.MemoryBytes = kubescore.DefaultMemoryRequestBytes
	}
	return extra
}
