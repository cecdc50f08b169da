// Package neighbours draws the surroundings of a controller's pods: pods of other controllers on their node, the size
// of the node, and faults of the controller's own pods.
package neighbours

import (
	"slices"

	"github.com/kubernasium/kubernasium/envs/cluster"
	"github.com/kubernasium/kubernasium/envs/vpa/node"
)

// Neighbour is a pod of another controller on the node. Its requests and limits do not change.
type Neighbour struct {
	Demand           []cluster.Resources // history, then a sample for each step
	Requests, Limits cluster.Resources
	Mean             float64 // demand over the history in cores, with memory at its price
}

// Fault is a defect of a container, from one step to another or until the container restarts.
type Fault struct {
	Pod      int     // of the controller
	From, To int     // steps
	Spin     float64 // millicores that it wastes
	Leak     float64 // additional bytes in each step
}

// Node is the node of an episode, with its neighbours and faults.
type Node struct {
	Capacity   cluster.Resources
	History    int // samples of demand before the episode
	Neighbours []Neighbour
	Faults     []Fault
}

// Allocatable returns the amounts that pods can request: the capacity less the eviction threshold.
func (n *Node) Allocatable() cluster.Resources {
	left := n.Capacity
	left.MemoryBytes = max(left.MemoryBytes-node.EvictionThreshold, 0)
	return left
}

// Clone returns a deep copy.
func (n *Node) Clone() Node {
	c := *n
	c.Neighbours, c.Faults = slices.Clone(n.Neighbours), slices.Clone(n.Faults)
	for i := range c.Neighbours {
		c.Neighbours[i].Demand = slices.Clone(c.Neighbours[i].Demand)
	}
	return c
}
