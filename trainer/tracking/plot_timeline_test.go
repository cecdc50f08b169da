package tracking

import (
	"errors"
	"math"
	"path/filepath"
	"strings"
	"testing"
)

func TestTimeline(t *testing.T) {
	path := filepath.Join(t.TempDir(), "t.png")
	x := []float64{0, 1, 2, 3}
	panels := []Panel{
		{"cores", []PanelLine{{"usage", []float64{1, 2, 3, 2}}, {"request", []float64{2, math.NaN(), 4, 4}}}},
		{"GiB", []PanelLine{{"usage", []float64{1, 1, 1, 1}}}},
	}
	if err := Timeline(path, "title", "hours", x, panels, []Events{{"kill", []float64{1}}, {"none", nil}}); err != nil {
		t.Fatal(err)
	}
	img := readPNG(t, path)
	if size := img.Bounds().Size(); size.X != 1350 || size.Y != 900 {
		t.Errorf("size %v, want 1350 × 900", size)
	}
	wantColor(t, img, "the first lines", palette[0], 500)
	wantColor(t, img, "the second line", palette[1], 100)
	wantColor(t, img, "the event", palette[2], 10)
}

func TestTimelineErrors(t *testing.T) {
	path := filepath.Join(t.TempDir(), "t.png")
	one := func(y ...float64) []Panel { return []Panel{{"y", []PanelLine{{"l", y}}}} }
	for _, tc := range []struct {
		x      []float64
		panels []Panel
		want   string
	}{
		{[]float64{0, 0}, one(1, 1), "ascending"},
		{[]float64{0, 1}, one(1), "1 values for 2"},
		{[]float64{0}, one(math.Inf(1)), "want NaN or 0 and more"},
	} {
		if err := Timeline(path, "", "", tc.x, tc.panels, nil); err == nil || !strings.Contains(err.Error(), tc.want) {
			t.Errorf("x %v: %v, want %q", tc.x, err, tc.want)
		}
	}
	if err := Timeline(path, "", "", nil, one(), nil); !errors.Is(err, ErrNoData) {
		t.Errorf("nothing to draw: %v, want ErrNoData", err)
	}
}
