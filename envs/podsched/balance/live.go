package balance

import (
	"fmt"
	"slices"

	"github.com/kubernasium/kubernasium/envs"
	"github.com/kubernasium/kubernasium/envs/cluster"
	"github.com/kubernasium/kubernasium/envs/podsched/deployments"
	"github.com/kubernasium/kubernasium/envs/podsched/topology"
)

var _ envs.Live = (*Task)(nil)

// newLive returns a task for a running cluster with the given number of nodes.
func newLive(opts map[string]any, nodes int) (envs.Live, error) {
	o := DefaultOptions()
	if err := envs.DecodeOptions(opts, &o); err != nil {
		return nil, err
	}
	o.Nodes, o.Deployments, o.Trace = nodes, "", ""
	if o.Hints != HintsNone {
		return nil, fmt.Errorf("%w: hints %s, want %s: a running cluster does not tell how long its pods run", envs.ErrInvalidOption, o.Hints, HintsNone)
	}
	src, err := newSource(o)
	if err != nil {
		return nil, err
	}
	return newTask(src), nil
}

// Attend implements [envs.Live]. It treats a pod without a controller as a deployment of its own.
func (t *Task) Attend(s *cluster.State, d envs.Decision) error {
	switch n := t.opts.Nodes; {
	case len(s.Nodes) != n:
		return fmt.Errorf("balance: %d nodes, want the %d that the task was made for", len(s.Nodes), n)
	case uint(d.Pod) >= uint(len(s.Pods)) || s.Pods[d.Pod].Phase != cluster.Pending:
		return fmt.Errorf("balance: pod %d of %d, want one that is pending", d.Pod, len(s.Pods))
	}
	if err := t.setRacks(d.Racks); err != nil {
		return err
	}
	for i := range s.Nodes {
		t.in.Nodes[i] = s.Nodes[i].Allocatable
	}
	t.noteSizes()
	clear(t.onNode)
	clear(t.onRack)
	for _, i := range d.Siblings {
		node := s.Pods[i].Node
		t.onNode[node]++
		t.onRack[t.rackOf[node]]++
	}
	clear(t.extra)
	copy(t.extra, d.Extra)
	replicas := max(d.Replicas, len(d.Siblings)+1)
	t.attended = deployments.Pod{Requests: s.Pods[d.Pod].Requests, Usage: s.Pods[d.Pod].Requests, Extra: d.PodExtra, Replica: int32(len(d.Siblings)), Replicas: int32(replicas)}
	t.spec, t.pod, t.world = &t.attended, d.Pod, s
	t.stats.decisions++ // so that round-robin baselines continue
	return nil
}

// setRacks sets the rack of each node; without racks, the rack follows from the node's index.
func (t *Task) setRacks(racks []int32) error {
	n := t.opts.Nodes
	if racks != nil && len(racks) != n {
		return fmt.Errorf("balance: racks of %d nodes, want %d", len(racks), n)
	}
	for i := range t.rackOf {
		rack := int32(topology.Rack(i, t.opts.ServersPerRack))
		if racks != nil {
			if t.opts.Edges == EdgesRack && racks[i] != rack {
				return fmt.Errorf("balance: node %d stands in rack %d: with edges:%s racks are of %d nodes in their order, want %d",
					i, racks[i], EdgesRack, t.opts.ServersPerRack, rack)
			}
			if racks[i] < 0 || int(racks[i]) >= n {
				return fmt.Errorf("balance: node %d stands in rack %d, want 0 to %d", i, racks[i], n-1)
			}
			rack = racks[i]
		}
		t.rackOf[i] = rack
	}
	if num := int(slices.Max(t.rackOf)) + 1; num != len(t.onRack) {
		t.sizeRacks(num)
	}
	return nil
}

// Devices implements [envs.Live]: for a pod that wants GPUs, those of lowest index.
func (t *Task) Devices(node int32) uint64 {
	devices, _ := t.world.PickDevices(t.pod, node) // none where it does not fit
	return devices
}
