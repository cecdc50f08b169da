package classic

import (
	"fmt"
	"image"
	"image/color"
	"image/draw"
	"math"
	"strings"

	"github.com/kubernasium/kubernasium/envs/cluster"
)

// RenderANSI implements [envs.Renderer]: one line with the track, the cart as the direction
// in which the pole leans, and the state in numbers.
func (p *CartPole) RenderANSI(_ *cluster.State) string {
	const half = 20 // cells on each side of the middle
	cells := []rune(strings.Repeat("─", 2*half+1))
	pole := '│'
	switch theta := p.state[posTheta]; {
	case theta > thetaLimit/4:
		pole = '╱'
	case theta < -thetaLimit/4:
		pole = '╲'
	}
	x := max(-1, min(1, p.state[posX]/xLimit))
	cells[half+int(math.Round(half*x))] = pole
	return fmt.Sprintf("[%s] x %+.3f m  v %+.3f m/s  angle %+.2f°  %+.1f°/s", string(cells),
		p.state[posX], p.state[velX], p.state[posTheta]*180/math.Pi, p.state[velTheta]*180/math.Pi)
}

// Gymnasium's screen, in pixels from the lower left corner.
const (
	screenWidth, screenHeight = 600, 400
	pixelsPerMeter            = screenWidth / (2 * xLimit)
	trackY                    = 100
	axleY                     = trackY + 7.5
	poleWidth                 = 10.0
)

var (
	black     = color.RGBA{0, 0, 0, 255}
	poleColor = color.RGBA{202, 152, 101, 255}
	axleColor = color.RGBA{129, 132, 203, 255}
)

// RenderRGB implements [envs.Renderer]: Gymnasium's picture of 600 × 400 pixels without its
// smoothed edges.
func (p *CartPole) RenderRGB(_ *cluster.State) *image.RGBA {
	img := image.NewRGBA(image.Rect(0, 0, screenWidth, screenHeight))
	draw.Draw(img, img.Bounds(), image.White, image.Point{}, draw.Src)
	cartX := p.state[posX]*pixelsPerMeter + screenWidth/2
	sin, cos := math.Sincos(p.state[posTheta])

	fill(img, cartX, trackY, 30, black, func(dx, dy float64) bool {
		return math.Abs(dx) <= 25 && math.Abs(dy) <= 15
	})
	const length = pixelsPerMeter * 2 * halfLength
	fill(img, cartX, axleY, length+poleWidth, poleColor, func(dx, dy float64) bool {
		across, along := dx*cos-dy*sin, dx*sin+dy*cos
		return math.Abs(across) <= poleWidth/2 && -poleWidth/2 <= along && along <= length-poleWidth/2
	})
	fill(img, cartX, axleY, poleWidth, axleColor, func(dx, dy float64) bool {
		return dx*dx+dy*dy <= poleWidth*poleWidth/4
	})
	for x := range screenWidth {
		img.SetRGBA(x, screenHeight-1-trackY, black)
	}
	return img
}

// fill paints with c those pixels within r of (x, y), both in pixels from the lower left
// corner, whose offset from (x, y) is inside.
func fill(img *image.RGBA, x, y, r float64, c color.RGBA, inside func(dx, dy float64) bool) {
	if !(math.Abs(x) <= screenWidth+r) {
		x = math.Copysign(2*screenWidth+r, x) // off the screen, and safe to convert
	}
	for py := max(0, int(y-r)); py <= min(screenHeight-1, int(y+r)); py++ {
		for px := max(0, int(x-r)); px <= min(screenWidth-1, int(x+r)); px++ {
			if inside(float64(px)-x, float64(py)-y) {
				img.SetRGBA(px, screenHeight-1-py, c)
			}
		}
	}
}
