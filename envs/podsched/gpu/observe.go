package gpu

import (
	"github.com/kubernasium/kubernasium/envs/cluster"
	"github.com/kubernasium/kubernasium/envs/podsched/gpushare"
	"github.com/kubernasium/kubernasium/envs/space"
)

// Columns of a row of the leaf nodes. Those of a node alone come first; they are kept between
// observations until the node changes.
const (
	nodeCPU        = iota // free over allocatable
	nodeMemory            // likewise
	nodeGPU               // free over all of the node's devices
	nodeCPUSize           // free over 128 cores
	nodeMemorySize        // free over 1 TiB
	nodeGPUSize           // free over 8 devices
	nodePods              // running, over 100
	nodeFrag              // fragmentation over the node's devices
	nodeDevices           // 8 columns: free share of each device, in descending order

	numOwnFeatures = nodeDevices + maxNodeGPUs
)

// The columns that depend on the pod too.
const (
	nodeFits     = numOwnFeatures + iota
	nodeCPUTaken // of what is free, by the pod
	nodeGPUTaken // likewise
	nodeLeft     // of the shared device, after
	nodePressure // on the node's GPU model, over 2
	nodeSupply   // of the node's GPU model, among what is free in the cluster

	numPlainFeatures
)

// The columns of option scores.
const (
	nodeGain    = numPlainFeatures + iota // sigmoid of the fragmentation that the placement takes away, in GPUs
	nodeFGD                               // the same, truncated to hundredths: the score of FGD over 100
	nodeBestFit                           // score of BestFit over 100

	numScoreFeatures = iota
)

// Elements of the leaf pod.
const (
	podCPU         = iota // over 128 cores
	podMemory             // over 1 TiB
	podGPUs               // devices over 8
	podMilliGPU           // of each device
	podShares             // part of a device
	podWithoutGPU         //
	podConstrained        // to GPU models
	podAccessible         // of the free GPUs, those on its models
	podFitting            // of the nodes, those where it fits
	podDeferred           // times put off, over 10
	podWaited             // hours, over 24
	clusterArrived        // GPUs requested so far, over twice the cluster's
	clusterAlloc          // GPUs allocated
	clusterFrag           // fragmentation over the cluster's GPUs
	clusterCPU            // allocated
	clusterMemory         // allocated
	clusterQueue          // pods put off or waiting, over 100
	outlookCPUOnly        // part of the pods to come without GPUs
	outlookSharing        // … that share one
	outlookBound          // … bound to GPU models

	numPodFeatures
)

// nodeFeatures returns the number of columns of the leaf nodes.
func (t *Task) nodeFeatures() int {
	n := numPlainFeatures
	if t.opts.Scores {
		n += numScoreFeatures
	}
	if t.opts.WholeGPUs {
		n += numWholeFeatures
	}
	return n
}

// podFeatures returns the number of elements of the leaf pod.
func (t *Task) podFeatures() int {
	if t.opts.WholeGPUs {
		return numPodFeatures + numWholePodFeatures
	}
	return numPodFeatures
}

// views keeps the rows of nodes.
type views struct {
	rows     []float32
	versions []uint64 // of the nodes when their rows were written; 0 is never
	pressure []float64
	edges    []float32          // of option edges, which an episode does not change, with their mask
	whole    gpushare.WholeGPUs // of option whole_gpus
}

func (v *views) reset(features, nodes int) {
	if len(v.rows) != features*nodes {
		v.rows, v.versions = make([]float32, features*nodes), make([]uint64, nodes)
	}
	clear(v.versions)
}

// Observe implements [envs.Task].
func (t *Task) Observe(s *cluster.State, obs []float32, mask []bool) {
	features, n := t.nodeFeatures(), len(t.nodes)
	v := &t.watch
	for i := range v.versions {
		if version := t.inventory.Nodes[i].Version; v.versions[i] != version {
			v.versions[i] = version
			t.viewNode(int32(i), v.rows[i*features:][:numOwnFeatures])
		}
	}
	copy(obs, v.rows)
	fitting := 0
	if t.current >= 0 {
		fitting = t.observePlacements(obs[:n*features], mask[:n])
	} else {
		for i := range n {
			clear(obs[i*features+numOwnFeatures : (i+1)*features])
		}
		clear(mask)
	}
	if t.opts.Defer {
		mask[n] = t.mayDefer()
	}
	if fitting == 0 { // the end of an episode, whose actions no longer count
		space.PermitAll(mask)
	}
	rest := obs[n*features:]
	pods := t.podFeatures()
	t.observePod(s, fitting, rest[:numPodFeatures])
	if t.opts.WholeGPUs {
		t.observeWholeGPUs(obs[:n*features], rest[numPodFeatures:pods])
	}
	copy(rest[pods:], v.edges)
}

// viewNode writes the columns of a node alone.
func (t *Task) viewNode(i int32, row []float32) {
	n := &t.inventory.Nodes[i]
	row[nodeCPU], row[nodeMemory], row[nodeGPU] = part(n.CPU, n.AllCPU), part(n.Memory, n.AllMemory), part(n.GPU, int64(n.Devices)*gpushare.WholeGPU)
	row[nodeCPUSize], row[nodeMemorySize], row[nodeGPUSize] = part(n.CPU, gpushare.MaxMilliCPU), part(n.Memory, maxMemoryMiB), part(n.GPU, gpushare.MaxMilliGPU)
	row[nodePods] = part(int64(n.Pods), 100)
	row[nodeFrag] = 0
	if n.Devices > 0 {
		row[nodeFrag] = clip(float32(t.inventory.Frag.Amount(n.Frag) / float64(n.Devices*gpushare.WholeGPU)))
	}
	devices := row[nodeDevices:][:maxNodeGPUs]
	clear(devices)
	for k, f := range t.inventory.SortedOf(i) {
		devices[k] = float32(f) * (1. / gpushare.WholeGPU)
	}
}

// observePlacements writes the columns that depend on the pod, and the mask, and returns the
// number of nodes where the pod fits.
func (t *Task) observePlacements(obs []float32, mask []bool) (fitting int) {
	c := t.class(t.current)
	table := t.table.Row(c)
	v := &t.watch
	if len(v.pressure) != len(t.inventory.FreeOf) {
		v.pressure = make([]float64, len(t.inventory.FreeOf))
	}
	t.in.Outlook.Reserve.Pressure(&t.inventory, c, v.pressure)
	free := t.inventory.Size.MilliGPU - t.inventory.Used.MilliGPU
	features := t.nodeFeatures()
	nodes := t.inventory.Nodes[:len(table)]
	for i := range nodes {
		n, p := &nodes[i], &table[i]
		row := obs[i*features:][:features]
		mask[i] = p.Fits
		row[nodeFits] = 0
		if p.Fits {
			row[nodeFits] = 1
			fitting++
		}
		row[nodeCPUTaken], row[nodeGPUTaken] = part(c.MilliCPU, n.CPU), part(c.TotalMilliGPU(), n.GPU)
		row[nodeLeft] = p.Left
		row[nodePressure], row[nodeSupply] = 0, 0
		if n.Model >= 0 {
			row[nodePressure] = float32(v.pressure[n.Model]) * (1. / gpushare.MaxPressure)
			row[nodeSupply] = part(t.inventory.FreeOf[n.Model], free)
		}
		if t.opts.Scores {
			row[nodeGain], row[nodeFGD], row[nodeBestFit] = p.Gain, p.FGD, p.BestFit
		}
	}
	return fitting
}

// maxMemoryMiB is what memory is scaled by: that of the largest node of the trace.
const maxMemoryMiB = 1 << 20

// observePod writes the leaf pod.
func (t *Task) observePod(s *cluster.State, fitting int, obs []float32) {
	b := &t.inventory
	clear(obs)
	if t.current >= 0 {
		c := t.class(t.current)
		obs[podCPU], obs[podMemory] = part(c.MilliCPU, gpushare.MaxMilliCPU), part(c.MemoryMiB, maxMemoryMiB)
		obs[podGPUs], obs[podMilliGPU] = part(int64(c.GPUs), maxNodeGPUs), part(int64(c.MilliGPU), gpushare.WholeGPU)
		obs[podShares], obs[podWithoutGPU], obs[podConstrained] = bit(c.Sharing()), bit(c.GPUs == 0), bit(c.Models != "")
		var accessible int64
		for m, free := range b.FreeOf {
			if c.ModelSet>>m&1 != 0 {
				accessible += free
			}
		}
		obs[podAccessible] = part(accessible, b.Size.MilliGPU-b.Used.MilliGPU)
		obs[podFitting] = part(int64(fitting), int64(len(b.Nodes)))
		obs[podDeferred] = part(int64(t.defers[t.current]), 10)
		obs[podWaited] = clip(float32((s.Now - t.in.Arrivals[t.current].At).Hours() / 24))
	}
	obs[clusterArrived] = part(t.arrived, 2*b.Size.MilliGPU)
	obs[clusterAlloc] = part(b.Used.MilliGPU, b.Size.MilliGPU)
	obs[clusterFrag] = clip(float32(b.Frag.Amount(b.Wasted) / float64(b.Size.MilliGPU)))
	obs[clusterCPU], obs[clusterMemory] = part(b.Used.MilliCPU, b.Size.MilliCPU), part(b.Used.MemoryMiB, b.Size.MemoryMiB)
	obs[clusterQueue] = part(int64(len(t.queue)), 100)
	for k, x := range t.in.Outlook.Kinds {
		obs[outlookCPUOnly+k] = clip(float32(x))
	}
}

// part returns a/b within [0, 1], and 0 for nothing of nothing.
func part(a, b int64) float32 {
	if a <= 0 {
		return 0
	}
	if a >= b {
		return 1
	}
	return float32(a) / float32(b)
}

func clip(x float32) float32 { return min(max(x, 0), 1) }

func bit(b bool) float32 {
	if b {
		return 1
	}
	return 0
}
