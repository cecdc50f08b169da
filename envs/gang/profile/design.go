package profile

import (
	"math"

	"gonum.org/v1/gonum/mat"
)

// Design chooses the point of a task's grid to measure next: the one that most reduces the error of the fit. It models
// the logarithm of a duration as
//
//	log D(w, c) = b0 + b1·log w + b2·log c + b3·(log c)² + own + noise
//
// with a curvature for the saturation, a deviation of its own at each point, and noise at each
// measurement, all normal and independent. The fit's error is the sum of the posterior variances of
// log D over the grid. A measurement reduces it by an amount that depends on no measured value.
type Design struct {
	cov   *mat.SymDense // posterior covariance of log D between the points
	noise float64       // variance of a measurement
}

// Prior standard deviations of a Design. The fitted laws of the published profile have residuals of
// 0.03 to 0.11.
const (
	priorLevel     = 10.0
	priorExponent  = 2.0
	priorCurvature = 0.5
	priorOwn       = 0.1
)

// MaxDesign is the greatest number of points of a task's grid: the covariance has their square.
const MaxDesign = 1024

// NewDesign returns the design of an unmeasured task, on a grid of sizes and shares in millicores, all above 0. Point
// i·len(shares)+j has size i and share j. noise is the standard deviation of the logarithm of a measurement.
func NewDesign(sizes, shares []float64, noise float64) *Design {
	n := len(sizes) * len(shares)
	x := mat.NewDense(n, 4, nil)
	middle := math.Log(math.Sqrt(shares[0] * shares[len(shares)-1]))
	row := 0
	for _, size := range sizes {
		for _, share := range shares {
			c := math.Log(share) - middle
			x.SetRow(row, []float64{priorLevel, priorExponent * math.Log(size/sizes[0]), priorExponent * c, priorCurvature * c * c})
			row++
		}
	}
	d := &Design{cov: mat.NewSymDense(n, nil), noise: noise * noise}
	d.cov.SymOuterK(1, x)
	for i := range n {
		d.cov.SetSym(i, i, d.cov.At(i, i)+priorOwn*priorOwn)
	}
	return d
}

// Gain returns by how much a measurement at a point reduces the sum of the variances.
func (d *Design) Gain(point int) float64 {
	sum := 0.0
	for i := range d.cov.SymmetricDim() {
		sum += d.cov.At(i, point) * d.cov.At(i, point)
	}
	return sum / (d.cov.At(point, point) + d.noise)
}

// Measured records a measurement at a point.
func (d *Design) Measured(point int) {
	n := d.cov.SymmetricDim()
	column := mat.NewVecDense(n, nil)
	for i := range n {
		column.SetVec(i, d.cov.At(i, point))
	}
	d.cov.SymRankOne(d.cov, -1/(d.cov.At(point, point)+d.noise), column)
}

// Error returns the root mean square of the standard deviations of log D over the grid.
func (d *Design) Error() float64 {
	return math.Sqrt(max(mat.Trace(d.cov), 0) / float64(d.cov.SymmetricDim()))
}
