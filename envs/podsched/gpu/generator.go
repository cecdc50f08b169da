package gpu

import (
	"context"
	"math"
	"math/rand/v2"
	"slices"

	"github.com/kubernasium/kubernasium/envs/cluster"
	"github.com/kubernasium/kubernasium/envs/podsched/gpushare"
	"github.com/kubernasium/kubernasium/envs/podsched/gpuworkload"
)

// maxNodeGPUs is the number of devices of a node in an observation.
const maxNodeGPUs = gpuworkload.MaxNodeGPUs

// source holds the options and the instances that they describe. All environments made together share it read-only.
type source struct {
	opts Options
	*gpuworkload.Source
}

// newSource checks the options and loads the files that they name.
func newSource(o Options) (*source, error) { return loadSource(o, false) }

// newDeclaredSource is newSource for version 1.
func newDeclaredSource(o Options) (*source, error) { return loadSource(o, true) }

func loadSource(o Options, declared bool) (*source, error) {
	if err := o.check(); err != nil {
		return nil, err
	}
	src, err := gpuworkload.New(gpuworkload.Config{
		Nodes: o.Nodes, Pods: o.Pods, Assumed: gpushare.PerGPU(o.CPUPerGPU, o.MemoryPerGPU), Trace: o.Trace,
		Declared: declared, ReferenceSeed: o.ReferenceSeed, HeldOut: o.Split == SplitHeldOut, NumNodes: o.NumNodes, LoadEnd: o.LoadEnd,
		Law:   gpuworkload.Law{CPUOnly: o.CPUOnly, Sharing: o.Sharing, MultiGPU: o.MultiGPU, ConstrainedLow: o.ConstrainedLow, ConstrainedHigh: o.ConstrainedHigh},
		Timed: o.Dynamics == DynamicsTimed, NumPods: o.NumPods, Load: o.Load, MaxDuration: o.MaxDuration,
	})
	return &source{o, src}, err
}

// Begin implements [envs.Task].
func (t *Task) Begin(ctx context.Context, c cluster.Cluster, rng *rand.Rand) error {
	t.seed = rng.Uint64()
	t.src.Draw(ctx, t.seed, &t.in)
	if err := ctx.Err(); err != nil {
		return err
	}
	t.nodes = t.nodes[:0]
	for _, i := range t.in.Nodes {
		t.nodes = append(t.nodes, t.src.Nodes[i])
	}
	t.inventory.Reset(t.nodes, t.src.Catalogue, t.in.Outlook.Frag)
	t.reset()
	t.create(c.State())
	t.placeRunning(c.State())
	if err := t.prefill(c.State()); err != nil {
		return err
	}
	return t.advance(ctx, c)
}

// reset forgets the last episode.
func (t *Task) reset() {
	top := int(math.Ceil(100 * max(t.opts.LoadEnd, gpushare.DefaultRatio)))
	if t.curve == nil {
		t.curve = gpushare.NewCurve(top, 0)
	}
	t.curve.Reset(t.inventory.Size.MilliGPU)
	t.watch.reset(t.nodeFeatures(), len(t.nodes))
	if t.opts.Edges == EdgesModel {
		t.watch.edges = gpushare.Rings(t.watch.edges[:0], t.inventory.Nodes)
	}
	t.next, t.current, t.pos, t.freed = 0, -1, 0, 0
	t.queue, t.due, t.running = t.queue[:0], t.due[:0], t.running[:0]
	t.defers = slices.Grow(t.defers[:0], len(t.in.Arrivals))[:len(t.in.Arrivals)]
	clear(t.defers)
	clear(t.blocked)
	t.arrived, t.placedPods, t.failed = 0, 0, 0
	t.waited, t.completed, t.busy, t.waiting, t.now = 0, 0, 0, 0, 0
	t.planned = -1
	t.ops, t.estimator = t.ops[:0], nil
}

// create adds the ops that create the nodes.
func (t *Task) create(s *cluster.State) {
	for k, i := range t.in.Nodes {
		n := &t.nodes[k]
		if t.metas[i] < 0 {
			t.metas[i] = s.Intern(cluster.Meta{Name: n.Name, GPUModel: n.Model})
		}
		op := cluster.Op{
			Kind: cluster.AddNode, Node: int32(k), Meta: t.metas[i], MaxPods: int32(t.inventory.Nodes[k].MaxPods), GPUs: uint8(n.GPUs),
			Resources: cluster.Resources{MilliCPU: n.MilliCPU, MemoryBytes: n.MemoryMiB * gpushare.BytesMiB},
		}
		if n.GPUs > 0 {
			op.MilliGPU = gpushare.WholeGPU
		}
		t.ops = append(t.ops, op)
	}
}

// placeRunning places the pods that run when the episode begins. They do not count as placed pods.
func (t *Task) placeRunning(s *cluster.State) {
	for _, p := range t.in.Running {
		pod := t.arrive(s)
		t.run(s, pod, p.Node, p.Devices)
		t.note()
	}
}

// prefill places pods until option load_start is reached.
func (t *Task) prefill(s *cluster.State) error {
	if t.opts.LoadStart == 0 {
		return nil
	}
	p, err := t.placer(t.opts.Prefill)
	if err != nil {
		return err
	}
	for target := t.opts.LoadStart * float64(t.inventory.Size.MilliGPU); float64(t.arrived) < target && t.next < len(t.in.Arrivals); {
		pod := t.arrive(s)
		if node, devices := p.Choose(t.class(pod)); node >= 0 {
			t.bind(s, pod, node, devices)
			t.note()
		} else {
			t.fail(pod)
		}
	}
	return nil
}
