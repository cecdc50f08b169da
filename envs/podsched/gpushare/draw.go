package gpushare

import (
	"fmt"
	"image"
	"image/color"
	"image/draw"
	"strings"
)

// Describe says what a pod asks for.
func (s *Shape) Describe() string {
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

// Bars draws what is in use on node i in letters: CPU, memory and each device.
func (b *Inventory) Bars(i int32) string {
	n := &b.Nodes[i]
	text := bar(n.AllCPU-n.CPU, n.AllCPU, 10) + " " + bar(n.AllMemory-n.Memory, n.AllMemory, 10) + " "
	for _, f := range b.DevicesOf(i) {
		text += level(WholeGPU - f)
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
	case milli >= WholeGPU:
		return levels[8]
	}
	return levels[1+milli*7/WholeGPU]
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

// Draw draws a heat map, one row for each node with a cell each for its CPU, its memory and its devices, at most the given number;
// the darker, the more is in use. The first cell shows whether fits is true of the node. The image has room for the given number of
// nodes.
func (b *Inventory) Draw(nodes, devices int, fits func(node int32) bool) *image.RGBA {
	cells := 3 + devices
	columns := (nodes + imageHeight - 1) / imageHeight
	img := image.NewRGBA(image.Rect(0, 0, 2*imageMargin+columns*(cells+colourRight)*cellSize, 2*imageMargin+min(nodes, imageHeight)*cellSize))
	draw.Draw(img, img.Bounds(), image.White, image.Point{}, draw.Src)
	for i := range b.Nodes {
		x, y := imageMargin+i/imageHeight*(cells+colourRight)*cellSize, imageMargin+i%imageHeight*cellSize
		cell := func(k int, c color.Color) {
			r := image.Rect(x+k*cellSize, y, x+(k+1)*cellSize-1, y+cellSize-1)
			draw.Draw(img, r, image.NewUniform(c), image.Point{}, draw.Src)
		}
		node := &b.Nodes[i]
		first := colourNone
		if fits(int32(i)) {
			first = colourFits
		}
		cell(0, first)
		cell(1, heat(1-freePart(node.CPU, node.AllCPU)))
		cell(2, heat(1-freePart(node.Memory, node.AllMemory)))
		for k, f := range b.DevicesOf(int32(i)) {
			cell(3+k, heat(1-float32(f)/WholeGPU))
		}
	}
	return img
}

// freePart returns free/all within [0, 1], and 0 for nothing of nothing.
func freePart(free, all int64) float32 {
	if free <= 0 {
		return 0
	}
	return min(1, float32(free)/float32(all))
}

// heat mixes the colours of free and full.
func heat(x float32) color.RGBA {
	mix := func(a, b uint8) uint8 { return uint8(float32(a) + x*(float32(b)-float32(a))) }
	return color.RGBA{mix(colourFree.R, colourFull.R), mix(colourFree.G, colourFull.G), mix(colourFree.B, colourFull.B), 0xff}
}
