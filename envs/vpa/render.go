package vpa

import (
	"fmt"
	"image"
	"image/color"
	"image/draw"
	"math"
	"strings"

	"github.com/kubernasium/kubernasium/envs"
	"github.com/kubernasium/kubernasium/envs/cluster"
)

// record holds a step's values for plots.
type record struct {
	used, requests, limits, lower, upper cluster.Resources
	throttled                            float32 // CPU that limits denied all pods, in cores
	ooms, evictions, resizes             uint16
}

// note records the step.
func (t *Task) note() {
	p, last := &t.dynamics.Pods[0], &t.dynamics.Last
	t.record = append(t.record, record{
		used: t.metrics.Last(), requests: p.Requests, limits: p.Limits, lower: t.rec.Lower, upper: t.rec.Upper,
		throttled: float32(last.ThrottledCPU / 1000),
		ooms:      uint16(last.OOMs), evictions: uint16(last.Evictions), resizes: uint16(last.Resizes),
	})
}

// RenderANSI implements [envs.Renderer]: the recommendation, and a line for each pod.
func (t *Task) RenderANSI(*cluster.State) string {
	var b strings.Builder
	l := &t.ledger
	fmt.Fprintf(&b, "step %d of %d  workload %s  cost %.3f  OOM kills %d  evictions %d  resizes %d\n",
		t.steps, t.opts.Steps, t.in.id, l.Weighted(&l.Total), l.Sum.OOMs, l.Sum.Evictions, l.Sum.Resizes)
	r := &t.rec
	fmt.Fprintf(&b, "recommended  CPU %d ≤ %d ≤ %d m  memory %.0f ≤ %.0f ≤ %.0f MiB\n",
		r.Lower.MilliCPU, r.Target.MilliCPU, r.Upper.MilliCPU, inMiB(r.Lower.MemoryBytes), inMiB(r.Target.MemoryBytes), inMiB(r.Upper.MemoryBytes))
	for i := range t.dynamics.Pods {
		p := &t.dynamics.Pods[i]
		state := "running"
		switch {
		case !p.Scheduled:
			state = "pending"
		case p.Ready > t.now():
			state = "starting"
		}
		fmt.Fprintf(&b, "pod %-2d %-8s CPU %6d of %6d m %s  memory %8.0f of %8.0f MiB %s\n", i, state,
			p.Used.MilliCPU, p.Requests.MilliCPU, bar(p.Used.MilliCPU, p.Requests.MilliCPU),
			inMiB(p.Used.MemoryBytes), inMiB(p.Requests.MemoryBytes), bar(p.Used.MemoryBytes, p.Requests.MemoryBytes))
	}
	return b.String()
}

func inMiB(b int64) float64 { return float64(b) / mib }

// bar shows usage on a scale of twice the request; the mark in the middle is the request.
func bar(used, request int64) string {
	const half = 10
	n := 0
	if request > 0 {
		n = int(min(float64(used)/float64(request)*half, 2*half))
	}
	cells := []byte(strings.Repeat("#", n) + strings.Repeat(".", 2*half-n))
	return string(cells[:half]) + "|" + string(cells[half:])
}

// Colours of the image: of usage, requests, limits, bounds and OOM kills.
var (
	colourUsage    = color.RGBA{0x00, 0x72, 0xb2, 0xff}
	colourRequests = color.RGBA{0xd5, 0x5e, 0x00, 0xff}
	colourLimits   = color.RGBA{0xcc, 0x79, 0xa7, 0xff}
	colourBounds   = color.RGBA{0xdd, 0xdd, 0xdd, 0xff}
	colourKills    = color.RGBA{0xe6, 0x00, 0x00, 0xff}
)

// Sizes of the image in pixels.
const (
	imageWidth  = 480
	panelHeight = 120
	imageMargin = 8
)

// RenderRGB implements [envs.Renderer]: CPU above and memory below over the last steps, one
// pixel a step: usage, requests and limits as lines, the bounds as a grey band, OOM kills as
// red marks at the top.
func (t *Task) RenderRGB(*cluster.State) *image.RGBA {
	img := image.NewRGBA(image.Rect(0, 0, imageWidth, 2*panelHeight+3*imageMargin))
	draw.Draw(img, img.Bounds(), image.White, image.Point{}, draw.Src)
	shown := t.record[max(0, len(t.record)-(imageWidth-2*imageMargin)):]
	panel(img, imageMargin, shown, func(r cluster.Resources) int64 { return r.MilliCPU })
	panel(img, panelHeight+2*imageMargin, shown, func(r cluster.Resources) int64 { return r.MemoryBytes })
	return img
}

func panel(img *image.RGBA, top int, shown []record, of func(cluster.Resources) int64) {
	most := int64(1)
	for i := range shown {
		most = max(most, of(shown[i].used), of(shown[i].requests), of(shown[i].limits))
	}
	y := func(v int64) int {
		return top + panelHeight - 1 - int(float64(min(v, most))/float64(most)*(panelHeight-1))
	}
	for i := range shown {
		r, x := &shown[i], imageMargin+i
		for at := y(of(r.upper)); at <= y(of(r.lower)); at++ {
			img.Set(x, at, colourBounds)
		}
		if l := of(r.limits); l > 0 {
			img.Set(x, y(l), colourLimits)
		}
		img.Set(x, y(of(r.requests)), colourRequests)
		img.Set(x, y(of(r.used)), colourUsage)
		if r.ooms > 0 {
			draw.Draw(img, image.Rect(x, top, x+1, top+6), image.NewUniform(colourKills), image.Point{}, draw.Src)
		}
	}
}

// chartRoom is the ratio of a plot's upper end to the greatest usage, request or limit. A
// recommender with few samples may give bounds far above.
const chartRoom = 1.5

// Chart implements [envs.Charter]: usage, request, limit and bounds of CPU and of memory, and the times when containers
// were killed, evicted and resized. Usage is the largest of all pods; requests and limits are those of the first.
// Throttled is the CPU that limits denied all pods.
func (t *Task) Chart() *envs.Chart {
	c := &envs.Chart{Title: "workload " + t.in.id, XLabel: "hours", Events: []envs.ChartEvents{{Name: "OOM kill"}, {Name: "eviction"}, {Name: "resize"}}}
	for i := range t.record {
		r, at := &t.record[i], float64(i+1)*t.Interval().Hours()
		c.X = append(c.X, at)
		for k, n := range []uint16{r.ooms, r.evictions, r.resizes} {
			if n > 0 {
				c.Events[k].X = append(c.Events[k].X, at)
			}
		}
	}
	throttled := envs.ChartLine{Name: "throttled"}
	for i := range t.record {
		throttled.Y = append(throttled.Y, float64(t.record[i].throttled))
	}
	c.Panels = []envs.ChartPanel{
		t.panel("CPU, cores", func(r cluster.Resources) float64 { return float64(r.MilliCPU) / 1000 }),
		t.panel("memory, GiB", func(r cluster.Resources) float64 { return float64(r.MemoryBytes) / gib }),
	}
	c.Panels[0].Lines = append(c.Panels[0].Lines, throttled)
	return c
}

func (t *Task) panel(label string, of func(cluster.Resources) float64) envs.ChartPanel {
	most := 0.0
	for i := range t.record {
		r := &t.record[i]
		most = max(most, of(r.used), of(r.requests), of(r.limits))
	}
	lines := make([]envs.ChartLine, 5)
	for i, name := range []string{"usage", "request", "limit", "lower bound", "upper bound"} {
		lines[i].Name = name
	}
	for i := range t.record {
		r := &t.record[i]
		for k, v := range []cluster.Resources{r.used, r.requests, r.limits, r.lower, r.upper} {
			y := of(v)
			if k == 2 && y == 0 || y > chartRoom*most {
				y = math.NaN() // no limit; out of the picture
			}
			lines[k].Y = append(lines[k].Y, y)
		}
	}
	return envs.ChartPanel{YLabel: label, Lines: lines}
}
