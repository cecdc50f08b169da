package tracking

import (
	"fmt"
	"image/color"

	"gonum.org/v1/plot"
	"gonum.org/v1/plot/plotter"
	"gonum.org/v1/plot/vg"
	"gonum.org/v1/plot/vg/draw"
)

const (
	curveWidth  = 9 * vg.Inch
	curveHeight = 5 * vg.Inch
	bandAlpha   = 0x38
)

// Series is one learning curve.
type Series struct {
	Name  string
	Steps []int64   // timesteps, ascending
	Mean  []float64 // as long as Steps
	Low   []float64 // lower edge of the band, as long as Steps; nil: no band
	High  []float64 // upper edge of the band, as long as Steps; nil: no band
}

// HLine is a level to compare a learning curve with, such as the mean return of a baseline.
type HLine struct {
	Name  string
	Value float64
}

// LearningCurve writes to path a PNG of 1350 × 750 pixels: the mean return of each series over timesteps, with
// its band, and each of hlines as a dashed line. The legend is beside the data and cuts names to 40 characters.
// It returns ErrNoData if all series are empty, and an error that names the series and the point for lengths
// that differ, steps that do not ascend, or a value that is not finite.
func LearningCurve(path, title string, series []Series, hlines []HLine) error {
	return Curves(path, title, "timesteps", "mean return", series, hlines)
}

// Curves is LearningCurve with other axis labels; x names the unit of the series' steps.
func Curves(path, title, x, y string, series []Series, hlines []HLine) error {
	if err := checkCurve(series, hlines); err != nil {
		return fmt.Errorf("plot %s: %w", path, err)
	}
	p := newPlot(grid)
	p.X.Label.Text = x
	p.Y.Label.Text = y
	legend := newLegend(7, 28)
	legend.YPosition = draw.PosCenter
	addSeries(p, &legend, series)
	addLevels(p, &legend, len(series), hlines)
	if p.X.Min == p.X.Max {
		p.X.Min = 0 // one evaluation: its labels would differ in digits that do not fit
	}
	pad := 0.05 * (p.Y.Max - p.Y.Min)
	p.Y.Min, p.Y.Max = p.Y.Min-pad, p.Y.Max+pad

	canvas := newCanvas(curveWidth, curveHeight)
	p.Draw(drawLegend(drawTitle(margins(canvas), title), legend))
	return writePNG(path, canvas)
}

// addSeries adds the bands first, so that no band covers a line.
func addSeries(p *plot.Plot, legend *plot.Legend, series []Series) {
	for i, s := range series {
		if len(s.Low) < 2 {
			continue
		}
		var edge plotter.XYs
		for k, step := range s.Steps {
			edge = append(edge, plotter.XY{X: float64(step), Y: s.High[k]})
		}
		for k := len(s.Steps) - 1; k >= 0; k-- {
			edge = append(edge, plotter.XY{X: float64(s.Steps[k]), Y: s.Low[k]})
		}
		p.Add(&plotter.Polygon{XYs: []plotter.XYs{edge}, Color: bandColor(i)})
	}
	for i, s := range series {
		var points plotter.XYs
		for k, step := range s.Steps {
			points = append(points, plotter.XY{X: float64(step), Y: s.Mean[k]})
		}
		if len(points) == 0 {
			continue
		}
		l := line(points, palette[i%len(palette)], vg.Points(2), nil)
		thumbs := []plot.Thumbnailer{l}
		if i >= len(palette) {
			l.Dashes = dashes[(i/len(palette)-1)%len(dashes)]
		}
		if len(s.Low) > 0 {
			thumbs = append([]plot.Thumbnailer{&plotter.Polygon{Color: bandColor(i)}}, thumbs...)
		}
		p.Add(l)
		if len(points) == 1 {
			p.Add(dots(points, palette[i%len(palette)], vg.Points(3.5)))
			if len(s.Low) == 1 { // the band of a point is a line
				x := points[0].X
				p.Add(line(plotter.XYs{{X: x, Y: s.Low[0]}, {X: x, Y: s.High[0]}}, palette[i%len(palette)], vg.Points(1.3), nil))
			}
		}
		legend.Add(shorten(s.Name), thumbs...)
	}
}

func bandColor(i int) color.NRGBA {
	c := palette[i%len(palette)]
	c.A = bandAlpha
	return c
}

// addLevels adds a dashed line across the whole width for each level. Lines differ in their dash patterns and,
// beyond the last pattern, in their colours.
func addLevels(p *plot.Plot, legend *plot.Legend, used int, hlines []HLine) {
	for i, h := range hlines {
		c := color.Color(ink)
		if i >= len(dashes) {
			c = palette[(used+i)%len(palette)]
		}
		l := line(plotter.XYs{{X: p.X.Min, Y: h.Value}, {X: p.X.Max, Y: h.Value}}, c, vg.Points(1.3), dashes[i%len(dashes)])
		p.Add(l)
		legend.Add(shorten(h.Name), l)
	}
}

func checkCurve(series []Series, hlines []HLine) error {
	points := 0
	for _, s := range series {
		n := len(s.Steps)
		points += n
		if len(s.Mean) != n {
			return fmt.Errorf("series %q: %d means for %d steps", s.Name, len(s.Mean), n)
		}
		if len(s.Low) != len(s.High) || (s.Low != nil && len(s.Low) != n) {
			return fmt.Errorf("series %q: band of %d low and %d high values for %d steps", s.Name, len(s.Low), len(s.High), n)
		}
		for k := range n {
			if k > 0 && s.Steps[k] <= s.Steps[k-1] {
				return fmt.Errorf("series %q: steps[%d] = %d after %d, want ascending", s.Name, k, s.Steps[k], s.Steps[k-1])
			}
			if !finite(s.Mean[k]) {
				return fmt.Errorf("series %q: mean[%d] = %v, want a finite number", s.Name, k, s.Mean[k])
			}
			if s.Low != nil && !(finite(s.Low[k]) && finite(s.High[k]) && s.Low[k] <= s.High[k]) {
				return fmt.Errorf("series %q: band[%d] = [%v, %v], want an interval of finite numbers", s.Name, k, s.Low[k], s.High[k])
			}
		}
	}
	if points == 0 {
		return ErrNoData
	}
	for _, h := range hlines {
		if !finite(h.Value) {
			return fmt.Errorf("level %q: value %v, want a finite number", h.Name, h.Value)
		}
	}
	return nil
}
