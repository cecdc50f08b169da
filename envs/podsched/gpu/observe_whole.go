package gpu

import "github.com/kubernasium/kubernasium/envs/podsched/gpushare"

// The last columns of a row of the leaf nodes with option whole_gpus.
const (
	wholeFree   = iota // wholly free GPUs, over 8
	wholeAfter         // the same after the placement
	wholeSupply        // of the wholly free GPUs, those of the node's model

	numWholeFeatures
)

// wholeKinds are nodes that option whole_gpus counts, by what they have at least. Pods that want several whole GPUs are the first
// that fit nowhere; most of the published pods with eight want 64.2 or 88 cores.
var wholeKinds = [...]struct {
	name           string
	gpus, milliCPU int64
}{
	{"nodes_with_1_whole_gpu", 1, 0}, {"nodes_with_2_whole_gpus", 2, 0}, {"nodes_with_4_whole_gpus", 4, 0}, {"nodes_with_8_whole_gpus", 8, 0},
	{"nodes_with_8_whole_gpus_64.2_cores", 8, 64200}, {"nodes_with_8_whole_gpus_88_cores", 8, 88000},
}

// The last elements of the leaf pod with option whole_gpus: the parts of the nodes of wholeKinds, and
const (
	wholeOfCluster = len(wholeKinds) // wholly free GPUs, over the cluster's

	numWholePodFeatures = wholeOfCluster + 1
)

// observeWholeGPUs writes the columns and elements of option whole_gpus.
func (t *Task) observeWholeGPUs(nodes, pod []float32) {
	b, w := &t.inventory, &t.watch.whole
	w.Count(b)
	for k, kind := range wholeKinds {
		pod[k] = part(w.Nodes(b, kind.gpus, kind.milliCPU), int64(len(b.Nodes)))
	}
	pod[wholeOfCluster] = part(w.All*gpushare.WholeGPU, b.Size.MilliGPU)

	var table []gpushare.Outcome
	if t.current >= 0 {
		table = t.table.Row(t.class(t.current))
	}
	features := t.nodeFeatures()
	for i, whole := range w.OfNode {
		row := nodes[(i+1)*features-numWholeFeatures:][:numWholeFeatures]
		row[wholeFree], row[wholeSupply] = part(whole, maxNodeGPUs), 0
		if m := b.Nodes[i].Model; m >= 0 {
			row[wholeSupply] = part(w.OfModel[m], w.All)
		}
		if table != nil {
			whole -= b.WholeOf(int32(i), table[i].Devices) // none where the pod does not fit
		}
		row[wholeAfter] = part(whole, maxNodeGPUs)
	}
}
