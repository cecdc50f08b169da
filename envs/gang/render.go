package gang

import (
	"fmt"
	"image"
	"image/color"
	"image/draw"
	"strings"

	"github.com/kubernasium/kubernasium/envs"
	"github.com/kubernasium/kubernasium/envs/cluster"
)

// RenderANSI implements [envs.Renderer]: a line for each task with its shares, its predicted duration in the next
// superstep, and a bar of that; the slowest is marked.
func (t *Task) RenderANSI(*cluster.State) string {
	durations, slowest := t.predictions()
	var b strings.Builder
	fmt.Fprintf(&b, "step %d of %d  total %.1f s  checkpoints %d  window %d\n", t.step, t.opts.Steps, t.total, t.checkpoints, t.window)
	const width = 40
	for k, d := range durations {
		mark := ' '
		if k == slowest {
			mark = '*'
		}
		bar := strings.Repeat("#", max(1, int(d/durations[slowest]*width)))
		fmt.Fprintf(&b, "%c %-10s %5d m %8.1f s %s\n", mark, t.src.model.Profile().Tasks[k], t.src.model.MilliCPU(int(t.levels[k])), d, bar)
	}
	return b.String()
}

// predictions returns the predicted duration of each task in the next superstep, and the slowest task.
func (t *Task) predictions() (durations []float64, slowest int) {
	sizes := t.in.Planned(t.Step())
	for k, l := range t.levels {
		d := t.src.model.DurationAt(k, sizes[k], int(l))
		durations = append(durations, d)
		if d > durations[slowest] {
			slowest = k
		}
	}
	return durations, slowest
}

// Colours of the image: of shares, of durations, of the slowest task's duration.
var (
	colourShares   = color.RGBA{0x00, 0x72, 0xb2, 0xff}
	colourDuration = color.RGBA{0x99, 0x99, 0x99, 0xff}
	colourSlowest  = color.RGBA{0xd5, 0x5e, 0x00, 0xff}
)

// Sizes of the image in pixels.
const (
	imageWidth  = 400
	taskHeight  = 24
	imageMargin = 8
)

// RenderRGB implements [envs.Renderer]: for each task, from top to bottom, a bar of its part
// of the cores and below it a bar of its predicted duration.
func (t *Task) RenderRGB(*cluster.State) *image.RGBA {
	durations, slowest := t.predictions()
	img := image.NewRGBA(image.Rect(0, 0, imageWidth, 2*imageMargin+len(durations)*taskHeight))
	draw.Draw(img, img.Bounds(), image.White, image.Point{}, draw.Src)
	bar := func(y, height int, part float64, c color.Color) {
		w := int(part * (imageWidth - 2*imageMargin))
		draw.Draw(img, image.Rect(imageMargin, y, imageMargin+w, y+height), image.NewUniform(c), image.Point{}, draw.Src)
	}
	for k, d := range durations {
		y := imageMargin + k*taskHeight
		bar(y+2, taskHeight/2-2, float64(t.src.model.MilliCPU(int(t.levels[k])))/float64(t.src.model.Config().TotalMilliCPU), colourShares)
		c := colourDuration
		if k == slowest {
			c = colourSlowest
		}
		bar(y+taskHeight/2, taskHeight/2-2, d/durations[slowest], c)
	}
	return img
}

// Spans implements [envs.Spanner]: the last superstep, with the re-planning before it.
func (t *Task) Spans() []envs.Span {
	if t.step == 0 {
		return nil
	}
	spans, begin := []envs.Span{}, t.total-t.duration
	for k, name := range t.src.model.Profile().Tasks {
		label := fmt.Sprintf("%dm", t.src.model.MilliCPU(int(t.levels[k])))
		if t.penalty > 0 {
			spans = append(spans, envs.Span{Row: name, From: begin - t.penalty, To: begin, Kind: envs.SpanReplan, Label: label})
		}
		kind := envs.SpanRun
		if k == t.bottleneck {
			kind = envs.SpanSlowest
		}
		spans = append(spans, envs.Span{Row: name, From: begin, To: begin + t.durations[k], Kind: kind, Label: label})
	}
	return spans
}
