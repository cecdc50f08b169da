package tracking

import (
	"fmt"
	"image/color"
	"math"
	"strconv"

	"gonum.org/v1/plot"
	"gonum.org/v1/plot/plotter"
	"gonum.org/v1/plot/vg"
	"gonum.org/v1/plot/vg/draw"
)

const (
	barsWidth     = 9 * vg.Inch
	barsRowHeight = vg.Inch * 2 / 5
	barsMargin    = vg.Inch * 7 / 5 // height of title, axis and its label
)

// Bar is a row of a comparison. Low and High are the 95 % interval of Mean; if both are NaN, no interval is
// drawn.
type Bar struct {
	Name      string
	Mean      float64
	Low       float64
	High      float64
	Highlight bool // drawn in another colour, for the policy that the comparison is about
}

// Bars writes to path a PNG, 1350 pixels wide and as high as the rows need. Each row, from top to bottom, has a
// point for the mean, a bar for the 95 % interval, and their numbers on the right. The axis has the label unit.
// It need not begin at zero, because position shows the value, not length. Bars returns ErrNoData for no rows,
// and an error that names the row for a mean that is not finite or an interval that does not contain it.
func Bars(path, title, unit string, rows []Bar) error {
	if err := checkBars(rows); err != nil {
		return fmt.Errorf("plot %s: %w", path, err)
	}
	p := newPlot(nil)
	p.X.Label.Text = unit
	names := make([]string, len(rows))
	for i, r := range rows {
		at := len(rows) - 1 - i
		names[at] = shorten(r.Name)
		addBar(p, float64(at), r)
	}
	p.NominalY(names...)
	p.Y.Tick.Label.Font = sans(12)
	p.Y.Tick.Label.Color = ink
	p.Y.Min, p.Y.Max = -0.6, float64(len(rows))-0.4
	pad := 0.06 * (p.X.Max - p.X.Min)
	p.X.Min, p.X.Max = p.X.Min-pad, p.X.Max+pad

	canvas := newCanvas(barsWidth, barsMargin+vg.Length(len(rows))*barsRowHeight)
	drawWithNumbers(p, drawTitle(margins(canvas), title), rows)
	return writePNG(path, canvas)
}

func addBar(p *plot.Plot, y float64, r Bar) {
	c := barColor(r)
	if finite(r.Low) {
		p.Add(&plotter.XErrorBars{
			XYs:       plotter.XYs{{X: r.Mean, Y: y}},
			XErrors:   plotter.XErrors{{Low: r.Mean - r.Low, High: r.High - r.Mean}},
			LineStyle: draw.LineStyle{Color: c, Width: vg.Points(2)},
			CapWidth:  vg.Points(12),
		})
	}
	p.Add(dots(plotter.XYs{{X: r.Mean, Y: y}}, c, vg.Points(4)))
}

func barColor(r Bar) color.NRGBA {
	if r.Highlight {
		return palette[1]
	}
	return palette[0]
}

// drawWithNumbers draws the plot and, to its right, each row's mean and interval.
func drawWithNumbers(p *plot.Plot, c draw.Canvas, rows []Bar) {
	style := p.Y.Tick.Label
	style.XAlign, style.YAlign = draw.XLeft, draw.YCenter
	var column vg.Length
	decimals := barDecimals(rows)
	for _, r := range rows {
		column = max(column, style.Width(numbers(r, decimals)))
	}
	left := draw.Crop(c, 0, -column-vg.Points(10), 0, 0)
	p.Draw(left)
	data := p.DataCanvas(left)
	_, y := p.Transforms(&data)
	for i, r := range rows {
		style.Color = ink
		if r.Highlight {
			style.Color = barColor(r)
		}
		at := vg.Point{X: c.Max.X - column, Y: y(float64(len(rows)-1-i)) + style.FontExtents().Descent}
		c.FillText(style, at, numbers(r, decimals))
	}
}

// numbers formats the mean and, if there is one, the interval.
func numbers(r Bar, decimals int) string {
	text := func(v float64) string { return minus(strconv.FormatFloat(v, 'f', decimals, 64)) }
	if !finite(r.Low) {
		return text(r.Mean)
	}
	return fmt.Sprintf("%s [%s, %s]", text(r.Mean), text(r.Low), text(r.High))
}

// barDecimals returns the number of decimals that shows two digits of the narrowest interval, or four digits of
// the largest mean if there is no interval.
func barDecimals(rows []Bar) int {
	narrow, great := math.Inf(1), 0.0
	for _, r := range rows {
		great = max(great, math.Abs(r.Mean))
		if half := (r.High - r.Low) / 2; half > 0 {
			narrow = min(narrow, half)
		}
	}
	digits := 1 - math.Floor(math.Log10(narrow))
	if math.IsInf(narrow, 1) {
		digits = 3 - math.Floor(math.Log10(max(great, 1e-3)))
	}
	return int(min(6, max(0, digits)))
}

func checkBars(rows []Bar) error {
	if len(rows) == 0 {
		return ErrNoData
	}
	for _, r := range rows {
		if !finite(r.Mean) {
			return fmt.Errorf("row %q: mean %v, want a finite number", r.Name, r.Mean)
		}
		if math.IsNaN(r.Low) && math.IsNaN(r.High) {
			continue
		}
		if !(finite(r.Low) && finite(r.High) && r.Low <= r.Mean && r.Mean <= r.High) {
			return fmt.Errorf("row %q: interval [%v, %v], want finite numbers around the mean %v", r.Name, r.Low, r.High, r.Mean)
		}
	}
	return nil
}
