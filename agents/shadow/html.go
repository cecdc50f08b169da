package shadow

import (
	_ "embed"
	"fmt"
	"html/template"
	"io"
	"math"
	"strconv"
	"strings"
	"time"
	"unicode/utf8"
)

//go:embed page.html
var pageText string

var page = template.Must(template.New("page").Funcs(template.FuncMap{
	"number": text, "interval": FormatInterval,
	"time":      func(t time.Time) string { return t.UTC().Format("2006-01-02 15:04:05 UTC") },
	"duration":  func(s float64) time.Duration { return time.Duration(s * float64(time.Second)) },
	"cores":     func(m int64) string { return strconv.FormatFloat(float64(m)/1000, 'g', -1, 64) },
	"mebibytes": func(b int64) int64 { return b >> 20 },
	"gpus": func(w Waiting) string {
		return strconv.FormatFloat(float64(w.GPUs)*float64(w.MilliGPU)/1000, 'g', -1, 64)
	},
	"class": func(verdict string) string {
		if verdict == NoDifference {
			return "quiet"
		}
		return verdict
	},
}).Parse(pageText))

func text(n Number) string { return FormatNumber(float64(n)) }

// FormatNumber formats a value with four significant digits, or all digits before the decimal point if more; "–" if not
// finite.
func FormatNumber(v float64) string {
	if math.IsNaN(v) || math.IsInf(v, 0) {
		return "–"
	}
	decimals := 3
	if a := math.Abs(v); a >= 1 {
		decimals = max(0, 3-int(math.Log10(a)))
	}
	s := strconv.FormatFloat(v, 'f', decimals, 64)
	if strings.Trim(s, "-0.") == "" {
		return "0"
	}
	return strings.Replace(s, "-", "−", 1)
}

// FormatInterval formats an interval; "" if a bound is NaN.
func FormatInterval(low, high Number) string {
	if math.IsNaN(float64(low)) || math.IsNaN(float64(high)) {
		return ""
	}
	return "[" + text(low) + ", " + text(high) + "]"
}

// Sizes of plots, in pixels.
const (
	plotWidth, plotHeight = 900, 260
	plotLeft, plotRight   = 70, 890
	plotTop, plotBottom   = 30, 225
)

// colors are Okabe and Ito's, which the colour-blind can distinguish. Source: https://jfly.uni-koeln.de/color/.
var colors = []string{"#262626", "#0072b2", "#d55e00", "#009e73", "#cc79a7", "#e69f00", "#56b4e9"}

// dashes distinguish lines that coincide.
var dashes = []string{"", "8 3", "3 3", "12 3 3 3"}

type plot struct {
	Metric        Metric
	Width, Height int
	Grid, Times   []tick
	Lines         []line
}

type tick struct {
	X, Y  float64
	Label string
}

type line struct {
	Name, Color, Dash              string
	Points                         []string // of polylines, interrupted at blocks without a value
	LegendX, LegendEnd, LegendText int
}

// WriteHTML writes the report as a page without scripts and external resources.
func (r *Report) WriteHTML(w io.Writer) error {
	data := struct {
		*Report
		Plots                      []plot
		Left, Right, LabelX, TimeY int
	}{Report: r, Left: plotLeft, Right: plotRight, LabelX: plotLeft - 8, TimeY: plotBottom + 20}
	for i := range r.Metrics {
		data.Plots = append(data.Plots, r.plot(i))
	}
	return page.Execute(w, data)
}

// plot draws a metric by block of time.
func (r *Report) plot(metric int) plot {
	p := plot{Metric: r.Metrics[metric], Width: plotWidth, Height: plotHeight}
	all := append([]Cluster{r.Recorded}, r.Policies...)
	top := 0.0
	for _, c := range all {
		for _, v := range c.Series[metric] {
			if !math.IsNaN(float64(v)) {
				top = max(top, float64(v))
			}
		}
	}
	step := niceStep(top)
	top = max(step, step*math.Ceil(top/step-1e-9))
	y := func(v float64) float64 { return tenths(plotBottom - (plotBottom-plotTop)*v/top) }
	x := func(b float64) float64 { return tenths(plotLeft + (plotRight-plotLeft)*b/float64(max(1, r.Blocks))) }
	for k := 0; float64(k)*step <= top*(1+1e-9); k++ {
		v := float64(k) * step
		p.Grid = append(p.Grid, tick{Y: y(v), Label: strconv.FormatFloat(tidy(v), 'g', -1, 64)})
	}
	layout := "15:04"
	if float64(r.Blocks)*r.BlockSeconds > 48*3600 {
		layout = "01-02 15:04"
	}
	for every, b := max(1, (r.Blocks+7)/8), 0; b < r.Blocks; b += every {
		at := r.Start.Add(time.Duration(float64(b) * r.BlockSeconds * float64(time.Second)))
		p.Times = append(p.Times, tick{X: x(float64(b)), Label: at.UTC().Format(layout)})
	}
	legend := plotLeft
	for k, c := range all {
		l := line{Name: c.Name, Color: colors[k%len(colors)], Dash: dashes[k%len(dashes)], LegendX: legend, LegendEnd: legend + 24, LegendText: legend + 30}
		legend += 50 + 8*utf8.RuneCountInString(c.Name)
		l.Points = polylines(c.Series[metric], x, y)
		p.Lines = append(p.Lines, l)
	}
	return p
}

// polylines returns the points of step functions: each block has one value.
func polylines(series []Number, x, y func(float64) float64) []string {
	var all []string
	var points []string
	for b, v := range series {
		if math.IsNaN(float64(v)) {
			if points != nil {
				all, points = append(all, strings.Join(points, " ")), nil
			}
			continue
		}
		points = append(points, fmt.Sprintf("%g,%g", x(float64(b)), y(float64(v))), fmt.Sprintf("%g,%g", x(float64(b+1)), y(float64(v))))
	}
	if points != nil {
		all = append(all, strings.Join(points, " "))
	}
	return all
}

// niceStep returns 1, 2 or 5 times a power of ten, so that an axis up to top has four to ten steps.
func niceStep(top float64) float64 {
	if top <= 0 {
		return 1
	}
	step := math.Pow(10, math.Floor(math.Log10(top/4)))
	for _, m := range []float64{5, 2} {
		if m*step*4 <= top {
			return m * step
		}
	}
	return step
}

func tenths(v float64) float64 { return math.Round(10*v) / 10 }

// tidy removes rounding errors of binary fractions.
func tidy(v float64) float64 { return math.Round(v*1e9) / 1e9 }
