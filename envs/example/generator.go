package example

import (
	"context"
	"math/rand/v2"
	"strconv"

	"github.com/kubernasium/kubernasium/envs/cluster"
)

// capacity holds the resources of a node.
var capacity = cluster.Resources{MilliCPU: 4000, MemoryBytes: 8 << 30}

// Begin implements [envs.Task].
func (t *Task) Begin(ctx context.Context, c cluster.Cluster, rng *rand.Rand) error {
	t.requests = t.requests[:0]
	for range t.opts.Pods {
		t.requests = append(t.requests, cluster.Resources{MilliCPU: 500 << rng.IntN(3), MemoryBytes: 1 << 30 << rng.IntN(3)})
	}
	t.next, t.used, t.pending = 0, 0, 0
	t.ops = t.ops[:0]
	if t.nodeMeta == nil {
		for i := range t.opts.Nodes {
			t.nodeMeta = append(t.nodeMeta, c.State().Intern(cluster.Meta{Name: "node-" + strconv.Itoa(i)}))
		}
		t.podMeta = c.State().Intern(cluster.Meta{Name: "pod"})
	}
	for _, meta := range t.nodeMeta {
		t.ops = append(t.ops, cluster.Op{Kind: cluster.AddNode, Meta: meta, Resources: capacity})
	}
	t.ops = append(t.ops, t.arrival())
	return c.Apply(ctx, t.ops)
}

// arrival returns the op that makes the next pod.
func (t *Task) arrival() cluster.Op {
	return cluster.Op{Kind: cluster.AddPod, Meta: t.podMeta, Resources: t.requests[t.next]}
}
