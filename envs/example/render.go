package example

import (
	"fmt"
	"image"
	"image/color"
	"image/draw"
	"strings"

	"github.com/kubernasium/kubernasium/envs"
	"github.com/kubernasium/kubernasium/envs/cluster"
)

var _ envs.Renderer = (*Task)(nil)

// RenderANSI implements [envs.Renderer]: a line for each node.
func (t *Task) RenderANSI(s *cluster.State) string {
	var b strings.Builder
	fmt.Fprintf(&b, "pod %d of %d, %d pending\n", min(t.next+1, len(t.requests)), len(t.requests), t.pending)
	for i := range s.Nodes {
		n := &s.Nodes[i]
		fmt.Fprintf(&b, "node %-3d %2d pods, %3.0f %% of CPU, %3.0f %% of memory\n", i, n.NumPods,
			100*share(n.Requested.MilliCPU, capacity.MilliCPU), 100*share(n.Requested.MemoryBytes, capacity.MemoryBytes))
	}
	return b.String()
}

// Sizes of the image in pixels.
const (
	barWidth  = 24
	barHeight = 100
)

// RenderRGB implements [envs.Renderer]: a bar for each node, as high as its CPU is requested.
func (t *Task) RenderRGB(s *cluster.State) *image.RGBA {
	img := image.NewRGBA(image.Rect(0, 0, t.opts.Nodes*barWidth, barHeight))
	draw.Draw(img, img.Bounds(), image.White, image.Point{}, draw.Src)
	for i := range s.Nodes {
		high := int(barHeight * share(s.Nodes[i].Requested.MilliCPU, capacity.MilliCPU))
		bar := image.Rect(i*barWidth+1, barHeight-high, (i+1)*barWidth-1, barHeight)
		draw.Draw(img, bar, image.NewUniform(color.RGBA{0x00, 0x44, 0x88, 255}), image.Point{}, draw.Src)
	}
	return img
}
