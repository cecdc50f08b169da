package gpu

import (
	"cmp"
	"fmt"
	"image"
	"image/color"
	"image/draw"
	"slices"
	"strings"

	"github.com/kubernasium/kubernasium/envs/cluster"
	"github.com/kubernasium/kubernasium/envs/podsched/gpushare"
)

// ansiNodes is the most nodes that RenderANSI shows; the fullest come first.
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
		fmt.Fprintf(&out, "pod %d wants %s\n", t.current, describeShape(&c.Shape))
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
		n := &b.Nodes[i]
		mark := ' '
		if t.current >= 0 && b.Fits(t.class(t.current), i) {
			mark = '*'
		}
		fmt.Fprintf(&out, "%c %-24s %-8s %4d  %s %s ", mark, s.NodeName(i), t.nodes[i].Model, n.Pods,
			bar(n.AllCPU-n.CPU, n.AllCPU, 10), bar(n.AllMemory-n.Memory, n.AllMemory, 10))
		for _, f := range b.DevicesOf(i) {
			out.WriteString(level(gpushare.WholeGPU - f))
		}
		out.WriteByte('\n')
	}
	return out.String()
}

// describeShape says what a pod asks for.
func describeShape(s *gpushare.Shape) string {
	text := fmt.Sprintf("%.1f CPU, %.1f GiB", float64(s.MilliCPU)/1000, float64(s.MemoryMiB)/1024)
	switch {
	case s.Sharing():
		text += fmt.Sprintf(", %d/1000 of a GPU", s.MilliGPU)
	case s.GPUs > 0:
		text += fmt.Sprintf(", %d GPUs", s.GPUs)
	}
	if s.Models != "" {
		text += " of " + s.Models
	}
	return text
}

// bar draws used of all with width letters.
func bar(used, all int64, width int) string {
	full := 0
	if all > 0 {
		full = int((used*int64(width) + all/2) / all)
	}
	return strings.Repeat("#", full) + strings.Repeat(".", width-full)
}

// level draws the use of a device as one letter: an empty one, eighths, a full one.
func level(milli int32) string {
	levels := []string{".", "▁", "▂", "▃", "▄", "▅", "▆", "▇", "█"}
	switch {
	case milli <= 0:
		return levels[0]
	case milli >= gpushare.WholeGPU:
		return levels[8]
	}
	return levels[1+milli*7/gpushare.WholeGPU]
}

// Sizes of the image in pixels.
const (
	cellSize    = 6
	imageHeight = 64 // rows of nodes; more nodes make more columns
	imageMargin = 4
)

var (
	colourFree  = color.RGBA{0xf0, 0xf0, 0xf0, 0xff}
	colourNone  = color.RGBA{0xff, 0xff, 0xff, 0xff}
	colourFull  = color.RGBA{0x08, 0x30, 0x6b, 0xff}
	colourFits  = color.RGBA{0xd5, 0x5e, 0x00, 0xff}
	colourRight = 2 // cells between columns of nodes
)

// RenderRGB implements [envs.Renderer]: a heat map, one row for each node with a cell each for
// its CPU, its memory and its GPUs; the darker, the more is in use. The first cell shows whether
// the pod fits.
func (t *Task) RenderRGB(*cluster.State) *image.RGBA {
	b := &t.inventory
	const cells = 3 + maxNodeGPUs
	n := t.src.Size()
	columns := (n + imageHeight - 1) / imageHeight
	img := image.NewRGBA(image.Rect(0, 0, 2*imageMargin+columns*(cells+colourRight)*cellSize, 2*imageMargin+min(n, imageHeight)*cellSize))
	draw.Draw(img, img.Bounds(), image.White, image.Point{}, draw.Src)
	for i := range b.Nodes {
		x, y := imageMargin+i/imageHeight*(cells+colourRight)*cellSize, imageMargin+i%imageHeight*cellSize
		cell := func(k int, c color.Color) {
			r := image.Rect(x+k*cellSize, y, x+(k+1)*cellSize-1, y+cellSize-1)
			draw.Draw(img, r, image.NewUniform(c), image.Point{}, draw.Src)
		}
		node := &b.Nodes[i]
		fits := colourNone
		if t.current >= 0 && b.Fits(t.class(t.current), int32(i)) {
			fits = colourFits
		}
		cell(0, fits)
		cell(1, heat(1-part(node.CPU, node.AllCPU)))
		cell(2, heat(1-part(node.Memory, node.AllMemory)))
		for k, f := range b.DevicesOf(int32(i)) {
			cell(3+k, heat(1-float32(f)/gpushare.WholeGPU))
		}
	}
	return img
}

// heat mixes the colours of free and full.
func heat(x float32) color.RGBA {
	mix := func(a, b uint8) uint8 { return uint8(float32(a) + x*(float32(b)-float32(a))) }
	return color.RGBA{mix(colourFree.R, colourFull.R), mix(colourFree.G, colourFull.G), mix(colourFree.B, colourFull.B), 0xff}
}
