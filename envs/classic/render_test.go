package classic

import (
	"image"
	"image/color"
	"math"
	"strings"
	"testing"
)

func TestRenderANSI(t *testing.T) {
	tests := []struct {
		name  string
		state [4]float64
		want  string
	}{
		{
			"upright", [4]float64{0, 0, 0, 0},
			"[" + strings.Repeat("─", 20) + "│" + strings.Repeat("─", 20) + "] x +0.000 m  v +0.000 m/s  angle +0.00°  +0.0°/s",
		},
		{
			"leaning right at the right end", [4]float64{2.5, 1, math.Pi / 18, -math.Pi},
			"[" + strings.Repeat("─", 40) + "╱] x +2.500 m  v +1.000 m/s  angle +10.00°  -180.0°/s",
		},
		{
			"leaning left", [4]float64{-1.2, 0, -math.Pi / 18, 0},
			"[" + strings.Repeat("─", 10) + "╲" + strings.Repeat("─", 30) + "] x -1.200 m  v +0.000 m/s  angle -10.00°  +0.0°/s",
		},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			p := CartPole{state: tt.state}
			if got := p.RenderANSI(nil); got != tt.want {
				t.Errorf("RenderANSI() =\n%s, want\n%s", got, tt.want)
			}
		})
	}
}

func TestRenderRGB(t *testing.T) {
	white := color.RGBA{255, 255, 255, 255}
	// The cart's middle is 125 pixels for each meter from the screen's; the pole's top is at
	// 107.5 + 120 pixels from the bottom when upright, and leans to the right with θ > 0.
	tests := []struct {
		name  string
		state [4]float64
		at    image.Point // from the upper left corner
		want  color.RGBA
	}{
		{"background", [4]float64{}, image.Pt(10, 10), white},
		{"track", [4]float64{}, image.Pt(10, 299), black},
		{"cart", [4]float64{}, image.Pt(320, 310), black},
		{"cart moved", [4]float64{1, 0, 0, 0}, image.Pt(445, 310), black},
		{"where the cart was", [4]float64{1, 0, 0, 0}, image.Pt(320, 310), white},
		{"pole upright", [4]float64{}, image.Pt(300, 190), poleColor},
		{"pole leans right", [4]float64{0, 0, math.Pi / 4, 0}, image.Pt(370, 222), poleColor},
		{"pole leans left", [4]float64{0, 0, -math.Pi / 4, 0}, image.Pt(230, 222), poleColor},
		{"axle", [4]float64{}, image.Pt(300, 292), axleColor},
		{"cart far off the screen", [4]float64{1e300, 0, 0, 0}, image.Pt(590, 310), white},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			p := CartPole{state: tt.state}
			img := p.RenderRGB(nil)
			if got := img.Bounds(); got != image.Rect(0, 0, screenWidth, screenHeight) {
				t.Errorf("bounds %v, want %d × %d", got, screenWidth, screenHeight)
			}
			if got := img.RGBAAt(tt.at.X, tt.at.Y); got != tt.want {
				t.Errorf("color at %v is %v, want %v", tt.at, got, tt.want)
			}
		})
	}
}
