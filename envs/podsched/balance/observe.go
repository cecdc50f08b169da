package balance

import (
	"github.com/kubernasium/kubernasium/envs/cluster"
	"github.com/kubernasium/kubernasium/envs/podsched/deployments"
	"github.com/kubernasium/kubernasium/envs/podsched/imbalance"
	"github.com/kubernasium/kubernasium/envs/podsched/topology"
)

// Numbers of features, of a node and of the pod, without hints.
const (
	nodeFeatures = 16
	podFeatures  = 7
)

// numEdges returns the number of directed edges of the observation: from each node to each other
// of its rack.
func (t *Task) numEdges() int {
	if t.opts.Edges == EdgesNone {
		return 0
	}
	return topology.NumEdges(t.opts.Nodes, t.opts.ServersPerRack)
}

// Observe implements [envs.Task]. At the end of an episode there is no pod: its elements are
// 0, and everything is permitted.
func (t *Task) Observe(s *cluster.State, obs []float32, mask []bool) {
	ended := t.pod == noPod
	p := *t.spec
	if ended {
		p = deployments.Pod{Replicas: 1}
		for i := range mask {
			mask[i] = true
		}
	} else {
		s.FitMask(t.pod, mask)
	}
	cpu, memory := t.shares(s, &p)
	n, width, podWidth := len(s.Nodes), len(t.names.node), len(t.names.pod)
	invReplicas := 1 / float64(p.Replicas)
	imbalance.Shares(t.scratch.rackShare, t.scratch.rackCPU, t.scratch.rackCapacity)
	for i := range s.Nodes {
		row := obs[i*width:][:width:width]
		t.observeNode(row, &s.Nodes[i], i, &p, invReplicas, mask[i] && !ended)
		row[14], row[15] = imbalance.Share(cpu.Position(t.scratch.cpu[i])), imbalance.Share(memory.Position(t.scratch.memory[i]))
	}
	rest := obs[n*width:]
	t.observePod(s, rest[:podWidth:podWidth], &p, ended)
	if t.forecast != nil {
		t.forecast.Observe(obs[:n*width], rest[:podWidth], mask, ended)
	}
	if len(rest) > podWidth {
		t.observeEdges(rest[podWidth:])
	}
}

// shares writes to scratch the shares that the nodes would have with the pod, as the objective
// balance measures them, and the racks' requested CPU; it returns the ranges of the shares.
func (t *Task) shares(s *cluster.State, p *deployments.Pod) (cpu, memory imbalance.Range) {
	w := &t.scratch
	clear(w.rackCPU)
	taken := p.Counted()
	cpu, memory = imbalance.NewRange(), imbalance.NewRange()
	for i := range s.Nodes {
		n := &s.Nodes[i]
		w.rackCPU[t.rackOf[i]] += float64(n.Requested.MilliCPU + t.extra[i].MilliCPU)
		amount := n.Requested
		if t.opts.Measure == MeasureUsage {
			amount = n.Usage
		}
		amount = plus(amount, t.extra[i])
		w.cpu[i] = float64(amount.MilliCPU+taken.MilliCPU) * t.invCPU[i]
		w.memory[i] = float64(amount.MemoryBytes+taken.MemoryBytes) * t.invMemory[i]
		cpu.Include(w.cpu[i])
		memory.Include(w.memory[i])
	}
	return cpu, memory
}

func (t *Task) observeNode(row []float32, n *cluster.Node, i int, p *deployments.Pod, invReplicas float64, fits bool) {
	cpu, memory, rack := t.invCPU[i], t.invMemory[i], t.rackOf[i]
	requested, taken := plus(n.Requested, t.extra[i]), p.Counted()
	row[0] = imbalance.Share(float64(requested.MilliCPU) * cpu)
	row[1] = imbalance.Share(float64(requested.MemoryBytes) * memory)
	row[2] = imbalance.Share(float64(n.Usage.MilliCPU) * cpu)
	row[3] = imbalance.Share(float64(n.Usage.MemoryBytes) * memory)
	row[4] = imbalance.Share(float64(n.NumPods) / maxPods)
	row[5] = imbalance.Share(float64(taken.MilliCPU) * cpu)
	row[6] = imbalance.Share(float64(taken.MemoryBytes) * memory)
	row[7], row[8] = t.sizes[i][0], t.sizes[i][1]
	row[9] = imbalance.Share(float64(t.onNode[i]) * invReplicas)
	row[10] = imbalance.Share(float64(t.onRack[rack]) * invReplicas)
	row[11] = t.scratch.rackShare[rack]
	row[12], row[13] = 0, 0
	if n.NumPods > 0 {
		row[12] = 1
	}
	if fits {
		row[13] = 1
	}
}

func (t *Task) observePod(s *cluster.State, row []float32, p *deployments.Pod, ended bool) {
	cpu, memory, pods := t.loads(s, true)
	taken := p.Counted()
	row[0] = imbalance.Share(float64(taken.MilliCPU) / float64(t.largest.MilliCPU))
	row[1] = imbalance.Share(float64(taken.MemoryBytes) / float64(t.largest.MemoryBytes))
	row[2] = imbalance.Share(float64(p.Replicas) / float64(t.maxReplicas))
	row[3] = imbalance.Share(float64(p.Replica) / float64(p.Replicas))
	row[4], row[5], row[6] = imbalance.Share(cpu), imbalance.Share(memory), imbalance.Share(pods)
	if ended {
		row[2] = 0
	}
}

// observeEdges writes the edges, source and target, and that all of them are there.
func (t *Task) observeEdges(dst []float32) {
	e := t.numEdges()
	topology.WriteEdges(dst[:2*e], t.opts.Nodes, t.opts.ServersPerRack)
	for i := range dst[2*e:] {
		dst[2*e+i] = 1
	}
}
