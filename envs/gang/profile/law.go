package profile

import (
	"math"
	"math/rand/v2"

	"gonum.org/v1/gonum/mat"
)

// Law is the saturating power law of a task's duration,
//
//	D(w, c) = A · w^SizeExp · min(c, CMax)^−ShareExp seconds
//
// for workload size w on c cores, and how measured durations scatter about it.
type Law struct {
	Task     string  `json:"task"`
	A        float64 `json:"a"`
	SizeExp  float64 `json:"size_exp"`
	ShareExp float64 `json:"share_exp"`
	CMax     float64 `json:"c_max"` // cores beyond which more do not help
	RMS      float64 `json:"rms"`   // root mean square of the residuals of log D
	Worst    float64 `json:"worst"` // largest residual of log D
}

// Duration returns the law's duration in seconds.
func (l Law) Duration(size, milliCPU float64) float64 {
	return l.A * math.Pow(size, l.SizeExp) * math.Pow(min(milliCPU/1000, l.CMax), -l.ShareExp)
}

// laws are fits to the eight stress-ng stressors that Kube_Gang_Scheduling (E. Wang, 2021) profiled, 224 points each.
// Tasks without a recorded worst residual have 0.13, the recorded bound.
var laws = []Law{
	{"affinity", 8.201, 1.001, 1.043, 5.66, 0.083, 0.27},
	{"atomic", 13.709, 1.004, 1.058, 7.74, 0.098, 0.33},
	{"bsearch", 25.251, 0.987, 1.236, 8.38, 0.033, 0.13},
	{"cap", 12.963, 0.963, 1.218, 6.76, 0.099, 0.37},
	{"chmod", 12.694, 1.001, 1.444, 4.71, 0.110, 0.34},
	{"memcpy", 11.209, 0.995, 0.977, 8.89, 0.044, 0.13},
	{"vecmath", 17.783, 0.991, 1.250, 8.16, 0.031, 0.13},
	{"zero", 14.187, 0.994, 1.242, 8.29, 0.046, 0.13},
}

// Bounds and steps of the generated grid, those of the earlier project's profile.
const (
	gridSizes, sizeStep    = 14, 3
	gridShares, shareStep  = 16, 500
	gridMinSize, gridShare = 10, 1000
)

// emptyProfile returns a profile without tasks on the generated grid.
func emptyProfile() *Profile {
	p := &Profile{}
	for i := range gridSizes {
		p.Sizes = append(p.Sizes, float64(gridMinSize+i*sizeStep))
	}
	for i := range gridShares {
		p.Shares = append(p.Shares, float64(gridShare+i*shareStep))
	}
	return p
}

// Generate returns a profile of the eight tasks: the law of each at each point of the
// grid, times a lognormal residual of the law's RMS.
func Generate(rng *rand.Rand) *Profile {
	p := emptyProfile()
	for _, l := range laws {
		p.Tasks = append(p.Tasks, l.Task)
		for _, size := range p.Sizes {
			for _, shares := range p.Shares {
				residual := min(max(l.RMS*rng.NormFloat64(), -l.Worst), l.Worst)
				p.Durations = append(p.Durations, l.Duration(size, shares)*math.Exp(residual))
			}
		}
	}
	return p
}

// Point is a measured duration.
type Point struct {
	Size     float64
	MilliCPU float64
	Seconds  float64
}

// points returns the durations of a task, size by size.
func (p *Profile) points(task int) []Point {
	points := make([]Point, 0, len(p.Sizes)*len(p.Shares))
	for i, size := range p.Sizes {
		for j, shares := range p.Shares {
			points = append(points, Point{size, shares, p.Duration(task, i, j)})
		}
	}
	return points
}

// FitLaw fits the law of one task of a profile. It fits log D by least squares for each CMax of a grid that reaches
// from the second share to slightly above the last one, first in steps of 0.1 cores, then of 0.01 about the best. Its
// RMS is infinite if the points determine no law.
func FitLaw(p *Profile, task int) Law {
	l := fitLaw(p.points(task), p.Shares[1], p.Shares[len(p.Shares)-1])
	l.Task = p.Tasks[task]
	return l
}

// fitLaw fits a law to points, given the second and the last share. Its RMS is infinite if the points determine no law.
func fitLaw(points []Point, second, last float64) Law {
	lo, hi := second/1000, last/1000+0.5
	best := Law{RMS: math.Inf(1)}
	search := func(lo, hi, step float64) {
		for i := 0.0; lo+i*step <= hi; i++ {
			if l := fitExponents(points, lo+i*step); l.RMS < best.RMS {
				best = l
			}
		}
	}
	search(lo, hi, 0.1)
	search(max(lo, best.CMax-0.1), min(hi, best.CMax+0.1), 0.01)
	return best
}

// fitExponents fits A and the exponents for a given CMax.
func fitExponents(points []Point, cmax float64) Law {
	x, y := mat.NewDense(len(points), 3, nil), mat.NewVecDense(len(points), nil)
	for row, p := range points {
		x.SetRow(row, []float64{1, math.Log(p.Size), -math.Log(min(p.MilliCPU/1000, cmax))})
		y.SetVec(row, math.Log(p.Seconds))
	}
	// The normal equations of three unknowns: small, and well conditioned on these grids.
	var xtx, xty mat.Dense
	xtx.Mul(x.T(), x)
	xty.Mul(x.T(), y)
	var beta mat.Dense
	if err := beta.Solve(&xtx, &xty); err != nil {
		return Law{RMS: math.Inf(1)}
	}
	l := Law{A: math.Exp(beta.At(0, 0)), SizeExp: beta.At(1, 0), ShareExp: beta.At(2, 0), CMax: cmax}
	sum := 0.0
	for _, p := range points {
		r := math.Log(p.Seconds) - math.Log(l.Duration(p.Size, p.MilliCPU))
		sum += r * r
		l.Worst = max(l.Worst, math.Abs(r))
	}
	l.RMS = math.Sqrt(sum / float64(len(points)))
	return l
}
