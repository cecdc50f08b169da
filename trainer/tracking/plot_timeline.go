package tracking

import (
	"cmp"
	"fmt"
	"math"
	"slices"

	"gonum.org/v1/plot"
	"gonum.org/v1/plot/plotter"
	"gonum.org/v1/plot/vg"
	"gonum.org/v1/plot/vg/draw"
)

// Panel shows quantities of one unit over time.
type Panel struct {
	YLabel string
	Lines  []PanelLine
}

// PanelLine is a quantity over time.
type PanelLine struct {
	Name string
	Y    []float64 // as long as the x of the timeline; NaN breaks the line
}

// Events are events of one kind.
type Events struct {
	Name string
	X    []float64
}

const panelHeightInches = 3

// eventShapes distinguish events from each other, and from lines of the same colour.
var eventShapes = []draw.GlyphDrawer{draw.PyramidGlyph{}, draw.BoxGlyph{}, draw.CircleGlyph{}}

// Timeline writes to path a PNG 1350 pixels wide: panels above one another over the same x, with events as
// marks along the top of each. Colours of lines and marks follow their index, so that panels with the same
// quantities share the legend beside the first. Timeline returns ErrNoData if x or panels are empty, and an
// error for lengths that differ, an x that does not ascend, or a y that is infinite or below 0.
func Timeline(path, title, xLabel string, x []float64, panels []Panel, events []Events) error {
	if err := checkTimeline(x, panels); err != nil {
		return fmt.Errorf("plot %s: %w", path, err)
	}
	canvas := newCanvas(curveWidth, vg.Length(len(panels))*panelHeightInches*vg.Inch)
	legend := newLegend(5, 22)
	plots := make([][]*plot.Plot, len(panels))
	for i, panel := range panels {
		p := newPlot(grid)
		p.Y.Label.Text = panel.YLabel
		if i == len(panels)-1 {
			p.X.Label.Text = xLabel
		}
		into := &legend
		if i > 0 {
			into = new(plot.NewLegend())
		}
		addPanel(p, into, x, panel, events)
		plots[i] = []*plot.Plot{p}
	}
	// The panels are aligned, so that an instant has the same position in all of them.
	left := drawLegend(drawTitle(margins(canvas), title), legend)
	for i, c := range plot.Align(plots, draw.Tiles{Rows: len(plots), Cols: 1}, left) {
		plots[i][0].Draw(c[0])
	}
	return writePNG(path, canvas)
}

// addPanel adds the lines, with the first on top, and above them the events.
func addPanel(p *plot.Plot, legend *plot.Legend, x []float64, panel Panel, events []Events) {
	most := 0.0
	styles := make([]*plotter.Line, len(panel.Lines))
	for i, l := range slices.Backward(panel.Lines) {
		style := line(nil, palette[i%len(palette)], vg.Points(1.3), nil)
		if i >= len(palette) {
			style.Dashes = dashes[(i/len(palette)-1)%len(dashes)]
		}
		var part plotter.XYs
		flush := func() {
			if len(part) > 0 {
				one := line(part, style.Color, style.Width, style.Dashes)
				p.Add(one)
				part = nil
			}
		}
		for k, y := range l.Y {
			if math.IsNaN(y) {
				flush()
				continue
			}
			most = max(most, y)
			part = append(part, plotter.XY{X: x[k], Y: y})
		}
		flush()
		styles[i] = style
	}
	for i, l := range panel.Lines {
		legend.Add(shorten(l.Name), styles[i])
	}
	most = cmp.Or(most, 1)
	p.X.Min, p.X.Max = x[0], max(x[len(x)-1], math.Nextafter(x[0], math.Inf(1)))
	p.Y.Min, p.Y.Max = 0, most*(1.05+0.05*float64(len(events)))
	for i, e := range events {
		var at plotter.XYs
		for _, v := range e.X {
			at = append(at, plotter.XY{X: v, Y: most * (1.05 + 0.05*float64(i))})
		}
		d := dots(at, palette[(len(panel.Lines)+i)%len(palette)], vg.Points(3))
		d.Shape = eventShapes[i%len(eventShapes)]
		if len(at) > 0 {
			p.Add(d)
		}
		legend.Add(fmt.Sprintf("%s (%d)", shorten(e.Name), len(e.X)), d)
	}
}

func checkTimeline(x []float64, panels []Panel) error {
	if len(x) == 0 || len(panels) == 0 {
		return ErrNoData
	}
	for i, v := range x {
		if !finite(v) || i > 0 && v <= x[i-1] {
			return fmt.Errorf("x[%d] = %v, want finite and ascending", i, v)
		}
	}
	for _, p := range panels {
		for _, l := range p.Lines {
			if len(l.Y) != len(x) {
				return fmt.Errorf("line %q: %d values for %d of x", l.Name, len(l.Y), len(x))
			}
			for k, y := range l.Y {
				if math.IsInf(y, 0) || y < 0 {
					return fmt.Errorf("line %q: y[%d] = %v, want NaN or 0 and more", l.Name, k, y)
				}
			}
		}
	}
	return nil
}
