package world

import (
	"context"
	"strconv"
	"time"

	"github.com/kubernasium/kubernasium/envs/cluster"
	"github.com/kubernasium/kubernasium/envs/lra"
)

// Resources of a container and, times the slots, of a node.
const (
	containerMilliCPU = 2000
	containerMemory   = 8 << 30
)

// addNodes sets ops to those that create the nodes, or returns an error if ctx ends.
func (e *Episode) addNodes(ctx context.Context, c cluster.Cluster) error {
	if e.meta == nil {
		meta := Intern(ctx, c, len(e.x))
		if err := ctx.Err(); err != nil {
			return err
		}
		e.meta = meta
	}
	e.ops = e.ops[:0]
	for i, k := range e.src.Class {
		e.ops = append(e.ops, AddNode(e.meta[i], e.src.Kinds[k].Plan.Class.Slots))
	}
	return nil
}

// checkEvery is the number of nodes between checks of the context.
const checkEvery = 1 << 10

// Intern enters the metadata of n nodes and of the applications and returns the indices; fewer if ctx ends.
func Intern(ctx context.Context, c cluster.Cluster, n int) []int32 {
	meta := make([]int32, 0, n+lra.NumApps)
	for i := range n {
		if i%checkEvery == 0 && ctx.Err() != nil {
			break
		}
		meta = append(meta, c.State().Intern(cluster.Meta{Name: "node-" + strconv.Itoa(i)}))
	}
	for _, app := range lra.Apps {
		meta = append(meta, c.State().Intern(cluster.Meta{Name: app}))
	}
	return meta
}

// AddNode returns the op that creates a node.
func AddNode(meta int32, slots int) cluster.Op {
	return cluster.Op{
		Kind: cluster.AddNode, Meta: meta, MaxPods: int32(slots),
		Resources: cluster.Resources{MilliCPU: int64(slots) * containerMilliCPU, MemoryBytes: int64(slots) * containerMemory},
	}
}

// addPod returns the op that creates the pod of a container.
func (e *Episode) addPod(pod, app int, lifetime time.Duration) cluster.Op {
	return AddPod(pod, e.meta[len(e.x)+app], lifetime)
}

// AddPod returns the op that creates the pod of a container with the metadata of its application; a lifetime of 0 is
// for ever.
func AddPod(pod int, meta int32, lifetime time.Duration) cluster.Op {
	return cluster.Op{
		Kind: cluster.AddPod, Pod: int32(pod), Meta: meta, Duration: lifetime,
		Resources: cluster.Resources{MilliCPU: containerMilliCPU, MemoryBytes: containerMemory},
	}
}
