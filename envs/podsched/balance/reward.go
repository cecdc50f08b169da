package balance

import (
	"github.com/kubernasium/kubernasium/envs/cluster"
	"github.com/kubernasium/kubernasium/envs/podsched/deployments"
	"github.com/kubernasium/kubernasium/envs/podsched/imbalance"
)

// measures are the inputs of objectives and diagnostics for one state of the cluster, in percent except for sdPods and
// loads.
type measures struct {
	sdPods, sdCPU, sdMemory float64 // over nodes: of the number of pods, and of shares
	imbalance               float64 // mean of sdCPU and sdMemory
	spread                  float64 // of the replicas of the pod's deployment: mean of the deviations over racks and over nodes
	nodesInUse, racksInUse  float64 // of all
	loadCPU, loadMemory     float64 // requested of the cluster, 0 to 1
}

const percent = 100

// noNode means no node in what-if questions.
const noNode = -1

// measure returns the measures as they would be if the current pod were bound to node, or the current ones with noNode.
// With counted, it uses the requests as scores count them; a node requires counted. It allocates nothing.
func (t *Task) measure(s *cluster.State, node int, counted bool) measures {
	w := &t.scratch
	usage, inUse, requested := t.opts.Measure == MeasureUsage, 0, cluster.Resources{}
	added := t.spec.Compared(usage) // to node, which is always counted
	clear(w.rackInUse)
	for i := range s.Nodes {
		n := &s.Nodes[i]
		requested = requested.Plus(n.Requested)
		amount := n.Requested
		if usage {
			amount = n.Usage
		}
		if counted {
			amount = amount.Plus(t.extra[i])
		}
		num := n.NumPods
		if i == node {
			amount, num = amount.Plus(added), num+1
		}
		w.cpu[i] = float64(amount.MilliCPU) * t.invCPU[i]
		w.memory[i] = float64(amount.MemoryBytes) * t.invMemory[i]
		w.pods[i] = float64(num)
		if num > 0 {
			inUse++
			w.rackInUse[t.rackOf[i]] = 1
		}
	}
	racks := 0
	for _, used := range w.rackInUse {
		racks += int(used)
	}
	t.noteReplicas(node)
	sdPods, sdCPU, sdMemory, sdReplicas := imbalance.SD4(w.pods, w.cpu, w.memory, w.onNode)
	m := measures{sdPods: sdPods, sdCPU: percent * sdCPU, sdMemory: percent * sdMemory}
	m.loadCPU, m.loadMemory = t.loads(requested)
	m.imbalance = (m.sdCPU + m.sdMemory) / 2
	m.spread = percent * (imbalance.SD(w.onRack) + sdReplicas) / 2
	m.nodesInUse = percent * float64(inUse) / float64(len(s.Nodes))
	m.racksInUse = percent * float64(racks) / float64(len(w.rackInUse))
	return m
}

// loads returns the shares of the cluster's CPU and memory.
func (t *Task) loads(sum cluster.Resources) (cpu, memory float64) {
	return float64(sum.MilliCPU) / float64(t.capacity.MilliCPU), float64(sum.MemoryBytes) / float64(t.capacity.MemoryBytes)
}

// noteReplicas records the part of the deployment's replicas in each rack and on each node, with the current pod on
// node.
func (t *Task) noteReplicas(node int) {
	inv := 1 / float64(t.spec.Replicas)
	for i, k := range t.onNode {
		t.scratch.onNode[i] = float64(k) * inv
	}
	for r, k := range t.onRack {
		t.scratch.onRack[r] = float64(k) * inv
	}
	if node != noNode {
		t.scratch.onNode[node] += inv
		t.scratch.onRack[t.rackOf[node]] += inv
	}
}

// rackSkew returns the difference in replicas of the deployment between the fullest and the emptiest rack.
func (t *Task) rackSkew() int32 {
	lo, hi := t.onRack[0], t.onRack[0]
	for _, k := range t.onRack {
		lo, hi = min(lo, k), max(hi, k)
	}
	return hi - lo
}

// An objective gives the cost that a task minimises, in percent. A reward is -cost/unit, to be of the order of 0.1 to
// 1.
type objective struct {
	cost func(measures) float64
	unit float64
}

var objectives = map[string]objective{
	ObjectiveBalance: {func(m measures) float64 { return m.imbalance }, 10},
	ObjectiveSpread:  {func(m measures) float64 { return m.spread }, 10},
	ObjectivePack:    {func(m measures) float64 { return (m.nodesInUse + m.racksInUse) / 2 }, 100},
}

// failurePenalty is subtracted from the reward for each pod that is not placed; no placement costs as much.
const failurePenalty = 10

// costIf returns the cost of the state after binding the current pod to node, with requests as scores count them:
// otherwise pods without requests would cost the same everywhere.
func (t *Task) costIf(s *cluster.State, node int) float64 {
	return t.objective.cost(t.measure(s, node, true))
}

// countPods counts the running replicas of the current pod's deployment on each node and in each rack, and what scores
// add to the requests of running pods.
func (t *Task) countPods(s *cluster.State) {
	if t.src.Recorded != nil {
		t.countRecorded(s)
		return
	}
	if t.hasExtra {
		clear(t.extra)
		for i := range s.Pods {
			if p := &s.Pods[i]; p.Phase == cluster.Running {
				t.extra[p.Node] = t.extra[p.Node].Plus(deployments.Extra(p.Requests))
			}
		}
	}
	clear(t.onNode)
	clear(t.onRack)
	for i := t.first; i < int32(len(s.Pods)); i++ {
		if p := &s.Pods[i]; p.Phase == cluster.Running {
			t.onNode[p.Node]++
			t.onRack[t.rackOf[p.Node]]++
		}
	}
}
