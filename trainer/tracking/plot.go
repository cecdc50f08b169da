package tracking

import (
	"bytes"
	"errors"
	"fmt"
	"image/color"
	"math"
	"os"
	"strconv"
	"strings"

	"gonum.org/v1/plot"
	"gonum.org/v1/plot/font"
	"gonum.org/v1/plot/plotter"
	"gonum.org/v1/plot/vg"
	"gonum.org/v1/plot/vg/draw"
	"gonum.org/v1/plot/vg/vgimg"
)

// ErrNoData is returned by LearningCurve, Curves, Bars and Timeline if there is nothing to draw.
var ErrNoData = errors.New("tracking: no data to plot")

const plotDPI = 150

// palette is Okabe and Ito's palette, which colour-blind people can distinguish, without its yellow, which is
// faint on white. Source: https://jfly.uni-koeln.de/color/.
var palette = []color.NRGBA{
	{0x00, 0x72, 0xb2, 0xff}, // blue
	{0xd5, 0x5e, 0x00, 0xff}, // vermillion
	{0x00, 0x9e, 0x73, 0xff}, // bluish green
	{0xcc, 0x79, 0xa7, 0xff}, // reddish purple
	{0xe6, 0x9f, 0x00, 0xff}, // orange
	{0x56, 0xb4, 0xe9, 0xff}, // sky blue
}

var (
	ink    = color.Gray{0x26}
	rule   = color.Gray{0x80}
	grid   = color.Gray{0xdd}
	dashes = [][]vg.Length{
		{vg.Points(6), vg.Points(3)},
		{vg.Points(2), vg.Points(2)},
		{vg.Points(8), vg.Points(2), vg.Points(2), vg.Points(2)},
		{vg.Points(12), vg.Points(4)},
	}
)

// newPlot returns an empty plot without a title in the package's style, with a vertical grid, and horizontal lines of
// the given colour; nil draws none.
func newPlot(horizontal color.Color) *plot.Plot {
	p := plot.New()
	g := plotter.NewGrid()
	g.Vertical.Color, g.Horizontal.Color = grid, horizontal
	p.Add(g)
	for _, a := range []*plot.Axis{&p.X, &p.Y} {
		a.Label.TextStyle.Font = sans(12)
		a.Label.TextStyle.Color = ink
		a.Label.Padding = vg.Points(6)
		a.Tick.Label.Font = sans(11)
		a.Tick.Label.Color = ink
		a.Tick.LineStyle.Color = rule
		a.Tick.Length = vg.Points(4)
		a.LineStyle.Color = rule
		a.Tick.Marker = plot.TickerFunc(niceTicks)
	}
	return p
}

// newLegend returns a legend for the space that drawLegend takes.
func newLegend(padding, thumbnail float64) plot.Legend {
	l := plot.NewLegend()
	l.Top, l.Left = true, true
	l.TextStyle.Font, l.TextStyle.Color = sans(11), ink
	l.Padding, l.ThumbnailWidth = vg.Points(padding), vg.Points(thumbnail)
	return l
}

// drawLegend draws a legend on the right of c and returns the space beside it.
func drawLegend(c draw.Canvas, l plot.Legend) draw.Canvas {
	box := l.Rectangle(c)
	column := box.Max.X - box.Min.X + vg.Points(6)
	l.Draw(draw.Crop(c, c.Max.X-c.Min.X-column, 0, 0, 0))
	return draw.Crop(c, 0, -column-vg.Points(14), 0, 0)
}

func sans(points float64) font.Font {
	return font.Font{Typeface: "Liberation", Variant: "Sans", Size: vg.Points(points)}
}

// niceTicks returns five to ten ticks at multiples of 1, 2 or 5 times a power of ten. Labels share a unit: k if
// the axis exceeds ten thousand, M if it exceeds a million.
func niceTicks(low, high float64) []plot.Tick {
	step := math.Pow(10, math.Floor(math.Log10((high-low)/5)))
	for _, m := range []float64{5, 2} {
		if m*step*5 <= high-low {
			step *= m
			break
		}
	}
	scale, unit := 1.0, ""
	switch a := max(math.Abs(low), math.Abs(high)); {
	case a >= 1e6:
		scale, unit = 1e6, "M"
	case a >= 1e4:
		scale, unit = 1e3, "k"
	}
	decimals := max(0, -int(math.Floor(math.Log10(step/scale)+1e-9)))
	var ticks []plot.Tick
	for i, first := 0, math.Ceil(low/step-1e-9); i < 20; i++ {
		v := (first + float64(i)) * step
		if v > high+1e-9*step {
			break
		}
		label := "0"
		if first+float64(i) != 0 {
			label = minus(strconv.FormatFloat(v/scale, 'f', decimals, 64)) + unit
		}
		ticks = append(ticks, plot.Tick{Value: v, Label: label})
	}
	return ticks
}

// minus replaces the hyphen of a negative number by a minus sign.
func minus(s string) string { return strings.Replace(s, "-", "−", 1) }

// drawTitle writes the title across the top of c, in a smaller font if it is too wide, and returns the rest of
// c.
func drawTitle(c draw.Canvas, title string) draw.Canvas {
	style := plot.New().Title.TextStyle
	style.Font = sans(15)
	style.Color = ink
	style.XAlign, style.YAlign = draw.XCenter, draw.YTop
	if wide, room := style.Width(title), c.Max.X-c.Min.X; wide > room {
		style.Font.Size *= room / wide
	}
	c.FillText(style, vg.Point{X: (c.Min.X + c.Max.X) / 2, Y: c.Max.Y}, title)
	return draw.Crop(c, 0, 0, 0, -vg.Points(30))
}

// shorten cuts a long name, which would leave no room for the plot.
func shorten(name string) string {
	const most = 42 // characters, a third of a plot's width
	if r := []rune(name); len(r) > most {
		return string(r[:most-1]) + "…"
	}
	return name
}

// newCanvas returns a white canvas of the given size.
func newCanvas(width, height vg.Length) *vgimg.Canvas {
	return vgimg.NewWith(vgimg.UseWH(width, height), vgimg.UseDPI(plotDPI), vgimg.UseBackgroundColor(color.White))
}

// margins returns the canvas without its margins.
func margins(c *vgimg.Canvas) draw.Canvas {
	return draw.Crop(draw.New(c), vg.Points(12), -vg.Points(14), vg.Points(10), -vg.Points(12))
}

// writePNG encodes the canvas and writes it to path.
func writePNG(path string, c *vgimg.Canvas) error {
	var b bytes.Buffer
	if _, err := (vgimg.PngCanvas{Canvas: c}).WriteTo(&b); err != nil {
		return fmt.Errorf("encode %s: %w", path, err)
	}
	if err := os.WriteFile(path, b.Bytes(), 0o644); err != nil {
		return fmt.Errorf("plot: %w", err)
	}
	return nil
}

// line returns a line of the given style through points.
func line(points plotter.XYs, c color.Color, width vg.Length, dash []vg.Length) *plotter.Line {
	return &plotter.Line{
		XYs:       points,
		LineStyle: draw.LineStyle{Color: c, Width: width, Dashes: dash},
	}
}

// dots returns a disc at each of points.
func dots(points plotter.XYs, c color.Color, radius vg.Length) *plotter.Scatter {
	return &plotter.Scatter{
		XYs:        points,
		GlyphStyle: draw.GlyphStyle{Color: c, Radius: radius, Shape: draw.CircleGlyph{}},
	}
}

func finite(v float64) bool { return !math.IsNaN(v) && !math.IsInf(v, 0) }
