package balance

import (
	"fmt"
	"image"
	"image/color"
	"image/draw"
	"strings"

	"github.com/kubernasium/kubernasium/envs/cluster"
	"github.com/kubernasium/kubernasium/envs/podsched/topology"
)

// barWidth is the number of cells of a bar.
const barWidth = 20

// RenderANSI implements [envs.Renderer]: the pod to place, and a line for each node with bars
// of its requested CPU and memory, its pods, and whether the pod fits it.
func (t *Task) RenderANSI(s *cluster.State) string {
	var b strings.Builder
	a := &t.stats
	fmt.Fprintf(&b, "phase %d of %d  placed %d  failed %d  imbalance %.2f %%  sd of pods %.2f  time %v\n",
		t.phase+1, t.opts.Resets, a.placed, a.failed, a.now.imbalance, a.now.sdPods, s.Now)
	if t.pod == noPod {
		b.WriteString("no pod to place: the episode has ended\n")
	} else {
		fmt.Fprintf(&b, "to place: replica %d of %d of %s, %v\n", t.spec.Replica+1, t.spec.Replicas,
			s.Meta(s.Pods[t.pod].Meta).Name, t.spec.Requests)
	}
	fmt.Fprintf(&b, "%-12s %-9s %-*s  %-*s  %4s  %s\n", "node", "rack", barWidth+7, "cpu", barWidth+7, "memory", "pods", "fits")
	for i := range s.Nodes {
		n := &s.Nodes[i]
		cpu, memory := float64(n.Requested.MilliCPU)*t.invCPU[i], float64(n.Requested.MemoryBytes)*t.invMemory[i]
		fits := ""
		if t.pod != noPod && s.Fits(t.pod, int32(i)) {
			fits = "yes"
		}
		fmt.Fprintf(&b, "%-12s %-9s %s  %s  %4d  %s\n", s.NodeName(int32(i)), topology.RackName(i, t.opts.ServersPerRack),
			bar(cpu), bar(memory), n.NumPods, fits)
	}
	return b.String()
}

// bar returns a share as a bar and in percent.
func bar(x float64) string {
	full := int(min(max(x, 0), 1)*barWidth + 0.5)
	return fmt.Sprintf("%s%s %5.1f%%", strings.Repeat("█", full), strings.Repeat("·", barWidth-full), 100*x)
}

// Sizes of the image in pixels.
const (
	cellSize    = 24
	imageMargin = 8
	nodesPerRow = 32
	cellRows    = 3 // CPU, memory, pods
)

// RenderRGB implements [envs.Renderer]: a heat map with a column for each node, 32 in a row. A column has three cells
// from top to bottom: requested CPU, requested memory, and pods over their maximum. White is empty, dark red is full.
func (t *Task) RenderRGB(s *cluster.State) *image.RGBA {
	n := t.opts.Nodes
	blocks := (n + nodesPerRow - 1) / nodesPerRow
	img := image.NewRGBA(image.Rect(0, 0, 2*imageMargin+min(n, nodesPerRow)*cellSize, imageMargin+blocks*(cellRows*cellSize+imageMargin)))
	draw.Draw(img, img.Bounds(), image.NewUniform(color.Gray{0x80}), image.Point{}, draw.Src)
	for i := range s.Nodes {
		node := &s.Nodes[i]
		x := imageMargin + i%nodesPerRow*cellSize
		y := imageMargin + i/nodesPerRow*(cellRows*cellSize+imageMargin)
		for k, v := range [cellRows]float64{
			float64(node.Requested.MilliCPU) * t.invCPU[i],
			float64(node.Requested.MemoryBytes) * t.invMemory[i],
			float64(node.NumPods) / maxPods,
		} {
			cell := image.Rect(x, y+k*cellSize, x+cellSize-1, y+(k+1)*cellSize-1)
			draw.Draw(img, cell, image.NewUniform(heat(v)), image.Point{}, draw.Src)
		}
	}
	return img
}

// heat maps a share to a colour between white and dark red.
func heat(x float64) color.RGBA {
	x = min(max(x, 0), 1)
	mix := func(from, to float64) uint8 { return uint8(from + float64((to-from)*x)) }
	return color.RGBA{mix(255, 128), mix(255, 0), mix(255, 38), 255}
}
