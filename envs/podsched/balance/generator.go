package balance

import (
	"context"
	"math/rand/v2"
	"strconv"
	"time"

	"github.com/kubernasium/kubernasium/envs/cluster"
	"github.com/kubernasium/kubernasium/envs/pcg"
	"github.com/kubernasium/kubernasium/envs/podsched/topology"
)

const (
	core = 1000    // millicores
	gi   = 1 << 30 // bytes
)

// maxPods is what a node runs at most: kubelet's default, and the source's.
const maxPods = 110

var (
	equalNode = cluster.Resources{MilliCPU: 64 * core, MemoryBytes: 256 * gi}
	equalPod  = cluster.Resources{MilliCPU: 1 * core, MemoryBytes: 2 * gi}

	// mixedNodes are sizes that clouds offer, with 2 to 8 Gi for each CPU.
	mixedNodes = []cluster.Resources{
		{MilliCPU: 32 * core, MemoryBytes: 64 * gi}, {MilliCPU: 32 * core, MemoryBytes: 128 * gi},
		{MilliCPU: 32 * core, MemoryBytes: 256 * gi}, {MilliCPU: 64 * core, MemoryBytes: 256 * gi},
		{MilliCPU: 64 * core, MemoryBytes: 512 * gi}, {MilliCPU: 96 * core, MemoryBytes: 384 * gi},
	}
	// Each mixed deployment draws one of each; memory-heavy ones draw from heavyMemory. All fit an
	// empty node of any size.
	mixedCPU    = []int64{core / 4, core / 2, 1 * core, 2 * core, 4 * core, 8 * core}
	mixedMemory = []int64{gi / 2, 1 * gi, 2 * gi, 4 * gi, 8 * gi, 16 * gi}
	heavyCPU    = []int64{core / 4, core / 2, 1 * core}
	heavyMemory = []int64{16 * gi, 24 * gi, 32 * gi}
)

// podSpec is a pod of the workload.
type podSpec struct {
	requests, usage cluster.Resources
	extra           cluster.Resources // see extraOf
	lifetime        time.Duration     // 0 is for ever
	deployment      int32             // in the order of arrival
	replica         int32             // of it, from 0
	replicas        int32
}

// counted returns the requests as scores count them.
func (p *podSpec) counted() cluster.Resources { return plus(p.requests, p.extra) }

// source holds what all tasks of one Open share. It is read-only.
type source struct {
	opts Options
	file []deployment // to play in order; nil draws
}

// newSource completes the options and reads the deployments that they name.
func newSource(o Options) (*source, error) {
	if err := o.complete(); err != nil {
		return nil, err
	}
	src := &source{opts: o}
	if o.Deployments == "" {
		return src, nil
	}
	var err error
	src.file, err = readDeployments(o.Deployments)
	return src, err
}

// instance holds the nodes of an episode, and its pods in the order of arrival.
// Pods are drawn on demand, always in the same order, so that looking ahead changes nothing.
type instance struct {
	opts  *Options
	file  []deployment // to play in order; nil draws
	src   *pcg.Source
	rng   *rand.Rand
	seed  uint64
	nodes []cluster.Resources
	pods  []podSpec
	next  int32 // deployment to draw
}

func newInstance(src *source) *instance {
	in := &instance{opts: &src.opts, file: src.file, src: pcg.New(0), nodes: make([]cluster.Resources, src.opts.Nodes)}
	in.rng = rand.New(in.src)
	return in
}

// draw makes in the instance of the seed.
func (in *instance) draw(seed uint64) {
	in.seed = seed
	in.src.Seed(seed)
	in.pods, in.next = in.pods[:0], 0
	for i := range in.nodes {
		in.nodes[i] = equalNode
		if in.opts.NodeTypes == KindMixed {
			in.nodes[i] = mixedNodes[in.rng.IntN(len(mixedNodes))]
		}
	}
}

// pod returns pod i of the workload; ok is false if there are fewer.
func (in *instance) pod(i int) (p *podSpec, ok bool) {
	for i >= len(in.pods) {
		if in.file != nil && int(in.next) == len(in.file) {
			return nil, false
		}
		in.drawDeployment()
	}
	return &in.pods[i], true
}

func (in *instance) drawDeployment() {
	o := in.opts
	var d deployment
	if in.file != nil {
		d = in.file[in.next]
	} else {
		d = deployment{replicas: o.ReplicasMin + in.rng.IntN(o.ReplicasMax-o.ReplicasMin+1), requests: in.drawRequests()}
	}
	for i := range d.replicas {
		p := podSpec{requests: d.requests, usage: d.requests, extra: extraOf(d.requests), deployment: in.next, replica: int32(i), replicas: int32(d.replicas)}
		if o.Lifetime > 0 {
			p.lifetime = max(1, time.Duration(o.Lifetime*in.rng.ExpFloat64()*float64(time.Second)))
		}
		if o.UsageMin < 1 {
			part := o.UsageMin + float64((o.UsageMax-o.UsageMin)*in.rng.Float64())
			p.usage.MilliCPU = int64(part * float64(d.requests.MilliCPU))
			p.usage.MemoryBytes = int64(part * float64(d.requests.MemoryBytes))
		}
		in.pods = append(in.pods, p)
	}
	in.next++
}

func (in *instance) drawRequests() cluster.Resources {
	pick := func(a []int64) int64 { return a[in.rng.IntN(len(a))] }
	switch o := in.opts; {
	case o.MemoryHeavy > 0 && in.rng.Float64() < o.MemoryHeavy:
		return cluster.Resources{MilliCPU: pick(heavyCPU), MemoryBytes: pick(heavyMemory)}
	case o.Pods == KindMixed:
		return cluster.Resources{MilliCPU: pick(mixedCPU), MemoryBytes: pick(mixedMemory)}
	}
	return equalPod
}

// Begin implements [envs.Task].
func (t *Task) Begin(ctx context.Context, c cluster.Cluster, rng *rand.Rand) error {
	t.in.draw(rng.Uint64())
	return t.begin(ctx, c)
}

// begin starts the episode of the instance.
func (t *Task) begin(ctx context.Context, c cluster.Cluster) error {
	t.phase, t.phasePods, t.offered, t.first = 0, 0, cluster.Resources{}, 0
	t.stats = stats{}
	if t.original != nil {
		t.original.Reset()
	}
	if err := t.addNodes(ctx, c); err != nil {
		return err
	}
	t.cur = noPod
	_, _, err := t.next(ctx, c)
	return err
}

// addNodes adds the instance's nodes.
func (t *Task) addNodes(ctx context.Context, c cluster.Cluster) error {
	if t.nodeMeta == nil {
		for i := range t.in.nodes {
			t.nodeMeta = append(t.nodeMeta, c.State().Intern(nodeMeta(i, t.opts.ServersPerRack)))
		}
	}
	t.noteSizes()
	t.ops = t.ops[:0]
	for i, r := range t.in.nodes {
		op := cluster.Op{Kind: cluster.AddNode, Meta: t.nodeMeta[i], Resources: r, MaxPods: maxPods}
		if t.opts.Overcommit {
			op.Resources = cluster.Resources{MilliCPU: cluster.MaxAmount, MemoryBytes: cluster.MaxAmount}
			op.MaxPods = 0
		}
		t.ops = append(t.ops, op)
	}
	return c.Apply(ctx, t.ops)
}

// noteSizes derives capacities and scales from the sizes of the nodes.
func (t *Task) noteSizes() {
	t.capacity, t.largest = cluster.Resources{}, cluster.Resources{}
	clear(t.scratch.rackCapacity)
	for i, r := range t.in.nodes {
		t.invCPU[i], t.invMemory[i] = 1/float64(r.MilliCPU), 1/float64(r.MemoryBytes)
		t.capacity.MilliCPU += r.MilliCPU
		t.capacity.MemoryBytes += r.MemoryBytes
		t.largest.MilliCPU = max(t.largest.MilliCPU, r.MilliCPU)
		t.largest.MemoryBytes = max(t.largest.MemoryBytes, r.MemoryBytes)
		t.scratch.rackCapacity[t.rackOf[i]] += float64(r.MilliCPU)
	}
}

// nodeMeta returns the metadata of node i.
func nodeMeta(i, serversPerRack int) cluster.Meta {
	name := "worker-" + strconv.Itoa(i)
	return cluster.Meta{Name: name, Labels: []cluster.Label{
		{Key: "kubernetes.io/hostname", Value: name},
		{Key: topology.RackLabel, Value: topology.RackName(i, serversPerRack)},
		{Key: topology.ServerLabel, Value: topology.ServerName(i, serversPerRack)},
	}}
}
