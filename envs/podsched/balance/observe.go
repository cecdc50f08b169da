package balance

import (
	"github.com/kubernasium/kubernasium/envs/cluster"
	"github.com/kubernasium/kubernasium/envs/podsched/deployments"
	"github.com/kubernasium/kubernasium/envs/podsched/imbalance"
	"github.com/kubernasium/kubernasium/envs/podsched/topology"
	"github.com/kubernasium/kubernasium/envs/space"
)

// Numbers of features, of a node and of the pod, without hints and costs.
const (
	nodeFeatures = 16
	podFeatures  = 7
)

// numEdges returns the number of directed edges of the observation: from each node to each other node of its rack.
func (t *Task) numEdges() int {
	if t.opts.Edges == EdgesNone {
		return 0
	}
	return topology.NumEdges(t.opts.Nodes, t.opts.ServersPerRack)
}

// Observe implements [envs.Task]. At the end of an episode there is no pod: its elements are 0, and everything is
// permitted. The replicas of nodes and racks are those of the last pod's deployment, as 0 or 1.
func (t *Task) Observe(s *cluster.State, obs []float32, mask []bool) {
	ended := t.pod == noPod
	p := *t.spec
	if ended {
		p = deployments.Pod{Replicas: 1}
		space.PermitAll(mask)
	} else {
		s.FitMask(t.pod, mask)
	}
	cpu, memory, all := t.shares(s, &p)
	n, width, podWidth := len(s.Nodes), len(t.names.node), len(t.names.pod)
	invReplicas, taken := 1/float64(p.Replicas), p.Counted()
	imbalance.Shares(t.scratch.rackShare, t.scratch.rackCPU, t.scratch.rackCapacity)
	lowCPU, widthCPU := cpu.Scale()
	lowMemory, widthMemory := memory.Scale()
	for i := range n {
		row := (*[nodeFeatures]float32)(obs[i*width:])
		*row = t.rows[i]
		rack := t.rackOf[i]
		row[5], row[6] = imbalance.Share(float64(taken.MilliCPU)*t.invCPU[i]), imbalance.Share(float64(taken.MemoryBytes)*t.invMemory[i])
		row[9] = imbalance.Share(float64(t.onNode[i]) * invReplicas)
		row[10] = imbalance.Share(float64(t.onRack[rack]) * invReplicas)
		row[11] = t.scratch.rackShare[rack]
		if mask[i] && !ended {
			row[13] = 1
		}
		row[14], row[15] = imbalance.Share((t.scratch.cpu[i]-lowCPU)/widthCPU), imbalance.Share((t.scratch.memory[i]-lowMemory)/widthMemory)
	}
	rest := obs[n*width:]
	t.observePod(all, rest[:podWidth:podWidth], &p, ended)
	if t.forecast != nil {
		t.forecast.Observe(obs[:n*width], rest[:podWidth], mask, ended)
	}
	if t.opts.Costs {
		for i := range n { // without a pod the features are 0
			obs[(i+1)*width-1] = 0
		}
		if !ended {
			imbalance.ObserveCosts(obs[:n*width], rest[:podWidth], t.costs(s), mask)
		}
	}
	if len(rest) > podWidth {
		t.observeEdges(rest[podWidth:])
	}
}

// shares writes to scratch the shares that the nodes would have with the pod, as the objective balance measures them,
// and the racks' requested CPU. It returns the ranges of the shares, and the contents of all nodes together. It updates
// the rows of nodes that have changed.
func (t *Task) shares(s *cluster.State, p *deployments.Pod) (cpu, memory imbalance.Range, all contents) {
	w := &t.scratch
	taken, usage := p.Counted(), t.opts.Measure == MeasureUsage
	cpu, memory = imbalance.NewRange(), imbalance.NewRange()
	for i := range s.Nodes {
		n, extra := &s.Nodes[i], t.extra[i]
		counted, last := n.Requested.Plus(extra), &t.shown[i]
		all.counted, all.pods = all.counted.Plus(counted), all.pods+n.NumPods
		if counted != last.counted || n.Usage != last.usage || n.NumPods != last.pods {
			w.rackCPU[t.rackOf[i]] += float64(counted.MilliCPU - last.counted.MilliCPU)
			*last = contents{counted, n.Usage, n.NumPods}
			t.observeNode(&t.rows[i], i)
		}
		amount := n.Requested
		if usage {
			amount = n.Usage
		}
		w.cpu[i] = float64(amount.MilliCPU+extra.MilliCPU+taken.MilliCPU) * t.invCPU[i]
		w.memory[i] = float64(amount.MemoryBytes+extra.MemoryBytes+taken.MemoryBytes) * t.invMemory[i]
		cpu.Include(w.cpu[i])
		memory.Include(w.memory[i])
	}
	return cpu, memory, all
}

// contents holds the state of a node that its own elements of the observation depend on, in addition to its size.
type contents struct {
	counted, usage cluster.Resources // requests as scores count them
	pods           int32
}

// observeNode writes the elements that depend only on the contents of node i.
func (t *Task) observeNode(row *[nodeFeatures]float32, i int) {
	n, cpu, memory := &t.shown[i], t.invCPU[i], t.invMemory[i]
	row[0] = imbalance.Share(float64(n.counted.MilliCPU) * cpu)
	row[1] = imbalance.Share(float64(n.counted.MemoryBytes) * memory)
	row[2] = imbalance.Share(float64(n.usage.MilliCPU) * cpu)
	row[3] = imbalance.Share(float64(n.usage.MemoryBytes) * memory)
	row[4] = imbalance.Share(float64(n.pods) / maxPods)
	row[12] = 0
	if n.pods > 0 {
		row[12] = 1
	}
}

func (t *Task) observePod(all contents, row []float32, p *deployments.Pod, ended bool) {
	cpu, memory := t.loads(all.counted)
	pods := float64(all.pods) / float64(maxPods*t.opts.Nodes)
	taken := p.Counted()
	row[0] = imbalance.Share(float64(taken.MilliCPU) / float64(t.largest.MilliCPU))
	row[1] = imbalance.Share(float64(taken.MemoryBytes) / float64(t.largest.MemoryBytes))
	row[2] = imbalance.Share(float64(p.Replicas) / float64(t.maxReplicas))
	row[3] = imbalance.Share(float64(p.Replica) / float64(p.Replicas))
	row[4], row[5], row[6] = imbalance.Share(cpu), imbalance.Share(memory), imbalance.Share(pods)
	if ended {
		row[2] = 0
		clear(row[podFeatures:])
	}
}

// costs returns the cost of binding the pod to each node, with the objective balance. It overwrites scratch.
func (t *Task) costs(s *cluster.State) []float64 {
	cpu, memory := t.compared(s)
	imbalance.Costs(t.scratch.cost, cpu, memory)
	return t.scratch.cost
}

// observeEdges writes the edges, source and target, and a mask of ones.
func (t *Task) observeEdges(dst []float32) {
	e := t.numEdges()
	topology.WriteEdges(dst[:2*e], t.opts.Nodes, t.opts.ServersPerRack)
	for i := range dst[2*e:] {
		dst[2*e+i] = 1
	}
}
