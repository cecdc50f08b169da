package gang

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
	Task              string
	A                 float64
	SizeExp, ShareExp float64
	CMax              float64 // cores beyond which more do not help
	RMS               float64 // root mean square of the residuals of log D
	Worst             float64 // largest residual of log D
}

// Duration returns the law's duration in seconds.
func (l Law) Duration(size, milliCPU float64) float64 {
	return l.A * math.Pow(size, l.SizeExp) * math.Pow(min(milliCPU/1000, l.CMax), -l.ShareExp)
}

// laws are fits to the eight stress-ng stressors that Kube_Gang_Scheduling (E. Wang, 2021)
// profiled, 224 points each. The worst residuals of the tasks for which none is on record are
// the bound of 0.13 that is.
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

// Bounds and grains of the generated grid, those of the earlier project's profile.
const (
	gridSizes, sizeStep    = 14, 3
	gridShares, shareStep  = 16, 500
	gridMinSize, gridShare = 10, 1000
)

// GenerateProfile returns a profile of the eight tasks: the law of each at each point of the
// grid, times a lognormal residual of the law's RMS.
func GenerateProfile(rng *rand.Rand) *Profile {
	p := &Profile{}
	for i := range gridSizes {
		p.Sizes = append(p.Sizes, float64(gridMinSize+i*sizeStep))
	}
	for i := range gridShares {
		p.Shares = append(p.Shares, float64(gridShare+i*shareStep))
	}
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

// FitLaw fits the law of one task of a profile: least squares on log D for each CMax of a
// grid between the second and a little beyond the last share, of 0.1 and then, about the best
// of these, of 0.01 cores.
func FitLaw(p *Profile, task int) Law {
	lo, hi := p.Shares[1]/1000, p.Shares[len(p.Shares)-1]/1000+0.5
	best := Law{RMS: math.Inf(1)}
	search := func(lo, hi, step float64) {
		for i := 0.0; lo+i*step <= hi; i++ {
			if l := fitExponents(p, task, lo+i*step); l.RMS < best.RMS {
				best = l
			}
		}
	}
	search(lo, hi, 0.1)
	search(max(lo, best.CMax-0.1), min(hi, best.CMax+0.1), 0.01)
	best.Task = p.Tasks[task]
	return best
}

// fitExponents fits A and the exponents for a given CMax.
func fitExponents(p *Profile, task int, cmax float64) Law {
	n := len(p.Sizes) * len(p.Shares)
	x, y := mat.NewDense(n, 3, nil), mat.NewVecDense(n, nil)
	for i, size := range p.Sizes {
		for j, shares := range p.Shares {
			row := i*len(p.Shares) + j
			x.SetRow(row, []float64{1, math.Log(size), -math.Log(min(shares/1000, cmax))})
			y.SetVec(row, math.Log(p.Duration(task, i, j)))
		}
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
	for i, size := range p.Sizes {
		for j, shares := range p.Shares {
			r := math.Log(p.Duration(task, i, j)) - math.Log(l.Duration(size, shares))
			sum += r * r
			l.Worst = max(l.Worst, math.Abs(r))
		}
	}
	l.RMS = math.Sqrt(sum / float64(n))
	return l
}
