package envcheck

import (
	"context"
	"math/rand/v2"
	"slices"
	"strconv"
	"time"

	"github.com/kubernasium/kubernasium/envs"
	"github.com/kubernasium/kubernasium/envs/cluster"
	"github.com/kubernasium/kubernasium/envs/space"
)

// placementFeatures is the number of features of a node in Placement.
const placementFeatures = 7

// Placement is a toy version of the placement environments. Pods arrive one a second, run for a while, and are placed
// on one of n nodes. The observation is a row of 7 features for each node: requested CPU and memory, free CPU and
// memory, the pod's CPU and memory, all as shares of the node's, and the number of its pods over 100. The mask permits
// the nodes that the pod fits, or all if it fits none. A placed pod earns 1; one that does not fit stays pending and
// earns 0. The toy exercises the cluster and measures the cost of a placement.
func Placement(nodes, pods int) *envs.Spec {
	return toySpec("toy/Placement-v0", 0, func() envs.Task { return &placement{nodes: nodes, pods: pods} })
}

type placement struct {
	nodes, pods int
	rng         *rand.Rand
	meta        []int32 // of the nodes, then of the pods
	ops         []cluster.Op
	invCPU      []float32 // 1/allocatable of each node
	invMem      []float32
	current     int32 // the pod to place
}

func (t *placement) Spaces() (obs, act space.Space) {
	return space.NewBox(0, 1, t.nodes, placementFeatures), space.Discrete{N: t.nodes}
}

func (t *placement) Begin(ctx context.Context, c cluster.Cluster, rng *rand.Rand) error {
	t.rng = rng
	if t.meta == nil {
		for i := range t.nodes {
			t.meta = append(t.meta, c.State().Intern(cluster.Meta{Name: "node-" + strconv.Itoa(i)}))
		}
		t.meta = append(t.meta, c.State().Intern(cluster.Meta{Name: "pod"}))
	}
	t.ops, t.invCPU, t.invMem = t.ops[:0], t.invCPU[:0], t.invMem[:0]
	for i := range t.nodes {
		r := cluster.Resources{MilliCPU: 16000, MemoryBytes: 64 << 30}
		t.ops = append(t.ops, cluster.Op{Kind: cluster.AddNode, Node: int32(i), Meta: t.meta[i], Resources: r, MaxPods: 100})
		t.invCPU = append(t.invCPU, 1/float32(r.MilliCPU))
		t.invMem = append(t.invMem, 1/float32(r.MemoryBytes))
	}
	t.current = 0
	t.ops = append(t.ops, t.arrival())
	return c.Apply(ctx, t.ops)
}

// arrival is the op that adds the current pod.
func (t *placement) arrival() cluster.Op {
	return cluster.Op{
		Kind: cluster.AddPod, Pod: t.current, Meta: t.meta[t.nodes],
		Resources: cluster.Resources{MilliCPU: 500 * (1 + t.rng.Int64N(8)), MemoryBytes: (1 + t.rng.Int64N(8)) << 30},
		Duration:  time.Duration(1+t.rng.IntN(400)) * time.Second,
	}
}

func (t *placement) Apply(ctx context.Context, c cluster.Cluster, action []float32) (envs.Outcome, error) {
	var o envs.Outcome
	node := int32(action[0])
	t.ops = t.ops[:0]
	if c.State().Fits(t.current, node) {
		t.ops = append(t.ops, cluster.Op{Kind: cluster.Bind, Pod: t.current, Node: node})
		o.Reward = 1
	}
	t.current++
	o.Terminated = int(t.current) == t.pods
	if !o.Terminated {
		t.ops = append(t.ops, t.arrival())
	}
	if err := c.Apply(ctx, t.ops); err != nil {
		return o, err
	}
	return o, c.Advance(ctx, time.Second)
}

func (t *placement) Observe(s *cluster.State, obs []float32, mask []bool) {
	var want cluster.Resources
	last := int(t.current) == t.pods
	if !last {
		want = s.Pods[t.current].Requests
	}
	cpu, mem := float32(want.MilliCPU), float32(want.MemoryBytes)
	for i := range s.Nodes {
		n := &s.Nodes[i]
		row := obs[i*placementFeatures:][:placementFeatures:placementFeatures]
		invCPU, invMem := t.invCPU[i], t.invMem[i]
		row[0] = float32(n.Requested.MilliCPU) * invCPU
		row[1] = float32(n.Requested.MemoryBytes) * invMem
		row[2], row[3] = 1-row[0], 1-row[1]
		row[4], row[5] = cpu*invCPU, mem*invMem
		row[6] = float32(n.NumPods) / 100
	}
	if !last {
		s.FitMask(t.current, mask)
	}
	if last || !slices.Contains(mask, true) {
		space.PermitAll(mask)
	}
}
