package tracking

import (
	"errors"
	"image"
	"image/color"
	"image/png"
	"io/fs"
	"math"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
)

func readPNG(t *testing.T, path string) *image.RGBA {
	t.Helper()
	file, err := os.Open(path)
	if err != nil {
		t.Fatal(err)
	}
	defer file.Close()
	img, err := png.Decode(file)
	if err != nil {
		t.Fatal(err)
	}
	rgba, ok := img.(*image.RGBA)
	if !ok || !rgba.Opaque() {
		t.Fatalf("image is %T, want an opaque RGB image", img)
	}
	return rgba
}

// countColor returns how many pixels are within 4 of c in each channel.
func countColor(img *image.RGBA, c color.NRGBA) int {
	near := func(a, b uint8) bool { return max(a, b)-min(a, b) <= 4 }
	n := 0
	for i := 0; i < len(img.Pix); i += 4 {
		if near(img.Pix[i], c.R) && near(img.Pix[i+1], c.G) && near(img.Pix[i+2], c.B) {
			n++
		}
	}
	return n
}

func wantColor(t *testing.T, img *image.RGBA, what string, c color.NRGBA, atLeast int) {
	t.Helper()
	if n := countColor(img, c); n < atLeast {
		t.Errorf("%d pixels of %s (%v), want at least %d", n, what, c, atLeast)
	}
}

func curve(name string, band bool) Series {
	s := Series{Name: name, Steps: []int64{0, 500_000, 1_000_000}, Mean: []float64{-400, -100, -50}}
	if band {
		s.Low, s.High = []float64{-450, -140, -60}, []float64{-350, -60, -40}
	}
	return s
}

func TestLearningCurve(t *testing.T) {
	path := filepath.Join(t.TempDir(), "curve.png")
	err := LearningCurve(path, "k8s/Test-v0", []Series{curve("ppo", true), {
		Name: "dqn", Steps: []int64{0, 1_000_000}, Mean: []float64{-400, -200},
	}}, []HLine{{"first fit", -120}, {"optimum", -20}})
	if err != nil {
		t.Fatal(err)
	}
	img := readPNG(t, path)
	if got, want := img.Bounds().Size(), image.Pt(1350, 750); got != want {
		t.Errorf("size %v, want %v", got, want)
	}
	wantColor(t, img, "the first line", palette[0], 1000)
	wantColor(t, img, "the second line", palette[1], 1000)
	// 0x0072b2 at alpha 56/255 on white, by hand: 255·0.780 + (0, 114, 178)·0.220.
	wantColor(t, img, "the band", color.NRGBA{199, 224, 238, 255}, 10_000)
	wantColor(t, img, "the baselines", color.NRGBA{0x26, 0x26, 0x26, 255}, 1000)
}

// TestLearningCurveOfOneEvaluation: the axis begins at 0, so that the point and its interval are at its right end.
func TestLearningCurveOfOneEvaluation(t *testing.T) {
	path := filepath.Join(t.TempDir(), "curve.png")
	s := Series{Name: "ppo", Steps: []int64{51_200}, Mean: []float64{3}, Low: []float64{2}, High: []float64{4}}
	if err := LearningCurve(path, "", []Series{s}, nil); err != nil {
		t.Fatal(err)
	}
	img := readPNG(t, path)
	wantColor(t, img, "the interval", palette[0], 1000)
	left := img.SubImage(image.Rect(0, 0, img.Bounds().Dx()*3/4, img.Bounds().Dy())).(*image.RGBA)
	for y := left.Rect.Min.Y; y < left.Rect.Max.Y; y++ {
		for x := left.Rect.Min.X; x < left.Rect.Max.X; x++ {
			if c := left.RGBAAt(x, y); c.R == palette[0].R && c.G == palette[0].G && c.B == palette[0].B {
				t.Fatalf("the point is seen at column %d of %d, want it at the right end", x, img.Bounds().Dx())
			}
		}
	}
}

func TestLearningCurveEdges(t *testing.T) {
	many := make([]Series, 14)
	lines := make([]HLine, 9)
	for i := range many {
		many[i] = curve(strings.Repeat("a long name ", 10), i%2 == 0)
	}
	for i := range lines {
		lines[i] = HLine{"level", float64(-i * 10)}
	}
	tests := []struct {
		name   string
		title  string
		series []Series
		lines  []HLine
	}{
		{"one point", "", []Series{{Name: "ppo", Steps: []int64{5}, Mean: []float64{3}, Low: []float64{3}, High: []float64{3}}}, nil},
		{"one series empty", "t", []Series{curve("ppo", true), {Name: "none"}}, nil},
		{"more than the palette", strings.Repeat("long title ", 30), many, lines},
		{"constant", "t", []Series{{Name: "c", Steps: []int64{1, 2}, Mean: []float64{0, 0}}}, nil},
		{"large values", "t", []Series{{Name: "c", Steps: []int64{1, 1 << 60}, Mean: []float64{-1e300, 1e300}}}, nil},
		{"tiny range", "t", []Series{{Name: "c", Steps: []int64{1, 2}, Mean: []float64{1e16, 1e16 + 2}}}, nil},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			path := filepath.Join(t.TempDir(), "curve.png")
			if err := LearningCurve(path, tt.title, tt.series, tt.lines); err != nil {
				t.Fatal(err)
			}
			wantColor(t, readPNG(t, path), "the first colour", palette[0], 20)
		})
	}
}

func TestLearningCurveErrors(t *testing.T) {
	good := []Series{curve("ppo", true)}
	change := func(f func(*Series)) []Series {
		s := curve("ppo", true)
		f(&s)
		return []Series{s}
	}
	tests := []struct {
		name   string
		series []Series
		lines  []HLine
		want   string
	}{
		{"NaN mean", change(func(s *Series) { s.Mean[1] = math.NaN() }), nil, `series "ppo": mean[1] = NaN`},
		{"infinite band", change(func(s *Series) { s.High[2] = math.Inf(1) }), nil, `series "ppo": band[2]`},
		{"band upside down", change(func(s *Series) { s.Low, s.High = s.High, s.Low }), nil, `series "ppo": band[0]`},
		{"half a band", change(func(s *Series) { s.Low = nil }), nil, "0 low and 3 high"},
		{"short means", change(func(s *Series) { s.Mean = s.Mean[:2] }), nil, "2 means for 3 steps"},
		{"steps descend", change(func(s *Series) { s.Steps[2] = 7 }), nil, "steps[2] = 7 after 500000"},
		{"NaN level", good, []HLine{{"first fit", math.NaN()}}, `level "first fit"`},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			path := filepath.Join(t.TempDir(), "curve.png")
			err := LearningCurve(path, "t", tt.series, tt.lines)
			if err == nil || !strings.Contains(err.Error(), tt.want) {
				t.Errorf("error %v, want one with %q", err, tt.want)
			}
			if _, err := os.Stat(path); !errors.Is(err, fs.ErrNotExist) {
				t.Errorf("a file was written: %v", err)
			}
		})
	}
	if err := LearningCurve("x.png", "t", nil, nil); !errors.Is(err, ErrNoData) {
		t.Errorf("no series: error %v, want ErrNoData", err)
	}
	missing := filepath.Join(t.TempDir(), "missing", "curve.png")
	if err := LearningCurve(missing, "t", good, nil); !errors.Is(err, fs.ErrNotExist) {
		t.Errorf("bad path: error %v, want fs.ErrNotExist", err)
	}
}

func TestBars(t *testing.T) {
	path := filepath.Join(t.TempDir(), "bars.png")
	err := Bars(path, "k8s/Test-v0", "mean return", []Bar{
		{Name: "ppo", Mean: -52, Low: -56, High: -48, Highlight: true},
		{Name: "first fit", Mean: -120, Low: -129, High: -112},
		{Name: "optimum", Mean: -20, Low: math.NaN(), High: math.NaN()},
	})
	if err != nil {
		t.Fatal(err)
	}
	img := readPNG(t, path)
	// 9 in × (1.4 + 3·0.4) in at 150 dots per inch.
	if got, want := img.Bounds().Size(), image.Pt(1350, 390); got != want {
		t.Errorf("size %v, want %v", got, want)
	}
	wantColor(t, img, "the highlighted row", palette[1], 300)
	wantColor(t, img, "the other rows", palette[0], 500)
}

func TestBarsErrors(t *testing.T) {
	nan := math.NaN()
	tests := []struct {
		name string
		row  Bar
		want string
	}{
		{"NaN mean", Bar{Name: "ppo", Mean: nan}, `row "ppo": mean NaN`},
		{"half an interval", Bar{Name: "ppo", Mean: 1, Low: 0, High: nan}, `row "ppo": interval [0, NaN]`},
		{"mean outside", Bar{Name: "ppo", Mean: 1, Low: 2, High: 3}, `row "ppo": interval [2, 3]`},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			err := Bars(filepath.Join(t.TempDir(), "bars.png"), "t", "u", []Bar{tt.row})
			if err == nil || !strings.Contains(err.Error(), tt.want) {
				t.Errorf("error %v, want one with %q", err, tt.want)
			}
		})
	}
	if err := Bars("x.png", "t", "u", nil); !errors.Is(err, ErrNoData) {
		t.Errorf("no rows: error %v, want ErrNoData", err)
	}
	missing := filepath.Join(t.TempDir(), "missing", "bars.png")
	if err := Bars(missing, "t", "u", []Bar{{Name: "a"}}); !errors.Is(err, fs.ErrNotExist) {
		t.Errorf("bad path: error %v, want fs.ErrNotExist", err)
	}
}

func TestNiceTicks(t *testing.T) {
	tests := []struct {
		low, high float64
		want      string
	}{
		{0, 1, "0 0.2 0.4 0.6 0.8 1.0"},
		{0, 1_180_000, "0 0.2M 0.4M 0.6M 0.8M 1.0M"},
		{-50_000, 0, "−50k −40k −30k −20k −10k 0"},
		{3, 9.5, "3 4 5 6 7 8 9"},
		{0.0012, 0.0019, "0.0012 0.0013 0.0014 0.0015 0.0016 0.0017 0.0018 0.0019"},
	}
	for _, tt := range tests {
		var labels []string
		for _, tick := range niceTicks(tt.low, tt.high) {
			labels = append(labels, tick.Label)
		}
		if diff := cmp.Diff(tt.want, strings.Join(labels, " ")); diff != "" {
			t.Errorf("niceTicks(%v, %v) (-want +got):\n%s", tt.low, tt.high, diff)
		}
	}
}
