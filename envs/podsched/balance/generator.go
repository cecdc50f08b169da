package balance

import (
	"context"
	"math/rand/v2"
	"strconv"

	"github.com/kubernasium/kubernasium/envs/cluster"
	"github.com/kubernasium/kubernasium/envs/podsched/deployments"
	"github.com/kubernasium/kubernasium/envs/podsched/imbalance"
	"github.com/kubernasium/kubernasium/envs/podsched/topology"
)

// maxPods is the maximum number of pods of a node: kubelet's default, and the source's.
const maxPods = 110

// source holds what all tasks of one Open share. It is read-only.
type source struct {
	opts Options
	deployments.Config
}

// newSource completes the options and reads the deployments that they name.
func newSource(o Options) (*source, error) {
	if err := o.complete(); err != nil {
		return nil, err
	}
	src := &source{o, deployments.Config{
		Nodes: o.Nodes, MixedNodes: o.NodeTypes == KindMixed, MixedPods: o.Pods == KindMixed, MemoryHeavy: o.MemoryHeavy,
		ReplicasMin: o.ReplicasMin, ReplicasMax: o.ReplicasMax, Lifetime: o.Lifetime, UsageMin: o.UsageMin, UsageMax: o.UsageMax,
	}}
	if o.Hints == HintsLifetime {
		src.HintError = o.HintError
	}
	if o.Trace != "" {
		return src, src.loadTrace()
	}
	if o.Deployments == "" {
		return src, nil
	}
	var err error
	src.File, err = deployments.Read(o.Deployments)
	return src, err
}

// Begin implements [envs.Task].
func (t *Task) Begin(ctx context.Context, c cluster.Cluster, rng *rand.Rand) error {
	t.in.Draw(rng.Uint64())
	return t.begin(ctx, c)
}

// begin starts the episode of the instance.
func (t *Task) begin(ctx context.Context, c cluster.Cluster) error {
	t.phase, t.phasePods, t.offered, t.first = 0, 0, cluster.Resources{}, 0
	t.stats = stats{}
	if t.original != nil {
		t.original.Reset()
	}
	if t.forecast != nil {
		t.forecast.Clear()
	}
	if err := t.addNodes(ctx, c); err != nil {
		return err
	}
	if t.src.Recorded != nil {
		if err := t.placeRunning(ctx, c); err != nil {
			return err
		}
	}
	t.cur = noPod
	_, _, err := t.next(ctx, c)
	return err
}

// addNodes adds the instance's nodes.
func (t *Task) addNodes(ctx context.Context, c cluster.Cluster) error {
	if t.nodeMeta == nil {
		for i := range t.in.Nodes {
			m := nodeMeta(i, t.opts.ServersPerRack)
			if t.src.Recorded != nil {
				n := &t.src.Recorded.Nodes[i]
				m.Name, m.Labels = n.Unique, append(m.Labels, n.SetLabels...)
			}
			t.nodeMeta = append(t.nodeMeta, c.State().Intern(m))
		}
	}
	t.noteSizes()
	t.ops = t.ops[:0]
	for i, r := range t.in.Nodes {
		op := cluster.Op{Kind: cluster.AddNode, Meta: t.nodeMeta[i], Resources: r, MaxPods: maxPods}
		if t.opts.Overcommit {
			op.Resources = cluster.Resources{MilliCPU: cluster.MaxAmount, MemoryBytes: cluster.MaxAmount}
			op.MaxPods = 0
		}
		if t.src.Recorded != nil {
			n := &t.src.Recorded.Nodes[i]
			op.MaxPods, op.GPUs, op.MilliGPU = n.Pods, uint8(n.GPUs), n.MilliGPU
		}
		t.ops = append(t.ops, op)
	}
	return c.Apply(ctx, t.ops)
}

// noteSizes derives capacities and scales from the sizes of the nodes.
func (t *Task) noteSizes() {
	t.capacity, t.largest = cluster.Resources{}, cluster.Resources{}
	clear(t.scratch.rackCapacity)
	clear(t.scratch.rackCPU)
	for i, r := range t.in.Nodes {
		t.invCPU[i], t.invMemory[i] = 1/float64(r.MilliCPU), 1/float64(r.MemoryBytes)
		t.capacity.MilliCPU += r.MilliCPU
		t.capacity.MemoryBytes += r.MemoryBytes
		t.largest.MilliCPU = max(t.largest.MilliCPU, r.MilliCPU)
		t.largest.MemoryBytes = max(t.largest.MemoryBytes, r.MemoryBytes)
		t.scratch.rackCapacity[t.rackOf[i]] += float64(r.MilliCPU)
	}
	for i, r := range t.in.Nodes {
		t.shown[i], t.rows[i] = contents{}, [nodeFeatures]float32{7: imbalance.Share(float64(r.MilliCPU) / float64(t.largest.MilliCPU)), 8: imbalance.Share(float64(r.MemoryBytes) / float64(t.largest.MemoryBytes))}
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
