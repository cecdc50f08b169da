package gpushare

// WholeGPUs counts wholly free GPUs.
type WholeGPUs struct {
	OfNode  []int64
	OfModel [64]int64 // as many models as a class has bits for
	All     int64
}

// Count counts the wholly free GPUs of b.
func (w *WholeGPUs) Count(b *Inventory) {
	w.OfNode, w.OfModel, w.All = w.OfNode[:0], [64]int64{}, 0
	for i := range b.Nodes {
		whole := int64(0)
		for _, free := range b.SortedOf(int32(i)) {
			if free < WholeGPU {
				break
			}
			whole++
		}
		w.OfNode = append(w.OfNode, whole)
		if m := b.Nodes[i].Model; m >= 0 {
			w.OfModel[m] += whole
		}
		w.All += whole
	}
}

// Nodes returns how many of the nodes of the counted b have at least so many wholly free GPUs and free milli-CPU.
func (w *WholeGPUs) Nodes(b *Inventory, gpus, milliCPU int64) (n int64) {
	for i, whole := range w.OfNode {
		if whole >= gpus && b.Nodes[i].CPU >= milliCPU {
			n++
		}
	}
	return n
}

// WholeOf returns how many of the given devices of node i are wholly free.
func (b *Inventory) WholeOf(i int32, devices uint64) (whole int64) {
	free := b.DevicesOf(i)
	for d := devices; d != 0; d &= d - 1 {
		if free[lowest(d)] == WholeGPU {
			whole++
		}
	}
	return whole
}
