package gpu

import (
	"cmp"
	"fmt"
	"image"
	"slices"
	"strings"

	"github.com/kubernasium/kubernasium/envs/cluster"
)

// ansiNodes is the maximum number of nodes that RenderANSI shows; the fullest come first.
const ansiNodes = 40

// RenderANSI implements [envs.Renderer]: a line for each node with bars of its CPU, its memory
// and each of its GPUs in use.
func (t *Task) RenderANSI(s *cluster.State) string {
	var out strings.Builder
	b := &t.inventory
	fmt.Fprintf(&out, "arrived %.1f %%  allocated %.1f %%  fragmented %.1f %%  placed %d  failed %d  waiting %d\n",
		t.percent(float64(t.arrived)), t.percent(float64(b.Used.MilliGPU)), t.percent(b.Frag.Amount(b.Wasted)), t.placedPods, t.failed, len(t.queue))
	if t.current >= 0 {
		c := t.class(t.current)
		fmt.Fprintf(&out, "pod %d wants %s\n", t.current, c.Describe())
	}
	order := make([]int32, len(b.Nodes))
	for i := range order {
		order[i] = int32(i)
	}
	if len(order) > ansiNodes {
		slices.SortStableFunc(order, func(i, j int32) int { return cmp.Compare(b.Nodes[j].Pods, b.Nodes[i].Pods) })
		fmt.Fprintf(&out, "the %d nodes with the most pods of %d:\n", ansiNodes, len(order))
		order = order[:ansiNodes]
	}
	fmt.Fprintf(&out, "  %-24s %-8s %4s  %-10s %-10s GPUs\n", "node", "model", "pods", "CPU", "memory")
	for _, i := range order {
		mark := ' '
		if t.fits(i) {
			mark = '*'
		}
		fmt.Fprintf(&out, "%c %-24s %-8s %4d  %s\n", mark, s.NodeName(i), t.nodes[i].Model, b.Nodes[i].Pods, b.Bars(i))
	}
	return out.String()
}

// RenderRGB implements [envs.Renderer]: the heat map of the inventory, whose first cells show whether the pod fits.
func (t *Task) RenderRGB(*cluster.State) *image.RGBA {
	return t.inventory.Draw(t.src.Size(), maxNodeGPUs, t.fits)
}

// fits reports whether there is a pod to place that fits a node.
func (t *Task) fits(node int32) bool {
	return t.current >= 0 && t.inventory.Fits(t.class(t.current), node)
}
