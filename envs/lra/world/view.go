package world

import (
	"fmt"
	"image"
	"image/color"
	"image/draw"
	"math"
	"slices"
	"strconv"
	"strings"

	"github.com/kubernasium/kubernasium/envs"
	"github.com/kubernasium/kubernasium/envs/lra"
	"github.com/kubernasium/kubernasium/envs/lra/planner"
)

// View shows a placement.
type View struct {
	Title string
	Nodes planner.Placement
	Kind  func(node int) *Kind
}

// maxLines is the maximum number of nodes that Text lists one by one; with more nodes it groups them by state.
const maxLines = 81

// Text lists the nodes: their containers, how many there are, and their throughput. It lists up to maxLines nodes one
// by one. With more nodes it groups those in one state, the most frequent first.
func (v *View) Text() string {
	var b strings.Builder
	fmt.Fprintf(&b, "%s\n%-8s", v.Title, "node")
	for _, app := range lra.Apps {
		fmt.Fprintf(&b, "%6s", app)
	}
	fmt.Fprintf(&b, "%7s%12s%12s\n", "all", "throughput", "each")
	line := func(name string, i int) {
		s := v.Nodes[i]
		fmt.Fprintf(&b, "%-8s", name)
		for _, k := range s.Counts() {
			if k == 0 {
				fmt.Fprintf(&b, "%6s", ".")
			} else {
				fmt.Fprintf(&b, "%6d", k)
			}
		}
		total := v.Kind(i).Throughput[s]
		fmt.Fprintf(&b, "%7d%12.4f%12.4f\n", s.Total(), total, total/float64(max(1, s.Total())))
	}
	if len(v.Nodes) <= maxLines {
		for i := range v.Nodes {
			line(fmt.Sprint(i), i)
		}
		return b.String()
	}
	first, number := map[lra.State]int{}, map[lra.State]int{}
	var states []lra.State
	for i, s := range v.Nodes {
		if number[s]++; number[s] == 1 {
			first[s] = i
			states = append(states, s)
		}
	}
	slices.SortStableFunc(states, func(a, b lra.State) int { return number[b] - number[a] })
	for _, s := range states[:min(len(states), maxLines)] {
		line(fmt.Sprintf("%d ×", number[s]), first[s])
	}
	if rest := len(states) - maxLines; rest > 0 {
		fmt.Fprintf(&b, "and %d further states\n", rest)
	}
	return b.String()
}

// Sizes of the image in pixels.
const (
	cellWidth   = 32
	imageHeight = 486 // at least: 81 nodes of 6
)

// Heat is the placement matrix as an image: a row for each node, a column for each application, darker for more
// containers. At the right it shows the node's throughput, from white at 0 to full colour at that of 12 containers
// alone, about the maximum.
func (v *View) Heat() *image.RGBA {
	height := max(1, imageHeight/len(v.Nodes))
	img := image.NewRGBA(image.Rect(0, 0, (lra.NumApps+1)*cellWidth+1, height*len(v.Nodes)))
	draw.Draw(img, img.Bounds(), image.White, image.Point{}, draw.Src)
	cell := func(column, i int, part float64, full color.RGBA) {
		mix := func(c uint8) uint8 { return uint8(255 - part*float64(255-c)) }
		at := image.Rect(column*cellWidth, i*height, (column+1)*cellWidth, (i+1)*height)
		if column == lra.NumApps {
			at = at.Add(image.Pt(1, 0))
		}
		draw.Draw(img, at, image.NewUniform(color.RGBA{mix(full.R), mix(full.G), mix(full.B), 255}), image.Point{}, draw.Src)
	}
	for i, s := range v.Nodes {
		for a, k := range s.Counts() {
			cell(a, i, float64(k)/lra.MaxSlots, color.RGBA{0x00, 0x44, 0x88, 255})
		}
		cell(lra.NumApps, i, min(max(v.Kind(i).Throughput[s]/mostThroughput, 0), 1), color.RGBA{0xd5, 0x5e, 0x00, 255})
	}
	return img
}

// mostThroughput is about the maximum of a node: that of 12 containers alone.
const mostThroughput = 12

// Grids shows the containers of each node, how much they slow one another down, and the throughput of each application.
func (v *View) Grids() []envs.Grid {
	nodes := envs.Grid{Title: "Containers by node: " + strings.ReplaceAll(v.Title, "  ", ", "), Columns: append(slices.Clone(lra.Apps[:]), "throughput", "per container")}
	nodes.Full = append(slices.Repeat([]float64{lra.MaxSlots}, lra.NumApps), mostThroughput, mostThroughput/lra.MaxSlots)
	var placed, achieved [lra.NumApps]float64
	for i, s := range v.Nodes {
		row := make([]float64, 0, len(nodes.Columns))
		for a, k := range s.Counts() {
			row = append(row, float64(k))
			if k > 0 {
				placed[a] += float64(k)
				achieved[a] += float64(k) * v.Kind(i).Rate(s, a)
			}
		}
		total := v.Kind(i).Throughput[s]
		each := math.NaN()
		if n := s.Total(); n > 0 {
			each = total / float64(n)
		}
		nodes.Rows, nodes.Values = append(nodes.Rows, strconv.Itoa(i)), append(nodes.Values, append(row, total, each))
	}
	apps := envs.Grid{Title: "Applications", Columns: []string{"containers", "throughput", "per container"}, Full: []float64{max(1, slices.Max(placed[:])), max(1, slices.Max(achieved[:])), mostThroughput / lra.MaxSlots}}
	for a, name := range lra.Apps {
		each := math.NaN()
		if placed[a] > 0 {
			each = achieved[a] / placed[a]
		}
		apps.Rows, apps.Values = append(apps.Rows, name), append(apps.Values, []float64{placed[a], achieved[a], each})
	}
	return []envs.Grid{apps, nodes}
}

// View returns the nodes of the episode, with before at the start of the title.
func (e *Episode) View(before string) *View {
	app := "none"
	if a := e.App(); a != NoApp {
		app = lra.Apps[a]
	}
	return &View{
		Title: before + fmt.Sprintf("next %s  placed %d  rejected %d  violations %d  throughput of a container %.4f  of the cluster %.4f",
			app, e.Placed, e.Rejected, e.Violations, e.Throughput/float64(max(1, e.Used)), e.Throughput),
		Nodes: e.x, Kind: e.kind,
	}
}
